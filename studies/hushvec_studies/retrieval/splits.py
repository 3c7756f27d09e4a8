"""Train, validation and test parts of a corpus, with every category in each of them in the same proportion."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from hushvec._util import validate

PARTS = ("train", "val", "test")
_TOLERANCE = 1e-9  # of the sum of three decimal fractions


def stratified_split(
    ids: Sequence[str], categories: Sequence[str], fractions: tuple[float, float, float] = (0.70, 0.15, 0.15), seed: int = 2025
) -> tuple[str, ...]:
    """The part of every document: "train", "val" or "test".

    Args:
        ids: all different.
        categories: as many as ids.
        fractions: of train, val and test; >= 0, with sum 1.
        seed: another seed gives another split.

    Returns:
        A part for every id, in their order.

    Raises:
        TypeError, ValueError: wrong kinds, a length that does not fit, an id that is there twice, fractions that do not add up to 1,
            or a category with fewer documents than parts that are not empty.

    Guarantees:
        Within a category, documents are ordered by SHA-256 of seed and id and dealt out from that order: the order in which they are
        given, and documents of other categories, change nothing. The sizes of the parts of a category of n documents are the whole
        numbers nearest to n times the fractions (largest remainders), except that a part with a fraction above 0 gets at least one.

    Example:
        >>> from hushvec_studies.retrieval.splits import stratified_split
        >>> parts = stratified_split([f"post {n}" for n in range(20)], ["cars"] * 20)
        >>> [parts.count(part) for part in ("train", "val", "test")]
        [14, 3, 3]
    """
    shares = checked_fractions(fractions)
    seed = validate.whole_number("seed", seed, at_least=0)
    if len(ids) != len(categories):
        raise ValueError(f"categories must be one for each of {len(ids)} ids, got {len(categories)}")
    if len(set(ids)) < len(ids):
        raise ValueError("ids must be all different, got one twice")
    members: dict[str, list[int]] = {}
    for place, category in enumerate(categories):
        members.setdefault(category, []).append(place)
    parts = [""] * len(ids)
    for category, places in members.items():
        dealt = sorted(places, key=lambda place: hashlib.sha256(f"{seed}\n{ids[place]}".encode()).digest())
        sizes = _sizes(len(places), shares, category)
        for place, part in zip(dealt, (part for part, size in zip(PARTS, sizes) for _ in range(size)), strict=True):
            parts[place] = part
    return tuple(parts)


def checked_fractions(fractions: Any) -> tuple[float, float, float]:
    """Three fractions with sum 1."""
    if isinstance(fractions, str) or not isinstance(fractions, Sequence) or len(fractions) != len(PARTS):
        raise TypeError(f"splits must be 'given' or three fractions, of train, val and test, got {fractions!r:.60}")
    train, val, test = (validate.not_negative("splits", fraction) for fraction in fractions)
    if abs(train + val + test - 1) > _TOLERANCE:
        raise ValueError(f"splits must add up to 1, got {train + val + test:.6g}")
    return train, val, test


def _sizes(count: int, shares: Sequence[float], category: str) -> list[int]:
    fewest = [1 if share > 0 else 0 for share in shares]
    if count < sum(fewest):
        raise ValueError(f"category {category!r} must have at least {sum(fewest)} documents to be split, got {count}")
    exact = [count * share for share in shares]
    sizes = [max(int(size), least) for size, least in zip(exact, fewest)]
    while sum(sizes) != count:
        step = 1 if sum(sizes) < count else -1
        able = [part for part in range(len(sizes)) if shares[part] > 0 and sizes[part] + step >= fewest[part]]
        part = max(able, key=lambda part: step * (exact[part] - sizes[part]))
        sizes[part] += step
    return sizes
