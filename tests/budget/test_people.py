"""Ledgers that count by person: any sequence of calls against a model of fractions, what is refused, and what is read back."""

import contextlib
import itertools
import os
import pickle
import random
import resource
import signal
import sqlite3
import sys
import threading
from collections import Counter
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from evidence.reference.sizes import scaled
from hushvec.budget import PrivacyBudget, memory, verify_export
from hushvec.budget import people as budget_people
from hushvec.budget.amounts import ZERO
from hushvec.budget.people import Accounts
from hushvec.budget.store import KEYS
from hushvec.errors import BudgetError, PrivacyBudgetExhaustedError

EXAMPLES = {"memory": scaled(30, 300), "sqlite": scaled(8, 80), "postgresql": scaled(1, 30)}
STEPS = 20

# Seven people: 7 and "7" are one, and so are texts that look alike.
NAMES = ("anna", "ben", "cleo", "7", "8", "é", "fi")
WRITTEN = (*NAMES, 7, 8, np.int64(7), " ben ", "e\u0301", "\ufb01", "anna\u200b")
PERSON = {name: name for name in NAMES} | {7: "7", 8: "8", " ben ": "ben", "e\u0301": "é", "\ufb01": "fi", "anna\u200b": "anna"}
people = st.lists(st.sampled_from(WRITTEN), min_size=1, max_size=6)
epsilons = st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 1e-17, 5e-324, 1.0])
deltas = st.sampled_from([0.0, 0.0, 0.0, 1e-5, 1e-300])
ids = st.sampled_from(["a", "b", None, None])
limits = st.tuples(st.sampled_from([1.0, 0.6, 2.0]), st.sampled_from([0.0, 1e-5, 0.5, 3e-5]))


def exact(*values):
    return tuple(Fraction(repr(value)) for value in values)


def plus(one, other):
    return tuple(a + b for a, b in zip(one, other))


class Ledger(RuleBasedStateMachine):
    """Two objects on one ledger, and processes that are forked from here, beside the model."""

    forks = True

    @initialize(limit=limits)
    def begin(self, limit):
        self.limit, self.rows = exact(*limit), 1
        self.clear()
        self.budgets = self.opened(*limit)

    def clear(self):
        self.everyone, self.own, self.ids = exact(0, 0), {}, {}

    def spent(self, person):
        return plus(self.everyone, self.own.get(person, exact(0, 0)))

    @rule(named=st.one_of(people, st.none()), epsilon=epsilons, delta=deltas, charge_id=ids, which=st.integers(0, 3))
    def consume(self, named, epsilon, delta, charge_id, which):
        ask = (named, epsilon, delta)
        persons = sorted(PERSON[one] for one in named or ())
        if charge_id in self.ids:
            same = self.ids[charge_id] == (persons, epsilon, delta)
            assert self.answer(*ask, charge_id, which) == ("repeated" if same else "ValueError")
            return
        after = {one: self.spent(one) for one in NAMES}
        for one in persons or NAMES:
            after[one] = plus(after[one], exact(epsilon, delta))
        refused = {one for one in NAMES if any(a > most for a, most in zip(after[one], self.limit))}
        if refused:
            where = [place for place, one in enumerate(named or ()) if PERSON[one] in refused]
            assert self.answer(*ask, charge_id, which) == f"refused {where}"
            return
        assert self.answer(*ask, charge_id, which) == f"row {self.rows + 1}"
        self.rows += 1
        self.ids |= {} if charge_id is None else {charge_id: (persons, epsilon, delta)}
        if named is None:
            self.everyone = plus(self.everyone, exact(epsilon, delta))
        else:
            self.own |= {one: tuple(a - b for a, b in zip(after[one], self.everyone)) for one in persons}

    def answer(self, named, epsilon, delta, charge_id, which):
        """What a call says: on one of the two objects, or in a process that is forked for it."""
        budget, forked = self.budgets[which % len(self.budgets)], which > 1 and self.forks
        if not forked:
            return said(budget, named, epsilon, delta, charge_id)
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.write(writer, said(budget, named, epsilon, delta, charge_id).encode())
            os._exit(0)
        os.close(writer)
        with open(reader) as pipe:
            answer = pipe.read()
        os.waitpid(child, 0)
        return answer

    @rule(named=people, epsilon=epsilons, delta=deltas, which=st.integers(0, 1))
    def what_is_affordable_is_accepted(self, named, epsilon, delta, which):
        budget = self.budgets[which % len(self.budgets)]
        fits = budget.affordable(named, epsilon, delta)
        counted = dict.fromkeys(NAMES, 0)
        for one, fit in zip(named, fits):
            after = plus(self.spent(PERSON[one]), exact(epsilon, delta))
            after = plus(after, tuple(counted[PERSON[one]] * a for a in exact(epsilon, delta)))
            assert fit == all(a <= most for a, most in zip(after, self.limit))
            counted[PERSON[one]] += fit
        if any(fits):
            self.consume(list(itertools.compress(named, fits)), epsilon, delta, None, which)

    @rule()
    def reset(self):
        if self.rows > 6:
            self.budgets[0].reset()
            self.rows += 1
            self.clear()

    @rule()
    def reopen(self):
        self.budgets = self.reopened()

    @invariant()
    def nobody_is_above_the_limit_and_all_agree(self):
        if not hasattr(self, "budgets"):
            return
        everybody = [self.spent(one) for one in NAMES]
        assert all(a <= most for each in everybody for a, most in zip(each, self.limit))
        for budget in self.budgets:
            state = budget.state()
            assert state.rows == self.rows
            assert Fraction(state.consumed_texts["epsilon"]) == max(epsilon for epsilon, _ in everybody)
            assert Fraction(state.consumed_texts["delta"]) == max(delta for _, delta in everybody)
        one = NAMES[self.rows % len(NAMES)]
        assert exact(self.budgets[-1].remaining(one))[0] <= self.limit[0] - self.spent(one)[0]
        assert exact(self.budgets[-1].consumed(one))[0] >= self.spent(one)[0]

    def teardown(self):
        if hasattr(self, "budgets"):
            assert self.budgets[0].verify().holds
            assert verify_export(self.budgets[-1].export()).holds
            for budget in self.budgets:
                budget.close()


