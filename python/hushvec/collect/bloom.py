"""RAPPOR: words as Bloom filters under a permanent and an instantaneous randomized response. Reporting needs no dictionary."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.generators import require_generator
from hushvec.collect.bloom_parameters import VALUES, WORD_BITS, BloomParameters
from hushvec.collect.bloom_sketch import BloomSketch
from hushvec.collect.memo import Memo
from hushvec.collect.release import Collection
from hushvec.collect.words import require_words


class BloomReports(NamedTuple):
    """Reports over a Bloom filter.

    Args:
        cohorts: uint32 [n], which hash functions each report used.
        bits: uint32 [n, ceil(bits / 32)]; bit i is bit i % 32 of word i / 32.
    """

    cohorts: NDArray[np.uint32]
    bits: NDArray[np.uint32]


class BloomFilter(BloomParameters, Collection):
    """How people report words that no dictionary lists, and what the collector needs to guess them later.

    A word sets at most `hashes` of the `bits` bits of a filter, by hash functions that depend on the person's cohort. Every bit goes
    through a permanent randomized response (it is flipped with probability f / 2, once and for all where a memo is used), and
    for each report through an instantaneous one (a 1 is reported with probability q for a permanent 1, and p for a 0).

    Args:
        bits: of the filter, 2 to 2^20.
        hashes: h, 1 to 32.
        epsilon: > 0, of all of a person's words together however often they are reported with a memo; f follows from it. Or else:
        f: >= 0 and < 1, longitudinal privacy of one bit; epsilon follows from it. 0: no permanent response. Then epsilon is of
            words_per_person single reports, and each further report costs as much again: there is no memo.
        p, q: of the instantaneous response, 0 < p < q < 1; or p = 0 and q = 1 for none. As sampled they are whole numbers over 2^64.
        cohorts: 1 to 2^16. Several let the collector tell words apart that share bits in one of them.
        words_per_person: >= 1, how many different words a person reports.
        salt: up to 16 public bytes that make the hash functions those of this collection alone.

    Raises:
        TypeError, ValueError: numbers that break these rules.

    Guarantees:
        `epsilon` = words_per_person * 2 h ln((1 - f/2) / (f/2)): two words differ in at most 2 h bits. It bounds everything that is
        ever reported of a person's words with a memo. `report_epsilon` = h ln(q* (1 - p*) / (p* (1 - q*))) is of one report of one
        word, seen alone. With f = 0 there is no bound on all reports of a word (`word_epsilon` is infinite): `epsilon` is
        words_per_person * `report_epsilon`, of as many reports. All are computed from the probabilities as sampled and rounded up.
        Local model, replace-one. The randomized
        responses protect the word; the hashes hide nothing. When a person reports, and which reports are of the same word, is public.

    Reference:
        Erlingsson, Pihur, Korolova, "RAPPOR: randomized aggregatable privacy-preserving ordinal response" (2014), theorems 1 and 2;
        docs/proofs/rappor.md.

    Example:
        >>> from hushvec.collect import BloomFilter, Memo
        >>> filter_ = BloomFilter(128, 2, epsilon=4.0)
        >>> print("\\n".join(filter_.describe()))
        RAPPOR, 128 bits, 2 hashes, 64 cohorts, f = 0.538
        all reports of a person's words: epsilon = 4 for 1 word, with a memo
        one report alone: epsilon = 0.992 (p = 0.5, q = 0.75)
        >>> reports = filter_.report("insulin", per="release", memo=Memo())
        >>> reports.bits.shape
        (1, 4)
    """

    def sketch(self) -> BloomSketch:
        """An empty sketch for the collector."""
        return BloomSketch(self)

    def _require_memo_allowed(self) -> None:
        if self.is_instantaneous:
            raise ValueError(
                "memo must be None with f = 0: there is no permanent response to keep, and every report of a word costs as much as "
                "the first"
            )

    def _known(self, words: Sequence[str]) -> list[str]:
        listed = list(words)
        require_words("words", listed)
        return listed

    def _drawn(self, words: list[str], generator: _core.Generator) -> BloomReports:
        cohorts = self._any_cohorts(len(words), generator)
        return BloomReports(cohorts, self._instantaneous(self._permanent(self._filters(words, cohorts), generator), generator))

    def _permanent(self, filters: NDArray[np.uint32], generator: _core.Generator) -> NDArray[np.uint32]:
        """The filters after their permanent response: themselves for f = 0, which must not leave without the instantaneous one."""
        if self.is_instantaneous:
            return filters
        return _core.perturb_bits(filters, self.bits, self.permanent_law, generator)

    def _any_cohorts(self, count: int, generator: _core.Generator) -> NDArray[np.uint32]:
        """Uniform up to 2^-64: randomized response without a preferred answer."""
        zeros = np.zeros(count, np.uint32)
        if self.cohorts == 1:
            return zeros
        each = VALUES // self.cohorts
        return _core.randomized_response(zeros, self.cohorts, (VALUES - (self.cohorts - 1) * each, each), generator)

    def _drawn_from_memo(self, words: list[str], memo: Memo, generator: _core.Generator | None) -> BloomReports:
        cohorts = np.full(len(words), memo.cohort(self.digest, self.cohorts), np.uint32)
        place_of = {word: place for place, word in enumerate(dict.fromkeys(words))}
        permanent = self._filters(list(place_of), cohorts[: len(place_of)])
        for place, word in enumerate(place_of):
            source = memo.source(self.digest, word)
            permanent[place] = _core.perturb_bits(permanent[place : place + 1], self.bits, self.permanent_law, source)[0]
        rows = permanent[[place_of[word] for word in words]] if words else permanent
        return BloomReports(cohorts, self._instantaneous(rows, require_generator(generator)))

    def _filters(self, words: list[str], cohorts: NDArray[np.uint32]) -> NDArray[np.uint32]:
        """The true filters, [words, ceil(bits / 32)]."""
        rows = np.zeros((len(words), self._report_words), np.uint32)
        if len(words) == 0:
            return rows
        everybody = np.arange(len(words))
        for column in self._positions_of_reports(words, cohorts).T:  # a row at most once a column, so that no bit is lost
            rows[everybody, column // WORD_BITS] |= np.uint32(1) << (column % WORD_BITS).astype(np.uint32)
        return rows

    def _positions_of_reports(self, words: list[str], cohorts: NDArray[np.uint32]) -> NDArray[np.int64]:
        """[reports, hashes]. Every pair of word and cohort is hashed once."""
        place_of = {word: place for place, word in enumerate(dict.fromkeys(words))}
        different = list(place_of)
        places = np.fromiter(map(place_of.__getitem__, words), np.int64, len(words))
        pairs, of_report = np.unique(places * self.cohorts + cohorts, return_inverse=True)
        data = self._hashed((different[pair // self.cohorts].encode(), pair % self.cohorts) for pair in pairs.tolist())
        positions: NDArray[np.int64] = self._scaled(data)[of_report.ravel()]
        return positions

    def _instantaneous(self, permanent: NDArray[np.uint32], generator: _core.Generator) -> NDArray[np.uint32]:
        if self.instantaneous_law[1] == 0:
            return permanent
        return _core.perturb_bits(permanent, self.bits, self.instantaneous_law, generator)

    @property
    def _receipt_law(self) -> dict[str, Any]:
        kept, flipped = self.permanent_law
        one, zero = self.instantaneous_law
        return dict(
            mechanism="bloom",
            cells=2,
            truth_values=kept,
            other_values=flipped,
            hashes=self.hashes,
            one_values=one,
            zero_values=zero,
        )
