"""Rounds of processes that charge one ledger and are killed at random. A program of its own: it forks, and is killed in parts.

    python crash_rounds.py STORE --rounds N [--people] [--mutant check_outside]

Every round has a fresh ledger. Each of the processes charges it as fast as it can and reports a charge through a pipe before
it begins the next. Each gets SIGKILL at a random moment. Then the parent reads the pipe to its end and compares:

    lost          reported charges that are not in the ledger, or not as reported
    unexplained   rows that nobody reported, beyond the one that each process may have had in flight
    overspent     rounds in which the rows, added as fractions, exceed the limit; with --people those of anybody
    broken        rounds whose chain does not verify
    stuck         rounds after which the ledger could not be charged, or a killed process's charge could not be repeated

The result is one line of JSON.
"""

import argparse
import json
import os
import random
import select
import signal
import sys
import time
from collections import Counter
from fractions import Fraction
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from budget import mutants
from hushvec.budget import PrivacyBudget
from hushvec.errors import PrivacyBudgetExhaustedError

PROCESSES = 8
PEOPLE = 6
EPSILONS = (0.1, 0.25, 1 / 3, 1e-3)
DELTAS = (0.0, 1e-5, 1e-7)
# Small enough to be used up in a round, or large enough never to be.
LIMITS = ((3.0, 1e-4), (1e6, 0.5))
LONGEST_LIFE_SECONDS = 0.25
REPORT = "{id} {epsilon!r} {delta!r} {sequence} {hash}\n"  # below PIPE_BUF, so lines of several processes never mix


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--people", action="store_true", help="ledgers that count by person; each charge is of some people")
    parser.add_argument("--mutant", choices=tuple(mutants.LEDGERS))
    options = parser.parse_args()
    if options.mutant:
        mutants.install(options.mutant)
    totals = Counter(rounds=0, processes=0, killed=0, reported=0, in_flight=0, refused=0, **dict.fromkeys(FAULTS, 0))
    start = time.monotonic()
    for number in range(options.rounds):
        key = f"{'people' if options.people else 'round'}-{number}"
        totals.update(one_round(options.store, key, random.Random(options.seed + number), options.people))
    print(json.dumps({**totals, "seconds": round(time.monotonic() - start, 1)}))


FAULTS = ("lost", "unexplained", "overspent", "broken", "stuck")


def one_round(store, key, generator, per_person):
    epsilon, delta = generator.choice(LIMITS)
    limit = (epsilon / PEOPLE if per_person else epsilon, delta)
    PrivacyBudget(*limit, persist_key=key, store=store, per_person=per_person).close()
    reader, writer = os.pipe()
    children = {}
    for number in range(PROCESSES):
        seed = generator.random()
        child = os.fork()
        if child == 0:
            os.close(reader)
            charge_until_killed(store, key, f"{number}", random.Random(seed), writer)
        children[child] = time.monotonic() + generator.uniform(0, LONGEST_LIFE_SECONDS)
    os.close(writer)
    lines, killed = kill_and_listen(children, reader)
    refused = sum(line.startswith("refused") for line in lines)
    reports = [line.split(" ") for line in lines if not line.startswith("refused")]
    return {
        "rounds": 1,
        "processes": PROCESSES,
        "killed": killed,
        "reported": len(reports),
        "refused": refused,
        **compare(store, key, limit, reports),
    }


def charged(budget, charge_id, *amounts):
    """A charge; of a ledger that counts by person one to people who follow from its id."""
    generator = random.Random(charge_id)
    people = generator.choices(range(PEOPLE), k=generator.randint(1, 4)) if budget._ledger.terms.per_person else None
    return budget.consume(*amounts, charge_id=charge_id, people=people)


def charge_until_killed(store, key, name, generator, writer):
    with PrivacyBudget.reopen(key, store=store) as budget:
        number = 0
        while True:
            number += 1
            epsilon, delta, charge_id = generator.choice(EPSILONS), generator.choice(DELTAS), f"{name}-{number}"
            try:
                charge = charged(budget, charge_id, epsilon, delta)
                if generator.random() < 0.1:
                    again = charged(budget, charge_id, epsilon, delta)
                    assert again.repeated and again.entry_hash == charge.entry_hash
            except PrivacyBudgetExhaustedError:
                os.write(writer, b"refused\n")
                time.sleep(0.005)
                continue
            line = REPORT.format(id=charge_id, epsilon=epsilon, delta=delta, sequence=charge.sequence, hash=charge.entry_hash)
            os.write(writer, line.encode())


def kill_and_listen(children, reader):
    """Kill every child when its time has come, and read what they report until the last of them is gone."""
    due = sorted(children, key=children.get)
    killed, content = 0, b""
    while True:
        wait = max(0.0, children[due[0]] - time.monotonic()) if due else None
        readable, _, _ = select.select([reader], [], [], wait)
        if readable:
            some = os.read(reader, 1 << 16)
            content += some
            if not some:
                break
        elif due:
            os.kill(due.pop(0), signal.SIGKILL)
        while due and children[due[0]] <= time.monotonic():
            os.kill(due.pop(0), signal.SIGKILL)
    os.close(reader)
    for child in children:
        _, status = os.waitpid(child, 0)
        killed += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
    return content.decode().splitlines(), killed


def compare(store, key, limit, reports):
    """The ledger against what was reported. Amounts are added again, as fractions."""
    faults = dict.fromkeys(FAULTS, 0)
    with PrivacyBudget.reopen(key, store=store) as budget:
        faults["broken"] = int(not budget.verify().holds)
        rows = {row["charge_id"]: row for row in budget.export()["rows"] if row["kind"] == "charge"}
        for charge_id, epsilon, delta, sequence, hashed in reports:
            row = rows.get(charge_id)
            as_reported = row is not None and (
                (float(row["epsilon"]), float(row["delta"]), row["sequence"], row["entry_hash"])
                == (float(epsilon), float(delta), int(sequence), hashed)
            )
            faults["lost"] += not as_reported
        in_flight = [row for charge_id, row in rows.items() if charge_id not in {report[0] for report in reports}]
        processes_in_flight = Counter(row["charge_id"].split("-")[0] for row in in_flight)
        faults["unexplained"] = sum(count - 1 for count in processes_in_flight.values())
        spent = Counter()  # by person, whose hash takes 32 digits; all are "" where the ledger does not count by person
        for row in rows.values():
            for place in range(0, len(row["policy"]) or 1, 32):
                for name in ("epsilon", "delta"):
                    spent[row["policy"][place : place + 32], name] += Fraction(row[name])
        most = dict(zip(("epsilon", "delta"), map(Fraction, map(repr, limit))))
        faults["overspent"] = int(any(total > most[name] for (_, name), total in spent.items()))
        faults["stuck"] = int(not still_works(budget, in_flight))
    return {**faults, "in_flight": len(in_flight)}


def still_works(budget, in_flight):
    """Repeating what was in flight finds it; the ledger answers a new charge, one way or the other."""
    for row in in_flight:
        again = charged(budget, row["charge_id"], float(row["epsilon"]), float(row["delta"]))
        if not again.repeated or again.entry_hash != row["entry_hash"]:
            return False
    try:
        return budget.consume(1e-9).sequence > 1
    except PrivacyBudgetExhaustedError:
        return True


if __name__ == "__main__":
    main()