def said(budget, named, epsilon, delta, charge_id):
    try:
        charge = budget.consume(epsilon, delta, charge_id=charge_id, people=named)
    except PrivacyBudgetExhaustedError as error:
        agree = {PERSON[one] for one in error.people} == {PERSON[named[place]] for place in error.refused}
        return f"refused {list(error.refused)}" if agree else str(error)
    except ValueError as error:
        return "ValueError" if "must keep its" in str(error) else str(error)
    return "repeated" if charge.repeated else f"row {charge.sequence}"


def run(machine, store, phases=tuple(Phase)):
    machine.TestCase.settings = settings(
        max_examples=EXAMPLES[store],
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=True,
        phases=phases,
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    machine.TestCase().runTest()


class InMemory(Ledger):
    forks = False

    def opened(self, *limit):
        return [PrivacyBudget(*limit, per_person=True)]

    def reopened(self):
        return self.budgets


def test_any_calls_in_memory():
    run(InMemory, "memory")


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_any_calls_by_two_objects_and_processes(tmp_path, request, kind):
    store = tmp_path / "b.sqlite" if kind == "sqlite" else request.getfixturevalue("postgres").url
    keys = itertools.count()

    class InStore(Ledger):
        def opened(self, *limit):
            self.arguments, self.key = limit, f"{tmp_path.name}-{next(keys)}"
            return self.reopened()

        def reopened(self):
            for budget in getattr(self, "budgets", ()):
                budget.close()
            budget = PrivacyBudget(*self.arguments, persist_key=self.key, store=store, per_person=True)
            return [budget, pickle.loads(pickle.dumps(budget))]

    run(InStore, kind)


def test_one_who_is_exhausted_is_refused_by_name_and_the_others_go_on(make):
    budget = make(1.0, per_person=True)
    budget.consume(0.75, people=["anna", 7])
    before = budget.export()
    with pytest.raises(PrivacyBudgetExhaustedError) as caught:
        budget.consume(0.5, people=["ben", "anna", "7", "cleo", "anna"])
    assert str(caught.value).startswith(
        "2 of 4 people refused, so nobody was charged: 'anna' (2 times), '7'; the first: privacy budget exhausted: (0.5, 0.0) asked "
        "for, (0.25, 0.001) left of (1.0, 0.001); "
    )
    assert (caught.value.people, caught.value.refused) == (("anna", "7"), (1, 2, 4))
    assert pickle.loads(pickle.dumps(caught.value)).people == ("anna", "7")
    assert budget.export() == before
    assert budget.affordable(["anna", "ben", "7", "cleo", "ben", "ben"], 0.5) == [False, True, False, True, True, False]
    budget.consume(0.5, people=["ben", "cleo", "ben"])
    assert [budget.remaining(one) for one in ("anna", "ben", "cleo", "new")] == [0.25, 0.0, 0.5, 1.0]


def test_a_charge_without_people_is_one_to_everyone(make):
    budget = make(1.0, per_person=True)
    budget.consume(0.25, people=["anna"])
    budget.consume(0.5)
    assert [budget.remaining(one) for one in ("anna", "never named")] == [0.25, 0.5]
    assert (budget.remaining(), budget.consumed()) == (0.25, 0.75)  # left to everyone; of whom the most is spent
    with pytest.raises(PrivacyBudgetExhaustedError):
        budget.consume(0.5)
    budget.consume(0.5, people=["ben"])
    assert budget.is_exhausted()  # ben is: nothing is left to everyone
    budget.consume(0.25, people=["anna"])


def test_rho_is_counted_by_person(make):
    budget = make(max_rho=1.0, per_person=True)
    budget.consume(rho=0.75, people=["anna"])
    budget.consume(1.0, people=["ben"])  # as epsilon^2 / 2
    assert (budget.remaining("anna"), budget.remaining("ben")) == (0.25, 0.5)


@pytest.mark.parametrize(
    ("named", "error", "text"),
    [
        ([], ValueError, "people must name at least one person, got none"),
        ("anna", TypeError, "people must be a sequence, got str"),
        ({"anna": 1}, TypeError, "people must be a sequence, got dict"),
        (3, TypeError, "people must be a sequence, got int"),
        (["anna", 1.0], TypeError, "people must be texts or whole numbers, got float at position 1"),
        ([True], TypeError, "people must be texts or whole numbers, got bool at position 0"),
        (["anna", None], TypeError, "people must be texts or whole numbers, got NoneType at position 1"),
        (["anna", "\u200b "], ValueError, "people must have ids that are not empty, got '\\u200b ' at position 1"),
    ],
)
def test_bad_people_are_refused_before_anything_is_charged(named, error, text):
    budget = PrivacyBudget(1.0, per_person=True)
    with pytest.raises(error) as caught:
        budget.consume(0.5, people=named)
    assert str(caught.value) == text
    assert budget.state().rows == 1


def test_people_need_a_ledger_that_counts_by_person(make):
    budget = make(1.0)
    for call in (lambda: budget.consume(0.5, people=["anna"]), lambda: budget.remaining("anna")):
        with pytest.raises(ValueError) as caught:
            call()
        assert str(caught.value) == (
            "people must be None for a ledger that does not count by person (per_person=True when it is made)"
        )
    assert budget.state().rows == 1


def test_a_ledger_counts_by_person_for_good_or_never(make_durable):
    plain, by_person = make_durable(1.0), make_durable(1.0, key="by-person", per_person=True)
    for key, wrong, kept, asked in (
        (plain.state().key, True, "on_exhausted='block'", "per_person=True"),
        ("by-person", False, "per_person=True", "on_exhausted='block'"),
    ):
        with pytest.raises(ValueError) as caught:
            make_durable(1.0, key=key, per_person=wrong)
        limits = "max_epsilon=1, max_delta=0.001"
        assert f"must keep what it was opened with ({limits}, {kept}), got ({limits}, {asked})" in str(caught.value)
    assert (by_person.state().per_person, plain.state().per_person) == (True, False)
    with pytest.raises(ValueError, match=r"^on_exhausted must be 'block' with per_person=True, got 'warn'$"):
        make_durable(1.0, key="other", per_person=True, on_exhausted="warn")


def test_ids_are_nowhere_in_the_store(tmp_path):
    path = tmp_path / "b.sqlite"
    with PrivacyBudget(9.0, persist_key="k", store=path, per_person=True) as budget:
        budget.consume(0.5, people=["anna-of-acme", "ben-of-acme"])
        fields = {row["policy"] for row in budget.export()["rows"]}
    content = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert b"of-acme" not in content
    with PrivacyBudget(9.0, persist_key="other", store=path, per_person=True) as budget:  # with a key of its own
        budget.consume(0.5, people=["anna-of-acme", "ben-of-acme"])
        assert fields & {row["policy"] for row in budget.export()["rows"]} == {"block per person"}


@pytest.mark.parametrize(
    "change", ["DELETE FROM {}", f"UPDATE {{}} SET key = '{64 * '0'}'", "UPDATE {} SET key = 'x'", "DROP TABLE {}"]
)
def test_a_ledger_without_its_key_knows_nobody_and_is_not_opened(tmp_path, change):
    path = tmp_path / "b.sqlite"
    PrivacyBudget(9.0, persist_key="k", store=path, per_person=True).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(change.format(KEYS))
        connection.commit()
    with pytest.raises(BudgetError, match=r"is missing, or is that of another ledger|no such table"):
        PrivacyBudget.reopen("k", store=path)


def test_a_chain_that_was_written_anew_stops_an_open_ledger(tmp_path):
    """What a process remembers of people is what the chain says: a chain that says something else is not charged."""
    path = tmp_path / "b.sqlite"
    with PrivacyBudget(9.0, persist_key="k", store=path, per_person=True) as budget:
        budget.consume(0.5, people=["anna"])
        with closing(sqlite3.connect(path)) as connection:
            for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                connection.execute(f"DROP TRIGGER {name}")
            connection.execute("DELETE FROM hushvec_budget_rows_v1 WHERE sequence = 2")
            connection.commit()
        with pytest.raises(BudgetError, match=r"the rows of budget 'k' were changed while it was open, open it again"):
            budget.consume(0.5, people=["anna"])


def everyone_costs_nothing(monkeypatch):
    monkeypatch.setattr(Accounts, "_everyone", lambda self, total: ZERO)


def named_twice_is_charged_once(monkeypatch):
    grown = Accounts.grown
    monkeypatch.setattr(Accounts, "grown", lambda self, people, amount: grown(self, set(people), amount))


def a_reset_leaves_people_as_they_are(monkeypatch):
    kept = Accounts()
    monkeypatch.setattr(memory, "Accounts", lambda: kept)


def ids_are_taken_as_they_print(monkeypatch):
    monkeypatch.setattr(budget_people, "_text", lambda one, place: str(one))


@pytest.mark.parametrize(
    "wrong",
    [everyone_costs_nothing, named_twice_is_charged_once, a_reset_leaves_people_as_they_are, ids_are_taken_as_they_print],
    ids=lambda wrong: wrong.__name__,
)
def test_a_wrong_ledger_is_caught(monkeypatch, wrong):
    wrong(monkeypatch)
    with pytest.raises((AssertionError, PrivacyBudgetExhaustedError)):
        run(InMemory, "memory", [Phase.generate])


LIVES = {"sqlite": 25, "postgresql": 6}  # a round
ROUNDS = scaled(1, 16)


def killed_at(step, call):
    """Whether a process was killed before its call of this number below `call`; False: `call` had fewer and returned."""
    child = os.fork()
    if child == 0:
        steps = itertools.count(1)
        try:
            sys.setprofile(lambda *_: next(steps) == step and os.kill(os.getpid(), signal.SIGKILL))
            call()
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


def test_a_charge_that_is_killed_at_any_step_is_one_of_all_its_people_or_of_nobody(make_durable):
    """From making the ledger and its key on; a retry charges each once, whatever was there."""
    kind = "sqlite" if make_durable.store.endswith("sqlite") else "postgresql"
    found = Counter()

    def call():
        with make_durable(1.0, key=f"killed-{name}", per_person=True) as budget:
            budget.consume(0.25, people=["anna", "cleo"])
            budget.consume(0.5, charge_id="c", people=["anna", "ben"])

    for turn in range(ROUNDS):  # each finds anew how many calls there are: the more keys a store has, the more
        most, name = 1000, f"{turn}-below-1000"
        while killed_at(most, call):
            most *= 2
            name = f"{turn}-below-{most}"
        for step in np.linspace(1, most - 1, LIVES[kind]).astype(int).tolist():
            name = f"{turn}-{step}"
            killed_at(step, call)
            with make_durable(1.0, key=f"killed-{name}", per_person=True) as budget:
                rows = budget.state().rows
                found[rows] += 1
                assert budget.consume(0.5, charge_id="c", people=["ben", "anna"]).repeated == (rows == 3)
                first = 0.25 * (rows > 1)
                assert [budget.consumed(one) for one in ("anna", "ben", "cleo")] == [0.5 + first, 0.5, first]
                assert budget.verify().holds
    assert {1, 3} <= set(found), found


def test_a_charge_that_the_store_lost_is_not_remembered(tmp_path):
    """A limit on file size, in the middle of a transaction: what was not written is not counted, and the ledger goes on."""
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    people = [f"person-{number}" for number in range(100)]
    with PrivacyBudget(1e6, persist_key="k", store=tmp_path / "b.sqlite", per_person=True) as budget:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (150_000, before[1]))
            for number in range(1000):
                try:
                    budget.consume(0.5, charge_id=f"{number}", people=people)
                except BudgetError:
                    break
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            signal.signal(signal.SIGXFSZ, handler)
        assert 3 < number < 999
        budget.consume(0.5, charge_id=f"{number}", people=people)
        budget.consume(0.25, people=["person-7"])
        assert [budget.consumed(one) for one in ("person-6", "person-7")] == [0.5 * (number + 1), 0.5 * (number + 1) + 0.25]
        assert budget.verify().holds


def test_threads_spend_exactly_what_each_person_has(make_durable):
    """Threads share transactions: each charge is decided with those before it in the same one."""
    budget = make_durable(1.0, per_person=True)
    accepted, lock = Counter(), threading.Lock()

    def charge(seed):
        generator = random.Random(seed)
        for _ in range(12):
            named = generator.choices(NAMES[:4], k=2)
            with contextlib.suppress(PrivacyBudgetExhaustedError):
                budget.consume(0.1, people=named)
                with lock:
                    accepted.update(named)

    threads = [threading.Thread(target=charge, args=(seed,), daemon=True) for seed in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    assert {one: round(budget.consumed(one) * 10) for one in NAMES[:4]} == dict(accepted)
    assert max(accepted.values()) == 10  # the limit was met
    assert budget.verify().holds
