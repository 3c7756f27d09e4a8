"""The texts of every batch: texts of similar length together, in an order given by seed and epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

IGNORED = -100  # a label that the loss leaves out

# Texts are sorted by length among this many batches: enough for little padding, few enough for a new mix in every epoch.
BATCHES_SORTED_TOGETHER = 50


class Batches:
    """The batches of every epoch, for texts of these lengths; the last batch of an epoch may be smaller."""

    def __init__(self, lengths: Sequence[int], batch_size: int, seed: int) -> None:
        self._lengths = np.asarray(lengths)
        self._batch_size = batch_size
        self._seed = seed
        self._epoch, self._of_epoch = -1, list[NDArray[np.intp]]()

    @property
    def in_epoch(self) -> int:
        return -(-len(self._lengths) // self._batch_size)

    def at(self, step: int) -> NDArray[np.intp]:
        """Numbers of the texts of a step, counted from 0 over all epochs, sorted."""
        epoch, position = divmod(step, self.in_epoch)
        if epoch != self._epoch:
            self._epoch, self._of_epoch = epoch, self._ordered(epoch)
        return self._of_epoch[position]

    def _ordered(self, epoch: int) -> list[NDArray[np.intp]]:
        random = np.random.default_rng([self._seed, epoch])
        order = random.permutation(len(self._lengths))
        together = self._batch_size * BATCHES_SORTED_TOGETHER
        batches = []
        for first in range(0, len(order), together):
            pool = order[first : first + together]
            pool = pool[np.argsort(self._lengths[pool], kind="stable")]
            batches += [np.sort(pool[start : start + self._batch_size]) for start in range(0, len(pool), self._batch_size)]
        return [batches[number] for number in random.permutation(len(batches))]


def in_order(count: int, batch_size: int) -> Iterator[slice]:
    """All `count` texts in order."""
    return (slice(first, min(first + batch_size, count)) for first in range(0, count, batch_size))


def labels_of(ids: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Token ids as a table, padded with the label that the loss ignores."""
    labels = np.full((len(ids), max(map(len, ids))), IGNORED, np.int64)
    for row, tokens in zip(labels, ids):
        row[: len(tokens)] = tokens
    return labels
