"""Frequency oracles: how one word becomes a report, and what many reports say about each word.

Hadamard response deals words to B blocks, word w to block w mod B and there to row w div B + 1 of a matrix of order b. The columns of
a block fall into two halves for each word of it, +1 and -1, which are two of 2 B cells of equal size: the report's cell is chosen by
randomized response over 2 B labels, the column within it uniformly. A report takes log2(B b) bits.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.rounding import fraction_up, log_ratio_up
from hushvec.collect.sketch_bytes import exact_sum
from hushvec.mechanisms import RandomizedResponse

MOST_WORDS = 2**24

UNIT = 2.0**-64


@dataclass(frozen=True, kw_only=True)
class Oracle(ABC):
    """A randomizer of one word among `words` of them, the codes 0 to words - 1, and the arithmetic of its reports."""

    name: ClassVar[str]

    words: int
    epsilon: float

    def __post_init__(self) -> None:
        truth, other = self.law
        if truth <= other:
            raise ValueError(f"epsilon must be large enough to prefer the truth among {self.words} words, got {self.epsilon!r}")

    @property
    @abstractmethod
    def cells(self) -> int:
        """How many outcomes the law of whole numbers chooses among."""

    @cached_property
    def law(self) -> tuple[int, int]:
        """(T, M): of the 2^64 equally likely values, T are the truth's and M those of each other cell."""
        return RandomizedResponse(epsilon=self.epsilon, k=self.cells).law

    @cached_property
    def true_epsilon(self) -> float:
        """ln(T / M), rounded up: the epsilon of a report as sampled, at most `epsilon`."""
        return fraction_up(log_ratio_up(*self.law))

    @property
    def mean_variance(self) -> float:
        """Variance of the estimated frequency, averaged over all words, times the number of reports."""
        return self.variance_at(1 / self.words, 1)

    @property
    @abstractmethod
    def report_bytes(self) -> int:
        """Size of a report as it is stored and sent."""

    @abstractmethod
    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        """One report a code."""

    @property
    @abstractmethod
    def tallies(self) -> int:
        """How many whole numbers a collector keeps."""

    @abstractmethod
    def add(self, reports: Any, tallies: NDArray[np.int64]) -> int:
        """Add reports to the tallies; how many they were. Changes nothing where it raises."""

    @abstractmethod
    def tallies_fault(self, tallies: NDArray[np.int64], reports: int) -> str | None:
        """Why these cannot be the tallies of as many reports, or None."""

    @abstractmethod
    def frequencies(self, tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        """Unbiased, one a word."""

    @abstractmethod
    def variances(self, frequencies: NDArray[np.float64], tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        """Variances of the estimates, where the words have the given frequencies."""

    @abstractmethod
    def variance_at(self, frequency: float, reports: int) -> float:
        """Variance of the estimate of a word of this frequency, before any report."""

    @abstractmethod
    def null_counts(self, tallies: NDArray[np.int64], reports: int) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        """(successes, trials, probability), one a word: a word that nobody has makes its successes exactly binomial."""


class CodeReports(Oracle):
    """Reports that are codes: every one adds one to the tally of its code."""

    @property
    def _dtype(self) -> Any:
        return np.min_scalar_type(self.tallies - 1)

    @property
    def report_bytes(self) -> int:
        return int(self._dtype.itemsize)

    def add(self, reports: Any, tallies: NDArray[np.int64]) -> int:
        array = np.asarray(reports)
        if array.dtype.kind not in "iu":
            raise TypeError(f"reports must be an array of whole numbers, got {array.dtype}")
        codes = np.ascontiguousarray(array.ravel(), dtype=array.dtype.newbyteorder("="))  # as the core reads them
        _core.count_codes(codes, tallies)
        return len(codes)

    def tallies_fault(self, tallies: NDArray[np.int64], reports: int) -> str | None:
        total = exact_sum(tallies)
        return None if total == reports else f"its counts add up to {total}, not to its {reports} reports"


class BinomialTallies(Oracle):
    """A tally a word: a report adds to it with probability p where the word is its truth, and with q where another is."""

    @property
    @abstractmethod
    def _truth_values(self) -> int:
        """p, in whole numbers over 2^64."""

    @property
    def _q(self) -> float:
        return self.law[1] * UNIT

    @property
    def _gap(self) -> float:
        """p - q, from the whole numbers: they may agree in most of their digits."""
        return (self._truth_values - self.law[1]) * UNIT

    @property
    def tallies(self) -> int:
        return self.words

    def frequencies(self, tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        return np.asarray((tallies / reports - self._q) / self._gap)

    def variances(self, frequencies: NDArray[np.float64], tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        return np.asarray(binary_variance(frequencies, self._truth_values * UNIT, self._q, self._gap) / reports)

    def variance_at(self, frequency: float, reports: int) -> float:
        return float(binary_variance(frequency, self._truth_values * UNIT, self._q, self._gap)) / reports

    def null_counts(self, tallies: NDArray[np.int64], reports: int) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        return tallies, np.full(self.words, reports, np.int64), self._q


def binary_variance(frequency: Any, p: float, q: float, gap: float) -> Any:
    """Variance of one report's contribution, for a word reported with p where it is the truth and with q elsewhere; gap is p - q."""
    return (frequency * p * (1 - p) + (1 - frequency) * q * (1 - q)) / gap**2


@dataclass(frozen=True, kw_only=True)
class KaryResponse(CodeReports, BinomialTallies):
    """A report is one word. Best for fewer than about 3 e^epsilon + 2 words (Kairouz, Bonawitz, Ramage 2016)."""

    name = "k_rr"

    @property
    def cells(self) -> int:
        return self.words

    @property
    def _truth_values(self) -> int:
        return self.law[0]

    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        return _core.randomized_response(codes.astype(self._dtype), self.words, self.law, source)


_HALF = 1 << 63
_WORD_BITS = 32


@dataclass(frozen=True, kw_only=True)
class UnaryEncoding(BinomialTallies):
    """A report has a bit for every word: the least variance for many words. Wang, Blocki, Li, Jha, "Locally differentially
    private protocols for frequency estimation" (2017), section 4.3 (OUE)."""

    name = "unary"

    @property
    def cells(self) -> int:
        return 2  # of one bit of another word: 0 with T, 1 with M

    @property
    def _truth_values(self) -> int:
        return _HALF

    @property
    def report_bytes(self) -> int:
        return 4 * -(-self.words // _WORD_BITS)

    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        return _core.bit_reports(codes, self.words, (_HALF, self.law[1]), source)

    def add(self, reports: Any, tallies: NDArray[np.int64]) -> int:
        rows = bit_rows(reports, self.words)
        _core.count_bits(rows, self.words, tallies)
        return len(rows)

    def tallies_fault(self, tallies: NDArray[np.int64], reports: int) -> str | None:
        largest = int(tallies.max())
        return None if largest <= reports else f"it counts {largest} ones in {reports} reports"


def bit_rows(reports: Any, bits: int) -> NDArray[np.uint32]:
    """Reports of bits as the core reads them: uint32 [n, ceil(bits / 32)]; one report alone may have one dimension."""
    array = np.asarray(reports)
    if array.dtype.kind != "u" or array.dtype.itemsize != 4:
        raise TypeError(f"reports must be an array of uint32 that hold packed bits, got {array.dtype}")
    width = -(-bits // _WORD_BITS)
    rows = array[None, :] if array.ndim == 1 else array
    if rows.ndim != 2 or rows.shape[1] != width:
        raise ValueError(f"reports must have shape (n, {width}) for {bits} bits, got {array.shape}")
    return np.ascontiguousarray(rows, dtype=np.uint32)


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
    def _gap(self) -> float:
        """Mean of +1 and -1 for the word itself; for any other word it is 0."""
        return (self.law[0] - self.law[1]) * UNIT

    def _variance(self, frequency: float, share: float) -> float:
        """Variance of one report's contribution, where this share of all reporters has a word of the same block."""
        hits = share * ((self.law[0] + self.law[1]) * UNIT) + (1 - share) * (2 * self.law[1] * UNIT)
        return hits / self._gap**2 - frequency

    @property
    def _mean_share(self) -> float:
        """Share of reporters with a word of a word's own block, if words are equally frequent; 1/B where blocks are even."""
        fewer, larger_blocks = divmod(self.words, self.blocks)
        return (larger_blocks * (fewer + 1) ** 2 + (self.blocks - larger_blocks) * fewer**2) / self.words**2

    def draw(self, codes: NDArray[np.int64], source: Any) -> NDArray[Any]:
        return _core.hadamard_reports(codes, self.words, self.blocks, self.order, self.law, source).astype(self._dtype)

    @property
    def tallies(self) -> int:
        return self.blocks * self.order

    def frequencies(self, tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        return np.asarray(self._signed_by_word(tallies) / (reports * self._gap))

    def variances(self, frequencies: NDArray[np.float64], tallies: NDArray[np.int64], reports: int) -> NDArray[np.float64]:
        return np.asarray((self._hits(tallies) / reports / self._gap**2 - frequencies) / reports)

    def variance_at(self, frequency: float, reports: int) -> float:
        others = (self._mean_share * self.words - 1) / (self.words - 1)  # of all other words, those of the same block
        return self._variance(frequency, frequency + (1 - frequency) * others) / reports

    def null_counts(self, tallies: NDArray[np.int64], reports: int) -> tuple[NDArray[np.int64], NDArray[np.int64], float]:
        hits, signed = self._hits(tallies), self._signed_by_word(tallies)
        return hits // 2 + signed // 2 + (hits & 1), hits, 0.5   # half of their sum, which may be 2^63: both are odd, or neither

    def _hits(self, tallies: NDArray[np.int64]) -> NDArray[np.int64]:
        in_block = tallies.reshape(self.blocks, self.order).sum(axis=1)
        return np.resize(in_block, self.words)

    def _signed_by_word(self, tallies: NDArray[np.int64]) -> NDArray[np.int64]:
        """Sylvester's transform of each block: a word of row r gets the sum of (-1)^popcount(r & c) times column c's tally."""
        sums, width = tallies.reshape(self.blocks, self.order), 1
        while width < self.order:
            pairs = sums.reshape(self.blocks, self.order // (2 * width), 2, width)
            sums = np.stack((pairs[:, :, 0] + pairs[:, :, 1], pairs[:, :, 0] - pairs[:, :, 1]), axis=2)
            width *= 2
        return sums.reshape(self.blocks, self.order)[:, 1:].T.ravel()[: self.words]


def _blocks_at_most(words: int) -> int:
    """From here on every word has a block of its own."""
    return min(1 << (words - 1).bit_length(), _MOST_BLOCKS)


# Variances within this factor count as equal: 5 % of standard error against reports that may be a thousand times as long.
AS_GOOD = 1.1

_KINDS: dict[str, type[Oracle]] = {"k_rr": KaryResponse, "unary": UnaryEncoding, "hadamard": HadamardResponse}
MECHANISMS = tuple(_KINDS)


def oracle_for(mechanism: str, words: int, epsilon: float) -> Oracle:
    """The oracle of a name; "auto" takes the one of the smallest mean variance, the shortest report among those that are as good.

    Args:
        mechanism: "auto" or one of MECHANISMS.
        words: >= 2.
        epsilon: > 0, of one report.
    """
    if validate.choice("mechanism", mechanism, ("auto", *MECHANISMS)) != "auto":
        return _KINDS[mechanism](words=words, epsilon=epsilon)
    oracles = [kind(words=words, epsilon=epsilon) for kind in _KINDS.values()]
    best = min(oracle.mean_variance for oracle in oracles)
    as_good = [oracle for oracle in oracles if oracle.mean_variance <= AS_GOOD * best]
    return min(as_good, key=lambda oracle: (oracle.report_bytes, oracle.mean_variance))


__all__ = ["AS_GOOD", "MECHANISMS", "MOST_WORDS", "HadamardResponse", "KaryResponse", "Oracle", "UnaryEncoding", "oracle_for"]
