"""Rounds of clients with retries against a service that is killed. A program of its own.

    python crash_rounds.py STORE FOLDER --rounds N

In each round 16 clients ask for releases, each under an Idempotency-Key of its own, and ask again until they have an answer: 200,
402, or a 409 that stays. The service gets SIGKILL at a random moment and is started again. At the end:

    overspent     the ledger is over its limit, or its chain does not hold
    different     keys that were answered with two different releases
    unpaid        answers with 200 whose charge is not in the ledger, or pays for another one too
    repeated      charges of one key, beyond the first

The result is one line of JSON.
"""

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))

from hushvec.budget import PrivacyBudget, budget_keys
from serve.services import free_port, policy_fields, start, wait_until_ready, write_policy

CLIENTS = 16
EPSILON = 0.25
NEVER_REACHED = 1e6
LONGEST_LIFE_SECONDS = 0.6
GIVE_UP_AFTER = 6   # answers of 409 in a row, with the service up


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--limit", type=float, default=NEVER_REACHED)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    clients = Clients()
    began = time.monotonic()
    with_limit = policy_fields(options.store, epsilon=EPSILON, limit=options.limit)
    run(write_policy(options.folder / "policy.yaml", with_limit), options, clients, random.Random(options.seed))
    print(json.dumps({**findings(options.store, options.limit, clients), "seconds": round(time.monotonic() - began, 1)}))


class Clients:
    """Threads that ask; what each key was answered with."""

    def __init__(self):
        self.answers = defaultdict(set)   # key -> the different bodies of 200
        self.receipts = {}                # key -> the charge of its receipt
        self.statuses = Counter()
        self.address = None
        self.stop = threading.Event()

    def work(self, number):
        count = 0
        with httpx.Client(timeout=30) as client:
            while not self.stop.is_set():
                count += 1
                self.ask(client, f"client-{number}-{count}")

    def ask(self, client, key):
        """Until there is an answer; one that was had is asked for again now and then."""
        conflicts = 0
        again = random.random() < 0.3
        while not self.stop.is_set():
            address = self.address
            try:
                answer = client.post(f"{address}/v1/embeddings", json={"input": key}, headers={"Idempotency-Key": key})
            except httpx.HTTPError:
                time.sleep(0.1)   # while the service starts, the processor is its own
                continue
            self.statuses[answer.status_code] += 1
            if answer.status_code == 200:
                self.answers[key].add(answer.content)
                self.receipts[key] = answer.json()["hushvec"]["receipt"]["charge"]
                if not again:
                    return
                again = False
            elif answer.status_code == 409:
                conflicts += 1
                if conflicts == GIVE_UP_AFTER:
                    return
                time.sleep(0.05)
            elif answer.status_code == 402:
                time.sleep(0.02)
                return
            else:
                time.sleep(0.05)


def run(policy, options, clients, dice):
    threads = [threading.Thread(target=clients.work, args=(number,)) for number in range(CLIENTS)]
    log = options.folder / "log"
    for number in range(options.rounds + 1):
        port = free_port()
        process = start(policy, port, log=log)
        wait_until_ready(process, port)
        clients.address = f"http://127.0.0.1:{port}"
        if number == 0:
            for thread in threads:
                thread.start()
        time.sleep(dice.uniform(0.02, LONGEST_LIFE_SECONDS))
        if number < options.rounds:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
    # On a busy machine, the last life lasts until the limit is reached.
    while options.limit < NEVER_REACHED and 402 not in clients.statuses:
        time.sleep(0.1)
    time.sleep(2)   # keys that are still asked for get their answer
    clients.stop.set()
    for thread in threads:
        thread.join()
    process.send_signal(signal.SIGTERM)
    process.wait(60)


def findings(store, limit, clients):
    rows, holds, spent = [], True, Fraction(0)
    for key in budget_keys(store):
        with PrivacyBudget.reopen(key, store=store) as budget:
            holds &= budget.verify().holds
            charged = [row for row in budget.export()["rows"] if row["kind"] == "charge"]
            rows += charged
            of_ledger = sum((Fraction(row["epsilon"]) for row in charged), Fraction(0))
            holds &= of_ledger <= Fraction(limit)
            spent += of_ledger
    by_id = Counter(row["charge_id"] for row in rows)
    paid = Counter(charge["charge_id"] for charge in clients.receipts.values())
    return {
        "rows": len(rows),
        "epsilon": float(spent),
        "answered": len(clients.answers),
        "statuses": dict(sorted(clients.statuses.items())),
        "overspent": int(not holds),
        "different": sum(len(bodies) > 1 for bodies in clients.answers.values()),
        "unpaid": sum(by_id[charge] != 1 or paid[charge] != 1 for charge in paid),
        "repeated": sum(count - 1 for count in by_id.values()),
    }


if __name__ == "__main__":
    main()
