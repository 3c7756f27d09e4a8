"""A public dictionary over which people report words, and what a collector keeps of the reports: sums, which add up."""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.display import plural
from hushvec._util.rounding import fraction_up, log_ratio_up, quotient_down
from hushvec.collect.estimate import WordFrequencies, binomial_p_values
from hushvec.collect.memo import Memo
from hushvec.collect.oracles import MOST_WORDS, Oracle, oracle_for
from hushvec.collect.release import Collection, numbered, require_words
from hushvec.collect.sketch_bytes import VOCABULARY, Contents, ReportSketch

OTHER = "<other>"

_UNKNOWN = ("error", "other")
_VERSION = 1


class Vocabulary(Collection):
    """Words that people report privately, each on their own device.

    Args:
        words: the public dictionary: distinct strings, 2 to 2^24 of them, compared as they are (no case folding or normalization).
        epsilon: > 0, of all of a person's reports together: each has epsilon / words_per_person.
        mechanism: "k_rr" (k-ary randomized response), "unary" (optimized unary encoding), "hadamard" (Hadamard response), or "auto":
            the smallest mean variance, and among those within 10 % of it the shortest report.
        words_per_person: >= 1, how many words a person reports.
        unknown: what happens to a word outside the dictionary: "error", or "other": it is reported as `OTHER`, one more word.

    Guarantees:
        Each report is (epsilon / words_per_person, 0)-DP under replacement of its word, in the local model: only the person sees the
        word. Exact as sampled: all probabilities are whole numbers over 2^64 and their ratio is at most e^epsilon;
        `true_epsilon` is what it comes to. With a `Memo` the same holds for any number of reports of the same words.

    Reference:
        Kairouz, Bonawitz, Ramage (2016); Wang, Blocki, Li, Jha (2017); Acharya, Sun, Zhang (2019); docs/proofs/frequency_oracles.md.

    Example:
        >>> from hushvec.collect import Vocabulary
        >>> vocabulary = Vocabulary([f"word{i}" for i in range(1000)], epsilon=1.0)
        >>> print("\\n".join(vocabulary.describe()))
        unary over 1,000 words, epsilon = 1 for 1 word per person (at most 1 as sampled)
        a report has 128 bytes
        from 1,000,000 reports, a frequency has the standard error 0.00192
        >>> sketch = vocabulary.sketch()
        >>> sketch.add(vocabulary.report(["word7", "word8"]))
        >>> sketch.reports
        2
    """

    def __init__(
        self, words: Sequence[str], epsilon: float, *, mechanism: str = "auto", words_per_person: int = 1, unknown: str = "error"
    ) -> None:
        self.unknown = validate.choice("unknown", unknown, _UNKNOWN)
        self.words = _dictionary(words, with_other=unknown == "other")
        self.epsilon = validate.positive("epsilon", epsilon)
        self.words_per_person = validate.whole_number("words_per_person", words_per_person, at_least=1)
        share = quotient_down(self.epsilon, self.words_per_person)
        self.oracle: Oracle = oracle_for(mechanism, len(self.words), share)
        self.digest = self._digest()

    @property
    def mechanism(self) -> str:
        """"k_rr", "unary" or "hadamard"."""
        return self.oracle.name

    @property
    def report_epsilon(self) -> float:
        """Epsilon of one report: epsilon / words_per_person, rounded down."""
        return self.oracle.epsilon

    @property
    def true_epsilon(self) -> float:
        """Epsilon of the sampled probabilities for all of a person's words, rounded up; at most `epsilon`."""
        return fraction_up(log_ratio_up(*self.oracle.law, times=self.words_per_person))

    @property
    def report_bytes(self) -> int:
        """Size of a report."""
        return self.oracle.report_bytes

    def standard_error(self, frequency: float, reports: int) -> float:
        """Standard error of the estimated frequency of a word of this share; for "hadamard" the other reports spread evenly."""
        if not 0 <= validate.number("frequency", frequency) <= 1:
            raise ValueError(f"frequency must be in [0, 1], got {frequency!r}")
        return math.sqrt(self.oracle.variance_at(frequency, validate.whole_number("reports", reports, at_least=1)))

    def root_mean_square_error(self, reports: int) -> float:
        """Root mean square error of the estimates over the whole dictionary, in theory and for any true frequencies."""
        return math.sqrt(self.oracle.mean_variance / validate.whole_number("reports", reports, at_least=1))

    def describe(self) -> tuple[str, ...]:
        """Lines that say what a report costs, how long it is and how good many of them are."""
        persons = f"{plural(self.words_per_person, 'word')} per person"
        return (
            f"{self.mechanism} over {len(self.words):,} words, epsilon = {self.epsilon:g} for {persons} "
            f"(at most {self.true_epsilon:.9g} as sampled)",
            f"a report has {plural(self.report_bytes, 'byte')}",
            f"from 1,000,000 reports, a frequency has the standard error {self.root_mean_square_error(1_000_000):.3g}",
        )

    def _digest(self) -> str:
        parameters = f"hushvec vocabulary {_VERSION}\n{self.mechanism}\n{self.report_epsilon.hex()}\n"
        parameters += f"{self.words_per_person}\n{self.oracle.cells}\n"
        hashed = hashlib.sha256(parameters.encode())
        for word in self.words:
            encoded = word.encode()
            hashed.update(len(encoded).to_bytes(8, "little") + encoded)
        return hashed.hexdigest()

    def sketch(self) -> Sketch:
        """An empty sketch for the collector."""
        return Sketch(self)

    @cached_property
    def _code_of(self) -> dict[str, int]:
        return {word: code for code, word in enumerate(self.words)}

    def _known(self, words: Sequence[str]) -> list[str]:
        listed = super()._known(words)
        if self.unknown == "other":
            return [word if word in self._code_of else OTHER for word in listed]
        for place, word in enumerate(listed):
            if word not in self._code_of:
                raise ValueError(
                    f"words must be among the {len(self.words):,} of the vocabulary, got {word!r:.80} at position {place}; "
                    "unknown='other' would report such words as one"
                )
        return listed

    def _codes(self, words: list[str]) -> NDArray[np.int64]:
        return np.fromiter(map(self._code_of.__getitem__, words), np.int64, len(words))

    def _drawn(self, words: list[str], generator: _core.Generator) -> NDArray[Any]:
        return self.oracle.draw(self._codes(words), generator)

    def _drawn_from_memo(self, words: list[str], memo: Memo, generator: _core.Generator | None) -> NDArray[Any]:
        if not words:
            return self._drawn(words, require_generator(generator))
        different, numbers = numbered(words)
        drawn = [self.oracle.draw(self._codes([word]), memo.source(self.digest, word)) for word in different]
        return np.concatenate(drawn)[numbers]

    @property
    def _receipt_law(self) -> dict[str, Any]:
        truth, other = self.oracle.law
        unused = dict.fromkeys(("hashes", "one_values", "zero_values"), 0)
        return dict(mechanism=self.mechanism, cells=self.oracle.cells, truth_values=truth, other_values=other, **unused)


