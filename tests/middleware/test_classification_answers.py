"""Private classifiers over callables: every shape of an answer, every kind of bad one, and that only releases are charged."""

import re
import types

import numpy as np
import pytest

import hushvec as hv
from hushvec.middleware import (
    Classification,
    Classifications,
    PrivateClassifier,
    dp_classification_middleware,
    wrap_classification_model,
)

LABELS = ["negative", "neutral", "positive"]
TEXTS = ["a good day", "rain", "so so"]
TRUTH = ["positive", "negative", "neutral"]
SCORES = [0.9, 0.8, 0.7]
SURE = 60.0  # an answer is then wrong with a probability below 2^-62


def truth_of(text):
    return TRUTH[TEXTS.index(text)]


class Counting:
    """A budget that only counts."""

    def __init__(self):
        self.charges = []

    def consume(self, epsilon, delta):
        self.charges.append((epsilon, delta))


class Answer:
    def __init__(self, label, score=None):
        self.label, self.score = label, score


class WithClassify:
    def classify(self, texts):
        return [Answer(truth_of(text), 0.5) for text in texts]


def wrapped(model, *, takes="auto", **arguments):
    middleware = dp_classification_middleware(**{"epsilon": SURE, "labels": LABELS, **arguments})
    return wrap_classification_model(model, middleware, takes=takes)


def ranked(text):
    others = [{"label": label, "score": 0.1} for label in LABELS if label != truth_of(text)]
    return [others[0], {"label": truth_of(text), "score": 0.8}, others[1]]


