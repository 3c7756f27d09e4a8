"""A ledger as JSON, and the check of such an export without the store. docs/budget.md describes every field."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.lines import require_utf8
from hushvec.budget.chain import ChainReport, Head, check_chain
from hushvec.budget.rows import FIELDS
from hushvec.budget.store import Fields

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
        A report that holds says that hashes, order, totals, periods and charge ids follow from each other, that a "block"
        ledger was never overspent, and that all given heads are part of it. It does not say who wrote the rows: anyone who can
        write a whole new chain can write one that holds, unless a head is known from elsewhere, such as from a receipt.

    Edge cases:
        A chain that is cut off at its end is itself a chain that holds; only a later head shows what is missing.

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
    _require_fields("export", export, _HEADER)
    version = export["budget_export_version"]
    if type(version) is not int or version != EXPORT_VERSION:
        raise ValueError(f"budget_export_version must be {EXPORT_VERSION}, got {export['budget_export_version']!r:.40}")
    for name in ("library_version", "budget_key", "ledger"):
        _require_text(name, export[name])
    key, rows = export["budget_key"], export["rows"]
    if not isinstance(rows, list):
        raise TypeError(f"rows must be a list, got {validate.kind(rows)}")
    for row in rows:
        _require_fields("a row", row, _ROW)
    own_head = export_head(export)
    report = check_chain(((key, *(row[name] for name in _ROW)) for row in rows), [own_head, *(Head(*head) for head in heads)])
    if report.holds and report.head != own_head:
        return ChainReport(False, report.rows, report.rows, f"the export's head has {own_head.rows} rows", None)
    if report.holds and export["ledger"] != rows[0]["entry_hash"]:
        return ChainReport(False, report.rows, 1, "ledger is not the hash of the first row", None)
    return report


def export_head(export: Mapping[str, Any]) -> Head:
    """The end of an exported chain, to be kept and compared with later.

    Raises:
        ValueError, TypeError: it is not a ledger export.
    """
    _require_fields("export", export, _HEADER)
    head = export["head"]
    _require_fields("head", head, ("rows", "entry_hash"))
    _require_text("entry_hash", head["entry_hash"])
    return Head(validate.whole_number("rows", head["rows"], at_least=1), head["entry_hash"])


def _require_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be text, got {validate.kind(value)}")
    require_utf8(value, name)


def _require_fields(what: str, fields: Any, names: tuple[str, ...]) -> None:
    if not isinstance(fields, Mapping):
        raise TypeError(f"{what} must be an object with fields, got {validate.kind(fields)}")
    for name in names:
        if name not in fields:
            raise ValueError(f"{what} must have the field {name!r}")
    for name in fields:
        if name not in names:
            raise ValueError(f"{what} must not have the field {name!r:.60}: it is unknown")
