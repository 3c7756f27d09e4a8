"""How results are printed: JSON, and tables of plain text. Text from files cannot control the terminal."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hushvec.cli._printable import printable
from hushvec.cli._style import paint
from hushvec.mechanisms.by_name import releases_directions
from hushvec.receipts.labels import LabelReceipt
from hushvec.receipts.reports import ReportReceipt
from hushvec.receipts.selections import SelectionReceipt
from hushvec.receipts.training import TrainingReceipt
from hushvec.receipts.vectors import Receipt

if TYPE_CHECKING:
    from hushvec.receipts.registry import AnyReceipt

_CIPHERS = {"aes256": "AES-256", "chacha20": "ChaCha20", "chacha12": "ChaCha12", "chacha8": "ChaCha8"}


def print_json(value: Any) -> None:
    """Print strict JSON, with unprintable characters escaped."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    print("\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n")))


def _escaped(line: str) -> str:
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in line)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, numbers and words alike to the right, the first column to the left.

    Cells are `printable`.
    """
    lines = [[printable(cell) for cell in line] for line in (header, *rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    first, *rest = (
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    )
    return "\n".join([paint("bold", first), *rest])


def facts(pairs: Sequence[tuple[str, str]]) -> str:
    """`name   value` lines, indented. Values are `printable`."""
    width = max(len(name) for name, _ in pairs)
    return "\n".join(f"  {paint('name', name.ljust(width))}  {printable(value)}" for name, value in pairs)


def receipt_lines(receipt: AnyReceipt) -> str:
    """The main fields of a receipt, for people."""
    return facts(receipt_facts(receipt))


def receipt_facts(receipt: AnyReceipt) -> list[tuple[str, str]]:
    """The main fields of a receipt, each with its name."""
    if isinstance(receipt, SelectionReceipt):
        pairs = _selection_facts(receipt)
    elif isinstance(receipt, ReportReceipt):
        pairs = _report_facts(receipt)
    elif isinstance(receipt, TrainingReceipt):
        pairs = _training_facts(receipt)
    else:
        pairs = _label_facts(receipt) if isinstance(receipt, LabelReceipt) else _vector_facts(receipt)
    return [*_claim_facts(receipt), *pairs, ("key", _key(receipt)), *(("note", note) for note in receipt.notes)]


def _claim_facts(receipt: AnyReceipt) -> list[tuple[str, str]]:
    return [
        ("claim", "differential privacy" if receipt.is_dp_claim else "none: NOT a DP claim"),
        ("epsilon, delta", f"{receipt.epsilon!r}, {receipt.delta!r}"),
    ]


def _key(receipt: AnyReceipt) -> str:
    return f"{'operating system' if receipt.key_source == 'os' else 'user-given seed'}, {_CIPHERS[receipt.cipher]}"


def _selection_facts(receipt: SelectionReceipt) -> list[tuple[str, str]]:
    return [
        ("unit of privacy", f"one candidate's scores in all {receipt.selections} selections, {receipt.adjacency}"),
        ("mechanism", f"{receipt.mechanism}, epsilon {receipt.epsilon_per_pick:.6g} per pick, sensitivity {receipt.sensitivity:.6g}"),
        ("selections", f"{receipt.selections} of the best {receipt.picks} among {receipt.candidates}, in order, without scores"),
        ("scores", f"clamped to [{receipt.score_low:.6g}, {receipt.score_high:.6g}]"),
    ]


def _report_facts(receipt: ReportReceipt) -> list[tuple[str, str]]:
    one = "one report (each is another person's)"
    unit = one if receipt.per == "record" else f"{receipt.words_of_one} words of one person"
    return [
        ("unit of privacy", f"{unit}, {receipt.adjacency}"),
        ("mechanism", f"{receipt.mechanism}, truth with {receipt.truth_values / 2**64:.6g} among {receipt.cells} cells"),
        ("reports", f"{receipt.reports}{', memoized' if receipt.memoised else ''}"),
        ("collection", f"SHA-256 {receipt.dictionary_digest}"),
    ]


def _training_facts(receipt: TrainingReceipt) -> list[tuple[str, str]]:
    clipped = "the gradient of a batch" if receipt.clipping == "batch" else "each example's gradient"
    planned = "" if receipt.planned_steps is None else f" of {receipt.planned_steps} planned"
    return [
        ("unit of privacy", f"one example of the training data, {receipt.adjacency}"),
        ("mechanism", f"{receipt.mechanism}, sampling probability {receipt.sampling_probability:.6g}, sigma {receipt.sigma:.6g}"),
        ("clipping", f"{clipped} to norm {receipt.clip_norm:.6g}, noise multiplier {receipt.noise_multiplier:.6g}"),
        ("steps", f"{receipt.steps}{planned}"),
        ("rounding", "exact" if receipt.grade == "exact" else "float: not protected against floating-point attacks"),
    ]


def _label_facts(receipt: LabelReceipt) -> list[tuple[str, str]]:
    one = "one answer (each answer is about another person)"
    unit = one if receipt.per == "record" else f"all {receipt.answers} answers (one person)"
    return [
        ("unit of privacy", f"{unit}, {receipt.adjacency}"),
        ("mechanism", f"{receipt.mechanism}, an answer is true with probability {receipt.truth_values / 2**64:.6g}"),
        ("answers", f"{receipt.answers}, from a list of {receipt.label_count} labels; scores: {receipt.scores}"),
        ("labels", f"SHA-256 {receipt.labels_digest}"),
        *((("codebook", f"SHA-256 {receipt.codebook}"),) if receipt.codebook is not None else ()),
    ]


def _vector_facts(receipt: Receipt) -> list[tuple[str, str]]:
    noise = f"sigma {receipt.sigma:.6g}" if receipt.sigma is not None else f"scale {receipt.scale:.6g}"
    unit = "one row (each row is another person)" if receipt.per == "record" else f"all {receipt.rows} rows (one person)"
    grade = (
        f"exact, on a grid of {receipt.grid:.6g}"
        if receipt.grid is not None
        else "float: not protected against floating-point attacks"
    )
    to_norm = "directions of norm" if releases_directions(receipt.mechanism) else "clipped to norm"
    return [
        ("unit of privacy", f"{unit}, {receipt.adjacency}"),
        ("mechanism", f"{receipt.mechanism}, {noise}, {receipt.sensitivity_norm.upper()} sensitivity {receipt.sensitivity:.6g}"),
        ("rows", f"{receipt.rows} x {receipt.dimension} {receipt.dtype}, {to_norm} {receipt.clip_norm:.6g}"),
        ("rounding", grade),
    ]
