"""Saves time by fewer different losses: losses of similar size are replaced by the worst of them."""

from __future__ import annotations

from collections import defaultdict

from hushvec.accounting.losses import PrivacyLoss
from hushvec.accounting.releases import Releases

# Less noise and fewer people are a larger loss; more of anything else is too (docs/proofs/composition.md, "Fewer different losses").
_LESS_IS_WORSE = ("noise_multiplier", "n")


def coarsened(releases: Releases, kinds: tuple[type[PrivacyLoss], ...], most: int) -> Releases:
    """The same number of releases, with at most `most` different losses of the given kinds and none smaller than it was.

    Losses of other kinds stay, and so does everything if there are no more than `most`.
    """
    entries: dict[type[PrivacyLoss], list[tuple[PrivacyLoss, int]]] = defaultdict(list)
    for loss, count in releases.counts:
        if isinstance(loss, kinds):
            entries[type(loss)].append((loss, count))
    if sum(map(len, entries.values())) <= most:
        return releases
    counts = {loss: count for loss, count in releases.counts if not isinstance(loss, kinds)}
    share = max(1, most // len(entries))
    for ordered in entries.values():   # Releases keep their losses ordered by their arguments
        size = -(-len(ordered) // share)
        for start in range(0, len(ordered), size):
            group = ordered[start : start + size]
            worst = _worst([loss for loss, _ in group])
            counts[worst] = counts.get(worst, 0) + sum(count for _, count in group)
    return Releases.of(counts, releases.adjacency)


def _worst(losses: list[PrivacyLoss]) -> PrivacyLoss:
    """A loss of the same kind that is at least each of them: the worst of every argument."""
    arguments = {
        name: (min if name in _LESS_IS_WORSE else max)(loss.arguments[name] for loss in losses) for name in losses[0].arguments
    }
    return type(losses[0])(**arguments)
