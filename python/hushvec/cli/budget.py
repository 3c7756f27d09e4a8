"""`hushvec budget create|show|charges|verify|reset|export`: make, show and check ledgers, start a new period."""

from __future__ import annotations

import argparse
import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec._util.publish import SHARED, published_text
from hushvec.budget import BudgetState, PrivacyBudget, budget_keys, export_head, verify_export, verify_ledger
from hushvec.budget.charge import COLUMNS, budget_row
from hushvec.budget.rows import BLOCK, POLICIES
from hushvec.cli._arguments import Subparsers, add_command, add_group
from hushvec.cli._charges import by_name, time_of, with_names
from hushvec.cli._output import print_json, table, titled
from hushvec.cli._parser import Example
from hushvec.cli._printable import say
from hushvec.errors import BudgetError
from hushvec.receipts.fields import MOST_EXPORT_CHARACTERS, json_object

WRONG = 1

_CREATE = ("a ledger of epsilon 10", "hushvec budget create --key clinic --epsilon 10 --delta 1e-4")
_RHO = ("a ledger that counts zero-concentrated DP, for many small Gaussian releases", "hushvec budget create --key study --rho 0.5")
_SPEND = ("spend from it", "hushvec privatize vectors.npy -o private.npy --epsilon 2 --budget clinic")
_SHOW = ("what is left of every ledger", "hushvec budget show")
_CHARGES = ("who spent what", "hushvec budget charges --key clinic --store postgresql://user@host/database")
_RESET = ("after a month", "hushvec budget reset --key clinic --yes --purpose december")
_EXPORT = ("for somebody who checks your receipts", "hushvec budget export --key clinic -o ledger.json")
_VERIFY = (
    ("a ledger of this machine", "hushvec budget verify --key clinic"),
    (
        "an export, and that nothing of an earlier one was removed",
        "hushvec budget verify --export ledger.json --against earlier.json",
    ),
)

_STORE_HELP = "a path, sqlite:///path or postgresql://... (default: $HUSHVEC_BUDGET_STORE, or the user's own file)"


def add_to(subparsers: Subparsers) -> None:
    commands = add_group(subparsers, "budget", "ACTION", "Ledgers of privacy budgets.", (_CREATE, _SPEND, _SHOW))
    _add_create(commands)
    what = "limits and what is spent, of one ledger or of all in the store"
    show = _add(commands, "show", _show, what, (_SHOW,), key_required=False)
    show.description = (
        "Limits and what is spent, rounded to six digits: what is spent up, what is left down. --json has the exact amounts.\n"
        "Without --key: all ledgers of the store."
    )
    charges = _add(commands, "charges", _charges, "who spent what in this period, and the last charges", (_CHARGES,))
    charges.description = (
        "What was charged in this period: totals by who charged it (charged_by= of PrivacyBudget), then the last charges.\n"
        "Purposes and names are what the programs said. The ledger cannot check them."
    )
    charges.add_argument("--last", type=int, default=20, metavar="N", help="how many charges are listed (default 20)")
    verify = _add(commands, "verify", _verify, "recompute a ledger from its first row on", _VERIFY, key_required=False)
    verify.description = (
        "Recompute hashes, totals and limits from the first row on.\n\n"
        "exit code 0  every row follows from the rows before it\n"
        "          1  one does not, or rows that an earlier head had are missing; the first wrong row is named\n"
        "          2  the ledger cannot be read"
    )
    verify.add_argument("--export", metavar="FILE", help="check an export instead of a store")
    verify.add_argument("--against", metavar="FILE", help="an earlier export, whose rows must still be there")
    reset = _add(commands, "reset", _reset, "start a new period with nothing spent; the old rows stay", (_RESET,))
    reset.add_argument("--yes", action="store_true", help="confirm; earlier losses still count")
    reset.add_argument("--purpose", help="recorded with the reset")
    export = _add(commands, "export", _export, "all rows as JSON (docs/budget.md)", (_EXPORT,))
    export.add_argument("-o", "--output", metavar="FILE", help="write there instead of to standard output")


