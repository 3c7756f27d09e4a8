"""One ledger, many hands: threads, forked and spawned processes, asyncio."""

import asyncio
import concurrent.futures
import gc
import json
import multiprocessing
import os
import sqlite3
import subprocess
import sys
import threading
import time

import pytest

from hushvec.budget import PrivacyBudget
from hushvec.budget.durable import GroupCommit
from hushvec.budget.store import TABLE
from hushvec.errors import PrivacyBudgetExhaustedError

THREADS = 8


def charge_until_refused(budget, epsilon):
    accepted = 0
    while True:
        try:
            budget.consume(epsilon)
        except PrivacyBudgetExhaustedError:
            return accepted
        accepted += 1


def test_threads_spend_exactly_the_limit(make):
    budget = make(5.0)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        accepted = sum(pool.map(lambda _: charge_until_refused(budget, 0.1), range(THREADS)))
    assert accepted == 50
    assert (budget.consumed(), budget.is_exhausted(), budget.verify().holds) == (5.0, True, True)


def test_threads_with_one_id_charge_once(make):
    budget = make(5.0)
    with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
        charges = list(pool.map(lambda _: budget.consume(1.0, charge_id="same"), range(32)))
    assert sum(not charge.repeated for charge in charges) == 1
    assert len({charge.entry_hash for charge in charges}) == 1
    assert budget.consumed() == 1.0


