"""RAPPOR: words as Bloom filters under a permanent and an instantaneous randomised response. No dictionary is needed to report."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.generators import require_generator
from hushvec._util import validate
from hushvec.accounting.rounding import fraction_up
from hushvec.collect.bloom_sketch import BloomSketch
from hushvec.collect.memo import Memo
from hushvec.collect.release import Collection, ReceiptLaw, require_words
from hushvec.mechanisms import RandomizedResponse, product_up, quotient_down
from hushvec.receipts.reports import instantaneous_epsilon, permanent_epsilon

MOST_BITS = 2**20
MOST_HASHES = 32
MOST_COHORTS = 2**16

_VERSION = 1
_VALUES = 1 << 64
_WORD_BITS = 32
_SALT_BYTES = 16
_BYTES_OF_A_HASH = 8
_HASHES_OF_A_DIGEST = 8
_PERSON = b"hushvec bloom"


class BloomReports(NamedTuple):
    """Reports over a Bloom filter.

    Args:
        cohorts: uint32 [n], which hash functions each report used.
        bits: uint32 [n, ceil(bits / 32)]; bit i is bit i % 32 of word i / 32.
    """

    cohorts: NDArray[np.uint32]
    bits: NDArray[np.uint32]


class BloomFilter(Collection):
    """How people report words that no dictionary lists, and what the collector needs to guess them later.

    A word sets at most `hashes` of the `bits` bits of a filter, by hash functions that depend on the person's cohort. Every bit goes
    through a permanent randomised response (it is flipped with probability f / 2, once and for all where a memo is used), and
    for each report through an instantaneous one (a 1 is reported with probability q for a permanent 1, and p for a 0).

    Args:
        bits: of the filter, 2 to 2^20.
        hashes: h, 1 to 32.
        epsilon: > 0, of all of a person's words together however often they are reported with a memo; f follows from it. Or else:
        f: > 0 and < 1, longitudinal privacy of one bit; epsilon follows from it.
        p, q: of the instantaneous response, 0 < p < q < 1; or p = 0 and q = 1 for none. As sampled they are whole numbers over 2^64.
        cohorts: 1 to 2^16. Several let the collector tell words apart that share bits in one of them.
        words_per_user: >= 1, how many different words a person reports.
        salt: up to 16 public bytes that make the hash functions those of this collection alone.

    Raises:
        TypeError, ValueError: numbers that break these rules.

    Guarantees:
        `epsilon` = words_per_user * 2 h ln((1 - f/2) / (f/2)): two words differ in at most 2 h bits. It bounds everything that is
        ever reported of a person's words with a memo. `report_epsilon` = h ln(q* (1 - p*) / (p* (1 - q*))) is of one report of one
        word, seen alone. Both are computed from the probabilities as sampled and rounded up. Local model, replace-one.

    Edge cases:
        A filter is no secret and its hashes hide nothing: the randomised responses do. When a person reports, and which reports
        are of the same word, is treated as public (docs/collect.md).

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

    def __init__(
        self,
        bits: int,
        hashes: int,
        *,
        epsilon: float | None = None,
        f: float | None = None,
        p: float = 0.5,
        q: float = 0.75,
        cohorts: int = 64,
        words_per_user: int = 1,
        salt: bytes = b"",
    ) -> None:
        self.bits = _between("bits", bits, 2, MOST_BITS)
        self.hashes = _between("hashes", hashes, 1, MOST_HASHES)
        self.cohorts = _between("cohorts", cohorts, 1, MOST_COHORTS)
        self.words_per_user = validate.whole_number("words_per_user", words_per_user, at_least=1)
        self.salt = _salt(salt)
        self.permanent_law = self._permanent_law(epsilon, f)
        self.instantaneous_law = _instantaneous_law(p, q)
        self.epsilon = product_up(self.words_per_user, self.word_epsilon) if epsilon is None else float(epsilon)
        self.true_epsilon = fraction_up(Fraction(permanent_epsilon(self.hashes * self.words_per_user, *self.permanent_law)))
        self.digest = self._digest()

    def _permanent_law(self, epsilon: float | None, f: float | None) -> tuple[int, int]:
        """(T, M): of the 2^64 values, T keep a bit and M flip it."""
        if (epsilon is None) == (f is None):
            raise TypeError("give epsilon or f, and not both")
        if f is None:
            of_a_word = quotient_down(validate.positive("epsilon", epsilon), self.words_per_user)
            kept, flipped = RandomizedResponse(epsilon=quotient_down(of_a_word, 2 * self.hashes), k=2).law
        else:
            flipped = math.ceil(Fraction(validate.probability("f", f)) * _VALUES / 2)
            kept = _VALUES - flipped
        if kept <= flipped:
            raise ValueError(f"{'f' if epsilon is None else 'epsilon'} must leave reports that carry something, got {f or epsilon!r}")
        return kept, flipped

    # ---- what it costs and what it gives, before anything is spent ----

    @property
    def f(self) -> float:
        """Longitudinal privacy as sampled: a permanent bit is flipped with f / 2."""
        return self.permanent_law[1] / (_VALUES // 2)

    @property
    def p(self) -> float:
        """That a permanent 0 is reported as 1, as sampled."""
        return self.instantaneous_law[1] / _VALUES

    @property
    def q(self) -> float:
        """That a permanent 1 is reported as 1, as sampled."""
        return self.instantaneous_law[0] / _VALUES

    @cached_property
    def word_epsilon(self) -> float:
        """Of one word and all its reports with a memo, as sampled: 2 h ln((1 - f/2) / (f/2)), rounded up."""
        return fraction_up(Fraction(permanent_epsilon(self.hashes, *self.permanent_law)))

    @cached_property
    def report_epsilon(self) -> float:
        """Of one report that is seen alone, as sampled, rounded up."""
        one, zero = self.instantaneous_law
        if zero == 0:
            return self.word_epsilon
        return min(self.word_epsilon, fraction_up(Fraction(instantaneous_epsilon(self.hashes, *self.permanent_law, one, zero))))

    @property
    def report_bytes(self) -> int:
        """Size of a report."""
        return 4 + 4 * self._report_words

    @property
    def _report_words(self) -> int:
        return -(-self.bits // _WORD_BITS)

    def describe(self) -> tuple[str, ...]:
        """Lines that say what reports cost."""
        words = "1 word" if self.words_per_user == 1 else f"{self.words_per_user} words"
        step = f"p = {self.p:.3g}, q = {self.q:.3g}" if self.instantaneous_law[1] else "no instantaneous response"
        return (
            f"RAPPOR, {self.bits:,} bits, {self.hashes} hashes, {self.cohorts:,} cohorts, f = {self.f:.3g}",
            f"all reports of a person's words: epsilon = {self.epsilon:.6g} for {words}, with a memo",
            f"one report alone: epsilon = {self.report_epsilon:.3g} ({step})",
        )

    def sketch(self) -> BloomSketch:
        """An empty sketch for the collector."""
        return BloomSketch(self)

    def positions(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Bits that words set: [words, cohorts, hashes]. Two hashes of a word may name one bit."""
        cohorts = range(self.cohorts)
        data = self._hashed((encoded, cohort) for word in words for encoded in (word.encode(),) for cohort in cohorts)
        return self._scaled(data).reshape(len(words), self.cohorts, self.hashes)

    def _scaled(self, data: bytes) -> NDArray[np.int64]:
        """floor(number * bits / 2^64) of the numbers in `data`, a row for every word and cohort that was hashed."""
        numbers = np.frombuffer(data, "<u8").reshape(-1, self._numbers_hashed)[:, : self.hashes]
        low, high = numbers & np.uint64(0xFFFFFFFF), numbers >> np.uint64(32)  # halves: no product overflows, as bits < 2^32
        bits = np.uint64(self.bits)
        scaled: NDArray[np.int64] = (((low * bits >> np.uint64(32)) + high * bits) >> np.uint64(32)).astype(np.int64)
        return scaled

    @property
    def _numbers_hashed(self) -> int:
        """Of a word and cohort: as many as there are hashes, in whole digests."""
        return self.hashes if self.hashes <= _HASHES_OF_A_DIGEST else -(-self.hashes // _HASHES_OF_A_DIGEST) * _HASHES_OF_A_DIGEST

    def _hashed(self, pairs: Iterable[tuple[bytes, int]]) -> bytes:
        """8 bytes a hash, for each pair of word and cohort."""
        size = min(self.hashes, _HASHES_OF_A_DIGEST) * _BYTES_OF_A_HASH
        digests = self._numbers_hashed * _BYTES_OF_A_HASH // size
        numbers = [digest.to_bytes(4, "little") for digest in range(digests)]
        blake2b, salt = hashlib.blake2b, self.salt
        return b"".join(
            [
                blake2b(cohort.to_bytes(4, "little") + number + word, digest_size=size, salt=salt, person=_PERSON).digest()
                for word, cohort in pairs
                for number in numbers
            ]
        )

    # ---- what `release` asks of a collection ----

    def _known(self, words: Sequence[str]) -> list[str]:
        listed = list(words)
        require_words("words", listed)
        return listed

    def _drawn(self, words: list[str], generator: _core.Generator) -> BloomReports:
        cohorts = self._any_cohorts(len(words), generator)
        permanent = _core.perturb_bits(self._filters(words, cohorts), self.bits, self.permanent_law, generator)
        return BloomReports(cohorts, self._instantaneous(permanent, generator))

    def _any_cohorts(self, count: int, generator: _core.Generator) -> NDArray[np.uint32]:
        """Uniform up to 2^-64: randomised response that prefers nothing."""
        zeros = np.zeros(count, np.uint32)
        if self.cohorts == 1:
            return zeros
        each = _VALUES // self.cohorts
        return _core.randomized_response(zeros, self.cohorts, (_VALUES - (self.cohorts - 1) * each, each), generator)

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
            rows[everybody, column // _WORD_BITS] |= np.uint32(1) << (column % _WORD_BITS).astype(np.uint32)
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
    def _receipt_law(self) -> ReceiptLaw:
        kept, flipped = self.permanent_law
        one, zero = self.instantaneous_law
        return ReceiptLaw(
            mechanism="bloom",
            cells=2,
            truth_values=kept,
            other_values=flipped,
            hashes=self.hashes,
            one_values=one,
            zero_values=zero,
        )

    def _digest(self) -> str:
        numbers = (
            self.bits, self.hashes, self.cohorts, self.words_per_user, *self.permanent_law, *self.instantaneous_law, self.salt.hex()
        )
        return hashlib.sha256("\n".join(map(str, (f"hushvec bloom {_VERSION}", *numbers))).encode()).hexdigest()


def _between(name: str, value: Any, least: int, most: int) -> int:
    number = validate.whole_number(name, value, at_least=least)
    if number > most:
        raise ValueError(f"{name} must be <= {most}, got {number}")
    return number


def _salt(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"salt must be bytes, got {validate.kind(value)}")
    if len(value) > _SALT_BYTES:
        raise ValueError(f"salt must have at most {_SALT_BYTES} bytes, got {len(value)}")
    return value


def _instantaneous_law(p: float, q: float) -> tuple[int, int]:
    """Of the 2^64 values, how many report a 1 for a permanent 1, and for a permanent 0."""
    p, q = validate.number("p", p), validate.number("q", q)
    if p == 0 and q == 1:
        return _VALUES, 0
    if not 0 < p < q < 1:
        raise ValueError(f"p and q must hold 0 < p < q < 1, or be 0 and 1, got {p!r} and {q!r}")
    zero, one = round(Fraction(p) * _VALUES), round(Fraction(q) * _VALUES)
    if not 0 < zero < one < _VALUES:
        raise ValueError(f"p and q must differ from each other, from 0 and from 1 by more than 2^-64, got {p!r} and {q!r}")
    return one, zero
