"""Hadamard response: a report names one column of a Hadamard matrix, more likely one where the word's row has +1.

Words are dealt to B blocks, word w to block w mod B and there to row w div B + 1 of a matrix of order b. The columns of a block fall
into two halves for each word of it, +1 and -1, which are two of 2 B cells of equal size: the report's cell is chosen by
randomized response over 2 B labels, the column within it uniformly. A report takes log2(B b) bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec.collect.oracles.oracle import UNIT, CodeReports

_MOST_BLOCKS = 1 << 22


@dataclass(frozen=True, kw_only=True)
class HadamardResponse(CodeReports):
    """A report of a few bytes for any number of words; its variance is at most about twice that of unary encoding.

    Reference:
        Acharya, Sun, Zhang, "Hadamard response: estimating distributions privately, efficiently, and with little communication"
        (2019). The number of blocks is the power of two of the smallest mean variance, 1/B + 4/E + 4 B/E^2 with E = e^epsilon - 1.
    """

    name = "hadamard"

    @cached_property
    def blocks(self) -> int:
        """B."""
        if self.epsilon > 40:
            return _blocks_at_most(self.words)
        surplus = math.expm1(self.epsilon)
        choices = [1 << i for i in range(_blocks_at_most(self.words).bit_length())]
        return min(choices, key=lambda blocks: 1 / blocks + 4 * blocks / surplus**2)

    @cached_property
    def order(self) -> int:
        """b, the smallest power of two with as many rows, but for the first, as a block has words."""
        words_in_block = -(-self.words // self.blocks)
        return 1 << words_in_block.bit_length()

    @property
    def cells(self) -> int:
        return 2 * self.blocks

    @property
    def _in_block(self) -> float:
        """That a report falls into the word's own block."""
        return (self.law[0] + self.law[1]) * UNIT

    @property
    def _in_other_block(self) -> float:
        """That it falls into a given other block."""
        return 2 * self.law[1] * UNIT

    @property
    def _gap(self) -> float:
        """Mean of +1 and -1 for the word itself; for any other word it is 0."""
        return (self.law[0] - self.law[1]) * UNIT

    @property
    def mean_variance(self) -> float:
        return self._variance(1 / self.words, self._mean_share)

    def _variance(self, frequency: float, share: float) -> float:
        """Of one report's contribution, where this share of all reporters has a word of the same block."""
        hits = share * self._in_block + (1 - share) * self._in_other_block
        return hits / self._gap**2 - frequency

    @property
    def _mean_share(self) -> float:
        """Of reporters with a word of a word's own block, averaged over the words, where these are equally frequent.

        With as many words in every block it is 1/B whatever the frequencies are.
        """
        fewer, larger_blocks = divmod(self.words, self.blocks)
        return (larger_blocks * (fewer + 1) ** 2 + (self.blocks - larger_blocks) * fewer**2) / self.words**2

    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        return _core.hadamard_reports(codes, self.words, self.blocks, self.order, self.law, source).astype(self._dtype)

    @property
    def tallies(self) -> int:
        return self.blocks * self.order

    def frequencies(self, tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        result: NDArray[np.float64] = self._by_word(self._signed_sums(tallies)[:, 1:]) / (reports * self._gap)
        return result

    def variances(self, frequencies: NDArray[np.float64], tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        hits = self._hits(tallies) / reports
        result: NDArray[np.float64] = (hits / self._gap**2 - frequencies) / reports
        return result

    def variance_at(self, frequency: float, reports: int) -> float:
        others = (self._mean_share * self.words - 1) / (self.words - 1)  # of all other words, those of the same block
        return self._variance(frequency, frequency + (1 - frequency) * others) / reports

    def null_counts(self, tallies: NDArray[np.int64], reports: int) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        hits = self._hits(tallies)
        signed = self._by_word(self._signed_sums(tallies)[:, 1:])
        return hits // 2 + signed // 2 + (hits & 1), hits, 0.5   # half of their sum, which may be 2^63: both are odd, or neither

    def _hits(self, tallies: NDArray[np.int64]) -> NDArray[np.int64]:
        """Reports in each word's block."""
        in_block = tallies.reshape(self.blocks, self.order).sum(axis=1)
        return np.resize(in_block, self.words)

    def _by_word(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """[blocks, rows] in the order of the words."""
        return rows.T.ravel()[: self.words]

    def _signed_sums(self, tallies: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sylvester's transform of each block: row r is the sum of (-1)^popcount(r & c) times column c's tally."""
        sums, width = tallies.reshape(self.blocks, self.order), 1
        while width < self.order:
            pairs = sums.reshape(self.blocks, self.order // (2 * width), 2, width)
            sums = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
            width *= 2
        return sums.reshape(self.blocks, self.order)


def _blocks_at_most(words: int) -> int:
    """From here on every word has a block of its own."""
    return min(1 << (words - 1).bit_length(), _MOST_BLOCKS)
