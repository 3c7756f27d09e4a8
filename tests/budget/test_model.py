"""Any sequence of calls against a model of a dozen lines that adds fractions."""

import itertools
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hushvec.budget import PrivacyBudget, verify_export
from hushvec.errors import PrivacyBudgetExhaustedError

EXAMPLES = {"memory": 60, "sqlite": 15}
STEPS = 25

epsilons = st.one_of(
    st.sampled_from([0.1, 0.2, 0.3, 1 / 3, 1e-17, 5e-324, 1.0]), st.floats(min_value=0, exclude_min=True, max_value=2.0)
)
deltas = st.one_of(st.sampled_from([0.0, 1e-5, 1e-300]), st.floats(min_value=0, max_value=0.3))
ids = st.sampled_from(["a", "b", None])
limits = st.tuples(st.sampled_from([1.0, 0.3, 2.0]), st.sampled_from([0.0, 1e-5, 0.5, 3e-5]))


def exact(value):
    return Fraction(repr(value))


class Ledger(RuleBasedStateMachine):
    """The real ledger and the model side by side."""

    @initialize(limit=limits)
    def begin(self, limit):
        self.limit, self.spent, self.ids, self.rows = limit, (Fraction(0), Fraction(0)), {}, 1
        self.budget = self.opened(*limit)

    @rule(epsilon=epsilons, delta=deltas, charge_id=ids)
    def consume(self, epsilon, delta, charge_id):
        asked = (epsilon, delta)
        if charge_id in self.ids:
            if self.ids[charge_id] == asked:
                assert self.budget.consume(*asked, charge_id=charge_id).repeated
            else:
                with pytest.raises(ValueError, match="must keep its amounts"):
                    self.budget.consume(*asked, charge_id=charge_id)
            return
        total = tuple(a + exact(b) for a, b in zip(self.spent, asked))
        if any(a > exact(b) for a, b in zip(total, self.limit)):
            with pytest.raises(PrivacyBudgetExhaustedError) as caught:
                self.budget.consume(*asked, charge_id=charge_id)
            assert caught.value.consumed_epsilon == self.budget.consumed()
            return
        charge = self.budget.consume(*asked, charge_id=charge_id)
        self.rows += 1
        assert (charge.epsilon, charge.delta, charge.sequence, charge.repeated) == (*asked, self.rows, False)
        self.spent = total
        if charge_id is not None:
            self.ids[charge_id] = asked

    @rule()
    def consume_the_rest(self):
        epsilon, delta = self.budget.remaining(), self.budget.remaining_delta()
        if epsilon > 0:
            self.budget.consume(epsilon, delta)
            self.rows += 1
            self.spent = tuple(a + exact(b) for a, b in zip(self.spent, (epsilon, delta)))

    @rule()
    @precondition(lambda self: self.rows > 3)
    def reset(self):
        self.budget.reset()
        self.rows += 1
        self.spent, self.ids = (Fraction(0), Fraction(0)), {}

    @rule()
    def reopen(self):
        self.budget = self.reopened()

    @invariant()
    def totals_agree(self):
        if not hasattr(self, "budget"):
            return
        state = self.budget.state()
        assert state.rows == self.rows
        assert Fraction(state.consumed_texts["epsilon"]) == self.spent[0]
        assert Fraction(state.consumed_texts["delta"]) == self.spent[1]
        assert exact(self.budget.consumed()) >= self.spent[0]
        assert exact(self.budget.remaining()) <= exact(self.limit[0]) - self.spent[0]
        assert exact(state.consumed_delta) >= self.spent[1]
        assert self.spent[0] <= exact(self.limit[0]) and self.spent[1] <= exact(self.limit[1])

    def teardown(self):
        if hasattr(self, "budget"):
            assert self.budget.verify().holds
            assert verify_export(self.budget.export()).holds
            self.budget.close()


def run(machine, store):
    machine.TestCase.settings = settings(
        max_examples=EXAMPLES[store],
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    machine.TestCase().runTest()


def test_memory():
    class InMemory(Ledger):
        def opened(self, *limit):
            return PrivacyBudget(*limit)

        def reopened(self):
            return self.budget

    run(InMemory, "memory")


def test_sqlite(tmp_path):
    keys = itertools.count()

    class InFile(Ledger):
        def opened(self, *limit):
            self.key = f"key-{next(keys)}"
            return PrivacyBudget(*limit, persist_key=self.key, store=tmp_path / "b.sqlite")

        def reopened(self):
            self.budget.close()
            return PrivacyBudget(*self.limit, persist_key=self.key, store=tmp_path / "b.sqlite")

    run(InFile, "sqlite")
