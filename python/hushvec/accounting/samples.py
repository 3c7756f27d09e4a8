"""Which releases may rest on one sample.

Amplification keeps coins secret: who was sampled, or in which order reports came. Composition takes the coins of every release to be
its own. Where two amplified releases rest on the same coins, their composition is no bound, and neither is the sum of their epsilons
(docs/proofs/dp_sgd.md, "One sample, two releases"). Without amplification each loss holds for any given coins, so these losses compose
whatever the coins were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class SampleRange:
    """Samples that one process drew, numbered in the order in which it drew them.

    Args:
        process: random name of the process, 32 hexadecimal digits. It says nothing about keys.
        first, last: numbers of the first and the last sample that a release may rest on, both >= 1.
    """

    process: str
    first: int
    last: int


def shared(recorded: Sequence[Sequence[SampleRange] | None]) -> set[int]:
    """Places of the amplified releases that may rest on a sample of another one. None is not known, and may be any sample."""
    if len(recorded) > 1 and any(ranges is None for ranges in recorded):
        return set(range(len(recorded)))
    ordered = sorted((one.process, one.first, one.last, place) for place, ranges in enumerate(recorded) for one in ranges or ())
    found: set[int] = set()
    process, furthest, owner = "", 0, -1
    for name, first, last, place in ordered:
        if name == process and first <= furthest and place != owner:
            found |= {owner, place}
        if name != process or last > furthest:
            process, furthest, owner = name, last, place
    return found
