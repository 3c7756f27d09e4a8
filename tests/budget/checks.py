"""Short checks of what a ledger must do, that take any ledger: the real ones pass them, the mutants must not."""

import pytest

from hushvec.budget import PrivacyBudget
from hushvec.errors import PrivacyBudgetExhaustedError


def budget_on(ledger_class, *limits):
    """A budget on a ledger of this class."""
    budget = PrivacyBudget(*limits)
    budget._ledger = ledger_class(budget._ledger.terms)
    return budget


def spends_exactly_the_rest(ledger_class):
    budget = budget_on(ledger_class, 1.0)
    for _ in range(10):
        budget.consume(0.1)
    with pytest.raises(PrivacyBudgetExhaustedError):
        budget.consume(1e-17)


def adds_to_the_last_digit(ledger_class):
    budget = budget_on(ledger_class, 0.3)
    budget.consume(0.1)
    budget.consume(0.2)  # as floats 0.30000000000000004
    assert budget.consumed() == 0.3


def limits_delta(ledger_class):
    budget = budget_on(ledger_class, 100.0, 3e-5)
    for _ in range(3):
        budget.consume(1.0, 1e-5)
    with pytest.raises(PrivacyBudgetExhaustedError):
        budget.consume(1.0, 1e-5)


def charges_a_retry_once(ledger_class):
    budget = budget_on(ledger_class, 1.0)
    assert not budget.consume(0.5, charge_id="a").repeated
    assert budget.consume(0.5, charge_id="a").repeated
    assert budget.consumed() == 0.5


def never_exceeds_the_limit(ledger_class):
    budget = budget_on(ledger_class, 1.0)
    budget.consume(0.75)
    with pytest.raises(PrivacyBudgetExhaustedError):
        budget.consume(0.5)
    assert budget.consumed() == 0.75


ALL = (spends_exactly_the_rest, adds_to_the_last_digit, limits_delta, charges_a_retry_once, never_exceeds_the_limit)
