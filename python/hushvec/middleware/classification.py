"""Private classification: a middleware that answers by randomized response, models that go through it, and their answers.

Below it, any classifier as one kind of thing: inputs in, one answer for each out.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterable, AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import iscoroutinefunction
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.keywords import explained
from hushvec.extend import Budget, LabelPlan, plan_labels
from hushvec.middleware.wrap import MOST_CHARACTERS, each, require_length
from hushvec.receipts import LabelReceipt

_FIELDS = ("label", "score", "all_scores")
MODEL_SCORES = ("uniform", "source")
NOTE_OWN_INPUT = "each answer is taken to depend on its own input only"
_LABEL_OF = "the model's label"


@dataclass(frozen=True, slots=True)
class Classification:
    """One answer: a public label, its score as the middleware's `scores` says, and with scores="source" those of all labels.

    `answer["label"]` reads the same as `answer.label`, and `dict(answer)` has all three fields.
    """

    label: Any
    score: float | None = None
    all_scores: Mapping[Any, float] | None = None

    def __getitem__(self, name: str) -> Any:
        if name not in _FIELDS:
            raise KeyError(name)
        return getattr(self, name)

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields, as `dict` asks for them."""
        return _FIELDS


class Classifications(list[Classification]):
    """The answers of one release, in the order of the inputs, with its receipt. Slices are plain lists, without one."""

    def __init__(self, answers: Iterable[Classification], receipt: LabelReceipt) -> None:
        super().__init__(answers)
        self.receipt = receipt

    @property
    def labels(self) -> list[Any]:
        """The labels alone."""
        return [answer.label for answer in self]


class PrivateLabels(np.ndarray[Any, Any]):
    """A numpy array of labels with its receipt. Arrays made from it have receipt None."""

    receipt: LabelReceipt | None

    @classmethod
    def of(cls, labels: NDArray[Any], receipt: LabelReceipt) -> PrivateLabels:
        array = labels.view(cls)
        array.receipt = receipt
        return array

    def __array_finalize__(self, source: Any) -> None:
        self.receipt = None


class ClassificationMiddleware:
    """Takes a model's answers and releases private ones. Made by `dp_classification_middleware`."""

    def __init__(self, plan: LabelPlan) -> None:
        self.plan = plan
        self._labels_alone = replace(plan, scores="none")

    @property
    def labels(self) -> Sequence[Hashable]:
        """The public labels."""
        return self.plan.labels

    def release(self, answers: Answers) -> Classifications:
        """Check the answers, charge, and answer for all of them at once."""
        codes = self.plan.codes(answers.labels, _LABEL_OF)
        drawn, receipt = self.plan.release(codes)
        public = 1 / self.plan.mechanism.k
        answered = drawn.tolist()
        flipped = {code: Classification(self.labels[code], public) for code in set(answered)}
        if self.plan.scores != "source":
            return Classifications(map(flipped.__getitem__, answered), receipt)
        own = answers.in_full or map(Classification, answers.labels)
        rows = zip(codes.tolist(), answered, own)
        kept = (replace(said, label=self.labels[code]) if true == code else flipped[code] for true, code, said in rows)
        return Classifications(kept, receipt)

    def release_labels(self, answers: Answers) -> PrivateLabels:
        """Return the labels alone, as an array; private whatever `scores` is."""
        plan = self._labels_alone
        drawn, receipt = plan.release(plan.codes(answers.labels, _LABEL_OF))
        return PrivateLabels.of(plan.in_numpy(drawn), receipt)