def _dictionary(words: Any, *, with_other: bool) -> tuple[str, ...]:
    if isinstance(words, str | bytes):
        raise TypeError(f"words must be a sequence of strings, got {validate.kind(words)}")
    try:
        listed = list(words.tolist() if isinstance(words, np.ndarray) else words)
    except TypeError:
        raise TypeError(f"words must be a sequence of strings, got {validate.kind(words)}") from None
    require_words("words", listed)
    if with_other and OTHER in listed:
        raise ValueError(f"words must not hold {OTHER!r}, which stands for all others with unknown='other'")
    seen: set[str] = set()
    for word in listed:
        if word in seen:
            raise ValueError(f"words must be all different, got {word!r:.80} twice")
        seen.add(word)
    complete = (*listed, OTHER) if with_other else tuple(listed)
    if not 2 <= len(complete) <= MOST_WORDS:
        raise ValueError(f"words must be 2 to 2^24, got {len(complete)}")
    return complete


class Sketch(ReportSketch):
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

    _kind, _of_what = VOCABULARY, "vocabulary"

    def __init__(self, vocabulary: Vocabulary) -> None:
        validate.instance("vocabulary", vocabulary, Vocabulary, "a Vocabulary")
        self.vocabulary = self._collection = vocabulary
        self.reports = 0
        self._tallies = np.zeros(vocabulary.oracle.tallies, np.int64)
        self._lock = threading.Lock()

    def add(self, reports: Any) -> None:
        """Count reports of `Vocabulary.report`: whole numbers, or bits as uint32 [n, words / 32]. All are counted or none."""
        with self._lock:
            self.reports += self.vocabulary.oracle.add(reports, self._tallies)

    def _difference(self, other: Vocabulary) -> str:
        return "other must be a sketch of this vocabulary, with its words, epsilon and mechanism; got one of another"

    def _fault(self, contents: Contents) -> str | None:
        return self.vocabulary.oracle.tallies_fault(contents.numbers, contents.reports)

    def _add(self, contents: Contents) -> None:
        self._tallies += contents.numbers
        self.reports += contents.reports

    def _contents(self) -> Contents:
        with self._lock:
            return Contents(bytes.fromhex(self.vocabulary.digest), self.reports, self._tallies.copy())

    @classmethod
    def from_bytes(cls, data: bytes, vocabulary: Vocabulary) -> Sketch:
        """The sketch that `to_bytes` wrote; SketchError where it is damaged, of another vocabulary or has impossible counts."""
        return cls._read(data, cls(vocabulary))

    def estimate(self) -> WordFrequencies:
        """Unbiased frequencies, with standard errors of the noise that the mechanism added, for the people who reported.

        For a sample of a larger population add sqrt(f (1 - f) / reports), in quadrature.
        """
        oracle, (_, reports, tallies) = self.vocabulary.oracle, self._contents()
        if reports == 0:
            raise ValueError("sketch must hold at least one report, got 0")
        frequencies = oracle.frequencies(tallies, reports)
        variances = oracle.variances(frequencies.clip(0, 1), tallies, reports)
        return WordFrequencies(
            words=self.vocabulary.words, frequencies=frequencies, standard_errors=np.sqrt(variances.clip(0)), reports=reports,
            p_values_of=lambda: binomial_p_values(*oracle.null_counts(tallies, reports)),
        )
