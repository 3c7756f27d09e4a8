"""Checking a chain of rows: everything is recomputed from the first row on, and the first row that is wrong is named."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hushvec.budget.amounts import EPSILON_DELTA, Spend, units_of_text
from hushvec.budget.filter import fits
from hushvec.budget.rows import (
    BLOCK,
    CHARGE,
    FIELDS,
    FIRST_PREVIOUS_HASH,
    NUMBERS,
    OPEN,
    RESET,
    Row,
    Terms,
    amount_texts,
    entry_hash,
    spend_of,
    terms_of,
)
from hushvec.errors import HushvecError


class Head(NamedTuple):
    """The end of a chain: how many rows it has, and the hash of the last.

    Kept somewhere else, a head shows later that rows were cut off or rewritten: see `PrivacyBudget.verify`.
    """

    rows: int
    entry_hash: str


@dataclass(frozen=True)
class ChainReport:
    """The answer of a check.

    Args:
        holds: every row follows from the rows before it, and every head given is part of the chain.
        rows: how many rows were checked.
        first_wrong: sequence of the first row that is wrong (for rows that are missing at the end, the first missing one),
            or None.
        reason: what is wrong with it, or the empty text.
        head: the end of the chain; None if it does not hold.
    """

    holds: bool
    rows: int
    first_wrong: int | None
    reason: str
    head: Head | None


class WrongRow(HushvecError, ValueError):
    """A row that does not follow from the rows before it."""


def check_chain(rows: Iterable[Sequence[Any]], heads: Iterable[Head] = ()) -> ChainReport:
    """Recompute hashes, totals, periods and the filter of a chain.

    Args:
        rows: the fields of every row from the first on, in the order of `Row`.
        heads: ends that the chain had earlier; each must still be in it.
    """
    expected = _expected(heads)
    walk = _Walk()
    for fields in rows:
        try:
            row = well_formed(fields)
            walk.step(row)
            if row.entry_hash not in expected.pop(row.sequence, {row.entry_hash}):
                raise WrongRow("entry_hash is not the one of the head that was given")
        except ValueError as error:
            return ChainReport(False, walk.count + 1, walk.count + 1, str(error), None)
        walk.count += 1
    if walk.count == 0:
        return ChainReport(False, 0, 1, "there are no rows", None)
    if expected:
        missing = f"rows are missing at the end: a head that was given has {max(expected)}, the chain {walk.count}"
        return ChainReport(False, walk.count, walk.count + 1, missing, None)
    return ChainReport(True, walk.count, None, "", Head(walk.count, walk.previous_hash))


def well_formed(fields: Sequence[Any]) -> Row:
    """The row of fields as read from a store or a file.

    Raises:
        WrongRow: a field of the wrong kind.
    """
    row = Row(*fields)
    for name, value in zip(FIELDS, row):
        kind = int if name in NUMBERS else str
        if type(value) is not kind:
            raise WrongRow(f"{name} must be {'a whole number' if kind is int else 'text'}, got {type(value).__name__}")
        if isinstance(value, str) and ("\n" in value or "\r" in value):
            raise WrongRow(f"{name} must have no line break")
    return row


def require_sealed(row: Row) -> Row:
    """The row itself if its hash is the one of its fields.

    Raises:
        WrongRow: it is not.
    """
    if row.entry_hash != _hash(row):
        raise WrongRow("entry_hash does not follow from the row")
    return row


class _Walk:
    """What the rows so far require of the next one."""

    def __init__(self) -> None:
        self.count = 0
        self.previous_hash = FIRST_PREVIOUS_HASH
        self._terms: Terms | None = None
        self._total = Spend(0, 0)
        self._period = 0
        self._charge_ids: set[str] = set()

    def step(self, row: Row) -> None:
        if row.sequence != self.count + 1:
            raise WrongRow(f"sequence must be {self.count + 1}, got {row.sequence}")
        if row.previous_hash != self.previous_hash:
            raise WrongRow("previous_hash is not the hash of the row before")
        require_sealed(row)
        if self._terms is None:
            self._terms = terms_of(row)
        elif row.kind == RESET:
            self._reset(row)
        elif row.kind == CHARGE:
            self._charge(row, self._terms)
        else:
            raise WrongRow(f"kind must be 'charge' or 'reset', got {row.kind!r:.60}")
        self._require(row, self._terms)
        self.previous_hash = row.entry_hash

    def _reset(self, row: Row) -> None:
        if (row.epsilon, row.delta, row.rho) != ("", "", ""):
            raise WrongRow("a reset must have no amounts")
        self._total = Spend(0, 0)
        self._period += 1
        self._charge_ids = set()

    def _charge(self, row: Row, terms: Terms) -> None:
        for text in (row.epsilon, row.delta, row.rho):
            if text:
                units_of_text(text)
        amount = spend_of(terms.currency, row.epsilon, row.delta, row.rho)
        if amount.main == 0:
            raise WrongRow("a charge must not be 0")
        self._total = Spend(self._total.main + amount.main, self._total.delta + amount.delta)
        if terms.policy == BLOCK and not fits(self._total, terms.limit):
            raise WrongRow("the budget is overspent")
        if row.charge_id in self._charge_ids:
            raise WrongRow(f"charge_id {row.charge_id!r:.60} is in an earlier row of the same period")
        self._charge_ids.add(row.charge_id)

    def _require(self, row: Row, terms: Terms) -> None:
        """What holds of every row."""
        if row.budget_key != terms.budget_key:
            raise WrongRow(f"budget_key must be {terms.budget_key!r:.60}, got {row.budget_key!r:.60}")
        if row.period != self._period:
            raise WrongRow(f"period must be {self._period}, got {row.period}")
        if row.kind != OPEN and row.policy:
            raise WrongRow("policy must be empty behind the first row")
        totals = (row.total_epsilon, row.total_delta, row.total_rho)
        if totals != amount_texts(terms.currency, self._total):
            names = "total_epsilon and total_delta" if terms.currency == EPSILON_DELTA else "total_rho"
            raise WrongRow(f"{names} are not what the rows add up to")


def _hash(row: Row) -> str:
    try:
        return entry_hash(row)
    except UnicodeEncodeError:
        raise WrongRow("text must be UTF-8") from None


def _expected(heads: Iterable[Head]) -> dict[int, set[str]]:
    """Hashes by number of rows. Two heads that disagree give a set that no hash satisfies."""
    expected: dict[int, set[str]] = {}
    for rows, hashed in heads:
        expected.setdefault(rows, {hashed}).intersection_update({hashed})
    return expected