@explained
def dp_classification_middleware(
    *, epsilon: float, labels: Sequence[Hashable], scores: str = "uniform", budget: Budget | None = None, per: str = "record",
    generator: _core.Generator | None = None,
) -> ClassificationMiddleware:
    """Make the answers of a classifier private: the model's label with probability e^epsilon / (e^epsilon + k - 1), else another one.

    Args:
        epsilon: > 0; of one answer for per="record", of all answers of a call for per="release".
        labels: the k possible labels, str, int, float or bool, all different; public. Every label of the model must be among them.
        scores: "uniform": every answer has the score 1/k, and no all_scores. "source": flipped answers have 1/k and no all_scores,
            and kept ones the model's own. NOT private: the score shows whether the label is true, so no epsilon bounds what
            an answer reveals. The receipts say so and claim nothing.
        budget, generator: as for `hushvec.privatize`. With scores="source" there is no epsilon to charge: no budget.
        per: "record": every input is about another person. "release": all inputs of a call are about one person, and each of n
            answers gets epsilon / n.

    Returns:
        A middleware for `wrap_classification_model`. One may serve any number of models and threads.

    Raises:
        TypeError, ValueError: duplicate labels, fewer than 2 or more than 2^24; an epsilon too small to prefer the truth.

    Guarantees:
        With scores="uniform" and a key from the operating system, each answer is (epsilon, 0)-DP under replacement of its input
        (per="record"), or all answers of a call under replacement of all inputs (per="release"), exact as sampled. For
        per="record" the model must answer each input by itself: that is the caller's responsibility, and the receipt notes it.
        The model's own training data is not protected.

    Edge cases:
        An error of the model, or a label that is not in the list, ends the call before anything is charged, visibly.

    Reference:
        Warner (1965); Kairouz, Bonawitz, Ramage (2016); docs/proofs/randomized_response.md. docs/classification.md shows
        by how much scores="source" fails.

    Example:
        >>> import hushvec as hv
        >>> from hushvec.middleware.classification import dp_classification_middleware, wrap_classification_model
        >>> middleware = dp_classification_middleware(epsilon=2.0, labels=["negative", "positive"])
        >>> model = wrap_classification_model(lambda text: "positive" if "good" in text else "negative", middleware)
        >>> answers = model.classify(["a good day", "rain"])
        >>> [answer.score for answer in answers], answers.receipt.is_dp_claim, hv.verify_receipt(answers.receipt).status
        ([0.5, 0.5], True, 'holds')
    """
    validate.choice("scores", scores, MODEL_SCORES)
    notes = (NOTE_OWN_INPUT,) if per == "record" else ()
    plan = plan_labels(labels, epsilon=epsilon, budget=budget, per=per, generator=generator, scores=scores, notes=notes)
    return ClassificationMiddleware(plan)


def wrap_classification_model(
    model: Any, middleware: ClassificationMiddleware, *, takes: str = "auto", max_characters: int = MOST_CHARACTERS
) -> PrivateClassifier:
    """Return a classifier whose answers are private.

    Args:
        model: a callable; an object with `classify(inputs)` (and maybe `aclassify`); an estimator as in scikit-learn, with
            `predict`; or a transformers pipeline for classification. An answer may be a label, (label, score), a mapping or object
            with label, score and maybe all_scores, or a list of labels with scores, of which the likeliest counts.
        middleware: of `dp_classification_middleware`.
        takes: what a plain callable takes: "batch", all inputs, for a list of answers; "one", a single input; "auto": all inputs are
            tried first, and one at a time if it raises what functions of one input raise (AttributeError, TypeError, ValueError,
            LookupError) or returns a single answer. A coroutine function takes a batch unless it says "one".
        max_characters: >= 1; a longer text is refused. Models silently cut texts off after a few hundred tokens.

    Returns:
        PrivateClassifier, or for an estimator PrivateEstimator, which also has a private `predict`.

    Raises:
        TypeError, ValueError: not a classifier, or a private one; an estimator with classes that are not among the labels.

    Guarantees:
        Those of `dp_classification_middleware`. The wrapped model exposes nothing else.

    Edge cases:
        An estimator that is not fitted yet is checked at its first answers.

    Reference:
        docs/classification.md.

    Example:
        >>> from hushvec.middleware.classification import dp_classification_middleware, wrap_classification_model
        >>> middleware = dp_classification_middleware(epsilon=3.0, labels=["ham", "spam"])
        >>> model = wrap_classification_model(lambda texts: [("spam", 0.97)] * len(texts), middleware)
        >>> sorted(set(model(["win a prize"] * 1000).labels)), model("win a prize").receipt.answers
        (['ham', 'spam'], 1)
    """
    validate.instance("middleware", middleware, ClassificationMiddleware, "made by dp_classification_middleware")
    if isinstance(model, PrivateClassifier):
        raise ValueError("model must not be wrapped already: its answers would be randomized twice")
    classifier = classifier_of(model, takes=takes, with_scores=middleware.plan.scores == "source")
    limit = validate.whole_number("max_characters", max_characters, at_least=1)
    if not classifier.predicts:
        return PrivateClassifier(classifier, middleware, limit)
    classes = getattr(model, "classes_", None)
    if classes is not None and np.ndim(classes) == 1:
        middleware.plan.codes(np.asarray(classes).tolist(), "classes_ of the model")
    return PrivateEstimator(classifier, middleware, limit)


