"""The charges of a ledger: who made them, and when."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any

from hushvec.budget.arguments import charged_by_and_purpose

NOBODY = "(not named)"
_EPOCH = datetime(1970, 1, 1)


def with_names(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of an export with who charged and what for as fields of their own."""
    return [{**row, **dict(zip(("charged_by", "purpose"), charged_by_and_purpose(row["purpose"])))} for row in rows]


def by_name(charges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Totals by who charged, the largest first.

    Args:
        charges: rows of `with_names`, of kind "charge".

    Returns:
        One dict each: charged_by, charges (how many), epsilon, delta, rho (sums of what the rows state).
    """
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for row in charges:
        groups.setdefault(row["charged_by"] or NOBODY, []).append(row)
    totals = [
        {"charged_by": name, "charges": len(rows)}
        | {kind: float(sum(Fraction(row[kind] or 0) for row in rows)) for kind in ("epsilon", "delta", "rho")}
        for name, rows in groups.items()
    ]
    return sorted(totals, key=lambda one: (-one["epsilon"], -one["rho"], one["charged_by"]))


def time_of(row: Mapping[str, Any]) -> str:
    """When a row was written, by the writer's clock: 2026-11-23 10:57:17."""
    try:
        return f"{_EPOCH + timedelta(microseconds=int(row['time_us'])):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # a clock that is far off
        return f"{row['time_us']} us"
