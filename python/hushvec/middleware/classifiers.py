"""Any classifier as one kind of thing: inputs in, one answer per input out. Nothing here is private."""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import Any

import numpy as np

from hushvec._util import validate
from hushvec.middleware.wrap import require_length

TAKES = ("auto", "batch", "one")

# Types that are labels as they are.
_PLAIN = frozenset({str, int, float, bool})
_PIPELINES = "transformers.pipelines"
_PIPELINE_TASKS = ("text-classification", "image-classification", "audio-classification", "video-classification")


@dataclass(frozen=True)
class Answers:
    """A model's answers, input by input: a label, its score if there is one, and the scores of all labels if there are any."""

    labels: list[Any]
    scores: list[float | None] | None = None
    all_scores: list[Mapping[Any, float] | None] | None = None


class Classifier(ABC):
    """A model behind one method."""

    predicts = False  # whether it is an estimator, with `predict`

    @abstractmethod
    def answers(self, inputs: Any, count: int) -> Answers:
        """The model's answers to `count` > 0 inputs."""

    async def aanswers(self, inputs: Any, count: int) -> Answers:
        """`answers` for asyncio: in a thread, unless the model itself is asynchronous."""
        return await asyncio.to_thread(self.answers, inputs, count)


def classifier_of(model: Any, *, takes: str, with_scores: bool) -> Classifier:
    """A model in the form of a `Classifier`."""
    validate.choice("takes", takes, TAKES)
    if any(kind.__module__.startswith(_PIPELINES) for kind in type(model).__mro__):
        return _Pipeline(model)
    if callable(getattr(model, "classify", None)):
        if iscoroutinefunction(model.classify):
            return _Function(None, model.classify, "batch")
        return _Function(model.classify, getattr(model, "aclassify", None), "batch")
    if callable(getattr(model, "predict", None)):
        return _Estimator(model, with_scores)
    if callable(model):
        is_async = iscoroutinefunction(model) or iscoroutinefunction(type(model).__call__)
        return _Function(None if is_async else model, model if is_async else None, takes)
    raise TypeError(
        "model must be callable, have a method classify or predict, or be a transformers pipeline for classification, "
        f"got {validate.kind(model)}"
    )


def checked_inputs(inputs: Any, max_characters: int) -> tuple[Any, int]:
    """The inputs and how many they are; one str is a list of one."""
    if isinstance(inputs, str):
        inputs = [inputs]
    shape = getattr(inputs, "shape", None)
    if isinstance(shape, tuple):
        if not shape:
            raise TypeError("inputs must have rows, got an array without dimensions")
        count = int(shape[0])
        if len(shape) == 1 and hasattr(inputs, "tolist"):
            _require_inputs(inputs.tolist(), max_characters)
    elif isinstance(inputs, Sequence) and not isinstance(inputs, bytes | bytearray):
        count = len(inputs)
        _require_inputs(inputs, max_characters)
    else:
        raise TypeError(f"inputs must be a sequence of inputs or an array of rows, got {validate.kind(inputs)}")
    if count == 0:
        raise ValueError("inputs must hold at least 1 input, got 0")
    return inputs, count


def _require_inputs(inputs: Sequence[Any], max_characters: int) -> None:
    kinds = {type(one) for one in inputs}
    if type(None) in kinds:
        raise TypeError("inputs must not hold None")
    if not any(issubclass(kind, str) for kind in kinds):
        return
    for position, text in enumerate(inputs):
        if not isinstance(text, str):
            raise TypeError(f"inputs must be all str or none of them, got {validate.kind(text)} at position {position}")
        require_length("inputs", text, position, max_characters)