class PrivateClassifier:
    """A classifier that releases its answers through a middleware. Safe to use from several threads if the model is."""

    def __init__(self, classifier: Classifier, middleware: ClassificationMiddleware, max_characters: int) -> None:
        self._classifier = classifier
        self.middleware = middleware
        self.max_characters = max_characters

    @property
    def labels(self) -> Sequence[Hashable]:
        """The public labels."""
        return self.middleware.labels

    def classify(self, inputs: Any) -> Classifications:
        """Return private answers to inputs, one for each, with the receipt of the release.

        Args:
            inputs: a sequence of inputs, an array of rows, or one str; none of them None, and either all str or none.
                No inputs have no answers: the model is not asked, and nothing is charged.

        Raises:
            TypeError, ValueError: bad inputs; a model that returns not one answer per input, None, a score that is not finite, or a
                label that is not in the list. Nothing is charged then.
        """
        return self.middleware.release(self._answers(inputs))

    __call__ = classify

    async def aclassify(self, inputs: Any) -> Classifications:
        """`classify` for asyncio: an asynchronous model is awaited, any other one runs in a thread.

        Canceled before the model is done it charges nothing; canceled while it charges, the charge may stand.
        """
        answers = await self._classifier.aanswers(*checked_inputs(inputs, self.max_characters))
        return await asyncio.to_thread(self.middleware.release, answers)

    def classify_batches(self, batches: Iterable[Any]) -> Iterator[Classifications]:
        """`classify` for each batch of a stream, on demand. Every batch is a release with its own receipt and charge."""
        return map(self.classify, _checked_batches(batches, Iterable))

    def aclassify_batches(self, batches: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Classifications]:
        """`classify_batches` for asyncio; batches may come from an asynchronous source."""
        found = _checked_batches(batches, (Iterable, AsyncIterable))

        async def answered() -> AsyncIterator[Classifications]:
            async for batch in each(found):
                yield await self.aclassify(batch)

        return answered()

    def _answers(self, inputs: Any) -> Answers:
        return self._classifier.answers(*checked_inputs(inputs, self.max_characters))


def _checked_batches(batches: Any, kinds: Any) -> Any:
    validate.instance("batches", batches, kinds, "an iterable of batches", but=str)
    return batches


class PrivateEstimator(PrivateClassifier):
    """A `PrivateClassifier` around an estimator: it predicts too. It has no scores of its own."""

    @property
    def classes_(self) -> Any:
        """The public labels as an array, in their given order."""
        return self.middleware.plan.mechanism.labels_in_numpy.copy()

    def predict(self, inputs: Any) -> PrivateLabels:
        """Return private labels as an array with its receipt. Arguments and errors are those of `classify`.

        There are no scores beside the labels, so they are private with scores="source" too.
        """
        return self.middleware.release_labels(self._answers(inputs))

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("predict_proba", "predict_log_proba", "decision_function"):
            raise AttributeError(f"{name} is not offered: a model's scores tell what its label is; classify and predict are private")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


# ---- classifiers; nothing here is private ----


Call = Callable[[Any], Any]
TAKES = ("auto", "batch", "one")

# Types that are labels as they are.
_PLAIN = frozenset({str, int, float, bool})
_PIPELINE_TASKS = ("text-classification", "image-classification", "audio-classification", "video-classification")


@dataclass(frozen=True)
class Answers:
    """A model's labels, input by input, and its answers in full where it answered more."""

    labels: list[Any]
    in_full: list[Classification] | None = None


class Classifier:
    """A model behind one method: a callable, synchronous (`call`), asynchronous (`acall`) or one of each.

    `takes` is what it takes: "batch", "one", or "auto" until its answers tell. `predicts`: whether it is an estimator.
    """

    def __init__(self, call: Call | None, acall: Call | None = None, takes: str = "batch", *, predicts: bool = False) -> None:
        self._call, self._acall, self._takes, self.predicts = call, acall, takes, predicts

    def answers(self, inputs: Any, count: int) -> Answers:
        """Return the model's answers to `count` inputs."""
        if not count:
            return read_answers([], 0)
        if self._call is None:
            raise TypeError("model must be synchronous here: it is a coroutine function, use aclassify")
        if self._takes == "batch":
            return read_answers(self._call(inputs), count)
        if self._takes == "one":
            return _joined(self._call(one) for one in inputs)
        return self._found_out(self._call, inputs, count)

    async def aanswers(self, inputs: Any, count: int) -> Answers:
        """`answers` for asyncio: in a thread, unless the model itself is asynchronous."""
        if self._acall is None or not count:
            return await asyncio.to_thread(self.answers, inputs, count)
        if self._takes == "one":
            return _joined([await self._acall(one) for one in inputs])
        return read_answers(await self._acall(inputs), count)

    def _found_out(self, call: Call, inputs: Any, count: int) -> Answers:
        """Try all inputs at once; a callable that cannot take them, or has one answer for all, wants one at a time, always."""
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


