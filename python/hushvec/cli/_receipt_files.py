"""Receipts in files: one, JSON lines of them, or standard input; and what else a file may be that was given in their place."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushvec._util.publish import receipt_path
from hushvec.errors import ReceiptError
from hushvec.receipts import receipt_from_json
from hushvec.receipts.base import json_object

if TYPE_CHECKING:
    from hushvec.receipts.verify import AnyReceipt

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


def read_receipts(name: str) -> list[tuple[str, AnyReceipt]]:
    """Read the receipt of a file, or those of its JSON lines, each with the name by which it is shown."""
    content, where = read_bytes(name, LARGEST_LINES, RECEIPT), name
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
        return [(name, receipt_from_json(text_of(content, LARGEST_FILE)))]
    except (ReceiptError, UnicodeDecodeError) as error:
        raise ReceiptError(mistaken(name, content, RECEIPT) or f"{name}: {error}") from None


def read_bytes(name: str, most: int, wanted: str) -> bytes:
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


def text_of(content: bytes, most: int) -> str:
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
