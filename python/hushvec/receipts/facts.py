"""A receipt of any kind in plain words: what `print` and notebooks show of it. Nothing is stated that the receipt does not state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hushvec._util.display import Sheet, at_least, number, plural, share

# The kinds of receipt import this module, through their base, so it knows receipts by their fields alone.
Facts = list[tuple[str, str]]

NO_CLAIM = "NOT A DP CLAIM"
_OWN_WORD = "the receipt itself makes no claim"
_CHECK = "as the receipt states; hushvec.verify_receipt recomputes it"
_WORDS = 2**64
_DIGITS = 16

_CIPHERS = {"aes256": "AES-256", "chacha20": "ChaCha20", "chacha12": "ChaCha12", "chacha8": "ChaCha8"}
_KEYS = {"os": "key from the operating system", "seed": "KEY FROM A USER-GIVEN SEED"}


def sheet_of(receipt: Any) -> Sheet:
    """What is shown of a receipt. A claim that its own fields contradict is not shown as one."""
    kind = getattr(receipt, "receipt_kind", "vectors")
    title, unit, facts = _KINDS[kind](receipt)
    reasons = receipt._why_no_claim() or ([] if receipt.is_dp_claim else [_OWN_WORD])
    price = f"epsilon {at_least(receipt.epsilon)}, delta {at_least(receipt.delta)}"
    if reasons:
        claim = [("guarantee", "none"), ("parameters", f"{price} for {unit}, {receipt.adjacency}: not guaranteed")]
    else:
        claim = [("guarantee", f"{price} for {unit}, {receipt.adjacency}"), ("", _CHECK)]
    stands_out = bool(reasons) or receipt.mechanism == "empirical"
    notes = () if stands_out else receipt.notes
    shared = [
        ("noise", f"{_CIPHERS[receipt.cipher]}, {_KEYS[receipt.key_source]}"),
        ("charged", _charge(receipt.charge)),
        *(("note", note) for note in notes),
    ]
    cautions = dict.fromkeys((*reasons, *(receipt.notes if stands_out else ())))
    return Sheet(f"{title}: {NO_CLAIM}" if reasons else title, (*claim, *facts, *shared), tuple(cautions))


def _charge(charge: Any) -> str:
    return "to no ledger" if charge is None else f"row {charge.sequence} of ledger {charge.ledger[:_DIGITS]}"


def _all(count: int, one: str) -> str:
    return f"one {one}" if count == 1 else f"all {count:,} {one}s"


def _vectors(receipt: Any) -> tuple[str, str, Facts]:
    unit = "one row (every row is another person)" if receipt.per == "record" else f"{_all(receipt.rows, 'row')} (one person)"
    size = f"sigma {number(receipt.sigma)}" if receipt.sigma is not None else f"scale {number(receipt.scale)}"
    length = f"{'brought' if receipt.normalize else 'clipped'} to length {number(receipt.clip_norm)} (L2)"
    facts = [
        ("mechanism", f"{receipt.mechanism}, {size} in the unit of the rows"),
        ("rows", f"{receipt.rows:,} x {receipt.dimension:,} {receipt.dtype}, {length} before the noise"),
        ("sensitivity", f"{number(receipt.sensitivity)} ({receipt.sensitivity_norm.upper()}): the most that one person can change"),
        ("values", _values(receipt)),
    ]
    if receipt.projection is not None:
        facts.append(("public map", f"SHA-256 {receipt.projection[:_DIGITS]}"))
    return "Receipt of noisy vectors", unit, facts


def _values(receipt: Any) -> str:
    grade = "floating-point, NOT PROTECTED" if receipt.grid is None else f"exact, on a grid of {number(receipt.grid)}"
    if receipt.saturation_probability is not None:
        grade += f"; int8, times the grid; a share of at most {at_least(receipt.saturation_probability)} saturates"
    return f"{grade}; brought to unit length after the noise" if receipt.renormalize else grade


def _labels(receipt: Any) -> tuple[str, str, Facts]:
    unit = "one answer (every answer is about another person)"
    if receipt.per == "release":
        unit = f"{_all(receipt.answers, 'answer')} (one person)"
    truth = f"true with chance {share(receipt.truth_values / _WORDS)}, each other label {share(receipt.other_values / _WORDS)}"
    facts = [
        ("mechanism", f"randomized response: {truth}"),
        ("answers", f"{receipt.answers:,}, each one of {receipt.label_count:,} labels; scores: {receipt.scores}"),
        ("labels", f"SHA-256 {receipt.labels_digest[:_DIGITS]}"),
    ]
    if receipt.codebook is not None:
        facts.append(("public codebook", f"SHA-256 {receipt.codebook[:_DIGITS]}"))
    return "Receipt of private labels", unit, facts


def _reports(receipt: Any) -> tuple[str, str, Facts]:
    unit = "one report (every report is another person's)"
    if receipt.per == "release":
        unit = f"{plural(receipt.words_of_one, 'word')} of one person"
    memo = ", memoized: the same word gives the same permanent report" if receipt.memoised else ""
    truth = f"the truth with chance {share(receipt.truth_values / _WORDS)} among {receipt.cells:,} outcomes"
    return (
        "Receipt of reports to a collector",
        unit,
        [
            ("mechanism", f"{receipt.mechanism}: {truth}"),
            ("reports", f"{receipt.reports:,}{memo}"),
            ("collection", f"SHA-256 {receipt.dictionary_digest[:_DIGITS]}"),
        ],
    )


def _selections(receipt: Any) -> tuple[str, str, Facts]:
    asked = plural(receipt.selections, "selection")
    facts = [
        ("mechanism", f"{receipt.mechanism}, epsilon {at_least(receipt.epsilon_per_pick)} for each pick"),
        ("selections", f"{asked} of the best {receipt.picks:,} among {receipt.candidates:,}, in order, without scores"),
        ("scores", f"clamped to {number(receipt.score_low)} to {number(receipt.score_high)}"),
    ]
    return "Receipt of private selections", f"the scores of one candidate in {asked}", facts


def _training(receipt: Any) -> tuple[str, str, Facts]:
    planned = "" if receipt.planned_steps is None else f" of {receipt.planned_steps:,} planned"
    resumed = f", resumed {plural(receipt.resumed, 'time')}" if receipt.resumed else ""
    clipped = "the gradient of each batch" if receipt.clipping == "batch" else "the gradient of each example"
    grade = "exact" if receipt.grade == "exact" else "floating-point, NOT PROTECTED"
    batch = f"sums divided by {number(receipt.expected_batch_size)}"
    facts = [
        ("mechanism", f"DP-SGD: noise multiplier {number(receipt.noise_multiplier)}, sigma {number(receipt.sigma)} on each sum"),
        ("steps", f"{receipt.steps:,}{planned}{resumed}"),
        ("sampling", f"{share(receipt.sampling_probability)} of the examples per step; {batch}"),
        ("clipping", f"{clipped} to length {number(receipt.clip_norm)} (L2)"),
        ("sums", grade),
        ("theorem", receipt.theorem or "none"),
    ]
    return "Receipt of private training", "one example of the training data", facts


_KINDS: dict[str, Callable[[Any], tuple[str, str, Facts]]] = {
    "vectors": _vectors,
    "labels": _labels,
    "reports": _reports,
    "selection": _selections,
    "training": _training,
}
