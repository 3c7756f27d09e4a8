"""Charging several budgets at once: all of them or none, whatever refuses, fails, races or is killed."""

import contextlib
import itertools
import json
import pickle
import random
import subprocess
import sys
import threading
import warnings
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushvec.budget import PrivacyBudget, verify_export
from hushvec.budget.arguments import charged_by_and_purpose
from hushvec.errors import BudgetError, PrivacyBudgetExhaustedError, PrivacyBudgetWarning

charge_many = PrivacyBudget.charge_many


def people(make, *limits, **options):
    """A budget in one store for each limit."""
    return [make(limit, key=f"{make.key}-{number}", **options) for number, limit in enumerate(limits)]


def rows_of(budgets):
    return [budget.export()["rows"] for budget in budgets]


def keys_of(budgets):
    return [budget.state().key for budget in budgets]


class TestAll:
    def test_open_budgets(self, make):
        budgets = people(make, 1.0, 2.0, 3.0)
        budgets[1].consume(0.5)
        charges = charge_many(budgets, 0.25, 1e-6, purpose="a round", charge_id="r1")
        assert [charge.sequence for charge in charges] == [2, 3, 2]
        assert [charge.ledger for charge in charges] == [budget.state().ledger for budget in budgets]
        assert [charge.entry_hash for charge in charges] == [budget.head().entry_hash for budget in budgets]
        assert [budget.consumed() for budget in budgets] == [0.25, 0.75, 0.25]
        assert {budget.consumed_delta() for budget in budgets} == {1e-6}
        assert {rows[-1]["purpose"] for rows in rows_of(budgets)} == {"a round"}
        assert all(verify_export(budget.export()).holds for budget in budgets)

    def test_keys(self, make_durable):
        budgets = people(make_durable, 1.0, 2.0, 3.0)
        names = keys_of(budgets)[::-1]
        charges = charge_many(iter(names), 0.25, store=make_durable.store, charged_by="server", purpose="a round")
        assert [charge.entry_hash for charge in charges] == [budget.head().entry_hash for budget in budgets[::-1]]
        assert {charged_by_and_purpose(rows[-1]["purpose"]) for rows in rows_of(budgets)} == {("server", "a round")}
        assert all(verify_export(budget.export()).holds for budget in budgets)

    def test_each_budget_keeps_its_own_charged_by(self, make):
        budgets = [make(1.0, key=f"{make.key}-{name}", charged_by=name) for name in ("a", "b")]
        charge_many(budgets, 0.5)
        assert [charged_by_and_purpose(rows[-1]["purpose"])[0] for rows in rows_of(budgets)] == ["a", "b"]

    def test_each_in_its_own_currency(self, make):
        budgets = [make(1.0, key=f"{make.key}-epsilon"), make(max_rho=1.0, key=f"{make.key}-rho")]
        charge_many(budgets, 0.5, 1e-6, rho=0.125)
        assert [budget.consumed() for budget in budgets] == [0.5, 0.125]
        with pytest.raises(TypeError, match="epsilon must be given"):
            charge_many(budgets[::-1], rho=0.125)  # what the first of the two accepts
        assert [budget.consumed() for budget in budgets] == [0.5, 0.125]


