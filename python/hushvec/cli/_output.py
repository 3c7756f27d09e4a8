"""How results are printed: JSON, and tables of plain text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from hushvec.receipts import Receipt


def print_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, numbers and words alike to the right, the first column to the left."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """`name   value` lines, indented."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {name.ljust(width)}  {value}" for name, value in pairs)


def receipt_lines(receipt: Receipt) -> str:
    """What a person wants to see of a receipt."""
    noise = f"sigma {receipt.sigma:.6g}" if receipt.sigma is not None else f"scale {receipt.scale:.6g}"
    unit = "one row (each row is another person)" if receipt.per == "record" else f"all {receipt.rows} rows (one person)"
    grade = (
        f"exact, on a grid of {receipt.grid:.6g}"
        if receipt.grid is not None
        else "float: not protected against floating-point attacks"
    )
    to_norm = "directions of norm" if receipt.mechanism == "privunit" else "clipped to norm"
    pairs = [
        ("claim", "differential privacy" if receipt.is_dp_claim else "none: NOT a DP claim"),
        ("epsilon, delta", f"{receipt.epsilon!r}, {receipt.delta!r}"),
        ("unit of privacy", f"{unit}, {receipt.adjacency}"),
        ("mechanism", f"{receipt.mechanism}, {noise}, {receipt.sensitivity_norm.upper()} sensitivity {receipt.sensitivity:.6g}"),
        ("rows", f"{receipt.rows} x {receipt.dimension} {receipt.dtype}, {to_norm} {receipt.clip_norm:.6g}"),
        ("rounding", grade),
        ("key", f"{'operating system' if receipt.key_source == 'os' else 'user-given seed'}, ChaCha{receipt.rounds}"),
    ]
    return facts([*pairs, *(("note", note) for note in receipt.notes)])