def _add_create(commands: Subparsers) -> None:
    create = _add(commands, "create", _create, "make a ledger with limits, which are charged with --budget K", (_CREATE, _RHO, _SPEND))
    create.description = (
        "Make a ledger. A release that is charged to it is refused once its limits would be exceeded. Limits stay as they are:\n"
        "an existing ledger is never changed.\n\n"
        "Give --epsilon, with --delta where the default does not fit, or --rho."
    )
    create.add_argument("--epsilon", type=float, help="limit on the sum of epsilon")
    create.add_argument("--delta", type=float, help="limit on the sum of delta (default: epsilon / 10000, in [0.001, 0.01])")
    create.add_argument("--rho", type=float, help="limit in zero-concentrated DP, instead of epsilon and delta")
    create.add_argument(
        "--on-exhausted", choices=POLICIES, default=BLOCK, help="refuse what does not fit, or record it and warn (default block)"
    )


def _add(
    commands: Subparsers, name: str, run: Any, help: str, examples: Sequence[Example] = (), *, key_required: bool = True
) -> argparse.ArgumentParser:
    parser = add_command(commands, name, run, help=help, description=help[0].upper() + help[1:] + ".", examples=examples)
    parser.add_argument("--key", required=key_required, metavar="K", help="persist_key of the ledger")
    parser.add_argument("--store", metavar="S", help=_STORE_HELP)
    return parser


def _create(options: argparse.Namespace) -> int:
    with PrivacyBudget(
        options.epsilon,
        options.delta,
        max_rho=options.rho,
        persist_key=options.key,
        store=_new_ledger(options),
        on_exhausted=options.on_exhausted,
    ) as budget:
        if options.json:
            print_json(_as_json(budget.state()))
        else:
            say(f"created {options.key!r}", "")
            print(titled(str(budget)))
    return 0


def _new_ledger(options: argparse.Namespace) -> str | None:
    """The store, which has no ledger of this name."""
    if (options.epsilon is None) == (options.rho is None):
        raise ValueError("one of --epsilon and --rho must be given: the limit")
    if options.delta is not None and options.rho is not None:
        raise ValueError("--delta must come with --epsilon: --rho is a limit of its own")
    store: str | None = options.store
    try:
        keys = budget_keys(store)
    except BudgetError:
        return store  # there is none yet, or making the ledger says what is wrong with it
    if options.key in keys:
        command = f"hushvec budget show --key {shlex.quote(options.key)}"
        raise ValueError(f"there is already a budget with key {options.key!r}: {command} shows it")
    return store


def _show(options: argparse.Namespace) -> int:
    if options.key is None:
        return _show_all([_state(key, options.store) for key in budget_keys(options.store)], options)
    with PrivacyBudget.reopen(options.key, store=options.store) as budget:
        if options.json:
            print_json(_as_json(budget.state()))
        else:
            print(titled(str(budget)))
    return 0


def _show_all(states: Sequence[BudgetState], options: argparse.Namespace) -> int:
    if options.json:
        print_json([_as_json(state) for state in states])
    else:
        print(table(COLUMNS, [budget_row(state) for state in states]))
    return 0


def _charges(options: argparse.Namespace) -> int:
    if options.last < 0:
        raise ValueError(f"--last must be >= 0, got {options.last}")
    with PrivacyBudget.reopen(options.key, store=options.store) as budget:
        rows = with_names(budget.export()["rows"])
    charges = [row for row in rows if row["kind"] == "charge" and row["period"] == rows[-1]["period"]]
    shown = charges[len(charges) - min(options.last, len(charges)) :]
    if options.json:
        print_json({"period": rows[-1]["period"], "charged_by": by_name(charges), "charges": shown})
    elif not charges:
        say("nothing is charged in this period")
    else:
        currency = [name for name in ("epsilon", "delta", "rho") if rows[0][name]]
        totals = [(one["charged_by"], str(one["charges"]), *(f"{one[name]:.12g}" for name in currency)) for one in by_name(charges)]
        print(table(("charged by", "charges", *currency), totals))
        lines = [
            (row["charged_by"], row["purpose"], *(row[name] for name in currency), time_of(row), str(row["sequence"])) for row in shown
        ]
        if lines:
            print(f"\n{table(('charged by', 'purpose', *currency, 'time (UTC)', 'row'), lines)}")
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


def _read(name: str) -> Mapping[str, Any]:
    try:
        found = json_object(Path(name).read_text(encoding="utf-8"), "export", MOST_EXPORT_CHARACTERS)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if not isinstance(found, dict):
        raise ValueError(f"{name}: must be a budget export")
    return found
