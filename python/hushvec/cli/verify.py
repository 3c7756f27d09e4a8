"""`hushvec verify RECEIPT ...`: recompute the guarantees of receipts, alone and together, and check that a ledger paid."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushvec._util import validate
from hushvec._util.publish import receipt_path
from hushvec.accounting import Composition, compose
from hushvec.cli._output import answered, receipt_lines
from hushvec.cli._parser import Command, argument, option
from hushvec.cli._style import paint, printable
from hushvec.errors import ReceiptError
from hushvec.receipts import (
    DOES_NOT_HOLD,
    HOLDS,
    NOT_A_CLAIM,
    Verification,
    receipt_from_json,
    units_differ,
    verify_charges,
    verify_receipt,
)
from hushvec.receipts.base import MOST_EXPORT_CHARACTERS, json_object

if TYPE_CHECKING:
    from hushvec.receipts.verify import AnyReceipt

EXIT_CODES = {HOLDS: 0, DOES_NOT_HOLD: 1, NOT_A_CLAIM: 2}
_STYLES: dict[str, str] = {HOLDS: "good", DOES_NOT_HOLD: "bad", NOT_A_CLAIM: "warn"}
SHOWN_RECEIPTS = 10  # of more than so many, the answers alone are printed
LARGEST_FILE = 1 << 22
LARGEST_LINES = 1 << 28

RECEIPT = "receipt"
EXPORT = "ledger export"

_LISTED = 3  # receipts of a folder that are named

# What a file begins with.
_MAGIC = {
    b"\x93NUMPY": "an array of numpy (.npy)",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"PK\x03\x04": "a zip archive (.npz and others)",
    b"\x1f\x8b": "a gzip file",
    b"%PDF": "a PDF",
    b"SQLite format 3\x00": "an SQLite file",
}


class Verify(
    Command,
    name="verify",
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
):
    """Recompute the guarantee of receipts of every kind from their parameters. Several are also added up, where all are about one
    unit of privacy: not a person's five rows and another person's single row.

    exit code 0  holds
              1  does not hold: a stated number does not follow from the others, the releases together cost more
                 than --epsilon, or the ledger is inconsistent or did not pay for a receipt
              2  not a DP claim (seeded key, float grade, labels with their model's scores, training without noise),
                 or a receipt or ledger that cannot be read

    It checks the receipts' numbers. It cannot check that the values were made that way."""

    receipts: list[str] = argument(
        "a receipt file, JSON lines with a receipt each (hushvec rewrite --lines), or - for standard input", "RECEIPT", nargs="+"
    )
    epsilon: float | None = option("the claimed epsilon of all releases together, about the same people")
    delta: float | None = option("the delta of that claim (default: the sum of the receipts' own)")
    independent_samples: bool = option(
        "your word that trainings drew samples of their own, where receipts do not show it (else: no amplification)"
    )
    ledger: str | None = option("what `hushvec budget export` wrote: check it, and that it paid", metavar="EXPORT")

    def run(self) -> int:
        named = [one for name in self.receipts for one in _receipts(name)]
        receipts = [receipt for _, receipt in named]
        found = [verify_receipt(receipt) for receipt in receipts]
        statuses = {one.status for one in found}
        further: dict[str, Verification] = {}
        composition = None
        asked = self.epsilon is not None or self.delta is not None
        # Losses about two units or adjacencies have no sum, nor has the unknown loss behind a receipt that does not hold. Training has
        # no loss before its first step, and no finite one without noise. compose refuses what was asked for.
        refused = None if asked or DOES_NOT_HOLD in statuses else units_differ(receipts)
        comparable = refused is None and all(receipt.has_loss for receipt in receipts)
        if DOES_NOT_HOLD not in statuses and (asked or (len(receipts) > 1 and comparable)):
            further["together"], composition = _together(receipts, self, claimed=NOT_A_CLAIM not in statuses)
        if self.ledger is not None:
            further["ledger"] = _ledger(receipts, self.ledger, independent_samples=self.independent_samples)
        every = (one.status for one in (*found, *further.values()))
        if refused is not None:  # is no fault of the receipts
            further["together"] = Verification(NOT_A_CLAIM, (f"no claim about all releases: {refused}",))
        status = max(every, key=lambda status: (status != HOLDS, status == DOES_NOT_HOLD))
        value: dict[str, Any] = {"status": status}
        each = [{**_as_json(one), "receipt": receipt.to_dict()} for one, receipt in zip(found, receipts)]
        value |= {"receipts": each} if len(each) > 1 else {name: each[0][name] for name in ("reasons", "receipt")}
        value |= {title: _as_json(one) for title, one in further.items()}
        if composition is not None:
            value["together"] |= {name: getattr(composition, name) for name in ("epsilon", "delta", "theorem")}
        answered(self, value, _painted(status), *_lines(named, found, further))
        return EXIT_CODES[status]


def _together(receipts: list[AnyReceipt], options: Verify, *, claimed: bool) -> tuple[Verification, Composition]:
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


def _ledger(receipts: list[AnyReceipt], name: str, *, independent_samples: bool) -> Verification:
    content = _read(name, MOST_EXPORT_CHARACTERS, EXPORT)
    try:
        export = json_object(_text(content, MOST_EXPORT_CHARACTERS), "export", MOST_EXPORT_CHARACTERS)
        return verify_charges(receipts, export, independent_samples=independent_samples)
    except (ValueError, TypeError) as error:
        raise ReceiptError(mistaken(name, content, EXPORT) or f"{name}: {error}") from None


def _as_json(found: Verification) -> dict[str, Any]:
    return {"status": found.status, "reasons": list(found.reasons)}


def _painted(status: str) -> str:
    return paint(_STYLES[status], status)


def _lines(
    named: list[tuple[str, AnyReceipt]], found: list[Verification], further: dict[str, Verification]
) -> Iterator[str]:
    for (name, receipt), one in zip(named, found):
        if len(named) > 1:
            yield f"{printable(name)}: {_painted(one.status)}"
        yield _reasons(one)
        if len(named) <= SHOWN_RECEIPTS:
            yield f"\n{receipt_lines(receipt)}"
    for title, one in further.items():
        yield f"\n{title}: {_painted(one.status)}"
        yield _reasons(one)


def _reasons(found: Verification) -> str:
    return "\n".join(printable(f"  {reason}") for reason in found.reasons)


def _receipts(name: str) -> list[tuple[str, AnyReceipt]]:
    """Read the receipt of a file, or those of its JSON lines, each with the name by which it is shown."""
    content, where = _read(name, LARGEST_LINES, RECEIPT), name
    try:
        found = []
        for number, text in receipts_of_lines(content) if len(content) <= LARGEST_LINES else []:
            where = f"{name}, line {number}"
            found.append((where, receipt_from_json(text)))
    except ReceiptError as error:
        raise ReceiptError(f"{where}: {error}") from None
    if found:
        return found
    try:
        return [(name, receipt_from_json(_text(content, LARGEST_FILE)))]
    except (ReceiptError, UnicodeDecodeError) as error:
        raise ReceiptError(mistaken(name, content, RECEIPT) or f"{name}: {error}") from None


def _read(name: str, most: int, wanted: str) -> bytes:
    """Read the content, or its first `most` bytes and one more."""
    if name == "-":
        return sys.stdin.buffer.read(most + 1)
    if Path(name).is_dir():
        found = sorted(path.name for path in Path(name).glob("*.receipt.json")) if wanted == RECEIPT else []
        more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
        instead = f"; pass a receipt in it: {', '.join(found[:_LISTED])}{more}" if found else ""
        raise ReceiptError(f"{name}: a folder, not a {wanted}{instead}")
    with Path(name).open("rb") as file:
        return file.read(most + 1)


def _text(content: bytes, most: int) -> str:
    if len(content) > most:
        raise ReceiptError(f"receipt must have at most {most} bytes")
    return content.decode("utf-8")


# ---- what a file is that was given where a receipt or the export of a ledger was expected, and what to give instead ----


def mistaken(name: str, content: bytes, wanted: str) -> str | None:
    """Return the kind of a file with this content (or beginning), and what to give instead of it; None if it may be what is wanted."""
    kind = next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), None)
    if kind is not None:
        return f"{name}: {kind}, not a {wanted}{_instead(name, kind)}"
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        lines = [line for line in content.splitlines() if line.strip()]
        with suppress(ValueError, RecursionError):
            if len(lines) > 1 and all(isinstance(json.loads(line), dict) for line in lines[:2]):
                return f"{name}: {len(lines)} lines of JSON, not a {wanted}{_instead(name)}"
        return None
    kind = _json_kind(value, wanted)
    return None if kind is None else f"{name}: {kind}{_instead(name)}"


