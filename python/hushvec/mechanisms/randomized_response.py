"""k-ary randomized response by a law of integers: docs/format.md section 9, docs/proofs/randomized_response.md."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, arrays, kernels
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.rounding import log_ratio_up, next_up
from hushvec.accounting import PureDP

_UNIT = 2.0**-64
_MOST_LABELS = 2**24
_DIGITS = 40


@dataclass(frozen=True, eq=False)
class FrequencyEstimate:
    """How many of those who answered hold each label, estimated from their randomized answers.

    Attributes:
        frequencies: one per label, unbiased; they sum to 1, and rare labels may come out below 0.
        standard_errors: one per label, of the noise that the mechanism added; the sampling error of a larger population is not in it.
        answers: how many answers there were.
    """

    frequencies: NDArray[np.float64]
    standard_errors: NDArray[np.float64]
    answers: int


@dataclass(frozen=True, kw_only=True)
class RandomizedResponse:
    """Truth with probability e^epsilon / (e^epsilon + k - 1), each other label with 1 / (e^epsilon + k - 1).

    Args:
        epsilon: > 0, of one answer; so small that 64 random bits cannot prefer the truth (about k^2 / 2^64), it is refused.
        labels: the k possible labels, hashable and all different; public. Or else:
        k: the labels are 0, 1, ..., k - 1. 2 <= k <= 2^24.

    Guarantees:
        (epsilon, 0)-DP for each answer under replace-one of one person's label (local model: nobody but the person sees it),
        exact as sampled: with T and M the whole numbers of 64-bit values for the truth and for another label, M <= T <= e^epsilon M.
        `epsilon_as_sampled` is ln(T / M), at most epsilon; it ends at 44.4, where M = 1. Answers are always objects of `labels`,
        so that equal labels of other types (1 and 1.0) tell nothing. Every answer costs epsilon.

    Reference:
        Warner, "Randomized response" (1965), for two labels; Kairouz, Bonawitz, Ramage, "Discrete distribution estimation under local
        privacy" (2016), for k.

    Example:
        >>> from hushvec.mechanisms.randomized_response import RandomizedResponse
        >>> mechanism = RandomizedResponse(epsilon=3.0, labels=["yes", "no", "unsure"])
        >>> print("\\n".join(mechanism.describe()))
        randomized response, 3 labels, epsilon = 3 an answer (at most 3 as sampled)
        an answer is true with probability 0.9094; each other label has 0.0453
        from 1,000 answers, a frequency of 0.1 has the standard error 0.0079
        >>> mechanism.respond("yes") in ("yes", "no", "unsure")
        True
    """

    epsilon: float
    labels: Sequence[Hashable] = ()
    k: int = 0

    def __post_init__(self) -> None:
        store = partial(object.__setattr__, self)
        store("epsilon", validate.positive("epsilon", self.epsilon))
        if self.k != 0 or isinstance(self.k, bool):
            if len(self.labels) > 0:
                raise TypeError("give labels or k, not both")
            store("k", _checked_count(validate.whole_number("k", self.k, at_least=2)))
            store("labels", range(self.k))
        else:
            store("labels", _distinct(self.labels))
            store("k", len(self.labels))
        _law(self.epsilon, self.k)  # refuses epsilon now rather than at the first answer

    @property
    def cost(self) -> tuple[float, float]:
        """(epsilon, delta) of one answer."""
        return self.epsilon, 0.0

    @property
    def loss(self) -> PureDP:
        """One answer for `hushvec.accounting`."""
        return PureDP(epsilon=self.epsilon, total_variation=response_variation(*self.law))

    @property
    def law(self) -> tuple[int, int]:
        """(T, M): how many of the 2^64 equally likely values answer with the truth, and with a given other label."""
        return _law(self.epsilon, self.k)

    @property
    def probability_of_truth(self) -> float:
        """Probability that an answer is true, as sampled."""
        return self.law[0] * _UNIT

    @property
    def probability_of_each_other(self) -> float:
        """Probability that an answer is a given other label, as sampled."""
        return self.law[1] * _UNIT

    @property
    def epsilon_as_sampled(self) -> float:
        """The log-ratio that the integers really have, rounded up: at most epsilon."""
        truth, other = self.law
        return min(self.epsilon, next_up(float(log_ratio_up(truth, other))))

    def standard_error(self, frequency: float, answers: int) -> float:
        """Standard error of the estimated frequency of a label that this share in [0, 1] of all who answer hold."""
        if not 0 <= validate.number("frequency", frequency) <= 1:
            raise ValueError(f"frequency must be in [0, 1], got {frequency!r}")
        count = validate.whole_number("answers", answers, at_least=1)
        return float(self._standard_errors(np.array([float(frequency)]), count)[0])

    def describe(self) -> tuple[str, ...]:
        """Lines that say what an answer costs and how good it will be."""
        return (
            f"randomized response, {self.k:,} labels, epsilon = {self.epsilon:g} an answer "
            f"(at most {self.epsilon_as_sampled:.9g} as sampled)",
            f"an answer is true with probability {self.probability_of_truth:.4g}; "
            f"each other label has {self.probability_of_each_other:.3g}",
            f"from 1,000 answers, a frequency of 0.1 has the standard error {self.standard_error(0.1, 1000):.2g}",
        )

    def respond(self, true_label: Any, *, generator: _core.Generator | None = None) -> Any:
        """One randomized answer, or one for each of many true labels.

        Args:
            true_label: one label; or a list, tuple or numpy array of labels. A tuple that is itself a label is one label. Where the
                labels are 0 .. k - 1 also a torch tensor (CPU, CUDA) or a CuPy array of whole numbers.
            generator: a `Generator`; None for the one of the process.

        Returns:
            An object of `labels` for one label, a list for a list or tuple, an array of the same kind and shape for an array: of
            the same dtype where the labels are 0 .. k - 1, and otherwise of the dtype that `labels` have in numpy.

        Raises:
            ValueError: a true label that is not among the labels; a dtype too narrow; AES-256 on a device. Nothing is drawn then.

        Guarantees:
            On a device the answers are those of the CPU from the same stream of ChaCha.
        """
        source = require_generator(generator)
        if arrays.is_exported(true_label):
            return arrays.returned(true_label, self._respond_array(arrays.shared("true_label", true_label), source))
        if isinstance(true_label, np.ndarray):
            return self._respond_array(true_label, source)
        if arrays.is_torch(true_label) or arrays.is_cupy(true_label):
            if not self._labels_are_codes:
                kind = arrays.array_kind(true_label)
                raise ValueError(f"labels must be 0 .. k - 1 (k=) for a {kind}, got {self.labels[0]!r:.80} among them")
            arrays.require_integers("true_label", true_label)
            return self._drawn(true_label, source)
        if self._is_batch(true_label):
            return [self.labels[code] for code in self._drawn(self._codes(true_label), source).tolist()]
        return self.labels[int(self._drawn(self._codes([true_label]), source)[0])]

    def _is_batch(self, value: Any) -> bool:
        if isinstance(value, tuple):
            try:
                return self._labels_are_codes or value not in self._code_of
            except TypeError:  # of unhashable elements, so no label
                return True
        return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)

    def _respond_array(self, true_labels: NDArray[Any], source: _core.Generator) -> NDArray[Any]:
        if self._labels_are_codes and true_labels.dtype.kind in "iu":
            in_order = true_labels.astype(true_labels.dtype.newbyteorder("="), order="C", copy=False)
            drawn: NDArray[Any] = self._drawn(in_order, source)
            return drawn
        codes = self._codes(true_labels.ravel().tolist()).reshape(true_labels.shape)
        answers: NDArray[Any] = self.labels_in_numpy[self._drawn(codes, source)]
        return answers

    def _drawn(self, codes: Any, source: _core.Generator) -> Any:
        return kernels.randomized_response(codes, self.k, self.law, source)

    @cached_property
    def _code_of(self) -> dict[Hashable, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @property
    def _labels_are_codes(self) -> bool:
        return isinstance(self.labels, range)

    def _codes(self, labels: Iterable[Any]) -> NDArray[np.int32]:
        return np.fromiter(map(self._code, labels), dtype=np.int32)

    def _code(self, label: Any) -> int:
        if self._labels_are_codes:
            code = validate.whole_number("true_label", label, at_least=0)
            if code < self.k:
                return code
        else:
            try:
                return self._code_of[label]
            except KeyError:
                pass
            except TypeError:
                raise TypeError(f"true_label must be hashable, got {validate.kind(label)}") from None
        raise ValueError(f"true_label must be one of the {self.k} labels, got {label!r:.80}")

    @cached_property
    def labels_in_numpy(self) -> NDArray[Any]:
        """All labels as one array: of a plain dtype where all are of one plain type and survive it, and else of objects."""
        if self._labels_are_codes:
            return np.arange(self.k)
        kinds = {type(label) for label in self.labels}
        if kinds in ({str}, {bool}, {int}, {float}):
            array = np.array(self.labels)
            if array.tolist() == list(self.labels):
                return array
        objects = np.empty(self.k, dtype=object)
        objects[:] = self.labels
        return objects

    def count(self, answers: Iterable[Any]) -> NDArray[np.int64]:
        """How often each label was answered, in the order of `labels`: answers of `respond`, of one batch or several joined."""
        codes = self._codes(answers.ravel().tolist() if isinstance(answers, np.ndarray) else answers)
        return np.bincount(codes, minlength=self.k)

    def estimate_frequencies(self, counts: Any) -> FrequencyEstimate:
        """Unbiased estimates of how common each label is among those who answered, with standard errors.

        Args:
            counts: how often each label was answered, in the order of `labels` (see `count`): k whole numbers, not all 0.

        Guarantees:
            With p and q the probabilities as sampled and n answers, E[count_i] = n (f_i p + (1 - f_i) q), so that (count_i / n -
            q) / (p - q) has the mean f_i. Its variance over the answers' randomness is (f_i p (1 - p) + (1 - f_i) q (1 - q)) / (n
            (p - q)^2); the estimate, cut to [0, 1], stands in for f_i there.

        Example:
            >>> import numpy as np
            >>> from hushvec.mechanisms.randomized_response import RandomizedResponse
            >>> mechanism = RandomizedResponse(epsilon=2.0, k=3)
            >>> estimate = mechanism.estimate_frequencies([614, 286, 100])
            >>> estimate.frequencies.round(3).tolist(), estimate.standard_errors.round(3).tolist()
            ([0.746, 0.264, -0.01], [0.018, 0.016, 0.014])
        """
        array = np.asarray(counts)
        if array.shape != (self.k,):
            raise ValueError(f"counts must have shape ({self.k},), got {array.shape}")
        if array.dtype.kind not in "iu" or (array < 0).any():
            raise ValueError("counts must be whole numbers >= 0, got " + f"{array!r:.60}")
        answers = int(array.sum(dtype=np.int64))
        if answers == 0:
            raise ValueError("counts must hold at least one answer, got 0")
        other = self.probability_of_each_other
        frequencies = (array / answers - other) / self._preference
        return FrequencyEstimate(frequencies, self._standard_errors(frequencies.clip(0, 1), answers), answers)

    @property
    def _preference(self) -> float:
        """p - q, from the integers: they may agree in most of their digits."""
        truth, other = self.law
        if truth == other:
            raise ValueError(f"epsilon must be large enough for answers that carry anything, got {self.epsilon!r}")
        return (truth - other) * _UNIT

    def _standard_errors(self, frequencies: NDArray[np.float64], answers: int) -> NDArray[np.float64]:
        p, q = self.probability_of_truth, self.probability_of_each_other
        not_p = (self.k - 1) * q
        variances = frequencies * p * not_p + (1 - frequencies) * q * (1 - q)
        errors: NDArray[np.float64] = np.sqrt(variances / answers) / self._preference
        return errors


def response_variation(truth: int, other: int) -> float:
    """(T - M) / 2^64, rounded up and at least 2^-64: the total variation of the answers to two labels."""
    return max(truth - other, 1) * _UNIT * (1 + 2.0**-52)


# Twenty microseconds each: kept for the mechanisms that a call makes anew.
_law = lru_cache(maxsize=64)(_core.response_law)


def _checked_count(count: int) -> int:
    if count < 2:
        raise ValueError(f"labels must be at least 2, got {count}")
    if count > _MOST_LABELS:
        raise ValueError(f"labels must be at most 2^24, got {count}")
    return count


def _distinct(labels: Iterable[Hashable]) -> Sequence[Hashable]:
    if isinstance(labels, (str, bytes)):  # torch 2.8 cannot follow str | bytes
        raise TypeError(f"labels must be a sequence of labels, got {validate.kind(labels)}")
    if isinstance(labels, range) and labels == range(len(labels)):
        return range(_checked_count(len(labels)))
    try:
        listed = tuple(labels.tolist() if isinstance(labels, np.ndarray) else labels)
    except TypeError:
        raise TypeError(f"labels must be a sequence of labels, got {validate.kind(labels)}") from None
    seen: set[Hashable] = set()
    for label in listed:
        try:
            known = label in seen
        except TypeError:
            raise TypeError(f"labels must be hashable, got {validate.kind(label)}") from None
        if label != label:
            raise ValueError(f"labels must equal themselves, got {label!r}")
        if known:
            raise ValueError(f"labels must be all different, got {label!r:.80} twice")
        seen.add(label)
    count = _checked_count(len(listed))
    codes = range(count)
    return codes if {type(label) for label in listed} == {int} and listed == tuple(codes) else listed


def randomized_response(
    true_label: Any, labels: Sequence[Hashable], epsilon: float, *, generator: _core.Generator | None = None
) -> Any:
    """The true label with probability e^epsilon / (e^epsilon + k - 1), each of the k - 1 others with 1 / (e^epsilon + k - 1).

    Args:
        true_label: one label, or many; as in `RandomizedResponse.respond`.
        labels, epsilon: as in `RandomizedResponse`; `range(k)` for codes.
        generator: a `Generator`; None for the one of the process.

    Returns:
        A label for a label, a list for a list or tuple, an array of the same kind and shape for an array.

    Raises:
        ValueError: as `RandomizedResponse` and its `respond`. Nothing is drawn then.

    Guarantees:
        (epsilon, 0)-DP for each answer under replace-one of that person's label, exact as sampled
        (docs/proofs/randomized_response.md). Drawing an answer takes the same steps for the truth and for another label.

    Edge cases:
        An empty batch gives an empty one. Answers are the objects in `labels`, never the caller's.

    Reference:
        Warner (1965), for two labels; Kairouz, Bonawitz, Ramage (2016), for k.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.mechanisms.randomized_response import randomized_response
        >>> generator = hv.Generator.unsafe_seeded(1)
        >>> randomized_response("spam", ["spam", "ham"], 2.0, generator=generator)
        'spam'
    """
    return RandomizedResponse(epsilon=epsilon, labels=labels).respond(true_label, generator=generator)