class TestNone:
    def test_a_refusal_leaves_all_as_they_were(self, make):
        budgets = people(make, 2.0, 0.25, 2.0, 0.5)
        before = rows_of(budgets)
        with pytest.raises(PrivacyBudgetExhaustedError) as caught:
            charge_many(budgets, 1.0, purpose="a round", charge_id="r1")
        error = caught.value
        assert error.refused == (1, 3)
        assert (error.max_epsilon, error.consumed_epsilon) == (0.25, 0.0)
        assert f"2 of 4 budgets refused, so none was charged; the first, '{make.key}-1': privacy budget exhausted" in str(error)
        again = pickle.loads(pickle.dumps(error))
        assert (str(again), again.refused) == (str(error), error.refused)
        assert rows_of(budgets) == before
        with_room = [budget for place, budget in enumerate(budgets) if place not in error.refused]
        assert [charge.repeated for charge in charge_many(with_room, 1.0, charge_id="r1")] == [False, False]
        assert [budget.consumed() for budget in budgets] == [1.0, 0.0, 1.0, 0.0]
        assert all(verify_export(budget.export()).holds for budget in budgets)

    def test_delta_alone_can_refuse(self, make):
        budgets = [make(1.0, 1e-5, key=f"{make.key}-0"), make(1.0, 1e-7, key=f"{make.key}-1")]
        with pytest.raises(PrivacyBudgetExhaustedError) as caught:
            charge_many(budgets, 0.1, 1e-6)
        assert caught.value.refused == (1,)
        assert [budget.consumed() for budget in budgets] == [0.0, 0.0]

    def test_a_key_without_a_ledger(self, make_durable):
        (budget,) = people(make_durable, 1.0)
        for names in itertools.permutations([budget.state().key, "nobody"]):
            with pytest.raises(BudgetError, match="there is no budget with key 'nobody'"):
                charge_many(names, 0.5, store=make_durable.store)
        assert budget.state().rows == 1

    def test_a_budget_whose_file_was_replaced(self, tmp_path):
        path = tmp_path / "b.sqlite"
        old = PrivacyBudget(100.0, persist_key="ben", store=path)
        path.rename(tmp_path / "old.sqlite")
        for log in ("-wal", "-shm"):
            (tmp_path / f"b.sqlite{log}").unlink()
        with PrivacyBudget(1.0, persist_key="anna", store=path) as anna, PrivacyBudget(1.0, persist_key="ben", store=path) as ben:
            with pytest.raises(BudgetError, match="budget 'ben' is another one now, open it again; nothing was charged"):
                charge_many([anna, old], 0.5)
            assert (anna.state().rows, ben.state().rows) == (1, 1)
        old.close()

    def test_a_damaged_ledger(self, tmp_path):
        import sqlite3

        from hushvec.budget.store import TABLE

        path = tmp_path / "b.sqlite"
        for name in ("anna", "ben"):
            with PrivacyBudget(1.0, persist_key=name, store=path) as budget:
                budget.consume(0.25)
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute(f"DROP TRIGGER {TABLE}_no_update")
            connection.execute(f"UPDATE {TABLE} SET total_epsilon = '0' WHERE budget_key = 'ben' AND sequence = 2")
        with pytest.raises(BudgetError, match="row 2 of budget 'ben' is damaged"):
            charge_many(["anna", "ben"], 0.5, store=path)
        with PrivacyBudget.reopen("anna", store=path) as anna:
            assert anna.consumed() == 0.25


class TestRetries:
    def test_a_repeated_call_charges_nothing(self, make):
        budgets = people(make, 1.0, 1.0)
        first = charge_many(budgets, 0.75, charge_id="r1")
        again = charge_many(budgets[::-1], 0.75, charge_id="r1")
        assert [charge.repeated for charge in again] == [True, True]
        assert [charge.entry_hash for charge in again[::-1]] == [charge.entry_hash for charge in first]
        assert [budget.consumed() for budget in budgets] == [0.75, 0.75]

    def test_each_budget_has_its_own_ids(self, make):
        budgets = people(make, 1.0, 1.0, 1.0)
        budgets[0].consume(0.75, charge_id="r1")
        charge_many(budgets[1:2], 0.75, charge_id="r1")
        budgets[1].reset()
        assert [charge.repeated for charge in charge_many(budgets, 0.75, charge_id="r1")] == [True, False, False]
        assert [budget.consumed() for budget in budgets] == [0.75, 0.75, 0.75]

    def test_other_amounts_under_one_id(self, make):
        budgets = people(make, 1.0, 1.0)
        budgets[1].consume(0.25, charge_id="r1")
        with pytest.raises(ValueError, match=f"1 of 2 budgets .* '{make.key}-1': charge_id 'r1' must keep its amounts"):
            charge_many(budgets, 0.5, charge_id="r1")
        assert [budget.consumed() for budget in budgets] == [0.0, 0.25]
        assert not budgets[0].consume(0.125, charge_id="r1").repeated  # the id was not kept


