"""`hushvec verify RECEIPT ...`: recompute the guarantees of receipts, alone and together, and check that a ledger paid."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushvec._util import validate
from hushvec.accounting import Composition, compose
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._kinds import EXPORT, RECEIPT, mistaken, mistaken_folder, receipts_of_lines
from hushvec.cli._output import print_json, receipt_lines
from hushvec.cli._printable import printable, say
from hushvec.cli._style import paint
from hushvec.errors import ReceiptError
from hushvec.receipts.base import DOES_NOT_HOLD, HOLDS, MOST_EXPORT_CHARACTERS, NOT_A_CLAIM, Verification, json_object
from hushvec.receipts.verify import receipt_from_json, verify_charges, verify_receipt

if TYPE_CHECKING:
    from hushvec.receipts.verify import AnyReceipt

EXIT_CODES = {HOLDS: 0, DOES_NOT_HOLD: 1, NOT_A_CLAIM: 2}
_STYLES: dict[str, str] = {HOLDS: "good", DOES_NOT_HOLD: "bad", NOT_A_CLAIM: "warn"}
SHOWN_RECEIPTS = 10  # of more than so many, the answers alone are printed
LARGEST_FILE = 1 << 22
LARGEST_LINES = 1 << 28


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "verify",
        run,
        description=(
            "Recompute the guarantee of receipts of every kind from their parameters.\n\n"
            "exit code 0  holds\n"
            "          1  does not hold: a stated number does not follow from the others, the releases together cost more\n"
            "             than --epsilon, or the ledger is inconsistent or did not pay for a receipt\n"
            "          2  not a DP claim (seeded key, float grade, labels with their model's scores, training without noise),\n"
            "             or a receipt or ledger that cannot be read\n\n"
            "It checks the receipts' numbers. It cannot check that the values were made that way."
        ),
        examples=(
            ("one receipt", "hushvec verify private.npy.receipt.json"),
            (
                "several releases about the same people, which must cost at most 10 together",
                "hushvec verify *.receipt.json --epsilon 10",
            ),
            (
                "and that a ledger paid for them",
                "hushvec budget export --key clinic -o ledger.json\n  hushvec verify *.receipt.json --ledger ledger.json",
            ),
        ),
    )
    parser.add_argument(
        "receipts",
        nargs="+",
        metavar="RECEIPT",
        help="a receipt file, JSON lines with a receipt each (hushvec rewrite --lines), or - for standard input",
    )
    parser.add_argument("--epsilon", type=float, help="the claimed epsilon of all releases together, about the same people")
    parser.add_argument("--delta", type=float, help="the delta of that claim (default: the sum of the receipts' own)")
    parser.add_argument(
        "--independent-samples",
        action="store_true",
        help="your word that trainings drew samples of their own, where receipts do not show it (else: no amplification)",
    )
    parser.add_argument("--ledger", metavar="EXPORT", help="what `hushvec budget export` wrote: check it, and that it paid")


def run(options: argparse.Namespace) -> int:
    named = [one for name in options.receipts for one in _receipts(name)]
    names, receipts = [name for name, _ in named], [receipt for _, receipt in named]
    found = [verify_receipt(receipt) for receipt in receipts]
    together = None
    statuses = {one.status for one in found}
    asked = options.epsilon is not None or options.delta is not None
    # Losses of two adjacencies have no sum, nor has the unknown loss behind a receipt that does not hold. Training has no loss before
    # its first step, and no finite one without noise.
    comparable = len({receipt.adjacency for receipt in receipts}) == 1 and all(receipt.has_loss for receipt in receipts)
    if DOES_NOT_HOLD not in statuses and (asked or (len(receipts) > 1 and comparable)):
        together = _together(receipts, options, claimed=NOT_A_CLAIM not in statuses)
        found.append(together[0])
    ledger = None if options.ledger is None else _ledger(receipts, options)
    if ledger is not None:
        found.append(ledger)
    status = max((one.status for one in found), key=lambda status: (status != HOLDS, status == DOES_NOT_HOLD))
    if options.json:
        print_json(_as_json(status, receipts, found, together, ledger))
    else:
        _print(status, names, receipts, found, together, ledger)
    return EXIT_CODES[status]


def _together(receipts: list[AnyReceipt], options: argparse.Namespace, *, claimed: bool) -> tuple[Verification, Composition]:
    epsilon = None if options.epsilon is None else validate.not_negative("--epsilon", options.epsilon)
    delta = sum(receipt.delta for receipt in receipts) if options.delta is None else options.delta
    composition = compose(receipts, delta=delta, independent_samples=options.independent_samples)
    promise = f"({composition.epsilon!r}, {composition.delta!r})-DP by {composition.theorem} composition ({composition.reference})"
    if composition.unamplified:
        promise += f"; {composition.unamplified} of them count without amplification, as they may rest on the same samples"
    elif options.independent_samples:
        promise += "; that samples are independent is your word where receipts do not show it"
    if epsilon is not None and composition.epsilon > epsilon:
        return Verification(DOES_NOT_HOLD, (f"epsilon = {epsilon!r} is less than the releases cost together: {promise}",)), composition
    if not claimed:
        return Verification(NOT_A_CLAIM, (f"all releases together would be {promise} if each made a claim",)), composition
    return Verification(HOLDS, (f"all releases together, about the same people, are {promise}",)), composition


def _ledger(receipts: list[AnyReceipt], options: argparse.Namespace) -> Verification:
    name = options.ledger
    content = _read(name, MOST_EXPORT_CHARACTERS, EXPORT)
    try:
        export = json_object(_text(content, MOST_EXPORT_CHARACTERS), "export", MOST_EXPORT_CHARACTERS)
        return verify_charges(receipts, export, independent_samples=options.independent_samples)
    except (ValueError, TypeError) as error:
        raise ReceiptError(mistaken(name, content, EXPORT) or f"{name}: {error}") from None


def _as_json(
    status: str,
    receipts: list[AnyReceipt],
    found: list[Verification],
    together: tuple[Verification, Composition] | None,
    ledger: Verification | None,
) -> dict[str, Any]:
    shown: dict[str, Any] = {"status": status}
    if len(receipts) == 1:
        shown |= {"reasons": list(found[0].reasons), "receipt": receipts[0].to_dict()}
    else:
        shown["receipts"] = [
            {"status": one.status, "reasons": list(one.reasons), "receipt": receipt.to_dict()}
            for one, receipt in zip(found, receipts)
        ]
    if together is not None:
        verification, composition = together
        shown["together"] = {
            "status": verification.status,
            "reasons": list(verification.reasons),
            "epsilon": composition.epsilon,
            "delta": composition.delta,
            "theorem": composition.theorem,
        }
    if ledger is not None:
        shown["ledger"] = {"status": ledger.status, "reasons": list(ledger.reasons)}
    return shown


def _print(
    status: str,
    names: list[str],
    receipts: list[AnyReceipt],
    found: list[Verification],
    together: tuple[Verification, Composition] | None,
    ledger: Verification | None,
) -> None:
    print(paint(_STYLES[status], status))
    for name, receipt, one in zip(names, receipts, found):
        if len(receipts) > 1:
            print(f"{printable(name)}: {paint(_STYLES[one.status], one.status)}")
        say(*(f"  {reason}" for reason in one.reasons))
        if len(receipts) <= SHOWN_RECEIPTS:
            print(f"\n{receipt_lines(receipt)}")
    for title, further in (("together", together and together[0]), ("ledger", ledger)):
        if further is not None:
            print(f"\n{title}: {paint(_STYLES[further.status], further.status)}")
            say(*(f"  {reason}" for reason in further.reasons))


def _receipts(name: str) -> list[tuple[str, AnyReceipt]]:
    """The receipt of a file, or those of its JSON lines, each with the name by which it is shown."""
    content = _read(name, LARGEST_LINES, RECEIPT)
    try:
        lines = receipts_of_lines(content) if len(content) <= LARGEST_LINES else []
    except ReceiptError as error:
        raise ReceiptError(f"{name}: {error}") from None
    if lines:
        return [(f"{name}, line {number}", _of_line(name, number, text)) for number, text in lines]
    try:
        return [(name, receipt_from_json(_text(content, LARGEST_FILE)))]
    except (ReceiptError, UnicodeDecodeError) as error:
        raise ReceiptError(mistaken(name, content, RECEIPT) or f"{name}: {error}") from None


def _of_line(name: str, number: int, text: str) -> AnyReceipt:
    try:
        return receipt_from_json(text)
    except ReceiptError as error:
        raise ReceiptError(f"{name}, line {number}: {error}") from None


def _read(name: str, most: int, wanted: str) -> bytes:
    """The content, or its first `most` bytes and one more."""
    if name == "-":
        return sys.stdin.buffer.read(most + 1)
    if Path(name).is_dir():
        raise ReceiptError(mistaken_folder(name, wanted))
    with Path(name).open("rb") as file:
        return file.read(most + 1)


def _text(content: bytes, most: int) -> str:
    if len(content) > most:
        raise ReceiptError(f"receipt must have at most {most} bytes")
    return content.decode("utf-8")
