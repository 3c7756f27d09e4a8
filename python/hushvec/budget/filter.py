"""The filter: whether a charge fits, and what is said when it does not. docs/proofs/budget_filter.md says why it is enough."""

from __future__ import annotations

import warnings
from decimal import Decimal

from hushvec._util import validate
from hushvec._util.rounding import DECIMAL_UP, fraction_up
from hushvec.budget.amounts import EPSILON_DELTA, UNIT, Amounts, Spend, float_down, float_up
from hushvec.budget.rows import Terms
from hushvec.errors import PrivacyBudgetExhaustedError, PrivacyBudgetWarning

# Without max_delta there is room for one charge of privatize's default delta (1e-5) for every 0.1 of max_epsilon, but for no
# fewer than 100 and no more than 1000: a larger total delta protects little and must be set explicitly.
EPSILON_FOR_EACH_DELTA = 10**4
LEAST_DEFAULT_DELTA = UNIT // 10**3
MOST_DEFAULT_DELTA = UNIT // 10**2

HINT_MAIN = "wait for the next period (reset), release less, or give up more privacy with a new persist_key and a larger limit"
HINT_DELTA = (
    "delta is what is used up: release with a smaller delta or a mechanism without one, or open the budget with a larger max_delta"
)


def default_max_delta(max_epsilon: int) -> int:
    """The limit on delta of a budget whose owner named none. Both in units of 10^-324."""
    return min(max(max_epsilon // EPSILON_FOR_EACH_DELTA, LEAST_DEFAULT_DELTA), MOST_DEFAULT_DELTA)


def after(total: Spend, amounts: Amounts) -> Spend:
    """The total with one more charge: basic composition of (epsilon, delta), or the sum of rho. Exact."""
    return Spend(total.main + amounts.main_units, total.delta + amounts.delta_units)


def fits(total: Spend, limit: Spend) -> bool:
    """Whether a total is within the limit. Spending exactly the rest is."""
    return total.main <= limit.main and total.delta <= limit.delta


def is_exhausted(total: Spend, limit: Spend) -> bool:
    """Whether epsilon (or rho), or a delta that was not 0 from the start, is used up."""
    return total.main >= limit.main or 0 < limit.delta <= total.delta


def left(total: Spend, limit: Spend) -> Spend:
    """What is left; nothing where a "warn" ledger is over its limit."""
    return Spend(max(0, limit.main - total.main), max(0, limit.delta - total.delta))


def refusal(terms: Terms, total: Spend, amounts: Amounts) -> PrivacyBudgetExhaustedError:
    """The error for a charge that does not fit."""
    limit, rest = terms.limit, left(total, terms.limit)
    if terms.currency == EPSILON_DELTA:
        message = (
            f"privacy budget exhausted: ({amounts.epsilon!r}, {amounts.delta!r}) asked for, "
            f"({float_down(rest.main)!r}, {float_down(rest.delta)!r}) left of "
            f"({float_down(limit.main)!r}, {float_down(limit.delta)!r})"
        )
        hint = HINT_DELTA if amounts.main_units <= rest.main else HINT_MAIN
        return PrivacyBudgetExhaustedError(
            f"{message}; {hint}",
            max_epsilon=float_down(limit.main),
            consumed_epsilon=float_up(total.main),
            max_delta=float_down(limit.delta),
            consumed_delta=float_up(total.delta),
            hint=hint,
        )
    return PrivacyBudgetExhaustedError(
        f"privacy budget exhausted: rho {amounts.rho!r} asked for, {float_down(rest.main)!r} left of "
        f"{float_down(limit.main)!r}; {HINT_MAIN}",
        max_rho=float_down(limit.main),
        consumed_rho=float_up(total.main),
        hint=HINT_MAIN,
    )


def warn_if_over(terms: Terms, total: Spend) -> None:
    """The warning of a "warn" ledger, once the charge is recorded."""
    limit = terms.limit
    if fits(total, limit):
        return
    name = "epsilon" if terms.currency == EPSILON_DELTA else "rho"
    text = f"Privacy budget exhausted: consumed {float_up(total.main):.2f} of {float_down(limit.main):.2f} {name}"
    if total.delta > limit.delta:
        text += f" and {float_up(total.delta):.2g} of {float_down(limit.delta):.2g} delta"
    warnings.warn(text, PrivacyBudgetWarning, stacklevel=4)


def implied_epsilon(rho: float, delta: float) -> float:
    """The epsilon that rho-zCDP implies at a delta, rounded up: rho + 2 sqrt(rho ln(1/delta)).

    Args:
        rho: >= 0.
        delta: > 0 and < 1.

    Returns:
        epsilon such that every rho-zCDP mechanism is (epsilon, delta)-DP.

    Reference:
        Bun and Steinke (2016), proposition 1.3.

    Example:
        >>> implied_epsilon(0.5, 1e-5)
        5.298525912188081
    """
    exact_rho, exact_delta = Decimal(validate.not_negative("rho", rho)), Decimal(validate.delta(delta))
    if exact_rho == 0:
        return 0.0
    up = DECIMAL_UP
    # ln and sqrt round to nearest, whatever the context says: the next decimal above covers that
    logarithm = up.next_plus(up.ln(exact_delta).copy_negate())
    root = up.next_plus(up.sqrt(up.multiply(exact_rho, logarithm)))
    return fraction_up(up.add(exact_rho, up.multiply(Decimal(2), root)))