class _Function(Classifier):
    """A callable, synchronous, asynchronous or one of each."""

    def __init__(self, call: Callable[[Any], Any] | None, acall: Callable[[Any], Any] | None, takes: str) -> None:
        self._call, self._acall, self._takes = call, acall, takes

    def answers(self, inputs: Any, count: int) -> Answers:
        if self._call is None:
            raise TypeError("model must be synchronous here: it is a coroutine function, use aclassify")
        if self._takes == "batch":
            return read_answers(self._call(inputs), count)
        if self._takes == "one":
            return _joined(self._call(one) for one in inputs)
        return self._found_out(self._call, inputs, count)

    async def aanswers(self, inputs: Any, count: int) -> Answers:
        if self._acall is None:
            return await super().aanswers(inputs, count)
        if self._takes == "one":
            return _joined([await self._acall(one) for one in inputs])
        return read_answers(await self._acall(inputs), count)

    def _found_out(self, call: Callable[[Any], Any], inputs: Any, count: int) -> Answers:
        """Try all inputs at once; a callable that cannot take them, or has one answer for all, wants one at a time. Remembered."""
        refusal: Exception | None = None
        try:
            returned = call(inputs)
        except (AttributeError, TypeError, ValueError, LookupError) as error:  # what functions of one text raise for a list
            refusal = error
        else:
            if _is_batch(returned):
                answers = read_answers(returned, count)
                self._takes = "batch"
                return answers
        try:
            one_each = [call(one) for one in inputs]
        except Exception as error:
            raise error from refusal
        if any(isinstance(answer, list) for answer in one_each):
            # A batch of one answer, or all labels of one input: ambiguous.
            raise refusal or TypeError("model must say what it takes: its lists are ambiguous, use takes='one' or takes='batch'")
        answers = _joined(one_each)
        self._takes = "one"
        return answers


class _Pipeline(Classifier):
    """A transformers pipeline. Its package is where it came from, so nothing is imported."""

    def __init__(self, pipeline: Any) -> None:
        task = getattr(pipeline, "task", None)
        if task not in _PIPELINE_TASKS:
            raise TypeError(f"model must be a pipeline for one of {', '.join(_PIPELINE_TASKS)}, got one for {task!r}")
        self._pipeline, self._of_texts = pipeline, task == "text-classification"

    def answers(self, inputs: Any, count: int) -> Answers:
        listed = list(inputs)
        if self._of_texts:
            for place, text in enumerate(listed):
                if not isinstance(text, str | dict):
                    found = f"{validate.kind(text)} at position {place}"
                    raise TypeError(f"inputs must be str for a text classification pipeline, got {found}")
        return read_answers(self._pipeline(listed), count)


class _Estimator(Classifier):
    """Whatever has `predict`, as scikit-learn's estimators do."""

    predicts = True

    def __init__(self, model: Any, with_scores: bool) -> None:
        self._model, self._with_scores = model, with_scores

    def answers(self, inputs: Any, count: int) -> Answers:
        labels = read_answers(self._model.predict(inputs), count).labels
        for name in ("predict_proba", "decision_function") if self._with_scores else ():
            method = getattr(self._model, name, None)
            if callable(method):
                return self._read_scores(name, np.asarray(method(inputs), np.float64), labels)
        return Answers(labels)

    def _read_scores(self, name: str, scores: Any, labels: list[Any]) -> Answers:
        classes = np.asarray(self._model.classes_).tolist()
        if name == "decision_function" and scores.ndim == 1 and len(classes) == 2:
            scores = np.stack([-scores, scores], axis=1)
        if scores.shape != (len(labels), len(classes)):
            raise ValueError(f"{name} must return shape {(len(labels), len(classes))}, got {scores.shape}")
        if not np.isfinite(scores).all():
            raise ValueError(f"{name} must return finite scores, got NaN or Inf")
        column = {label: place for place, label in enumerate(classes)}
        rows = scores.tolist()
        own = [row[column[label]] if label in column else None for row, label in zip(rows, labels)]
        return Answers(labels, own, [dict(zip(classes, row)) for row in rows])


def estimator_classes(model: Any) -> list[Any] | None:
    """`classes_` of a fitted estimator, as plain values, or None if it has none."""
    classes = getattr(model, "classes_", None)
    return None if classes is None or np.ndim(classes) != 1 else np.asarray(classes).tolist()


def read_answers(returned: Any, count: int) -> Answers:
    """The answers in what a model returned for `count` inputs: a list, or a mapping or object with `results` (and `usage`, say)."""
    values = _listed(_results(returned))
    if len(values) != count:
        raise ValueError(f"model must return one answer per input, got {len(values)} for {count}")
    if _PLAIN.issuperset(map(type, values)):
        return Answers(values)
    return _joined(values)