def test_a_call_returns_when_its_own_charge_is_committed(tmp_path):
    """Another connection must see it, although eight threads share transactions."""
    path = tmp_path / "b.sqlite"
    budget = PrivacyBudget(1e6, persist_key="k", store=path)
    missing = []

    def charge():
        other = sqlite3.connect(path, isolation_level=None)
        for _ in range(40):
            made = budget.consume(0.1)
            found = other.execute(f"SELECT entry_hash FROM {TABLE} WHERE sequence = ?", (made.sequence,)).fetchone()
            if found != (made.entry_hash,):
                missing.append(made)
        other.close()

    threads = [threading.Thread(target=charge) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert missing == []
    assert budget.consumed() == 0.1 * 40 * THREADS == 32.0
    budget.close()


class Request:
    def __init__(self):
        self.is_settled = False


def test_group_commit_keeps_threads_until_the_batch_is_over():
    batches, running = [], threading.Event()

    def run(batch):
        batches.append(list(batch))
        running.set()
        time.sleep(0.05)
        assert not any(request.is_settled for request in batch)

    group = GroupCommit(run)
    requests = [Request() for _ in range(6)]
    threads = [threading.Thread(target=group.submit, args=(request,)) for request in requests]
    threads[0].start()
    assert running.wait(5)
    for thread in threads[1:]:
        thread.start()
    for thread in threads:
        thread.join(5)
    assert [len(batch) for batch in batches] == [1, 5]
    assert all(request.is_settled for request in requests)


def test_group_commit_goes_on_after_an_error():
    def run(batch):
        if len(calls) == 0:
            calls.append(1)
            raise KeyboardInterrupt

    calls = []
    group, first, second = GroupCommit(run), Request(), Request()
    with pytest.raises(KeyboardInterrupt):
        group.submit(first)
    group.submit(second)
    assert first.is_settled and second.is_settled


def test_a_signal_in_the_middle_of_a_charge_is_an_error_not_a_deadlock(tmp_path):
    """A handler that charges the budget whose transaction it interrupted gets a BudgetError; the charge below goes through."""
    code = f"""
import signal
from hushvec.budget import PrivacyBudget, sqlite
from hushvec.errors import BudgetError
budget = PrivacyBudget(10.0, persist_key="k", store={str(tmp_path / "b.sqlite")!r})
def handler(*_):
    try:
        budget.consume(1.0)
    except BudgetError as error:
        print(error)
signal.signal(signal.SIGUSR1, handler)
append = sqlite.Transaction.append
def interrupted(self, fields):
    sqlite.Transaction.append = append
    signal.raise_signal(signal.SIGUSR1)
    append(self, fields)
sqlite.Transaction.append = interrupted
print(budget.consume(0.5).sequence, budget.consumed(), budget.verify().holds)
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert finished.returncode == 0, finished.stderr
    first, second = finished.stdout.splitlines()
    assert "another call of this process is not finished; nothing was charged" in first
    assert second == "2 0.5 True"


FORKS = """
import json, os, sys, threading
from hushvec.budget import PrivacyBudget
from hushvec.errors import BudgetError, PrivacyBudgetExhaustedError

budget = PrivacyBudget(30.0, persist_key="k", store=sys.argv[1])
budget.consume(1.0)
stop = threading.Event()
accepted = [1]

def charge(count):
    for _ in range(count):
        try:
            budget.consume(0.5)
            accepted[0] += 1
        except PrivacyBudgetExhaustedError:
            return

def keep_busy():
    while not stop.is_set():
        budget.consumed()

# a thread is in the middle of a call at most forks
busy = threading.Thread(target=keep_busy)
busy.start()
reader, writer = os.pipe()
children = []
for _ in range(6):
    child = os.fork()
    if child == 0:
        accepted = [0]
        charge(20)
        os.write(writer, b"%d\\n" % accepted[0])
        os._exit(0)
    children.append(child)
    charge(2)
for child in children:
    assert os.waitpid(child, 0)[1] == 0
stop.set()
busy.join()
os.close(writer)
by_children = [int(line) for line in os.read(reader, 4096).split()]
print(json.dumps({"children": by_children, "parent": accepted[0], "consumed": budget.consumed(), "holds": budget.verify().holds}))
"""


def forked(store):
    finished = subprocess.run([sys.executable, "-c", FORKS, store], capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    found = json.loads(finished.stdout)
    assert len(found["children"]) == 6
    assert sum(found["children"]) + found["parent"] - 1 == 58  # 29.0 in halves, behind the first charge of 1.0
    assert (found["consumed"], found["holds"]) == (30.0, True)


def test_an_open_budget_over_fork_sqlite(tmp_path):
    forked(str(tmp_path / "b.sqlite"))


def test_an_open_budget_over_fork_postgresql(postgres):
    forked(postgres.url)


def test_memory_refuses_in_a_forked_child():
    code = """
import os
from hushvec.budget import PrivacyBudget
from hushvec.errors import BudgetError
budget = PrivacyBudget(1.0)
charge = budget.consume(0.25)
child = os.fork()
if child == 0:
    refused = 0
    for call in (lambda: budget.consume(0.25), budget.consumed, budget.reset, budget.state, budget.verify, budget.export):
        try:
            call()
        except BudgetError as error:
            refused += "a memory ledger cannot be used in a forked process" in str(error)
    os._exit(refused)
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
budget.consume(0.75)
print(status, budget.consumed())
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert finished.stdout == "6 1.0\n", finished.stderr


OPENS = """
import os, sys
from hushvec.budget import PrivacyBudget
if sys.argv[1].startswith("postgresql"):
    import psycopg, sqlalchemy  # once, and not by each child between the signal and its first statement
reader, writer = os.pipe()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)  # until all of them are there
        with PrivacyBudget(4.0, persist_key="new", store=sys.argv[1]) as budget:
            budget.consume(0.5)
        os._exit(0)
    children.append(child)
os.close(writer)
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
with PrivacyBudget.reopen("new", store=sys.argv[1]) as budget:
    print(budget.consumed(), budget.state().rows, budget.verify().holds)
"""


def opened_at_once(store):
    finished = subprocess.run([sys.executable, "-c", OPENS, store], capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "4.0 9 True\n"


@pytest.mark.parametrize("time_again", range(3))
def test_a_new_file_opened_by_all_at_once(tmp_path, time_again):
    opened_at_once(str(tmp_path / "new" / "b.sqlite"))


@pytest.mark.parametrize("time_again", range(2))
def test_a_new_table_made_by_all_at_once(postgres, time_again):
    import psycopg

    with psycopg.connect(postgres.url) as connection:
        connection.execute(f"DROP TABLE IF EXISTS {TABLE}")
    opened_at_once(postgres.url)


def spend(budget, epsilon):
    with budget:
        return charge_until_refused(budget, epsilon)


def test_spawned_processes(make_durable):
    """The budget itself is sent to them, and opens the ledger there."""
    budget = make_durable(5.0)
    with concurrent.futures.ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        accepted = sum(pool.map(spend, [budget] * 3, [0.1] * 3))
    assert accepted == 50
    assert budget.is_exhausted()
    assert budget.verify().holds


def test_asyncio(make):
    async def main():
        async with make(2.0, 1e-3) as budget:
            charges = await asyncio.gather(*(budget.aconsume(0.1, 1e-6, purpose="async") for _ in range(20)))
            assert len({charge.sequence for charge in charges}) == 20
            assert (await budget.aconsumed(), await budget.aremaining(), await budget.ais_exhausted()) == (2.0, 0.0, True)
            with pytest.raises(PrivacyBudgetExhaustedError):
                await budget.aconsume(0.1)
            await budget.areset(purpose="new")
            assert (await budget.astate()).period == 1
            assert (await budget.averify()).holds
            assert len((await budget.aexport())["rows"]) == 22
        with pytest.raises(ValueError, match="closed"):
            await budget.aconsume(0.1)

    asyncio.run(main())


def test_a_cancelled_charge_may_be_spent_and_is_never_charged_twice(make_durable):
    budget = make_durable(1.0)

    async def main():
        task = asyncio.create_task(budget.aconsume(0.5, charge_id="given-up"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    budget.consume(0.5, charge_id="given-up")
    assert budget.consumed() == 0.5


INTERRUPTS = """
import signal, sys
from hushvec.budget import PrivacyBudget
from hushvec.errors import BudgetError

def interrupt(number, frame):
    while frame is not None and frame.f_code is not PrivacyBudget.consume.__code__:
        frame = frame.f_back
    if frame is not None:   # elsewhere it could land in the handler below
        raise KeyboardInterrupt

signal.signal(signal.SIGALRM, interrupt)
budget = PrivacyBudget(1e6, persist_key="k", store=sys.argv[1])
accepted = interrupted = 0
for number in range(200):
    # again and again, because a signal that lands in a finalizer is lost
    signal.setitimer(signal.ITIMER_REAL, 0.0002 + 0.00002 * number, 0.02)
    try:
        while True:
            budget.consume(0.5)
            accepted += 1
    except (KeyboardInterrupt, BudgetError):
        signal.setitimer(signal.ITIMER_REAL, 0)
        interrupted += 1
budget.consume(0.5)
charged = round(budget.consumed() * 2) - 1
print(interrupted, accepted <= charged <= accepted + interrupted, budget.verify().holds)
"""


def test_an_interrupt_in_the_middle_leaves_the_ledger_sound(tmp_path):
    """Ctrl-C at many moments: a KeyboardInterrupt may lose the answer, never the ledger.

    In a process of its own: here the signal could land in the finalizers of other tests.
    """
    finished = subprocess.run(
        [sys.executable, "-c", INTERRUPTS, tmp_path / "b.sqlite"], capture_output=True, text=True, check=False, timeout=120
    )
    assert finished.stdout == "200 True True\n", finished.stderr


def test_a_budget_that_is_not_closed_leaves_no_connection(tmp_path):
    budget = PrivacyBudget(1.0, persist_key="k", store=tmp_path / "b.sqlite")
    budget.consume(0.5)
    wal = tmp_path / "b.sqlite-wal"
    assert wal.exists()
    del budget
    gc.collect()
    assert not wal.exists() or os.stat(wal).st_size == 0
