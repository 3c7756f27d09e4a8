"""One row of a ledger, its canonical text and its hash. docs/budget.md describes every field."""

from __future__ import annotations

from hashlib import sha256
from typing import Any, NamedTuple

from hushvec.budget.amounts import EPSILON_DELTA, RHO, Amounts, Spend, text_of, units_of_text

FORMAT = "hushvec-budget/1"  # first line of every canonical text
FIRST_PREVIOUS_HASH = "0" * 64

OPEN, CHARGE, RESET = "open", "charge", "reset"
BLOCK, WARN = "block", "warn"
POLICIES = (BLOCK, WARN)

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


class Terms(NamedTuple):
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
        return f"{limits}, on_exhausted={self.policy!r}"


def canonical_text(fields: tuple[Any, ...]) -> str:
    """What is hashed: the format's name, then every field but the last, one per line. No field contains a line break."""
    return "\n".join((FORMAT, *map(str, fields[:-1])))


def entry_hash(fields: tuple[Any, ...]) -> str:
    return sha256(canonical_text(fields).encode()).hexdigest()


def sealed(**fields: Any) -> Row:
    """The row with these fields and the hash that follows from them."""
    row = Row(**fields, entry_hash="")
    return row._replace(entry_hash=entry_hash(row))


def open_row(terms: Terms, *, time_us: int, charge_id: str) -> Row:
    epsilon, delta, rho = amount_texts(terms.currency, terms.limit)
    zeros = amount_texts(terms.currency, Spend(0, 0))
    return sealed(
        budget_key=terms.budget_key,
        sequence=1,
        period=0,
        kind=OPEN,
        time_us=time_us,
        charge_id=charge_id,
        purpose="",
        policy=terms.policy,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        **_totals(zeros),
        previous_hash=FIRST_PREVIOUS_HASH,
    )


def charge_row(
    head: Row, terms: Terms, amounts: Amounts, total: Spend, *, time_us: int, charge_id: str, purpose: str
) -> Row:
    epsilon, delta, rho = amounts.texts
    return sealed(
        budget_key=head.budget_key,
        sequence=head.sequence + 1,
        period=head.period,
        kind=CHARGE,
        time_us=time_us,
        charge_id=charge_id,
        purpose=purpose,
        policy="",
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        **_totals(amount_texts(terms.currency, total)),
        previous_hash=head.entry_hash,
    )


def reset_row(head: Row, terms: Terms, *, time_us: int, charge_id: str, purpose: str) -> Row:
    return sealed(
        budget_key=head.budget_key,
        sequence=head.sequence + 1,
        period=head.period + 1,
        kind=RESET,
        time_us=time_us,
        charge_id=charge_id,
        purpose=purpose,
        policy="",
        epsilon="",
        delta="",
        rho="",
        **_totals(amount_texts(terms.currency, Spend(0, 0))),
        previous_hash=head.entry_hash,
    )


def amount_texts(currency: str, spend: Spend) -> tuple[str, str, str]:
    """(epsilon, delta, rho) as texts; what the currency does not have is empty."""
    if currency == EPSILON_DELTA:
        return text_of(spend.main), text_of(spend.delta), ""
    return "", "", text_of(spend.main)


def spend_of(currency: str, epsilon: str, delta: str, rho: str) -> Spend:
    """The inverse of `amount_texts`.

    Raises:
        ValueError: a text that is not a decimal number in its shortest form.
    """
    if currency == EPSILON_DELTA:
        return Spend(units_of_text(epsilon), units_of_text(delta))
    return Spend(units_of_text(rho), 0)


def total_of(row: Row, terms: Terms) -> Spend:
    return spend_of(terms.currency, row.total_epsilon, row.total_delta, row.total_rho)


def terms_of(row: Row) -> Terms:
    """What an open row fixes.

    Raises:
        ValueError: not an open row, or one with invalid settings.
    """
    if row.kind != OPEN:
        raise ValueError(f"kind must be 'open', got {row.kind!r:.60}")
    if row.policy not in POLICIES:
        raise ValueError(f"policy must be 'block' or 'warn', got {row.policy!r:.60}")
    currency = RHO if row.rho else EPSILON_DELTA
    limit = spend_of(currency, row.epsilon, row.delta, row.rho)
    if amount_texts(currency, limit) != (row.epsilon, row.delta, row.rho):
        raise ValueError("limits must be in epsilon and delta, or in rho")
    return Terms(row.budget_key, currency, limit, row.policy)


def _totals(texts: tuple[str, str, str]) -> dict[str, str]:
    return dict(zip(("total_epsilon", "total_delta", "total_rho"), texts))