class TestWarn:
    def test_warns_of_each_that_is_over(self, make):
        budgets = people(make, 2.0, 1.0, 2.0, on_exhausted="warn")
        with pytest.warns(PrivacyBudgetWarning, match="consumed 1.50 of 1.00 epsilon") as caught:
            charge_many(budgets, 1.5)
        assert [warning.filename for warning in caught] == [__file__]
        assert [budget.consumed() for budget in budgets] == [1.5, 1.5, 1.5]

    def test_no_warning_of_what_was_not_charged(self, make):
        counts, blocks = people(make, 1.0, on_exhausted="warn")[0], make(1.0, key=f"{make.key}-block")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with pytest.raises(PrivacyBudgetExhaustedError):
                charge_many([counts, blocks], 1.5)
        assert counts.state().rows == blocks.state().rows == 1


class TestArguments:
    @pytest.mark.parametrize(
        ("budgets", "error", "text"),
        [
            ([], ValueError, "budgets must not be empty"),
            ("anna", TypeError, "budgets must be a list of keys or of open budgets, got"),
            (None, TypeError, "budgets must be a list of keys or of open budgets, got"),
            (["anna", 5], TypeError, "budgets must be all keys or all open budgets, got"),
            (["anna", "ben", "anna"], ValueError, "budgets must be different ones, got 'anna' twice"),
            (["anna", ""], ValueError, "persist_key must be 1 to 1000 printable characters"),
        ],
    )
    def test_keys(self, tmp_path, budgets, error, text):
        with pytest.raises(error, match=text):
            charge_many(budgets, 0.5, store=tmp_path / "b.sqlite")
        assert not (tmp_path / "b.sqlite").exists()

    def test_a_ledger_twice(self, make_durable):
        first, second = make_durable(1.0), make_durable(reopen=True)
        for budgets in ([first, first], [first, second]):
            with pytest.raises(ValueError, match=f"budgets must be different ones, got '{make_durable.key}' twice"):
                charge_many(budgets, 0.25)
        assert first.state().rows == 1

    def test_several_stores(self, make_durable, tmp_path):
        here, elsewhere = make_durable(1.0), PrivacyBudget(1.0, persist_key="k", store=tmp_path / "other.sqlite")
        for other in (elsewhere, PrivacyBudget(1.0)):
            with pytest.raises(ValueError, match=r"budgets must be in one store, got some in (.+) and some in (?!\1$)"):
                charge_many([here, other], 0.25)
            assert here.state().rows == other.state().rows == 1
        elsewhere.close()

    def test_keys_beside_open_budgets(self, make):
        budget = make(1.0)
        with pytest.raises(TypeError, match="budgets must be all keys or all open budgets, got"):
            charge_many([budget, "ben"], 0.25)
        for options in ({"store": "b.sqlite"}, {"charged_by": "me"}):
            with pytest.raises(TypeError, match="store and charged_by must be None with open budgets"):
                charge_many([budget], 0.25, **options)
        assert budget.state().rows == 1

    def test_a_closed_budget(self, tmp_path):
        anna, ben = (PrivacyBudget(1.0, persist_key=name, store=tmp_path / "b.sqlite") for name in ("anna", "ben"))
        ben.close()
        with anna, pytest.raises(ValueError, match="the budget is closed"):
            charge_many([anna, ben], 0.25)

    @pytest.mark.parametrize("bad", [{"epsilon": -1.0}, {"epsilon": float("nan")}, {"epsilon": 0.5, "delta": 1.0}, {}])
    def test_amounts(self, make, bad):
        budgets = people(make, 1.0, 1.0)
        with pytest.raises((ValueError, TypeError), match=r"^(epsilon|delta) must be"):
            charge_many(budgets, **bad)
        assert [budget.state().rows for budget in budgets] == [1, 1]


EPSILONS, IDS = st.sampled_from([0.1, 0.2, 0.5, 1 / 3]), st.sampled_from(["a", "b", None])
SETS = st.permutations(range(3)).flatmap(lambda order: st.integers(1, 3).map(lambda size: order[:size]))
CALLS = st.lists(st.tuples(SETS, EPSILONS, st.sampled_from([0.0, 1e-5]), IDS), min_size=1, max_size=12)
LIMITS = ((1.0, 3e-5), (0.7, 1e-3), (2.0, 1e-5))


