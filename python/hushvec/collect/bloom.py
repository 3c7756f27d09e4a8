"""RAPPOR: words as Bloom filters under a permanent and an instantaneous randomized response. Reporting needs no dictionary."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.display import plural
from hushvec._util.rounding import fraction_up, product_up, quotient_down
from hushvec.collect.bloom_decoding import decoded
from hushvec.collect.estimate import WordFrequencies
from hushvec.collect.memo import Memo
from hushvec.collect.oracles import bit_rows
from hushvec.collect.release import Collection, numbered, require_words
from hushvec.collect.sketch_bytes import BLOOM, Contents, ReportSketch, exact_sum
from hushvec.mechanisms import RandomizedResponse
from hushvec.receipts import instantaneous_epsilon, permanent_epsilon

METHODS = ("least_squares", "lasso")
MOST_BITS = 2**20
MOST_HASHES = 32
MOST_COHORTS = 2**16

_VERSION = 1
VALUES = 1 << 64
WORD_BITS = 32
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

    Guarantees:
        `epsilon` = words_per_person * 2 h ln((1 - f/2) / (f/2)): two words differ in at most 2 h bits. It bounds everything that is
        ever reported of a person's words with a memo. `report_epsilon` = h ln(q* (1 - p*) / (p* (1 - q*))) is of one report of one
        word, seen alone. With f = 0 there is no bound on all reports of a word (`word_epsilon` is infinite): `epsilon` is
        words_per_person * `report_epsilon`, of as many reports. All are computed from the probabilities as sampled and rounded up.
        Local model, replace-one. The hashes hide nothing. When a person reports, and which reports are of one word, is public.

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
        self, bits: int, hashes: int, *, epsilon: float | None = None, f: float | None = None, p: float = 0.5, q: float = 0.75,
        cohorts: int = 64, words_per_person: int = 1, salt: bytes = b"",
    ) -> None:
        self.bits = validate.whole_number("bits", bits, at_least=2, at_most=MOST_BITS)
        self.hashes = validate.whole_number("hashes", hashes, at_least=1, at_most=MOST_HASHES)
        self.cohorts = validate.whole_number("cohorts", cohorts, at_least=1, at_most=MOST_COHORTS)
        self.words_per_person = validate.whole_number("words_per_person", words_per_person, at_least=1)
        self.salt = _salt(salt)
        self.permanent_law = self._permanent_law(epsilon, f)
        self.instantaneous_law = _instantaneous_law(p, q)
        if self.is_instantaneous:
            if self.instantaneous_law[1] == 0:
                raise ValueError("p and q must hold 0 < p < q < 1 with f = 0, which leaves no other response, got 0 and 1")
            self.epsilon = self.true_epsilon = product_up(self.words_per_person, self.report_epsilon)
        else:
            self.epsilon = product_up(self.words_per_person, self.word_epsilon) if epsilon is None else float(epsilon)
            self.true_epsilon = fraction_up(permanent_epsilon(self.hashes * self.words_per_person, *self.permanent_law))
        self.digest = self._digest()

    def _permanent_law(self, epsilon: float | None, f: float | None) -> tuple[int, int]:
        """(T, M): of the 2^64 values, T keep a bit and M flip it."""
        if (epsilon is None) == (f is None):
            raise TypeError("give epsilon or f, and not both")
        if f is None:
            of_a_word = quotient_down(validate.positive("epsilon", epsilon), self.words_per_person)
            kept, flipped = RandomizedResponse(epsilon=quotient_down(of_a_word, 2 * self.hashes), k=2).law
        else:
            longitudinal = validate.number("f", f)
            if not 0 <= longitudinal < 1:
                raise ValueError(f"f must be >= 0 and < 1, got {f!r}")
            flipped = math.ceil(Fraction(longitudinal) * VALUES / 2)
            kept = VALUES - flipped
        if kept <= flipped:
            raise ValueError(f"{'f' if epsilon is None else 'epsilon'} must leave reports that carry something, got {f or epsilon!r}")
        return kept, flipped

    @property
    def is_instantaneous(self) -> bool:
        """Whether f = 0: there is no permanent response, and every report of a word costs anew."""
        return self.permanent_law[1] == 0

    @property
    def f(self) -> float:
        """Longitudinal privacy as sampled: a permanent bit is flipped with f / 2."""
        return self.permanent_law[1] / (VALUES // 2)

    @property
    def p(self) -> float:
        """Probability that a permanent 0 is reported as 1, as sampled."""
        return self.instantaneous_law[1] / VALUES

    @property
    def q(self) -> float:
        """Probability that a permanent 1 is reported as 1, as sampled."""
        return self.instantaneous_law[0] / VALUES

    @cached_property
    def word_epsilon(self) -> float:
        """Epsilon of a word in all reports with a memo, as sampled: 2 h ln((1 - f/2) / (f/2)), rounded up; infinite for f = 0."""
        if self.is_instantaneous:
            return math.inf
        return fraction_up(permanent_epsilon(self.hashes, *self.permanent_law))

    @cached_property
    def report_epsilon(self) -> float:
        """Epsilon of one report that is seen alone, as sampled, rounded up."""
        one, zero = self.instantaneous_law
        if zero == 0:
            return self.word_epsilon
        return min(self.word_epsilon, fraction_up(instantaneous_epsilon(self.hashes, *self.permanent_law, one, zero)))

    @property
    def report_bytes(self) -> int:
        """Size of a report."""
        return 4 + 4 * self._report_words

    @property
    def _report_words(self) -> int:
        return -(-self.bits // WORD_BITS)

    def describe(self) -> tuple[str, ...]:
        """Lines that say what reports cost."""
        words = plural(self.words_per_person, "word")
        if self.is_instantaneous:
            return (
                f"RAPPOR, {self.bits:,} bits, {self.hashes} hashes, {self.cohorts:,} cohorts, no permanent response (f = 0)",
                f"one report: epsilon = {self.report_epsilon:.6g} (p = {self.p:.3g}, q = {self.q:.3g})",
                f"n reports of a person: epsilon = n times that, whether of one word or of several; {words} in a call",
            )
        step = f"p = {self.p:.3g}, q = {self.q:.3g}" if self.instantaneous_law[1] else "no instantaneous response"
        return (
            f"RAPPOR, {self.bits:,} bits, {self.hashes} hashes, {self.cohorts:,} cohorts, f = {self.f:.3g}",
            f"all reports of a person's words: epsilon = {self.epsilon:.6g} for {words}, with a memo",
            f"one report alone: epsilon = {self.report_epsilon:.3g} ({step})",
        )

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
        return np.asarray(((low * bits >> np.uint64(32)) + high * bits) >> np.uint64(32), np.int64)

    @property
    def _numbers_hashed(self) -> int:
        """Numbers of a word and cohort: as many as there are hashes, in whole digests."""
        return self.hashes if self.hashes <= _HASHES_OF_A_DIGEST else -(-self.hashes // _HASHES_OF_A_DIGEST) * _HASHES_OF_A_DIGEST

    def _hashed(self, pairs: Iterable[tuple[bytes, int]]) -> bytes:
        size = min(self.hashes, _HASHES_OF_A_DIGEST) * _BYTES_OF_A_HASH
        digests = self._numbers_hashed * _BYTES_OF_A_HASH // size
        numbers = [digest.to_bytes(4, "little") for digest in range(digests)]
        blake2b, salt = hashlib.blake2b, self.salt
        return b"".join([
            blake2b(cohort.to_bytes(4, "little") + number + word, digest_size=size, salt=salt, person=_PERSON).digest()
            for word, cohort in pairs
            for number in numbers
        ])

    def _digest(self) -> str:
        numbers = (
            self.bits, self.hashes, self.cohorts, self.words_per_person, *self.permanent_law, *self.instantaneous_law, self.salt.hex()
        )
        return hashlib.sha256("\n".join(map(str, (f"hushvec bloom {_VERSION}", *numbers))).encode()).hexdigest()

    def sketch(self) -> BloomSketch:
        """An empty sketch for the collector."""
        return BloomSketch(self)

    def _require_memo_allowed(self) -> None:
        if self.is_instantaneous:
            raise ValueError(
                "memo must be None with f = 0: there is no permanent response to keep, and every report of a word costs as much as "
                "the first"
            )

    def _drawn(self, words: list[str], generator: _core.Generator) -> BloomReports:
        cohorts = self._any_cohorts(len(words), generator)
        rows = self._filters(words, cohorts)
        if not self.is_instantaneous:
            rows = _core.perturb_bits(rows, self.bits, self.permanent_law, generator)
        return BloomReports(cohorts, self._instantaneous(rows, generator))

    def _any_cohorts(self, count: int, generator: _core.Generator) -> NDArray[np.uint32]:
        """Uniform up to 2^-64: randomized response without a preferred answer."""
        zeros = np.zeros(count, np.uint32)
        if self.cohorts == 1:
            return zeros
        each = VALUES // self.cohorts
        return _core.randomized_response(zeros, self.cohorts, (VALUES - (self.cohorts - 1) * each, each), generator)

    def _drawn_from_memo(self, words: list[str], memo: Memo, generator: _core.Generator | None) -> BloomReports:
        cohorts = np.full(len(words), memo.cohort(self.digest, self.cohorts), np.uint32)
        different, numbers = numbered(words)
        permanent = self._filters(different, cohorts[: len(different)])
        for place, word in enumerate(different):
            source = memo.source(self.digest, word)
            permanent[place] = _core.perturb_bits(permanent[place : place + 1], self.bits, self.permanent_law, source)[0]
        return BloomReports(cohorts, self._instantaneous(permanent[numbers], require_generator(generator)))

    def _filters(self, words: list[str], cohorts: NDArray[np.uint32]) -> NDArray[np.uint32]:
        rows = np.zeros((len(words), self._report_words), np.uint32)
        if len(words) == 0:
            return rows
        everybody = np.arange(len(words))
        for column in self._positions_of_reports(words, cohorts).T:  # a row at most once a column, so that no bit is lost
            rows[everybody, column // WORD_BITS] |= np.uint32(1) << (column % WORD_BITS).astype(np.uint32)
        return rows

    def _positions_of_reports(self, words: list[str], cohorts: NDArray[np.uint32]) -> NDArray[np.int64]:
        """[reports, hashes]. Every pair of word and cohort is hashed once."""
        different, numbers = numbered(words)
        pairs, of_report = np.unique(numbers * self.cohorts + cohorts, return_inverse=True)
        data = self._hashed((different[pair // self.cohorts].encode(), pair % self.cohorts) for pair in pairs.tolist())
        return np.asarray(self._scaled(data)[of_report.ravel()])

    def _instantaneous(self, permanent: NDArray[np.uint32], generator: _core.Generator) -> NDArray[np.uint32]:
        if self.instantaneous_law[1] == 0:
            return permanent
        return _core.perturb_bits(permanent, self.bits, self.instantaneous_law, generator)

    @property
    def _receipt_law(self) -> dict[str, Any]:
        kept, flipped = self.permanent_law
        one, zero = self.instantaneous_law
        law = dict(truth_values=kept, other_values=flipped, hashes=self.hashes, one_values=one, zero_values=zero)
        return dict(mechanism="bloom", cells=2, **law)


def _salt(value: bytes) -> bytes:
    validate.instance("salt", value, bytes, "bytes")
    if len(value) > _SALT_BYTES:
        raise ValueError(f"salt must have at most {_SALT_BYTES} bytes, got {len(value)}")
    return value


def _instantaneous_law(p: float, q: float) -> tuple[int, int]:
    """How many of the 2^64 values report a 1 for a permanent 1, and for a permanent 0."""
    p, q = validate.number("p", p), validate.number("q", q)
    if p == 0 and q == 1:
        return VALUES, 0
    if not 0 < p < q < 1:
        raise ValueError(f"p and q must hold 0 < p < q < 1, or be 0 and 1, got {p!r} and {q!r}")
    zero, one = round(Fraction(p) * VALUES), round(Fraction(q) * VALUES)
    if not 0 < zero < one < VALUES:
        raise ValueError(f"p and q must differ from each other, from 0 and from 1 by more than 2^-64, got {p!r} and {q!r}")
    return one, zero


class BloomSketch(ReportSketch):
    """Sums of reports over one Bloom filter, exact and of a fixed size, as `hushvec.collect.Sketch`.

    Args:
        filter_: whose reports it takes. All its parameters decide which sketches go together.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.collect import BloomFilter
        >>> filter_ = BloomFilter(64, 2, epsilon=8.0, p=0, q=1, cohorts=8)
        >>> sketch, generator = filter_.sketch(), hv.Generator.unsafe_seeded(1)
        >>> sketch.add(filter_.report(["insulin"] * 6000 + ["statin"] * 4000, generator=generator))
        >>> sketch.decode(["aspirin", "insulin", "statin"]).present()
        ['insulin', 'statin']
    """

    _kind, _of_what = BLOOM, "filter"

    def __init__(self, filter_: BloomFilter) -> None:
        validate.instance("filter_", filter_, BloomFilter, "a BloomFilter")
        self.filter = self._collection = filter_
        self.reports_of_cohorts = np.zeros(filter_.cohorts, np.int64)
        self.ones = np.zeros((filter_.cohorts, filter_.bits), np.int64)
        self._lock = threading.Lock()

    @property
    def reports(self) -> int:
        return int(self.reports_of_cohorts.sum())

    def add(self, reports: Any) -> None:
        """Count reports: what `BloomFilter.report` returned, or a pair of cohorts and bits. If it raises, nothing was counted."""
        if not isinstance(reports, tuple) or len(reports) != 2:
            raise TypeError(f"reports must be a pair of cohorts and bits, got {validate.kind(reports)}")
        rows, cohorts = bit_rows(reports[1], self.filter.bits), _cohorts(reports[0])
        with self._lock:
            _core.count_bits_by_group(rows, self.filter.bits, cohorts, self.ones)
            self.reports_of_cohorts += np.bincount(cohorts, minlength=self.filter.cohorts)

    def _difference(self, other: BloomFilter) -> str:
        names = ("bits", "hashes", "cohorts", "words_per_person", "salt", "permanent_law", "instantaneous_law")  # of the digest
        ours, theirs = ({name: getattr(filter_, name) for name in names} for filter_ in (self.filter, other))
        name = next(name for name in names if ours[name] != theirs[name])
        why = f"{name} is {ours[name]!r} here and {theirs[name]!r} there"
        return f"other must be a sketch of a filter with the same parameters; {why}"

    def _contents(self) -> Contents:
        with self._lock:
            of_cohorts, ones = self.reports_of_cohorts.copy(), self.ones.copy()
        return Contents(bytes.fromhex(self.filter.digest), exact_sum(of_cohorts), np.concatenate((of_cohorts, ones.ravel())))

    def _split(self, contents: Contents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        size = self.reports_of_cohorts.size
        return contents.numbers[:size], contents.numbers[size:].reshape(self.ones.shape)

    def _fault(self, contents: Contents) -> str | None:
        of_cohorts, ones = self._split(contents)
        if exact_sum(of_cohorts) != contents.reports:
            return f"its cohorts do not add up to its {contents.reports} reports"
        return "it counts more ones than reports" if (ones > of_cohorts[:, None]).any() else None

    def _add(self, contents: Contents) -> None:
        of_cohorts, ones = self._split(contents)
        self.ones += ones
        self.reports_of_cohorts += of_cohorts

    @classmethod
    def from_bytes(cls, data: bytes, filter_: BloomFilter) -> BloomSketch:
        """The sketch that `to_bytes` wrote; SketchError where it is damaged, of another filter, or holds impossible counts."""
        return cls._read(data, cls(filter_))

    def decode(self, candidates: Sequence[str], *, method: str = "least_squares", unknown: bool = True) -> WordFrequencies:
        """How common each of these words is among the reports.

        Args:
            candidates: distinct words, public.
            method: "least_squares" of all candidates, fewer than bits * cohorts, weighted by cohorts' sizes. "lasso", for up to
                4,096: a nonnegative lasso on every second cohort chooses some, and least squares on the other cohorts estimates
                these alone, so that the choice does not bias errors and p-values.
            unknown: estimate a constant too, for words outside the list; without it every report must be of a candidate.

        Returns:
            Estimates that are unbiased where the list is complete or the other words' bits are spread evenly, with standard errors of
            the mechanism's noise and of the random cohorts. p-values are normal approximations: for thousands of reports.

        Reference:
            Erlingsson, Pihur, Korolova (2014), section 4; docs/proofs/rappor.md.
        """
        listed = list(candidates)
        if isinstance(candidates, str):
            raise TypeError("candidates must be a sequence of strings, got str")
        require_words("candidates", listed)
        if not listed or len(set(listed)) != len(listed):
            raise ValueError(f"candidates must be at least one and all different, got {len(listed)}, {len(set(listed))} different")
        validate.choice("method", method, METHODS)
        validate.flag("unknown", unknown)
        of_cohorts, ones = self._split(self._contents())
        if not of_cohorts.any():
            raise ValueError("sketch must hold at least one report, got 0")
        return decoded(self.filter, of_cohorts, ones, listed, lasso=method == "lasso", unknown=unknown)


def _cohorts(given: Any) -> NDArray[np.uint32]:
    array = np.atleast_1d(np.asarray(given))
    if array.dtype.kind not in "iu":
        raise TypeError(f"cohorts must be whole numbers, got {array.dtype}")
    if array.size and (int(array.min()) < 0 or int(array.max()) >= 2**32):
        raise ValueError(f"cohorts must be in [0, 2^32), got {array.min()} to {array.max()}")
    return np.ascontiguousarray(array, np.uint32)