MODELS = {
    "batch of labels": lambda texts: list(map(truth_of, texts)),
    "array of labels": lambda texts: np.array(list(map(truth_of, texts))),
    "array of objects": lambda texts: np.array(list(map(truth_of, texts)), dtype=object),
    "(label, score)": lambda texts: [(truth_of(text), 0.5) for text in texts],
    "mapping": lambda texts: [{"label": truth_of(text), "score": np.float32(0.5)} for text in texts],
    "label only mapping": lambda texts: [{"label": truth_of(text)} for text in texts],
    "objects": lambda texts: [Answer(truth_of(text), 0.5) for text in texts],
    "ranked lists": lambda texts: [ranked(text) for text in texts],
    "numpy strings": lambda texts: [np.str_(truth_of(text)) for text in texts],
    "results": lambda texts: {"results": [{"label": truth_of(text), "score": 0.5} for text in texts], "usage": {"tokens": 3}},
    "an object with results": lambda texts: types.SimpleNamespace(results=list(map(truth_of, texts)), usage={"tokens": 3}),
    "one label": lambda text: truth_of(text),
    "one (label, score)": lambda text: (truth_of(text), 0.5),
    "one mapping": lambda text: {"label": truth_of(text), "score": 0.5},
    "one object": lambda text: Answer(truth_of(text), 0.5),
    "one that wants a str": lambda text: truth_of(text.strip()),
    "one that wants text for re": lambda text: truth_of(re.sub("!", "", text)),
    "method classify": WithClassify(),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("scores", ["uniform", "source"])
def test_every_shape_of_an_answer(name, scores):
    model = wrapped(MODELS[name], scores=scores)
    for _ in range(2):
        answers = model.classify(TEXTS)
        assert answers.labels == TRUTH
        assert model(tuple(TEXTS)).labels == TRUTH
        assert model.classify(TEXTS[1]).labels == [TRUTH[1]]
        assert model.classify(TEXTS[:1]).labels == TRUTH[:1]
    if scores == "uniform":
        assert {(answer.score, answer.all_scores) for answer in answers} == {(1 / 3, None)}
        assert answers.receipt.is_dp_claim
    else:
        assert all(answer.score in (None, 0.5, 0.8) for answer in answers)
        assert not answers.receipt.is_dp_claim


def test_what_a_batch_of_answers_is():
    answers = wrapped(MODELS["mapping"]).classify(TEXTS)
    assert isinstance(answers, Classifications)
    assert len(answers) == len(list(answers)) == 3
    assert answers[0] == Classification("positive", 1 / 3)
    assert answers[-1]["label"] == "neutral"
    assert dict(answers[0]) == {"label": "positive", "score": 1 / 3, "all_scores": None}
    assert type(answers[1:]) is list
    with pytest.raises(KeyError):
        answers[0]["text"]
    with pytest.raises(AttributeError):
        answers[0].score = 1.0
    receipt = answers.receipt
    assert (receipt.answers, receipt.scores, receipt.epsilon, receipt.label_count) == (3, "uniform", SURE, 3)
    assert "each answer is taken to depend on its own input only" in receipt.notes
    assert hv.verify_receipt(receipt).status == "holds"
    assert hv.verify_receipt(receipt.to_dict()).status == "holds"


def test_the_source_scores_are_those_of_the_source_document():
    """Flipped answers: 1/k and no all_scores; kept ones: untouched. At epsilon = 1 both occur in 2,000 answers."""
    generator = hv.Generator.unsafe_seeded(5)
    model = wrapped(MODELS["ranked lists"], scores="source", epsilon=1.0, generator=generator)
    answers = model.classify([TEXTS[0]] * 2000)
    kept = [answer for answer in answers if answer.label == TRUTH[0]]
    flipped = [answer for answer in answers if answer.label != TRUTH[0]]
    assert min(len(kept), len(flipped)) > 500
    assert {(answer.score, answer.all_scores) for answer in flipped} == {(1 / 3, None)}
    assert all(answer.score == 0.8 and sorted(answer.all_scores.values()) == [0.1, 0.1, 0.8] for answer in kept)


def test_uniform_answers_of_a_label_are_all_one_value():
    model = wrapped(MODELS["ranked lists"], epsilon=1.0)
    answers = model.classify(TEXTS * 300)
    assert len({repr(answer) for answer in answers}) == 3
    assert len({id(answer) for answer in answers}) == 3


def test_one_person_shares_epsilon():
    answers = wrapped(MODELS["batch of labels"], epsilon=3.0, per="release").classify(TEXTS)
    assert (answers.receipt.per, answers.receipt.epsilon) == ("release", 3.0)
    assert "each answer is taken" not in " ".join(answers.receipt.notes)
    single = wrapped(MODELS["batch of labels"], epsilon=1.0).classify(TEXTS).receipt
    assert answers.receipt.truth_values == single.truth_values


def test_labels_of_other_kinds():
    model = wrap_classification_model(
        lambda rows: (np.asarray(rows) > 0).sum(axis=1), dp_classification_middleware(epsilon=SURE, labels=range(4))
    )
    assert model.classify(np.eye(3)).labels == [1, 1, 1]
    assert model.classify([[1, 1, 1], [-1, -1, -1]]).labels == [3, 0]


def test_a_callable_that_takes_one_may_return_a_list_if_it_says_so():
    model = wrapped(ranked, takes="one", scores="source")
    assert model.classify(TEXTS).labels == TRUTH
    assert model.classify(TEXTS)[0].score == 0.8
    with pytest.raises(TypeError, match="ambiguous, use takes='one' or takes='batch'"):
        wrapped(lambda text: "positive" if isinstance(text, list) else [("positive", 1.0)]).classify(TEXTS)
    with pytest.raises(AttributeError, match="strip"):
        wrapped(lambda text: [{"label": truth_of(text.strip()), "score": 1.0}]).classify(TEXTS)


def test_a_broken_callable_shows_both_of_its_errors():
    def broken(texts):
        raise TypeError("weights are missing") if isinstance(texts, list) else ValueError("not a text")

    with pytest.raises(ValueError, match="not a text") as caught:
        wrapped(broken).classify(TEXTS)
    assert "weights are missing" in str(caught.value.__cause__)


@pytest.mark.parametrize("kind", ["batch", "one"])
def test_what_a_callable_takes_is_found_out_once(kind):
    asked = []

    def model(given):
        asked.append(given)
        if isinstance(given, list):
            return list(map(truth_of, given)) if kind == "batch" else "neutral"
        return truth_of(given)

    private = wrapped(model)
    private.classify(TEXTS)
    assert asked == ([TEXTS] if kind == "batch" else [TEXTS, *TEXTS])
    asked.clear()
    private.classify(TEXTS)
    assert asked == ([TEXTS] if kind == "batch" else TEXTS)
    asked.clear()
    with pytest.raises(ValueError, match="is not in list"):
        private.classify(["unheard of"])
    assert asked == ([["unheard of"]] if kind == "batch" else ["unheard of"])


def returning(value):
    return lambda texts: value


BAD_ANSWERS = {
    "unknown label": (
        ["positive", "mixed", "neutral"],
        ValueError,
        "the model's label must be among the 3 labels ['negative', 'neutral', 'positive'], got 'mixed' at position 1",
    ),
    "unknown label with a score": ([("good", 0.9)] * 3, ValueError, "got 'good' at position 0"),
    "flag": ([True, False, True], ValueError, "got True at position 0"),
    "too few": (["positive"] * 2, ValueError, "model must return one answer per input, got 2 for 3"),
    "too many": (["positive"] * 4, ValueError, "model must return one answer per input, got 4 for 3"),
    "none at all": ([], ValueError, "model must return one answer per input, got 0 for 3"),
    "None": (None, TypeError, "model must return a list of answers, one per input, got NoneType"),
    "None among them": (
        ["positive", None, "neutral"],
        ValueError,
        "model must return a label for every input, got None at position 1",
    ),
    "None with a score": ([(None, 0.5)] * 3, ValueError, "model must return a label for every input, got None at position 0"),
    "NaN score": ([("positive", float("nan"))] * 3, ValueError, "the score at position 0 must be finite, got nan"),
    "Inf score": ([("positive", float("inf"))] * 3, ValueError, "the score at position 0 must be finite, got inf"),
    "NaN float32": ([("positive", np.float32("nan"))] * 3, ValueError, "the score at position 0 must be finite"),
    "NaN among all": (
        [{"label": "positive", "score": 0.5, "all_scores": {"positive": 0.5, "neutral": float("nan")}}] * 3,
        ValueError,
        "a score at position 0 must be finite, got nan",
    ),
    "all_scores in a list": ([{"label": "positive", "all_scores": [0.5]}] * 3, TypeError, "all_scores must be a mapping"),
    "score in words": ([("positive", "high")] * 3, TypeError, "the score at position 0 must be a number, got str"),
    "score as a flag": ([("positive", True)] * 3, TypeError, "the score at position 0 must be a number, got bool"),
    "mapping without label": ([{"class": "positive"}] * 3, ValueError, "must have the key 'label', got ['class'] at position 0"),
    "tuple of three": ([("positive", 0.5, 1)] * 3, ValueError, "a tuple of 3 at position 0"),
    "list of labels": ([["positive"]] * 3, ValueError, "an answer that is a list must hold labels with scores, got 'positive'"),
    "list without scores": ([[{"label": "positive"}]] * 3, ValueError, "an answer that is a list must hold labels with scores"),
    "empty list": ([[]] * 3, ValueError, "an answer must have at least one label, got an empty list at position 0"),
    "probabilities": (np.full((3, 3), 0.3), ValueError, "model must return one label per input, got an array of shape (3, 3)"),
    "one number": (np.float64(0.5), ValueError, "model must return one label per input, got an array of shape ()"),
    "iterator": (iter(["positive"] * 3), TypeError, "model must return a list of answers, one per input, got list_iterator"),
    "str": ("pos", TypeError, "model must return a list of answers, one per input, got str"),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_a_bad_answer_is_named_and_nothing_is_charged(name):
    value, kind, text = BAD_ANSWERS[name]
    budget = Counting()
    model = wrapped(returning(value), takes="batch", budget=budget)
    with pytest.raises(kind) as caught:
        model.classify(TEXTS)
    assert text in str(caught.value)
    assert len(str(caught.value)) < 300
    assert budget.charges == []


@pytest.mark.parametrize("name", BAD_ANSWERS)
def test_a_bad_answer_is_refused_without_a_hint_too(name):
    value, _, _ = BAD_ANSWERS[name]
    budget = Counting()
    with pytest.raises((TypeError, ValueError)):
        wrapped(returning(value), budget=budget).classify(TEXTS)
    assert budget.charges == []


def test_an_error_of_the_model_passes_through():
    def failing(texts):
        raise RuntimeError("out of memory")

    for takes in ("auto", "batch", "one"):
        budget = Counting()
        with pytest.raises(RuntimeError, match="out of memory"):
            wrapped(failing, takes=takes, budget=budget).classify(TEXTS)
        assert budget.charges == []


BAD_INPUTS = [
    (None, "inputs must be a sequence of inputs or an array of rows, got NoneType"),
    (7, "inputs must be a sequence of inputs or an array of rows, got int"),
    (b"text", "inputs must be a sequence of inputs or an array of rows, got bytes"),
    ({"text": "a"}, "inputs must be a sequence of inputs or an array of rows, got dict"),
    ((text for text in TEXTS), "inputs must be a sequence of inputs or an array of rows, got generator"),
    (["a", None], "inputs must not hold None"),
    (np.array(["a", None]), "inputs must not hold None"),
    (["a", 7], "inputs must be all str or none of them, got int at position 1"),
    ([b"b", "a"], "inputs must be all str or none of them, got bytes at position 0"),
    (np.float64(3.0), "inputs must have rows, got an array without dimensions"),
    ("good " * 200_000, "inputs must have at most 100000 characters each, got 1000000 at position 0 (a model reads only"),
    (np.array(["a", "good " * 200_000]), "inputs must have at most 100000 characters each, got 1000000 at position 1"),
]


@pytest.mark.parametrize(("inputs", "text"), BAD_INPUTS, ids=lambda value: str(value)[:30])
def test_bad_inputs_never_reach_the_model(inputs, text):
    asked, budget = [], Counting()
    with pytest.raises((TypeError, ValueError)) as caught:
        wrapped(asked.append, budget=budget).classify(inputs)
    assert text in str(caught.value)
    assert (asked, budget.charges) == ([], [])


def test_longer_texts_on_request():
    middleware = dp_classification_middleware(epsilon=SURE, labels=LABELS)
    model = wrap_classification_model(lambda text: "positive" if "good" in text else "negative", middleware, max_characters=2**20)
    assert model.classify("good " * 200_000).labels == ["positive"]
    for wrong, kind in [(0, ValueError), (1.5, TypeError), (True, TypeError)]:
        with pytest.raises(kind, match="max_characters must be"):
            wrap_classification_model(truth_of, middleware, max_characters=wrong)


def test_one_charge_a_release():
    budget = hv.PrivacyBudget(5.0)
    model = wrapped(MODELS["batch of labels"], epsilon=2.0, budget=budget)
    receipts = [model.classify(TEXTS).receipt, model.classify(TEXTS).receipt]
    assert budget.consumed() == 4.0
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        model.classify(TEXTS)
    assert hv.verify_charges(receipts, budget.export()).status == "holds"


BAD_SETTINGS = [
    (dict(scores="all"), ValueError, "scores must be one of 'uniform', 'source', got 'all'"),
    (dict(scores="none"), ValueError, "scores must be one of 'uniform', 'source', got 'none'"),
    (dict(scores=None), TypeError, "scores must be a str, got NoneType"),
    (dict(labels=["a"]), ValueError, "labels must be at least 2, got 1"),
    (dict(labels=["a", "b", "a"]), ValueError, "labels must be all different, got 'a' twice"),
    (dict(labels="abc"), TypeError, "labels must be a sequence of labels, got str"),
    (dict(labels=[["a"], ["b"]]), TypeError, "labels must be hashable, got list"),
    (dict(epsilon=0), ValueError, "epsilon must be > 0, got 0.0"),
    (dict(epsilon=float("inf")), ValueError, "epsilon must be finite, got inf"),
    (dict(epsilon=True), TypeError, "epsilon must be a number, got bool"),
    (dict(per="person"), ValueError, "per must be one of 'record', 'release', got 'person'"),
    (dict(budget=1.0), TypeError, "budget must have a method consume(epsilon, delta), got float"),
    (dict(scores="source", budget=Counting()), ValueError, "budget must be None with scores='source'"),
    (dict(generator=hv.Generator.unsafe_seeded(1), budget=Counting()), ValueError, "budget must be None with a seeded generator"),
]


@pytest.mark.parametrize(("changes", "kind", "text"), BAD_SETTINGS, ids=lambda value: str(value)[:40])
def test_bad_settings_are_refused_at_once(changes, kind, text):
    with pytest.raises(kind) as caught:
        dp_classification_middleware(**{"epsilon": 1.0, "labels": LABELS, **changes})
    assert text in str(caught.value)


def test_what_cannot_be_wrapped():
    middleware = dp_classification_middleware(epsilon=1.0, labels=LABELS)
    with pytest.raises(TypeError, match="model must be callable, have a method classify or predict"):
        wrap_classification_model(object(), middleware)
    with pytest.raises(TypeError, match="middleware must be made by dp_classification_middleware, got list"):
        wrap_classification_model(truth_of, [middleware])
    with pytest.raises(ValueError, match="takes must be one of 'auto', 'batch', 'one', got 'many'"):
        wrap_classification_model(truth_of, middleware, takes="many")
    model = wrap_classification_model(truth_of, middleware)
    assert isinstance(model, PrivateClassifier)
    assert not hasattr(model, "predict")
    with pytest.raises(ValueError, match="model must not be wrapped already"):
        wrap_classification_model(model, middleware)