def one_at_a_time(accepted, call):
    """What charging one budget after another gives: new budgets get all accepted calls again, then this one."""
    budgets = [PrivacyBudget(*limits) for limits in LIMITS]
    for chosen, epsilon, delta, charge_id in [*accepted, call]:
        outcomes = []
        for place, number in enumerate(chosen):
            try:
                outcomes.append(budgets[number].consume(epsilon, delta, charge_id=charge_id).repeated)
            except (PrivacyBudgetExhaustedError, ValueError) as error:
                outcomes.append((place, type(error)))
    return outcomes, [budget.state().consumed_texts for budget in budgets]


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_same_as_one_at_a_time_or_nothing(tmp_path, kind):
    numbers = itertools.count()

    @settings(max_examples=60 if kind == "memory" else 25, deadline=None, derandomize=True)
    @given(CALLS)
    def check(calls):
        store = kind if kind == "memory" else tmp_path / "b.sqlite"
        first = next(numbers)
        budgets = [PrivacyBudget(*limits, persist_key=f"{first}-{n}", store=store) for n, limits in enumerate(LIMITS)]
        accepted, spent = [], [budget.state().consumed_texts for budget in budgets]
        for call in calls:
            chosen, epsilon, delta, charge_id = call
            outcomes, then = one_at_a_time(accepted, call)
            refused = [outcome for outcome in outcomes if isinstance(outcome, tuple)]
            charge = partial(charge_many, [budgets[number] for number in chosen], epsilon, delta, charge_id=charge_id)
            if refused:
                with pytest.raises(refused[0][1]) as caught:
                    charge()
                if caught.type is PrivacyBudgetExhaustedError:
                    assert caught.value.refused == tuple(place for place, _ in refused)
            else:
                assert [charge.repeated for charge in charge()] == outcomes
                accepted, spent = [*accepted, call], then
            assert [budget.state().consumed_texts for budget in budgets] == spent
        for budget in budgets:
            assert budget.verify().holds
            budget.close()

    check()


def test_threads_in_different_orders(make):
    budgets = people(make, 3.0, 3.0, 3.0, 3.0)
    accepted = [0] * len(budgets)
    lock = threading.Lock()

    def charge(seed):
        generator = random.Random(seed)
        for _ in range(25):
            chosen = generator.sample(range(len(budgets)), 2)
            with contextlib.suppress(PrivacyBudgetExhaustedError):
                charge_many([budgets[number] for number in chosen], 0.1)
                with lock:
                    for number in chosen:
                        accepted[number] += 1
            budgets[chosen[0]].remaining()

    threads = [threading.Thread(target=charge, args=(seed,), daemon=True) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert [round(budget.consumed() * 10) for budget in budgets] == accepted
    assert max(accepted) == 30  # the limit was met
    assert all(budget.verify().holds for budget in budgets)


KILLED_IN_THE_MIDDLE = """
import os, signal, sys
from hushvec.budget import PrivacyBudget, durable
carry_out, calls = durable._Chain._carry_out, []
def killed(self, *arguments):
    carry_out(self, *arguments)
    calls.append(1)
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
durable._Chain._carry_out = killed
PrivacyBudget.charge_many(sys.argv[2:], 0.5, store=sys.argv[1], charge_id="r1")
"""


def test_a_process_killed_in_the_middle(make_durable):
    budgets = people(make_durable, 1.0, 1.0, 1.0)
    arguments = [sys.executable, "-c", KILLED_IN_THE_MIDDLE, make_durable.store, *keys_of(budgets)]
    finished = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=20)
    assert finished.returncode == -9, finished.stderr
    assert [budget.state().rows for budget in budgets] == [1, 1, 1]
    assert not any(charge.repeated for charge in charge_many(budgets, 0.5, charge_id="r1"))