def receipts_of_lines(content: bytes) -> list[tuple[int, str]]:
    """Return (line, JSON of the receipt) in JSON lines of `hushvec rewrite`; none if the first line is of another kind."""
    found: list[tuple[int, str]] = []
    for number, line in enumerate(content.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = json_object(line.decode("utf-8"))
        except (ReceiptError, UnicodeDecodeError):
            value = None
        if not isinstance(value, dict) or not {"receipt", "dp_line"} <= value.keys():
            if not found:
                return []
            raise ReceiptError(f"line {number} must be a document of hushvec rewrite with its receipt, as the lines before it")
        if not isinstance(value["receipt"], dict):
            raise ReceiptError(f"line {number} has no receipt: its output was made without a release, or without noise")
        found.append((number, json.dumps(value["receipt"])))
    return found


def _instead(name: str, kind: str = "") -> str:
    if name != "-" and receipt_path(Path(name)).is_file():
        return f"; its receipt is {receipt_path(Path(name))}"
    if kind.startswith("an SQLite"):
        return f"; if it is a store of budgets: hushvec budget show --store {name}"
    return ""


def _json_kind(value: Any, wanted: str) -> str | None:
    if isinstance(value, list) and value and all(isinstance(one, dict) for one in value):
        return f"a list of {len(value)} objects, not a {wanted}; pass each receipt as a file of its own"
    if not isinstance(value, dict):
        return None
    if {"rows", "head"} <= value.keys() and wanted != EXPORT:
        return "a ledger export, not a receipt; pass it as --ledger beside receipts, or to hushvec budget verify --export"
    if "receipt_version" in value and wanted != RECEIPT:
        return f"a receipt, not a {wanted}; hushvec budget export writes one"
    if isinstance(value.get("receipt"), dict) and wanted == RECEIPT:
        return "the JSON of a command, not a receipt; pass the object under its key 'receipt' as a file of its own, or to -"
    return None
