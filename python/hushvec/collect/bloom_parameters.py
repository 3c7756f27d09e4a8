"""A Bloom filter of RAPPOR: its hash functions, its two laws and what they cost."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.rounding import fraction_up, product_up, quotient_down
from hushvec.mechanisms import RandomizedResponse
from hushvec.receipts.reports import instantaneous_epsilon, permanent_epsilon

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


class BloomParameters:
    """See `BloomFilter`, which adds the reports."""

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
        words_per_person: int = 1,
        salt: bytes = b"",
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
        words = "1 word" if self.words_per_person == 1 else f"{self.words_per_person} words"
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
        return b"".join(
            [
                blake2b(cohort.to_bytes(4, "little") + number + word, digest_size=size, salt=salt, person=_PERSON).digest()
                for word, cohort in pairs
                for number in numbers
            ]
        )

    def _digest(self) -> str:
        numbers = (
            self.bits, self.hashes, self.cohorts, self.words_per_person, *self.permanent_law, *self.instantaneous_law, self.salt.hex()
        )
        return hashlib.sha256("\n".join(map(str, (f"hushvec bloom {_VERSION}", *numbers))).encode()).hexdigest()


def _salt(value: Any) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError(f"salt must be bytes, got {validate.kind(value)}")
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