def read_answer(value: Any, place: int) -> tuple[Any, float | None, Mapping[Any, float] | None]:
    """(label, score, all scores) of one answer, in any of the shapes that models return."""
    if value is None:
        raise ValueError(f"model must return a label for every input, got None at position {place}")
    if isinstance(value, Mapping):
        if "label" not in value:
            raise ValueError(f"an answer must have the key 'label', got {sorted(map(str, value))!r:.80} at position {place}")
        return _answer(value["label"], value.get("score"), value.get("all_scores"), place)
    if hasattr(value, "label"):
        return _answer(value.label, getattr(value, "score", None), getattr(value, "all_scores", None), place)
    if isinstance(value, tuple):
        if len(value) != 2:
            raise ValueError(f"an answer must be a label or (label, score), got a tuple of {len(value)} at position {place}")
        return _answer(value[0], value[1], None, place)
    if isinstance(value, list):
        return _best(value, place)
    return _answer(value, None, None, place)


def _best(ranked: list[Any], place: int) -> tuple[Any, float | None, Mapping[Any, float] | None]:
    """The likeliest of a list of labels with scores for one input, and all of them."""
    scores: dict[Any, float] = {}
    for one in ranked:
        label, score, _ = read_answer(one, place) if isinstance(one, Mapping) or hasattr(one, "label") else (None, None, None)
        if score is None:
            raise ValueError(f"an answer that is a list must hold labels with scores, got {one!r:.60} at position {place}")
        scores[label] = score
    if not scores:
        raise ValueError(f"an answer must have at least one label, got an empty list at position {place}")
    label = max(scores, key=lambda known: scores[known])
    return label, scores[label], scores


def _answer(label: Any, score: Any, all_scores: Any, place: int) -> tuple[Any, float | None, Mapping[Any, float] | None]:
    label = label.item() if isinstance(label, np.generic) else label
    if label is None:
        raise ValueError(f"model must return a label for every input, got None at position {place}")
    if score is not None and not (type(score) is float and math.isfinite(score)):
        score = validate.number(f"the score at position {place}", score)
    if all_scores is not None:
        if not isinstance(all_scores, Mapping):
            found = f"{validate.kind(all_scores)} at position {place}"
            raise TypeError(f"all_scores must be a mapping from label to score, got {found}")
        all_scores = {one: validate.number(f"a score at position {place}", known) for one, known in all_scores.items()}
    return label, score, all_scores


def _joined(values: Iterable[Any]) -> Answers:
    """Answers from one value of a model for each input."""
    read = [read_answer(value, place) for place, value in enumerate(values)]
    return Answers([label for label, _, _ in read], [score for _, score, _ in read], [scores for _, _, scores in read])


def _is_batch(returned: Any) -> bool:
    """Whether this can only be a sequence of answers."""
    returned = _results(returned)
    if isinstance(returned, np.ndarray):
        return returned.ndim > 0
    if isinstance(returned, str | bytes | tuple | Mapping):
        return False
    return isinstance(returned, Sequence) or (hasattr(returned, "tolist") and not np.isscalar(returned))


def _results(returned: Any) -> Any:
    """The list in an answer such as {"results": [...], "usage": ...}; what is no such answer as it is."""
    if isinstance(returned, Mapping):
        return returned["results"] if "results" in returned and "label" not in returned else returned
    found = getattr(returned, "results", None)
    return found if isinstance(found, list) and not hasattr(returned, "label") else returned


def _listed(returned: Any) -> list[Any]:
    if hasattr(returned, "tolist"):
        if np.ndim(returned) != 1:
            raise ValueError(f"model must return one label per input, got an array of shape {np.shape(returned)}")
        listed: list[Any] = returned.tolist()
        return listed
    if isinstance(returned, Sequence) and not isinstance(returned, str | bytes):
        return list(returned)
    raise TypeError(f"model must return a list of answers, one per input, got {validate.kind(returned)}")
