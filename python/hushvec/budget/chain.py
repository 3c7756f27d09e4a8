"""Checking ledgers: a chain of rows is recomputed from the first row on, and the first row that is wrong is named.

`export_of` and `verify_export` do the same for a ledger as JSON, without its store. docs/budget.md describes every field.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hushvec.budget.rows import (  # isort: skip
    CHARGE, FIELDS, FIRST_PREVIOUS_HASH, NUMBERS, OPEN, RESET, WARN, LedgerTerms, Row, amount_texts, entry_hash, fits, spend_of,
    terms_of,
)
from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.lines import require_utf8
from hushvec.budget.amounts import EPSILON_DELTA, Spend, units_of_text
from hushvec.budget.people import Accounts, hashes_of
from hushvec.budget.store import Fields
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
        first_wrong: sequence of the first row that is wrong (for rows that are missing at the end, the first missing one), or None.
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
    """Recompute hashes, totals, periods and the filter of rows in the order of `Row`; each head must still be in the chain."""
    expected = _expected(heads)
    walk = Walk()
    for place, fields in enumerate(rows, 1):
        try:
            row = well_formed(fields)
            walk.step(row)
            if row.entry_hash not in expected.pop(row.sequence, {row.entry_hash}):
                raise WrongRow("entry_hash is not the one of the head that was given")
        except ValueError as error:
            return ChainReport(False, place, place, str(error), None)
    if walk.count == 0:
        return ChainReport(False, 0, 1, "there are no rows", None)
    if expected:
        missing = f"rows are missing at the end: a head that was given has {max(expected)}, the chain {walk.count}"
        return ChainReport(False, walk.count, walk.count + 1, missing, None)
    return ChainReport(True, walk.count, None, "", Head(walk.count, walk.previous_hash))


def well_formed(fields: Sequence[Any]) -> Row:
    """The row of fields as read from a store or a file."""
    row = Row(*fields)
    for name, value in zip(FIELDS, row):
        kind = int if name in NUMBERS else str
        if type(value) is not kind:
            raise WrongRow(f"{name} must be {'a whole number' if kind is int else 'text'}, got {type(value).__name__}")
        if isinstance(value, str) and ("\n" in value or "\r" in value):
            raise WrongRow(f"{name} must have no line break")
    return row


def require_sealed(row: Row) -> Row:
    """The row itself if its hash is the one of its fields."""
    try:
        expected = entry_hash(row)
    except UnicodeEncodeError:
        raise WrongRow("text must be UTF-8") from None
    if row.entry_hash != expected:
        raise WrongRow("entry_hash does not follow from the row")
    return row


class Walk:
    """State of the chain so far, which the next row must follow from; `accounts` of the people of the present period."""

    def __init__(self) -> None:
        self.accounts = Accounts()
        self.count = 0
        self.previous_hash = FIRST_PREVIOUS_HASH
        self._terms: LedgerTerms | None = None
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
        self.count += 1

    def _reset(self, row: Row) -> None:
        if (row.epsilon, row.delta, row.rho) != ("", "", ""):
            raise WrongRow("a reset must have no amounts")
        self._total, self.accounts = Spend(0, 0), Accounts()
        self._period += 1
        self._charge_ids = set()

    def _charge(self, row: Row, terms: LedgerTerms) -> None:
        for text in (row.epsilon, row.delta, row.rho):
            if text:
                units_of_text(text)
        amount = spend_of(terms.currency, row.epsilon, row.delta, row.rho)
        if amount.main == 0:
            raise WrongRow("a charge must not be 0")
        if people := hashes_of(row.policy) if terms.per_person else []:
            grown = self.accounts.grown(people, amount)
            self._total = self.accounts.total(self._total, grown)
            self.accounts.take(grown)
        else:
            self._total = Spend(self._total.main + amount.main, self._total.delta + amount.delta)
        if terms.policy != WARN and not fits(self._total, terms.limit):
            raise WrongRow("the budget is overspent")
        if row.charge_id in self._charge_ids:
            raise WrongRow(f"charge_id {row.charge_id!r:.60} is in an earlier row of the same period")
        self._charge_ids.add(row.charge_id)

    def _require(self, row: Row, terms: LedgerTerms) -> None:
        """Checks of every row."""
        if row.budget_key != terms.budget_key:
            raise WrongRow(f"budget_key must be {terms.budget_key!r:.60}, got {row.budget_key!r:.60}")
        if row.period != self._period:
            raise WrongRow(f"period must be {self._period}, got {row.period}")
        if row.policy and row.kind != OPEN and not (row.kind == CHARGE and terms.per_person):
            raise WrongRow("policy must be empty behind the first row")
        totals = (row.total_epsilon, row.total_delta, row.total_rho)
        if totals != amount_texts(terms.currency, self._total):
            names = "total_epsilon and total_delta" if terms.currency == EPSILON_DELTA else "total_rho"
            raise WrongRow(f"{names} are not what the rows add up to")


def _expected(heads: Iterable[Head]) -> dict[int, set[str]]:
    """Hashes by number of rows. Two heads that disagree give a set that no hash satisfies."""
    expected: dict[int, set[str]] = {}
    for rows, hashed in heads:
        expected.setdefault(rows, {hashed}).intersection_update({hashed})
    return expected


EXPORT_VERSION = 1

_HEADER = ("budget_export_version", "library_version", "budget_key", "ledger", "head", "rows")
_ROW = FIELDS[1:]  # the key is the same in all rows, so it is stored once


def export_of(key: str, rows: list[Fields]) -> dict[str, Any]:
    """The mapping that `PrivacyBudget.export` returns."""
    return {
        "budget_export_version": EXPORT_VERSION,
        "library_version": _core.__version__,
        "budget_key": key,
        "ledger": rows[0][-1],
        "head": {"rows": len(rows), "entry_hash": rows[-1][-1]},
        "rows": [dict(zip(_ROW, row[1:])) for row in rows],
    }


def verify_export(export: Mapping[str, Any], heads: Iterable[Head | tuple[int, str]] = ()) -> ChainReport:
    """Recompute an exported ledger from its first row on.

    Args:
        export: what `PrivacyBudget.export` returned, or the same read from JSON.
        heads: ends of the chain that were kept earlier, each (rows, entry_hash); `export_head` takes one from an export. Each
            must still be in the chain, which shows that nothing was cut off or rewritten since.

    Returns:
        ChainReport: whether it holds, and if not, the first row that is wrong and why.

    Raises:
        ValueError, TypeError: not an export: a field missing, unknown or of the wrong kind; another version.

    Guarantees:
        A report that holds says that hashes, order, totals, periods and charge ids follow from each other, that a "block" ledger
        was never overspent, and that all given heads are part of it. It does not say who wrote the rows: anyone who can write a
        whole new chain can write one that holds, unless a head is known from elsewhere, such as from a receipt. A chain that is
        cut off at its end holds too; only a later head shows what is missing.

    Example:
        >>> from hushvec.budget import PrivacyBudget, verify_export
        >>> budget = PrivacyBudget(1.0)
        >>> charge = budget.consume(0.25)
        >>> export = budget.export()
        >>> verify_export(export, heads=[(charge.sequence, charge.entry_hash)]).holds
        True
        >>> export["rows"][1]["epsilon"] = "0.125"
        >>> report = verify_export(export)
        >>> report.holds, report.first_wrong, report.reason
        (False, 2, 'entry_hash does not follow from the row')
    """
    validate.fields("export", export, _HEADER)
    version = export["budget_export_version"]
    if type(version) is not int or version != EXPORT_VERSION:
        raise ValueError(f"budget_export_version must be {EXPORT_VERSION}, got {export['budget_export_version']!r:.40}")
    for name in ("library_version", "budget_key", "ledger"):
        _require_utf8_text(name, export[name])
    key, rows = export["budget_key"], export["rows"]
    if not isinstance(rows, list):
        raise TypeError(f"rows must be a list, got {validate.kind(rows)}")
    for row in rows:
        validate.fields("a row", row, _ROW)
    own_head = export_head(export)
    report = check_chain(((key, *(row[name] for name in _ROW)) for row in rows), [own_head, *(Head(*head) for head in heads)])
    if report.holds and report.head != own_head:
        return ChainReport(False, report.rows, report.rows, f"the export's head has {own_head.rows} rows", None)
    if report.holds and export["ledger"] != rows[0]["entry_hash"]:
        return ChainReport(False, report.rows, 1, "ledger is not the hash of the first row", None)
    return report


def export_head(export: Mapping[str, Any]) -> Head:
    """The end of an exported chain, to be kept and compared with later."""
    validate.fields("export", export, _HEADER)
    head = export["head"]
    validate.fields("head", head, ("rows", "entry_hash"))
    _require_utf8_text("entry_hash", head["entry_hash"])
    return Head(validate.whole_number("rows", head["rows"], at_least=1), head["entry_hash"])


def _require_utf8_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {validate.kind(value)}")
    require_utf8(value, name)