def classifier_of(model: Any, *, takes: str, with_scores: bool) -> Classifier:
    """Return a model in the form of a `Classifier`."""
    validate.choice("takes", takes, TAKES)
    if any(kind.__module__.startswith("transformers.pipelines") for kind in type(model).__mro__):
        task = getattr(model, "task", None)
        if task not in _PIPELINE_TASKS:
            raise TypeError(f"model must be a pipeline for one of {', '.join(_PIPELINE_TASKS)}, got one for {task!r}")
        return Classifier(partial(_asked, model))
    if callable(getattr(model, "classify", None)):
        if iscoroutinefunction(model.classify):
            return Classifier(None, model.classify)
        return Classifier(model.classify, getattr(model, "aclassify", None))
    if callable(getattr(model, "predict", None)):
        return Classifier(partial(_predicted, model, with_scores=with_scores), predicts=True)
    if callable(model):
        is_async = iscoroutinefunction(model) or iscoroutinefunction(type(model).__call__)
        return Classifier(None if is_async else model, model if is_async else None, takes)
    raise TypeError(
        "model must be callable, have a method classify or predict, or be a transformers pipeline for classification, "
        f"got {validate.kind(model)}"
    )


def checked_inputs(inputs: Any, max_characters: int) -> tuple[Any, int]:
    """Return the inputs and how many they are; one str is a list of one."""
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


def _asked(pipeline: Any, inputs: Any) -> Any:
    """What a transformers pipeline returns."""
    for place, text in enumerate(inputs if pipeline.task == "text-classification" else ()):
        if not isinstance(text, str | dict):
            found = f"{validate.kind(text)} at position {place}"
            raise TypeError(f"inputs must be str for a text classification pipeline, got {found}")
    return pipeline(list(inputs))


def _predicted(model: Any, inputs: Any, with_scores: bool) -> Answers:
    """Return the answers of whatever has `predict`, as scikit-learn's estimators do."""
    labels = read_answers(model.predict(inputs), int(inputs.shape[0]) if hasattr(inputs, "shape") else len(inputs)).labels
    name = next((one for one in ("predict_proba", "decision_function") if callable(getattr(model, one, None))), None)
    if name is None or not with_scores:
        return Answers(labels)
    scores: Any = np.asarray(getattr(model, name)(inputs), np.float64)
    classes = np.asarray(model.classes_).tolist()
    if name == "decision_function" and scores.ndim == 1 and len(classes) == 2:
        scores = np.stack([-scores, scores], axis=1)
    if scores.shape != (len(labels), len(classes)):
        raise ValueError(f"{name} must return shape {(len(labels), len(classes))}, got {scores.shape}")
    if not np.isfinite(scores).all():
        raise ValueError(f"{name} must return finite scores, got NaN or Inf")
    rows = [dict(zip(classes, row)) for row in scores.tolist()]
    return Answers(labels, [Classification(label, row.get(label), row) for row, label in zip(rows, labels)])


def read_answers(returned: Any, count: int) -> Answers:
    """Read what a model returned for `count` inputs: a list, or a mapping or object with `results` (and `usage`, say)."""
    if isinstance(returned, Answers):  # of `_predicted`
        return returned
    values = _listed(_results(returned))
    if len(values) != count:
        raise ValueError(f"model must return one answer per input, got {len(values)} for {count}")
    if _PLAIN.issuperset(map(type, values)):
        return Answers(values)
    return _joined(values)


def read_answer(value: Any, place: int) -> Classification:
    """Read one answer, in any of the shapes that models return."""
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


def _best(ranked: list[Any], place: int) -> Classification:
    """Return the likeliest of a list of labels with scores for one input, and all of them."""
    scores: dict[Any, float] = {}
    for one in ranked:
        read = read_answer(one, place) if isinstance(one, Mapping) or hasattr(one, "label") else None
        if read is None or read.score is None:
            raise ValueError(f"an answer that is a list must hold labels with scores, got {one!r:.60} at position {place}")
        scores[read.label] = read.score
    if not scores:
        raise ValueError(f"an answer must have at least one label, got an empty list at position {place}")
    label = max(scores, key=scores.__getitem__)
    return Classification(label, scores[label], scores)


def _answer(label: Any, score: Any, all_scores: Any, place: int) -> Classification:
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
    return Classification(label, score, all_scores)


def _joined(values: Iterable[Any]) -> Answers:
    """Return answers from one value of a model for each input."""
    read = [read_answer(value, place) for place, value in enumerate(values)]
    return Answers([answer.label for answer in read], read)


def _is_batch(returned: Any) -> bool:
    """Return whether this can only be a sequence of answers."""
    returned = _results(returned)
    if isinstance(returned, np.ndarray):
        return returned.ndim > 0
    if isinstance(returned, str | bytes | tuple | Mapping):
        return False
    return isinstance(returned, Sequence) or (hasattr(returned, "tolist") and not np.isscalar(returned))


def _results(returned: Any) -> Any:
    """Return the list in an answer such as {"results": [...], "usage": ...}; what is no such answer as it is."""
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
