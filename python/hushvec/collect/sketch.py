"""What a collector keeps of the reports over a vocabulary: sums, which add up over machines and days."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from hushvec._util import validate
from hushvec.collect.decisions import binomial_p_values
from hushvec.collect.dictionary import Dictionary
from hushvec.collect.errors import SketchError
from hushvec.collect.estimate import WordFrequencies
from hushvec.collect.sketch_bytes import VOCABULARY, Contents, packed, require_room, require_sound, unpacked


class Sketch:
    """Sums of reports over one vocabulary. Its size does not grow with the reports.

    Sums are exact and do not depend on the order of reports, merges or threads; several threads may add to one sketch. All of it is
    post-processing of private reports. A method that raises has changed nothing.

    Args:
        vocabulary: whose reports it takes. Its words, epsilon and mechanism decide which sketches go together.

    Example:
        >>> from hushvec.collect import Sketch, Vocabulary
        >>> vocabulary = Vocabulary(["a", "b", "c"], epsilon=1.0)
        >>> morning, evening = vocabulary.sketch(), vocabulary.sketch()
        >>> morning.add(vocabulary.report(["a", "a", "b"]))
        >>> evening.add(vocabulary.report("c"))
        >>> morning.merge(Sketch.from_bytes(evening.to_bytes(), vocabulary))
        >>> morning.reports
        4
    """

    def __init__(self, vocabulary: Dictionary) -> None:
        if not isinstance(vocabulary, Dictionary):
            raise TypeError(f"vocabulary must be a Vocabulary, got {validate.kind(vocabulary)}")
        self.vocabulary = vocabulary
        self.reports = 0
        self._tallies = np.zeros(vocabulary.oracle.tallies, np.int64)
        self._lock = threading.Lock()

    def add(self, reports: Any) -> None:
        """Count reports.

        Args:
            reports: what `Vocabulary.report` returned, one or many; whole numbers, or packed bits as uint32 [n, words / 32].

        Raises:
            TypeError, ValueError: reports of another vocabulary, as far as they can be told: of another kind or shape, a number that
                is no report. Nothing was counted then.
        """
        with self._lock:
            self.reports += self.vocabulary.oracle.add(reports, self._tallies)

    def merge(self, other: Sketch) -> None:
        """Add the reports of another sketch.

        Raises:
            SketchError: it belongs to another vocabulary, epsilon or mechanism; counts that no reports can have, or more than 2^62
                reports together. Nothing was added then.
        """
        if not isinstance(other, Sketch):
            raise TypeError(f"other must be a Sketch, got {validate.kind(other)}")
        if other.vocabulary.digest != self.vocabulary.digest:
            raise SketchError("other must be a sketch of this vocabulary, with its words, epsilon and mechanism; got one of another")
        contents = other._contents()
        self._require_sound("other", contents)
        with self._lock:
            require_room(self.reports, contents.reports)
            self._tallies += contents.numbers
            self.reports += contents.reports

    def _require_sound(self, name: str, contents: Contents) -> None:
        require_sound(name, contents, lambda: self.vocabulary.oracle.tallies_fault(contents.numbers, contents.reports))

    def _contents(self) -> Contents:
        """A copy of everything, as of one moment."""
        with self._lock:
            return Contents(bytes.fromhex(self.vocabulary.digest), self.reports, self._tallies.copy())

    def to_bytes(self) -> bytes:
        """The sketch as bytes, with a version and a checksum. The checksum detects accidents; it does not authenticate."""
        return packed(VOCABULARY, self._contents())

    @classmethod
    def from_bytes(cls, data: bytes, vocabulary: Dictionary) -> Sketch:
        """The sketch of bytes that `to_bytes` wrote.

        Raises:
            SketchError: bytes that are no sketch, cut short, damaged or of another vocabulary; counts that no reports can have.
        """
        sketch = cls(vocabulary)
        contents = unpacked(
            VOCABULARY,
            data,
            digest=bytes.fromhex(vocabulary.digest),
            numbers=vocabulary.oracle.tallies,
            of_what="vocabulary",
        )
        sketch._require_sound("data", contents)
        sketch.reports, sketch._tallies = contents.reports, contents.numbers
        return sketch

    def estimate(self) -> WordFrequencies:
        """Unbiased frequencies, with standard errors of the noise that the mechanism added, for the people who reported.

        For a sample of a larger population add sqrt(f (1 - f) / reports), in quadrature.

        Raises:
            ValueError: no reports.
        """
        oracle, (_, reports, tallies) = self.vocabulary.oracle, self._contents()
        if reports == 0:
            raise ValueError("sketch must hold at least one report, got 0")
        frequencies = oracle.frequencies(tallies, reports)
        variances = oracle.variances(frequencies.clip(0, 1), tallies, reports)
        return WordFrequencies(
            words=self.vocabulary.words,
            frequencies=frequencies,
            standard_errors=np.sqrt(variances.clip(0)),
            reports=reports,
            p_values_of=lambda: binomial_p_values(*oracle.null_counts(tallies, reports)),
        )
