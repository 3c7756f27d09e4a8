"""What a file is that was given where a receipt or the export of a ledger was expected, and what to give instead."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hushvec._util.publish import receipt_path
from hushvec.errors import ReceiptError
from hushvec.receipts.base import json_object

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


def mistaken(name: str, content: bytes, wanted: str) -> str | None:
    """What a file is and what to give instead of it; None if it may be meant as what is wanted.

    Args:
        name: as it was given.
        content: of the file, or its beginning.
        wanted: `RECEIPT` or `EXPORT`.
    """
    kind = next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), None)
    if kind is not None:
        return f"{name}: {kind}, not a {wanted}{_instead(name, kind)}"
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        lines = _json_lines(content)
        return f"{name}: {lines} lines of JSON, not a {wanted}{_instead(name)}" if lines else None
    kind = _json_kind(value, wanted)
    return None if kind is None else f"{name}: {kind}{_instead(name)}"


def receipts_of_lines(content: bytes) -> list[tuple[int, str]]:
    """The receipts in JSON lines, as `hushvec rewrite` writes them for many documents.

    Returns:
        Number of the line and JSON of the receipt; empty if the first line is not of this kind.

    Raises:
        ReceiptError: a later line is not, or a document has no receipt; it names the line.
    """
    lines = [(number, line) for number, line in enumerate(content.splitlines(), 1) if line.strip()]
    found: list[tuple[int, str]] = []
    for number, line in lines:
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


def mistaken_folder(name: str, wanted: str) -> str:
    found = sorted(path.name for path in Path(name).glob("*.receipt.json"))
    if not found or wanted != RECEIPT:
        return f"{name}: a folder, not a {wanted}"
    more = f" and {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    return f"{name}: a folder, not a receipt; pass a receipt in it: {', '.join(found[:_LISTED])}{more}"


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


def _json_lines(content: bytes) -> int:
    """How many lines there are, if the first two are JSON objects."""
    lines = [line for line in content.splitlines() if line.strip()]
    try:
        both = [json.loads(line) for line in lines[:2]]
    except (ValueError, RecursionError):
        return 0
    return len(lines) if len(both) == 2 and all(isinstance(one, dict) for one in both) else 0
