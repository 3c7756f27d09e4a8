"""What a collector keeps of RAPPOR reports: for each cohort, how many there were and how often each bit was 1."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec.collect.bloom_decoding import decoded
from hushvec.collect.bloom_parameters import BloomParameters
from hushvec.collect.errors import SketchError
from hushvec.collect.estimate import WordFrequencies
from hushvec.collect.oracles.unary import bit_rows
from hushvec.collect.sketch_bytes import BLOOM, Contents, exact_sum, packed, require_room, require_sound, unpacked
from hushvec.collect.words import require_words

METHODS = ("least_squares", "lasso")


class BloomSketch:
    """Sums of reports over one Bloom filter. Its size does not grow with the reports.

    Sums are exact and do not depend on the order of reports, merges or threads; several threads may add to one sketch. All of it is
    post-processing of private reports. A method that raises has changed nothing.

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

    def __init__(self, filter_: BloomParameters) -> None:
        if not isinstance(filter_, BloomParameters):
            raise TypeError(f"filter_ must be a BloomFilter, got {validate.kind(filter_)}")
        self.filter = filter_
        self.reports_of_cohorts = np.zeros(filter_.cohorts, np.int64)
        self.ones = np.zeros((filter_.cohorts, filter_.bits), np.int64)
        self._lock = threading.Lock()

    @property
    def reports(self) -> int:
        return int(self.reports_of_cohorts.sum())

    def add(self, reports: Any) -> None:
        """Count reports.

        Args:
            reports: what `BloomFilter.report` returned, or any pair of cohorts and bits.

        Raises:
            TypeError, ValueError: reports of another filter, as far as they can be told: of another kind or shape, a cohort that the
                filter has not. Nothing was counted then.
        """
        if not isinstance(reports, tuple) or len(reports) != 2:
            raise TypeError(f"reports must be a pair of cohorts and bits, got {validate.kind(reports)}")
        rows, cohorts = bit_rows(reports[1], self.filter.bits), _cohorts(reports[0])
        with self._lock:
            _core.count_bits_by_group(rows, self.filter.bits, cohorts, self.ones)
            self.reports_of_cohorts += np.bincount(cohorts, minlength=self.filter.cohorts)

    def merge(self, other: BloomSketch) -> None:
        """Add the reports of another sketch.

        Raises:
            SketchError: its filter has other parameters; counts that no reports can have, or more than 2^62 reports together. Nothing
                was added then.
        """
        if not isinstance(other, BloomSketch):
            raise TypeError(f"other must be a BloomSketch, got {validate.kind(other)}")
        if other.filter.digest != self.filter.digest:
            raise SketchError(f"other must be a sketch of a filter with the same parameters; {_difference(self.filter, other.filter)}")
        contents = other._contents()
        of_cohorts, ones = self._parts("other", contents)
        with self._lock:
            require_room(self.reports, contents.reports)
            self.ones += ones
            self.reports_of_cohorts += of_cohorts

    def _contents(self) -> Contents:
        of_cohorts, ones = self._numbers()
        return Contents(bytes.fromhex(self.filter.digest), exact_sum(of_cohorts), np.concatenate((of_cohorts, ones.ravel())))

    def _parts(self, name: str, contents: Contents) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Reports and ones of each cohort, which contradict neither each other nor the number of reports."""
        size = self.reports_of_cohorts.size
        of_cohorts, ones = contents.numbers[:size], contents.numbers[size:].reshape(self.ones.shape)

        def fault() -> str | None:
            if exact_sum(of_cohorts) != contents.reports:
                return f"its cohorts do not add up to its {contents.reports} reports"
            return "it counts more ones than reports" if (ones > of_cohorts[:, None]).any() else None

        require_sound(name, contents, fault)
        return of_cohorts, ones

    def _numbers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """A copy of everything, as of one moment."""
        with self._lock:
            return self.reports_of_cohorts.copy(), self.ones.copy()

    def to_bytes(self) -> bytes:
        """The sketch as bytes, with a version and a checksum. The checksum detects accidents; it does not authenticate."""
        return packed(BLOOM, self._contents())

    @classmethod
    def from_bytes(cls, data: bytes, filter_: BloomParameters) -> BloomSketch:
        """The sketch of bytes that `to_bytes` wrote.

        Raises:
            SketchError: bytes that are no sketch, cut short, damaged or of another filter; counts that no reports can have.
        """
        sketch = cls(filter_)
        numbers = sketch.reports_of_cohorts.size + sketch.ones.size
        contents = unpacked(BLOOM, data, digest=bytes.fromhex(filter_.digest), numbers=numbers, of_what="filter")
        sketch.reports_of_cohorts, sketch.ones = sketch._parts("data", contents)
        return sketch

    def decode(self, candidates: Sequence[str], *, method: str = "least_squares", unknown: bool = True) -> WordFrequencies:
        """How common each of these words is among the reports.

        Args:
            candidates: distinct words, public.
            method: "least_squares": weighted by the cohorts' sizes, of all candidates at once, fewer than bits * cohorts of them.
                "lasso": for up to 4,096 candidates: a lasso without negative values on every second cohort chooses some, and least
                squares on the other cohorts estimates these, so that the choice does not bias errors and p-values. Words that were
                not chosen are not in the answer.
            unknown: estimate a constant too, for words that are not in the list: their bits would otherwise count for the
                candidates. Without it every report must be of a candidate.

        Returns:
            Estimates that are unbiased where the list is complete or the other words' bits are spread evenly, with standard errors
            of the mechanism's noise and of the random cohorts. p-values are normal approximations: for thousands of reports.

        Raises:
            ValueError: no reports; candidates twice, none or more than the method takes; candidates that no cohort with reports
                tells apart.

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
        of_cohorts, ones = self._numbers()
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


def _difference(ours: BloomParameters, theirs: BloomParameters) -> str:
    """The first parameter in which two filters differ."""
    for name in ("bits", "hashes", "cohorts", "words_per_person", "salt", "permanent_law", "instantaneous_law"):
        one, other = getattr(ours, name), getattr(theirs, name)
        if one != other:
            return f"{name} is {one!r} here and {other!r} there"
    return "they differ"
