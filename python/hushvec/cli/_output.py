"""Printing results: JSON, and tables of plain text. Text from files cannot control the terminal."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hushvec._util.display import Sheet, aligned, as_text
from hushvec.cli._style import paint, printable
from hushvec.receipts import sheet_of

if TYPE_CHECKING:
    from hushvec.receipts.verify import AnyReceipt


def print_json(value: Any) -> None:
    """Print strict JSON, with unprintable characters escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    print("\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n")))


def answered(options: argparse.Namespace, value: Any, *lines: str) -> int:
    """Print an answer, as JSON with --json, else as lines, which must be `printable`; returns the exit code for success.

    What was taken from files goes into the JSON of an object, else to standard error."""
    taken: Sequence[str] = getattr(options, "taken", ())
    if options.json:
        print_json({**value, "taken": list(taken)} if taken and isinstance(value, dict) else value)
        return 0
    for one in taken:
        print(f"{options.prog}: took {printable(one)}", file=sys.stderr)
    print("\n".join(lines))
    return 0


def _escaped(line: str) -> str:
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return columns as wide as their widest cell, all but the first to the right. Cells are `printable`."""
    first, *rest = aligned((header, *rows))
    return "\n".join([paint("bold", first), *rest])


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """Return `name   value` lines, indented. Values are `printable`."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {paint('name', name.ljust(width))}  {printable(value)}" for name, value in pairs)


def titled(text: str) -> str:
    """Return a text that `print` shows of an object, its first line in bold."""
    title, *lines = text.split("\n")
    return "\n".join([paint("bold", title), *lines])


def receipt_lines(receipt: AnyReceipt) -> str:
    """Return a receipt as `print` shows it."""
    return titled(as_text(receipt_sheet(receipt)))


def receipt_sheet(receipt: AnyReceipt) -> Sheet:
    """Return facts to show of a receipt, without the fact that has no label: it names a function of Python."""
    sheet = sheet_of(receipt)
    return sheet._replace(facts=tuple(fact for fact in sheet.facts if fact[0]))
