"""Rows of a ledger, their canonical text and hash, and the filter: whether a charge fits, and what is said when it does not.

docs/budget.md describes every field; docs/proofs/budget_filter.md proves the filter's guarantee.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from decimal import Decimal
from hashlib import sha256
from typing import Any, NamedTuple

from hushvec._util import validate
from hushvec._util.rounding import DECIMAL_UP, fraction_up
from hushvec.budget.amounts import EPSILON_DELTA, RHO, UNIT, Amounts, Spend, float_down, float_up, text_of, units_of_text
from hushvec.errors import PrivacyBudgetExhaustedError, PrivacyBudgetWarning

FORMAT = "hushvec-budget/1"  # first line of every canonical text
FIRST_PREVIOUS_HASH = "0" * 64

OPEN, CHARGE, RESET = "open", "charge", "reset"
BLOCK, WARN = "block", "warn"
POLICIES = (BLOCK, WARN)
PER_PERSON = "block per person"  # a policy that only a first row has: versions that do not count by person refuse such a ledger

MOST_TEXT = 1000  # characters of a charge id or a purpose


class Row(NamedTuple):
    """A row as it is stored. Amounts are decimal texts; absent fields are empty."""

    budget_key: str
    sequence: int
    period: int
    kind: str
    time_us: int
    charge_id: str
    purpose: str
    policy: str
    epsilon: str
    delta: str
    rho: str
    total_epsilon: str
    total_delta: str
    total_rho: str
    previous_hash: str
    entry_hash: str


FIELDS = Row._fields
NUMBERS = ("sequence", "period", "time_us")
_AMOUNTS = ("epsilon", "delta", "rho", "total_epsilon", "total_delta", "total_rho")


class LedgerTerms(NamedTuple):
    """The permanent settings in the first row of a ledger."""

    budget_key: str
    currency: str
    limit: Spend
    policy: str

    def __str__(self) -> str:
        if self.currency == RHO:
            limits = f"max_rho={text_of(self.limit.main)}"
        else:
            limits = f"max_epsilon={text_of(self.limit.main)}, max_delta={text_of(self.limit.delta)}"
        return f"{limits}, " + ("per_person=True" if self.per_person else f"on_exhausted={self.policy!r}")

    @property
    def per_person(self) -> bool:
        """Whether charges may name the people whom they are about."""
        return self.policy == PER_PERSON


def entry_hash(fields: tuple[Any, ...]) -> str:
    """Of the canonical text: the format's name, then every field but the last, one per line. No field contains a line break."""
    return sha256("\n".join((FORMAT, *map(str, fields[:-1]))).encode()).hexdigest()


def _sealed(terms: LedgerTerms, amounts: tuple[str, str, str], total: Spend, **fields: Any) -> Row:
    """The row with these fields and the hash that follows from them."""
    fields.update(zip(_AMOUNTS, (*amounts, *amount_texts(terms.currency, total))))
    row = Row(budget_key=terms.budget_key, entry_hash="", **fields)
    return row._replace(entry_hash=entry_hash(row))


def open_row(terms: LedgerTerms, **given: Any) -> Row:
    """The first row. The rows below take time_us and charge_id too, and purpose."""
    limits = amount_texts(terms.currency, terms.limit)
    first = dict(sequence=1, period=0, kind=OPEN, purpose="", policy=terms.policy, previous_hash=FIRST_PREVIOUS_HASH)
    return _sealed(terms, limits, Spend(0, 0), **first, **given)


def charge_row(head: Row, terms: LedgerTerms, amounts: Amounts, total: Spend, *, people: str = "", **given: Any) -> Row:
    """`people`: those who are charged, if not everyone is (`People.field`)."""
    return _sealed(terms, amounts.texts, total, **{**_after(head), "policy": people}, period=head.period, kind=CHARGE, **given)


def reset_row(head: Row, terms: LedgerTerms, **given: Any) -> Row:
    return _sealed(terms, ("", "", ""), Spend(0, 0), **_after(head), period=head.period + 1, kind=RESET, **given)


def _after(head: Row) -> dict[str, Any]:
    return dict(sequence=head.sequence + 1, policy="", previous_hash=head.entry_hash)


def amount_texts(currency: str, spend: Spend) -> tuple[str, str, str]:
    """(epsilon, delta, rho) as texts; what the currency does not have is empty."""
    if currency == EPSILON_DELTA:
        return text_of(spend.main), text_of(spend.delta), ""
    return "", "", text_of(spend.main)


def spend_of(currency: str, epsilon: str, delta: str, rho: str) -> Spend:
    """The inverse of `amount_texts`."""
    if currency == EPSILON_DELTA:
        return Spend(units_of_text(epsilon), units_of_text(delta))
    return Spend(units_of_text(rho), 0)


def total_of(row: Row, terms: LedgerTerms) -> Spend:
    return spend_of(terms.currency, row.total_epsilon, row.total_delta, row.total_rho)


def terms_of(row: Row) -> LedgerTerms:
    """The permanent settings of an open row."""
    if row.kind != OPEN:
        raise ValueError(f"kind must be 'open', got {row.kind!r:.60}")
    if row.policy not in (*POLICIES, PER_PERSON):
        raise ValueError(f"policy must be 'block', 'warn' or 'block per person', got {row.policy!r:.60}")
    currency = RHO if row.rho else EPSILON_DELTA
    limit = spend_of(currency, row.epsilon, row.delta, row.rho)
    if amount_texts(currency, limit) != (row.epsilon, row.delta, row.rho):
        raise ValueError("limits must be in epsilon and delta, or in rho")
    return LedgerTerms(row.budget_key, currency, limit, row.policy)


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
    """The rest; nothing where a "warn" ledger is over its limit."""
    return Spend(max(0, limit.main - total.main), max(0, limit.delta - total.delta))


def refusal(terms: LedgerTerms, total: Spend, amounts: Amounts) -> PrivacyBudgetExhaustedError:
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
            f"{message}; {hint}", max_epsilon=float_down(limit.main), consumed_epsilon=float_up(total.main),
            max_delta=float_down(limit.delta), consumed_delta=float_up(total.delta), hint=hint,
        )
    return PrivacyBudgetExhaustedError(
        f"privacy budget exhausted: rho {amounts.rho!r} asked for, {float_down(rest.main)!r} left of "
        f"{float_down(limit.main)!r}; {HINT_MAIN}",
        max_rho=float_down(limit.main), consumed_rho=float_up(total.main), hint=HINT_MAIN,
    )


def raise_refusals(keys: Sequence[str], errors: Sequence[BaseException | None]) -> None:
    """Raise the first error of a call that charges these ledgers, if there is one; it says which ledgers refused."""
    refused = tuple(place for place, error in enumerate(errors) if error is not None)
    if not refused:
        return
    key, error = keys[refused[0]], errors[refused[0]]
    assert error is not None
    error.args = (f"{len(refused)} of {len(keys)} budgets refused, so none was charged; the first, {key!a:.80}: {error}",)
    if isinstance(error, PrivacyBudgetExhaustedError):
        error.refused = refused
    raise error


def warn_if_over(terms: LedgerTerms, total: Spend) -> None:
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
    """The epsilon that rho-zCDP implies at a delta in (0, 1), rounded up: rho + 2 sqrt(rho ln(1/delta)).

    Every rho-zCDP mechanism is (epsilon, delta)-DP (Bun and Steinke 2016, proposition 1.3).

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
