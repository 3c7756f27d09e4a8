"""`hushvec budget create|show|charges|verify|reset|export`: make, show and check ledgers, start a new period."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

from hushvec.budget import (  # isort: skip
    POLICIES, BudgetState, PrivacyBudget, budget_keys, budget_row, export_head, verify_export, verify_ledger,
)
from hushvec._util.publish import SHARED, published_text
from hushvec.budget.arguments import charged_by_and_purpose
from hushvec.budget.charge import COLUMNS
from hushvec.budget.rows import BLOCK
from hushvec.cli._output import answered, print_json, table, titled
from hushvec.cli._parser import Command, option
from hushvec.cli._style import printable
from hushvec.errors import BudgetError
from hushvec.receipts.base import MOST_EXPORT_CHARACTERS, json_object

WRONG = 1
NOBODY = "(not named)"
_EPOCH = datetime(1970, 1, 1)

_CREATE = ("a ledger of epsilon 10", "hushvec budget create --key clinic --epsilon 10 --delta 1e-4")
_RHO = ("a ledger that counts zero-concentrated DP, for many small Gaussian releases", "hushvec budget create --key study --rho 0.5")
_SPEND = ("spend from it", "hushvec privatize vectors.npy -o private.npy --epsilon 2 --budget clinic")
_SHOW = ("what is left of every ledger", "hushvec budget show")
_CHARGES = ("who spent what", "hushvec budget charges --key clinic --store postgresql://user@host/database")
_RESET = ("after a month", "hushvec budget reset --key clinic --yes --purpose december")
_EXPORT = ("for somebody who checks your receipts", "hushvec budget export --key clinic -o ledger.json")

class Budget(Command, name="budget", metavar="ACTION", examples=(_CREATE, _SPEND, _SHOW)):
    """Ledgers of privacy budgets."""


class _OfStore(Command):
    store: str | None = option(
        "a path, sqlite:///path or postgresql://... (default: $HUSHVEC_BUDGET_STORE, or the user's own file)", metavar="S"
    )


class _OfLedger(_OfStore):
    key: str = option("persist_key of the ledger", metavar="K", required=True)

    def opened(self) -> PrivacyBudget:
        return PrivacyBudget.reopen(self.key, store=self.store)


class Create(
    _OfLedger, name="budget create", help="make a ledger with limits, which are charged with --budget K",
    examples=(_CREATE, _RHO, _SPEND),
):
    """Make a ledger. A release that is charged to it is refused once its limits would be exceeded. Limits stay as they are:
    an existing ledger is never changed.

    Give --epsilon, with --delta where the default does not fit, or --rho."""

    epsilon: float | None = option("limit on the sum of epsilon")
    delta: float | None = option("limit on the sum of delta (default: epsilon / 10000, in [0.001, 0.01])")
    rho: float | None = option("limit in zero-concentrated DP, instead of epsilon and delta")
    on_exhausted: str = option("refuse what does not fit, or record it and warn", BLOCK, choices=POLICIES)
    per_person: bool = option("limits of each person: charges name the people they are about")

    def run(self) -> int:
        self._require_new()
        limits = (self.epsilon, self.delta)
        terms: dict[str, Any] = {"max_rho": self.rho, "on_exhausted": self.on_exhausted, "per_person": self.per_person}
        with PrivacyBudget(*limits, persist_key=self.key, store=self.store, **terms) as budget:
            return answered(self, _as_json(budget.state()), printable(f"created {self.key!r}"), "", titled(str(budget)))

    def _require_new(self) -> None:
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError("one of --epsilon and --rho must be given: the limit")
        if self.delta is not None and self.rho is not None:
            raise ValueError("--delta must come with --epsilon: --rho is a limit of its own")
        try:
            keys = budget_keys(self.store)
        except BudgetError:
            return  # there is no store yet, or making the ledger says what is wrong with it
        if self.key in keys:
            command = f"hushvec budget show --key {shlex.quote(self.key)}"
            raise ValueError(f"there is already a budget with key {self.key!r}: {command} shows it")


class Show(_OfStore, name="budget show", help="limits and what is spent, of one ledger or of all in the store", examples=(_SHOW,)):
    """Limits and what is spent, rounded to six digits: what is spent up, what is left down. --json has the exact amounts.
    Without --key: all ledgers of the store."""

    key: str | None = option("persist_key of the ledger", metavar="K")

    def run(self) -> int:
        if self.key is not None:
            with PrivacyBudget.reopen(self.key, store=self.store) as budget:
                return answered(self, _as_json(budget.state()), titled(str(budget)))
        states = []
        for key in budget_keys(self.store):
            with PrivacyBudget.reopen(key, store=self.store) as budget:
                states.append(budget.state())
        return answered(self, [_as_json(state) for state in states], table(COLUMNS, [budget_row(state) for state in states]))


class Charges(_OfLedger, name="budget charges", help="who spent what in this period, and the last charges", examples=(_CHARGES,)):
    """What was charged in this period: totals by who charged it (charged_by= of PrivacyBudget), then the last charges.
    Purposes and names are what the programs said. The ledger cannot check them."""

    last: int = option("how many charges are listed", 20, metavar="N")

    def run(self) -> int:
        if self.last < 0:
            raise ValueError(f"--last must be >= 0, got {self.last}")
        with self.opened() as budget:
            export = budget.export()
        # Who charged and what for as fields of their own.
        rows = [{**row, **dict(zip(("charged_by", "purpose"), charged_by_and_purpose(row["purpose"])))} for row in export["rows"]]
        charges = [row for row in rows if row["kind"] == "charge" and row["period"] == rows[-1]["period"]]
        shown, totals = charges[len(charges) - min(self.last, len(charges)) :], by_name(charges)
        currency = [name for name in ("epsilon", "delta", "rho") if rows[0][name]]
        sums = [(one["charged_by"], str(one["charges"]), *(f"{one[name]:.12g}" for name in currency)) for one in totals]
        each = [
            (row["charged_by"], row["purpose"], *(row[name] for name in currency), time_of(row), str(row["sequence"])) for row in shown
        ]
        lines = [table(("charged by", "charges", *currency), sums)] if charges else ["nothing is charged in this period"]
        if each:
            lines += ["", table(("charged by", "purpose", *currency, "time (UTC)", "row"), each)]
        return answered(self, {"period": rows[-1]["period"], "charged_by": totals, "charges": shown}, *lines)


class Verify(_OfStore, name="budget verify", help="recompute a ledger from its first row on", examples=(
    ("a ledger of this machine", "hushvec budget verify --key clinic"),
    ("an export, and that nothing of an earlier one was removed", "hushvec budget verify --export ledger.json --against earlier.json"),
)):
    """Recompute hashes, totals and limits from the first row on.

    exit code 0  every row follows from the rows before it
              1  one does not, or rows that an earlier head had are missing; the first wrong row is named
              2  the ledger cannot be read"""

    key: str | None = option("persist_key of the ledger", metavar="K")
    export: str | None = option("check an export instead of a store", metavar="FILE")
    against: str | None = option("an earlier export, whose rows must still be there", metavar="FILE")

    def run(self) -> int:
        if (self.key is None) == (self.export is None):
            raise ValueError("one of --key and --export must be given")
        heads = [] if self.against is None else [export_head(_read(self.against))]
        if self.key is not None:
            report = verify_ledger(self.key, store=self.store, heads=heads)
        else:
            report = verify_export(_read(str(self.export)), heads)
        found = {name: getattr(report, name) for name in ("holds", "rows", "first_wrong", "reason")}
        found["entry_hash"] = None if report.head is None else report.head.entry_hash
        line = f"does not hold: row {report.first_wrong}: {report.reason}"
        if report.head is not None:
            line = f"holds: {report.rows} rows, the last with hash {report.head.entry_hash}"
        answered(self, found, printable(line))
        return 0 if report.holds else WRONG


class Reset(_OfLedger, name="budget reset", help="start a new period with nothing spent; the old rows stay", examples=(_RESET,)):
    """Start a new period with nothing spent; the old rows stay."""

    yes: bool = option("confirm; earlier losses still count")
    purpose: str | None = option("recorded with the reset")

    def run(self) -> int:
        if not self.yes:
            raise ValueError("--yes must be given: a reset gives the whole budget again, on top of what was already lost")
        with self.opened() as budget:
            budget.reset(purpose=self.purpose)
            state = budget.state()
        return answered(self, _as_json(state), printable(f"period {state.period} of {state.key!r} begins; nothing is spent in it"))


class Export(_OfLedger, name="budget export", help="all rows as JSON (docs/budget.md)", examples=(_EXPORT,)):
    """All rows as JSON (docs/budget.md)."""

    output: str | None = option("write there instead of to standard output", metavar="FILE")

    def run(self) -> int:
        with self.opened() as budget:
            export = budget.export()
        if self.output is None:
            print_json(export)
            return 0
        with published_text(Path(self.output), mode=SHARED) as file:
            file.write(json.dumps(export, indent=2, ensure_ascii=False) + "\n")
        head = export["head"]
        line = f"{self.output}: {head['rows']} rows, the last with hash {head['entry_hash']}"
        return answered(self, {"output": self.output, **head}, printable(line))


def _as_json(state: BudgetState) -> dict[str, Any]:
    settings = {name: getattr(state, name) for name in ("key", "ledger", "currency", "on_exhausted", "per_person", "period")}
    spent = {"limit": state.limit_texts, "consumed": state.consumed_texts, "exhausted": state.exhausted}
    return {**settings, **spent, "head": state.head._asdict()}


def _read(name: str) -> Mapping[str, Any]:
    try:
        found = json_object(Path(name).read_text(encoding="utf-8"), "export", MOST_EXPORT_CHARACTERS)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name}: must be a budget export")
    return found


def by_name(charges: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return totals by who charged, the largest first: charged_by, charges (how many), and sums of epsilon, delta and rho."""
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
    """Return when a row was written, by the writer's clock: 2026-11-23 10:57:17."""
    try:
        return f"{_EPOCH + timedelta(microseconds=int(row['time_us'])):%Y-%m-%d %H:%M:%S}"
    except OverflowError:  # a clock that is far off
        return f"{row['time_us']} us"
