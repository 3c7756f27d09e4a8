"""The checks accept the real ledger, and each wrong ledger fails the check that is there for it.

CheckOutside, which needs several processes, is caught in test_crash.py.
"""

import pytest

from budget import checks, mutants
from hushvec.budget.memory import MemoryLedger
from hushvec.errors import PrivacyBudgetExhaustedError


@pytest.mark.parametrize("check", checks.ALL, ids=lambda check: check.__name__)
def test_the_real_ledger_passes(check):
    check(MemoryLedger)


@pytest.mark.parametrize(
    ("mutant", "check"),
    [
        (mutants.AddsFloats, checks.spends_exactly_the_rest),
        (mutants.AddsFloats, checks.adds_to_the_last_digit),
        (mutants.DropsDelta, checks.limits_delta),
        (mutants.ForgetsIds, checks.charges_a_retry_once),
        (mutants.OneTooMany, checks.never_exceeds_the_limit),
        (mutants.CountsRefused, checks.never_exceeds_the_limit),
    ],
    ids=lambda value: value.__name__,
)
def test_a_wrong_ledger_fails(mutant, check):
    with pytest.raises((AssertionError, pytest.fail.Exception, PrivacyBudgetExhaustedError)):
        check(mutant)
