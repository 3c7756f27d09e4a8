"""`hushvec budget show|verify|reset|export`: show and check ledgers, start a new period."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushvec._util.publish import SHARED, published_text
from hushvec.budget import BudgetState, PrivacyBudget, budget_keys, export_head, verify_export, verify_ledger
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import facts, print_json, table
from hushvec.cli._printable import say
from hushvec.receipts.fields import MOST_EXPORT_CHARACTERS, json_object

WRONG = 1
SHOWN_HASH = 16  # characters of a hash that are shown

_STORE_HELP = "a path, sqlite:///path or postgresql://... (default: $HUSHVEC_BUDGET_STORE, or the user's own file)"


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "budget", help="show and check privacy budgets, start a new period", description="Ledgers of privacy budgets."
    )
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    show = _add(commands, "show", _show, "limits and what is spent, of one ledger or of all in the store", key_required=False)
    show.description = "Limits and what is spent. Without --key: all ledgers of the store."
    verify = _add(commands, "verify", _verify, "recompute a ledger from its first row on", key_required=False)
    verify.description = (
        "Recompute hashes, totals and limits from the first row on.\n\n"
        "exit code 0  every row follows from the rows before it\n"
        "          1  one does not, or rows that an earlier head had are missing; the first wrong row is named\n"
        "          2  the ledger cannot be read"
    )
    verify.add_argument("--export", metavar="FILE", help="check an export instead of a store")
    verify.add_argument("--against", metavar="FILE", help="an earlier export, whose rows must still be there")
    reset = _add(commands, "reset", _reset, "start a new period with nothing spent; the old rows stay")
    reset.add_argument("--yes", action="store_true", help="confirm; earlier losses still count")
    reset.add_argument("--purpose", help="recorded with the reset")
    export = _add(commands, "export", _export, "all rows as JSON (docs/budget.md)")
    export.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")


def _add(commands: Subparsers, name: str, run: Any, help: str, *, key_required: bool = True) -> argparse.ArgumentParser:
    parser = add_command(commands, name, run, help=help, description=help[0].upper() + help[1:] + ".")
    parser.add_argument("--key", required=key_required, metavar="K", help="persist_key of the ledger")
    parser.add_argument("--store", metavar="S", help=_STORE_HELP)
    return parser


def _show(options: argparse.Namespace) -> int:
    keys = budget_keys(options.store) if options.key is None else [options.key]
    states = [_state(key, options.store) for key in keys]
    if options.json:
        shown = [_as_json(state) for state in states]
        print_json(shown if options.key is None else shown[0])
    elif options.key is None:
        print(table(("key", "spent", "left", "limit", "period", "charges and resets"), [_line(state) for state in states]))
    else:
        print(facts(_facts(states[0])))
    return 0


def _verify(options: argparse.Namespace) -> int:
    if (options.key is None) == (options.export is None):
        raise ValueError("one of --key and --export must be given")
    heads = [] if options.against is None else [export_head(_read(options.against))]
    if options.export is None:
        report = verify_ledger(options.key, store=options.store, heads=heads)
    else:
        report = verify_export(_read(options.export), heads)
    if options.json:
        print_json(
            {
                "holds": report.holds,
                "rows": report.rows,
                "first_wrong": report.first_wrong,
                "reason": report.reason,
                "entry_hash": None if report.head is None else report.head.entry_hash,
            }
        )
    elif report.head is not None:
        say(f"holds: {report.rows} rows, the last with hash {report.head.entry_hash}")
    else:
        say(f"does not hold: row {report.first_wrong}: {report.reason}")
    return 0 if report.holds else WRONG


def _reset(options: argparse.Namespace) -> int:
    if not options.yes:
        raise ValueError("--yes must be given: a reset gives the whole budget again, on top of what was already lost")
    with PrivacyBudget.reopen(options.key, store=options.store) as budget:
        budget.reset(purpose=options.purpose)
        state = budget.state()
    if options.json:
        print_json(_as_json(state))
    else:
        say(f"period {state.period} of {state.key!r} begins; nothing is spent in it")
    return 0


def _export(options: argparse.Namespace) -> int:
    with PrivacyBudget.reopen(options.key, store=options.store) as budget:
        export = budget.export()
    if options.output is None:
        print_json(export)
        return 0
    with published_text(Path(options.output), mode=SHARED) as file:
        file.write(json.dumps(export, indent=2, ensure_ascii=False) + "\n")
    head = export["head"]
    if options.json:
        print_json({"output": options.output, **head})
    else:
        say(f"{options.output}: {head['rows']} rows, the last with hash {head['entry_hash']}")
    return 0


def _state(key: str, store: str | None) -> BudgetState:
    with PrivacyBudget.reopen(key, store=store) as budget:
        return budget.state()


def _as_json(state: BudgetState) -> dict[str, Any]:
    return {
        "key": state.key,
        "ledger": state.ledger,
        "currency": state.currency,
        "on_exhausted": state.on_exhausted,
        "period": state.period,
        "limit": state.limit_texts,
        "consumed": state.consumed_texts,
        "exhausted": state.exhausted,
        "head": state.head._asdict(),
    }


def _line(state: BudgetState) -> tuple[str, ...]:
    spent, rest, limit = _spent(state)
    return state.key, spent, rest, limit, str(state.period), str(state.rows - 1)


def _facts(state: BudgetState) -> list[tuple[str, str]]:
    spent, rest, limit = _spent(state)
    return [
        ("key", state.key),
        ("spent", spent + (" (exhausted)" if state.exhausted else "")),
        ("left", rest),
        ("limit", limit),
        ("when exhausted", state.on_exhausted),
        ("period", f"{state.period}, after as many resets"),
        ("rows", f"{state.rows}, the last with hash {state.entry_hash[:SHOWN_HASH]}..."),
        ("ledger", f"{state.ledger[:SHOWN_HASH]}..."),
    ]


def _spent(state: BudgetState) -> tuple[str, str, str]:
    if state.currency == "rho":
        return f"rho {state.consumed_rho!r}", f"rho {state.remaining_rho!r}", f"rho {state.max_rho!r}"
    return (
        f"({state.consumed_epsilon!r}, {state.consumed_delta!r})",
        f"({state.remaining_epsilon!r}, {state.remaining_delta!r})",
        f"({state.max_epsilon!r}, {state.max_delta!r})",
    )


def _read(name: str) -> Mapping[str, Any]:
    try:
        found = json_object(Path(name).read_text(encoding="utf-8"), "export", MOST_EXPORT_CHARACTERS)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name}: must be a budget export")
    return found