ROUNDS = """
import json, os, random, select, signal, sys, time
from hushvec.budget import PrivacyBudget, durable
from hushvec.errors import PrivacyBudgetExhaustedError
store, prefix, mutant = sys.argv[1:]
PEOPLE, PROCESSES = 6, 4
keys = [f"{prefix}-{number}" for number in range(PEOPLE)]
for number, key in enumerate(keys):
    PrivacyBudget(1.0 if number == 0 else 1e6, persist_key=key, store=store).close()

def one_by_one(self, wanted, asked, charge_id):
    return [charge for each in wanted for charge in charge_with(self, [each], asked, charge_id)]

charge_with = durable.DurableLedger.charge_with
if mutant == "one_by_one":
    durable.DurableLedger.charge_with = one_by_one
reader, writer = os.pipe()

def charge(name, generator):
    for number in range(10**6):
        chosen = generator.sample(range(PEOPLE), generator.randint(2, PEOPLE))
        charge_id = f"{name}/{number}/{json.dumps(sorted(chosen), separators=(',', ':'))}"
        try:
            PrivacyBudget.charge_many([keys[n] for n in chosen], 0.1, store=store, charge_id=charge_id)
            os.write(writer, f"{charge_id}\\n".encode())
        except PrivacyBudgetExhaustedError:
            os.write(writer, b"refused\\n")

ends, seeds = {}, random.Random(1)
def begin(name):
    seed = seeds.random()
    child = os.fork()
    if child == 0:
        charge(name, random.Random(seed))
    ends[child] = time.monotonic() + seeds.uniform(0.1, 0.4)

content, killed = b"", 0
for name in range(PROCESSES):
    begin(name)
while ends:
    if select.select([reader], [], [], 0.005)[0]:
        content += os.read(reader, 1 << 16)
    for child in [child for child, end in ends.items() if end < time.monotonic()]:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        del ends[child]
        killed += 1
        if killed < 12 or content.count(b"refused") < 3 or content.count(b"/") < 60:  # two in each report
            begin(PROCESSES + killed)
os.set_blocking(reader, False)
try:
    content += os.read(reader, 1 << 20)
except BlockingIOError:
    pass
reports = content.decode().split()
charged, holds, spent = {}, [], []
for number, key in enumerate(keys):
    with PrivacyBudget.reopen(key, store=store) as budget:
        holds.append(budget.verify().holds)
        spent.append(budget.consumed())
        for row in budget.export()["rows"][1:]:
            charged.setdefault(row["charge_id"], []).append(number)
print(json.dumps({
    "torn": sum(json.loads(charge_id.split("/")[2]) != found for charge_id, found in charged.items()),
    "lost": sum(report != "refused" and report not in charged for report in reports),
    "killed": killed, "refused": reports.count("refused"), "charged": len(charged), "holds": all(holds), "first": spent[0],
}))
"""


def rounds_on(store, prefix, mutant=""):
    arguments = [sys.executable, "-c", ROUNDS, str(store), prefix, mutant]
    finished = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=120)
    assert finished.returncode == 0, finished.stderr
    return json.loads(finished.stdout)


def test_processes_in_different_orders_are_killed_at_random(make_durable):
    """A deadlock would end a call with a BudgetError, or the round in the timeout."""
    found = rounds_on(make_durable.store, make_durable.key)
    assert (found["torn"], found["lost"], found["holds"]) == (0, 0, True), found
    assert found["killed"] >= 12 and found["refused"] >= 3 and found["charged"] >= 30, found
    assert found["first"] == 1.0


def test_one_transaction_for_each_is_caught(tmp_path):
    assert rounds_on(tmp_path / "b.sqlite", "k", "one_by_one")["torn"] > 0


FORKS = """
import os, sys, threading
from hushvec.budget import PrivacyBudget
store, is_open, *keys = sys.argv[1:]
budgets = [PrivacyBudget.reopen(key, store=store) for key in keys]

def charge(step):
    if is_open == "open":
        return PrivacyBudget.charge_many(budgets[::step], 0.5)
    return PrivacyBudget.charge_many(keys[::step], 0.5, store=store)

stop, accepted = threading.Event(), [charge(1)]

def keep_charging():
    while not stop.is_set():
        accepted.append(charge(1))

busy = threading.Thread(target=keep_charging)
busy.start()
for _ in range(6):
    child = os.fork()
    if child == 0:
        charge(-1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop.set()
busy.join()
print(len(accepted) + 6)
"""


def forked(make, is_open):
    budgets = people(make, 1e6, 1e6, 1e6)
    arguments = [sys.executable, "-c", FORKS, make.store, is_open, *keys_of(budgets)]
    finished = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=60)
    assert finished.returncode == 0, finished.stderr
    assert {budget.consumed() for budget in budgets} == {int(finished.stdout) / 2}  # each charge is one half
    assert all(budget.verify().holds for budget in budgets)


def test_forks_in_the_middle(make_durable):
    forked(make_durable, "open")


@pytest.mark.parametrize("make_durable", ["sqlite"], indirect=True)
def test_forks_while_a_file_is_opened(make_durable):
    forked(make_durable, "keys")
