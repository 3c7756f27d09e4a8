"""What private classifiers return: answers, a batch of them with its receipt, and an array of labels with its receipt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, overload

import numpy as np

from hushvec.receipts.labels import LabelReceipt

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FIELDS = ("label", "score", "all_scores")


@dataclass(frozen=True, slots=True)
class Classification:
    """One answer. `answer["label"]` reads the same as `answer.label`, and `dict(answer)` has all three fields.

    Args:
        label: one of the public labels.
        score: as the middleware's `scores` says; None if the model has no scores.
        all_scores: the model's scores of all its labels, or None. Only scores="source" ever has them.
    """

    label: Any
    score: float | None = None
    all_scores: Mapping[Any, float] | None = None

    def __getitem__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """The names of the fields, as `dict` asks for them."""
        return _FIELDS


class Classifications(Sequence[Classification]):
    """The answers of one release, in the order of the inputs.

    Args:
        answers: one per input.
        receipt: of all of them together.

    Slices are plain lists: a receipt is about a release as a whole.
    """

    __slots__ = ("_answers", "receipt")

    def __init__(self, answers: Iterable[Classification], receipt: LabelReceipt) -> None:
        self._answers = list(answers)
        self.receipt = receipt

    @property
    def labels(self) -> list[Any]:
        """The labels alone."""
        return [answer.label for answer in self._answers]

    @overload
    def __getitem__(self, place: int) -> Classification: ...
    @overload
    def __getitem__(self, place: slice) -> list[Classification]: ...
    def __getitem__(self, place: int | slice) -> Classification | list[Classification]:
        return self._answers[place]

    def __len__(self) -> int:
        return len(self._answers)

    def __iter__(self) -> Iterator[Classification]:
        return iter(self._answers)

    def __repr__(self) -> str:
        return f"Classifications({self._answers!r})"


if TYPE_CHECKING:
    _Labels = NDArray[Any]
else:
    _Labels = np.ndarray


class PrivateLabels(_Labels):
    """A numpy array of labels with its receipt. Arrays made from it have receipt None."""

    receipt: LabelReceipt | None

    @classmethod
    def of(cls, labels: NDArray[Any], receipt: LabelReceipt) -> PrivateLabels:
        array = labels.view(cls)
        array.receipt = receipt
        return array

    def __array_finalize__(self, source: Any) -> None:
        self.receipt = None
