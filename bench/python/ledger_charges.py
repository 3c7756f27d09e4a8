"""How many charges a second a ledger takes, with the limit that the disk sets beside it. Prints JSON.

    python bench/python/ledger_charges.py                          # memory and SQLite, in a temporary directory
    python bench/python/ledger_charges.py --folder /var/lib/x      # SQLite there: what counts is that disk
    python bench/python/ledger_charges.py --postgresql postgresql://user@host/database
    python bench/python/ledger_charges.py --people 1000000         # ledgers that count by person, with so many people

One charge is one `consume(epsilon, delta)` of a release: validated, decided, hashed and, but for memory, on stable storage
when it returns. `fdatasync` is what the disk can do for one thread that writes 4 KiB at the end of a file and waits for it: no
single writer that waits for every charge can be faster, and threads get past it only by sharing a transaction.
Rates come with the best and the worst of several rounds, because a shared disk varies more than the code. With --people: how
long a charge of 1,000 of them takes, other people each time, and the first charge of a process, which reads the whole ledger.
"""

import argparse
import json
import os
import platform
import secrets
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

from hushvec.budget import PrivacyBudget

EPSILON, DELTA = 0.5, 1e-9
LARGE = 1e9
ROUNDS = 5
PEOPLE_OF_A_CHARGE = 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", help="where the SQLite file is made (default: a temporary directory)")
    parser.add_argument("--postgresql", metavar="URL", help="also charge a ledger there; it stays there")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of a round (default 0.5)")
    parser.add_argument("--people", type=int, help="charge ledgers that count by person instead, after each of so many was charged")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        if options.people:
            stores = {"sqlite": Path(folder) / "budget.sqlite", "postgresql": options.postgresql}
            found = {name: by_person(store, options.people) for name, store in stores.items() if store}
            print(json.dumps({"machine": {"processor": processor(), "cores": os.cpu_count()}, "milliseconds": found}, indent=2))
            return
        print(json.dumps(measure(Path(folder), options.postgresql, options.seconds), indent=2))


def measure(folder, postgresql, seconds):
    """Every round measures everything once, so that what the disk does meanwhile happens to all."""
    path = folder / "budget.sqlite"
    cases = {"memory": lambda: memory(seconds), "fdatasync": lambda: fdatasync(folder / "plain", seconds)}
    for threads in (1, 2, 8, 16):
        cases[f"sqlite, {threads} threads"] = lambda threads=threads: durable(path, "bench", threads, seconds)
    if postgresql:
        key = f"bench-{secrets.token_hex(6)}"
        for threads in (1, 8, 16):
            cases[f"postgresql, {threads} threads"] = lambda threads=threads: durable(postgresql, key, threads, seconds)
    rates = {name: [] for name in cases}
    for _ in range(ROUNDS):
        for name, case in cases.items():
            rates[name].append(case())
    return {
        "machine": {"processor": processor(), "cores": os.cpu_count()},
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "rounds": ROUNDS,
        "seconds_per_round": seconds,
        "charges_per_second": {name: summary(values) for name, values in rates.items()},
    }


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def memory(seconds):
    """A loop of calls on one thread, as a program makes them. The clock is read once for a thousand charges."""
    budget, count, start = PrivacyBudget(LARGE, 0.9), 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for _ in range(1000):
            budget.consume(EPSILON, DELTA)
        count += 1000
    return count / (time.perf_counter() - start)


def durable(store, key, threads, seconds):
    """Charges by threads that share one budget."""
    counts = [0] * threads
    with PrivacyBudget(LARGE, 0.9, persist_key=key, store=store) as budget:
        start = time.perf_counter()

        def charge(number):
            while time.perf_counter() - start < seconds:
                budget.consume(EPSILON, DELTA)
                counts[number] += 1

        working = [threading.Thread(target=charge, args=(number,)) for number in range(threads)]
        for thread in working:
            thread.start()
        for thread in working:
            thread.join()
        return sum(counts) / (time.perf_counter() - start)


def by_person(store, people):
    """Milliseconds of charges of 1,000 people, once all have been charged; 100 different thousands, spread over all."""
    key, times = f"bench-{secrets.token_hex(6)}", []
    with PrivacyBudget(LARGE, 0.9, persist_key=key, store=store, per_person=True) as budget:
        for first in range(0, people, PEOPLE_OF_A_CHARGE):
            budget.consume(EPSILON, DELTA, people=range(first, first + PEOPLE_OF_A_CHARGE))
        for number in range(100):
            chosen = range(number, people, people // PEOPLE_OF_A_CHARGE)
            times.append(timed(lambda: budget.consume(EPSILON, DELTA, people=chosen)))
    with PrivacyBudget.reopen(key, store=store) as budget:
        first = timed(lambda: budget.consume(EPSILON, DELTA, people=[0]))
    ordered = sorted(times)
    return {"median": ordered[len(times) // 2], "least": ordered[0], "most": ordered[-1], "first charge of a process": first}


def timed(call):
    start = time.perf_counter()
    call()
    return round(1e3 * (time.perf_counter() - start), 2)


def fdatasync(path, seconds):
    count = 0
    with path.open("wb", buffering=0) as file:
        start = time.perf_counter()
        while time.perf_counter() - start < seconds:
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            count += 1
        return count / (time.perf_counter() - start)


def summary(rates):
    ordered = sorted(rates)
    return {"median": round(ordered[len(ordered) // 2]), "least": round(ordered[0]), "most": round(ordered[-1])}


if __name__ == "__main__":
    main()
