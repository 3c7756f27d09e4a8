"""Private classification: a middleware that answers by randomized response, models that go through it, and their answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np

from hushvec._native import _core
from hushvec._util import validate
from hushvec.middleware.classifiers import Answers, Classifier, checked_inputs, classifier_of, estimator_classes
from hushvec.middleware.wrap import MOST_CHARACTERS, each
from hushvec.receipts.labels import LabelReceipt
from hushvec.release.charging import Budget
from hushvec.release.labels import LabelPlan, plan_labels

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
        """The names of the fields, as `dict` asks for them."""
        return _FIELDS


class Classifications(Sequence[Classification]):
    """The answers of one release, in the order of the inputs, with its receipt. Slices are plain lists, without one."""

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


class ClassificationMiddleware:
    """The result of `dp_classification_middleware`: takes a model's answers and releases private ones."""

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
        true = codes.tolist()
        nothing = [None] * len(true)
        rows = zip(true, answered, answers.scores or nothing, answers.all_scores or nothing)
        released = (
            Classification(self.labels[code], score, scores) if kept == code else flipped[code] for kept, code, score, scores in rows
        )
        return Classifications(released, receipt)

    def release_labels(self, answers: Answers) -> PrivateLabels:
        """The labels alone, as an array; private whatever `scores` is."""
        plan = self._labels_alone
        drawn, receipt = plan.release(plan.codes(answers.labels, _LABEL_OF))
        return PrivateLabels.of(plan.in_numpy(drawn), receipt)


def dp_classification_middleware(
    *,
    epsilon: float,
    labels: Sequence[Hashable],
    scores: str = "uniform",
    budget: Budget | None = None,
    per: str = "record",
    generator: _core.Generator | None = None,
) -> ClassificationMiddleware:
    """Make the answers of a classifier private: the model's label with probability e^epsilon / (e^epsilon + k - 1), else another one.

    Args:
        epsilon: > 0; of one answer for per="record", of all answers of a call for per="release".
        labels: the k possible labels, str, int, float or bool, all different; public. Every label of the model must be among them.
        scores: "uniform": every answer has the score 1/k, and no all_scores. "source": flipped answers have 1/k and no all_scores,
            and kept ones the model's own. NOT private: the score shows whether the label is true, so no epsilon bounds what
            an answer reveals. The receipts say so and claim nothing.
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged for every release before anything is drawn.
            With scores="source" it must be None: there is no epsilon to charge.
        per: "record": every input is about another person. "release": all inputs of a call are about one person, and each of n
            answers gets epsilon / n.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy: the
            receipts say so, and together with a budget it is refused.

    Returns:
        A middleware for `wrap_classification_model`. One may serve any number of models and threads.

    Raises:
        TypeError, ValueError: duplicate labels, fewer than 2 or more than 2^24; an epsilon too small to prefer the truth; a budget
            where there is no privacy to account for.

    Guarantees:
        With scores="uniform" and a key from the operating system, each answer is (epsilon, 0)-DP under replacement of its input
        (per="record"), or all answers of a call under replacement of all inputs (per="release"), exact as sampled: what is released
        is the label and a public number. For per="record" the model must answer each input by itself: one that looks at the
        whole batch lets one person move several answers. That is the caller's responsibility, and the receipt notes it.
        The model's own training data is not protected.

    Edge cases:
        An error of the model, or a label that is not in the list, ends the call before anything is charged; it is visible to anyone
        who sees that the call failed.

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
    """A classifier whose answers are private.

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
        Those of `dp_classification_middleware`. Whatever the model returns is checked before anything is charged, and the wrapped
        model exposes nothing else.

    Edge cases:
        An estimator that is not fitted yet is checked at its first answers. A model may be wrapped several times: each use of each
        wrapped model is a separate release.

    Reference:
        docs/classification.md.

    Example:
        >>> from hushvec.middleware.classification import dp_classification_middleware, wrap_classification_model
        >>> middleware = dp_classification_middleware(epsilon=3.0, labels=["ham", "spam"])
        >>> model = wrap_classification_model(lambda texts: [("spam", 0.97)] * len(texts), middleware)
        >>> sorted(set(model(["win a prize"] * 1000).labels)), model("win a prize").receipt.answers
        (['ham', 'spam'], 1)
    """
    if not isinstance(middleware, ClassificationMiddleware):
        raise TypeError(f"middleware must be made by dp_classification_middleware, got {validate.kind(middleware)}")
    if isinstance(model, PrivateClassifier):
        raise ValueError("model must not be wrapped already: its answers would be randomized twice")
    classifier = classifier_of(model, takes=takes, with_scores=middleware.plan.scores == "source")
    limit = validate.whole_number("max_characters", max_characters, at_least=1)
    if not classifier.predicts:
        return PrivateClassifier(classifier, middleware, limit)
    classes = estimator_classes(model)
    if classes is not None:
        middleware.plan.codes(classes, "classes_ of the model")
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
        """Private answers to inputs.

        Args:
            inputs: a sequence of inputs, an array of rows, or one str; at least one, none of them None, and either all str or none.

        Returns:
            Classifications: one answer per input, with the receipt of the release.

        Raises:
            TypeError, ValueError: bad inputs; a model that returns not one answer per input, None, a score that is not finite, or a
                label that is not in the list. Nothing is charged then.
            PrivacyBudgetExhaustedError, BudgetError: the budget refuses, or cannot be used; nothing is released.
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
        if isinstance(batches, str) or not isinstance(batches, Iterable):
            raise TypeError(f"batches must be an iterable of batches, got {validate.kind(batches)}")
        return map(self.classify, batches)

    def aclassify_batches(self, batches: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Classifications]:
        """`classify_batches` for asyncio; batches may come from an asynchronous source."""
        if isinstance(batches, str) or not isinstance(batches, Iterable | AsyncIterable):
            raise TypeError(f"batches must be an iterable of batches, got {validate.kind(batches)}")

        async def answered() -> AsyncIterator[Classifications]:
            async for batch in each(batches):
                yield await self.aclassify(batch)

        return answered()

    def _answers(self, inputs: Any) -> Answers:
        return self._classifier.answers(*checked_inputs(inputs, self.max_characters))


class PrivateEstimator(PrivateClassifier):
    """A `PrivateClassifier` around an estimator: it predicts too. It has no scores of its own."""

    @property
    def classes_(self) -> Any:
        """The public labels as an array, in their given order."""
        return self.middleware.plan.mechanism.labels_in_numpy.copy()

    def predict(self, inputs: Any) -> PrivateLabels:
        """Private labels as an array with its receipt. Arguments and errors are those of `classify`.

        There are no scores beside the labels, so they are private with scores="source" too.
        """
        return self.middleware.release_labels(self._answers(inputs))

    def __getattr__(self, name: str) -> NoReturn:
        if name in ("predict_proba", "predict_log_proba", "decision_function"):
            raise AttributeError(f"{name} is not offered: a model's scores tell what its label is; classify and predict are private")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
