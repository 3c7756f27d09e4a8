"""Private classifiers over scikit-learn's estimators, real ones."""

import subprocess
import sys

import numpy as np
import pytest

import hushvec as hv
from hushvec.middleware import PrivateEstimator, PrivateLabels, dp_classification_middleware, wrap_classification_model

sklearn = pytest.importorskip("sklearn")

from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.feature_extraction.text import TfidfVectorizer  # noqa: E402
from sklearn.linear_model import LogisticRegression, RidgeClassifier  # noqa: E402
from sklearn.metrics import accuracy_score  # noqa: E402
from sklearn.multioutput import MultiOutputClassifier  # noqa: E402
from sklearn.naive_bayes import GaussianNB  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.svm import LinearSVC  # noqa: E402
from sklearn.tree import DecisionTreeClassifier  # noqa: E402

LABELS = ["calm", "glad", "tired"]
X = np.random.default_rng(3).normal(size=(120, 3))
Y = np.array(LABELS)[X.argmax(axis=1)]
SURE = 60.0


class Counting:
    def __init__(self):
        self.charges = []

    def consume(self, epsilon, delta):
        self.charges.append((epsilon, delta))


def wrapped(model, labels=LABELS, **arguments):
    return wrap_classification_model(model, dp_classification_middleware(**{"epsilon": SURE, "labels": labels, **arguments}))


ESTIMATORS = [LogisticRegression(), GaussianNB(), RidgeClassifier(), LinearSVC(), DecisionTreeClassifier(random_state=0)]


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=lambda estimator: type(estimator).__name__)
@pytest.mark.parametrize("scores", ["uniform", "source"])
def test_an_estimator_answers_as_itself_when_epsilon_is_large(estimator, scores):
    model = estimator.fit(X, Y)
    private = wrapped(model, scores=scores)
    truth = model.predict(X)
    assert isinstance(private, PrivateEstimator)
    assert private.predict(X).tolist() == private.classify(X).labels == private(X).labels == truth.tolist()
    answers = private.classify(X)
    if scores == "uniform":
        assert {(answer.score, answer.all_scores) for answer in answers} == {(1 / 3, None)}
        return
    has_proba = hasattr(model, "predict_proba")
    matrix = model.predict_proba(X) if has_proba else model.decision_function(X)
    for answer, row in zip(answers, matrix):
        assert answer.all_scores == dict(zip(LABELS, row.tolist()))
        assert answer.score == answer.all_scores[answer.label]


@pytest.mark.parametrize("estimator", [RidgeClassifier(), LogisticRegression()], ids=lambda estimator: type(estimator).__name__)
def test_two_classes(estimator):
    """A decision function of two classes is one number, positive for the second."""
    y = np.where(X[:, 0] > 0, 1, 0)
    model = estimator.fit(X, y)
    answers = wrapped(model, labels=[0, 1], scores="source").classify(X)
    assert answers.labels == model.predict(X).tolist()
    assert all(answer.score == max(answer.all_scores.values()) for answer in answers)
    assert wrapped(model, labels=[0, 1]).predict(X).dtype.kind == "i"


def test_predict_is_private_and_carries_its_receipt():
    """At epsilon = 1 of 3 labels 12,000 predictions agree with the model's with e/(e + 2) = 0.576; alpha 1e-6 by the binomial law."""
    from scipy import stats

    model = LogisticRegression().fit(X, Y)
    private = wrapped(model, epsilon=1.0, generator=hv.Generator.unsafe_seeded(8))
    many = np.tile(X, (100, 1))
    labels = private.predict(many)
    agreeing = round(accuracy_score(model.predict(many), labels) * len(many))
    p = np.e / (np.e + 2)
    assert stats.binomtest(agreeing, len(many), p).pvalue > 1e-6
    assert stats.binomtest(agreeing, len(many), 1.05 * p).pvalue < 1e-6
    assert isinstance(labels, PrivateLabels)
    assert labels.receipt.answers == len(many)
    assert labels[:10].receipt is None
    assert (labels == "calm").receipt is None
    assert labels.receipt.scores == "none"
    assert set(labels.tolist()) <= set(LABELS)


def test_labels_alone_are_private_whatever_stands_beside_answers():
    private = wrapped(LogisticRegression().fit(X, Y), scores="source")
    assert hv.verify_receipt(private.predict(X).receipt).status == "holds"
    assert hv.verify_receipt(private.classify(X).receipt).status == "not a DP claim"


@pytest.mark.parametrize("name", ["predict_proba", "predict_log_proba", "decision_function"])
def test_scores_are_not_offered(name):
    private = wrapped(LogisticRegression().fit(X, Y))
    with pytest.raises(AttributeError, match=f"{name} is not offered: a model's scores tell what its label is"):
        getattr(private, name)(X)
    assert not hasattr(private, name)
    with pytest.raises(AttributeError, match="'PrivateEstimator' object has no attribute 'coef_'"):
        private.coef_  # noqa: B018


def test_classes():
    model = LogisticRegression().fit(X, Y)
    with pytest.raises(ValueError, match="classes_ of the model must be among the 2 labels") as caught:
        wrapped(model, labels=["calm", "glad"])
    assert "got 'tired' at position 2" in str(caught.value)
    private = wrapped(model, labels=["angry", *LABELS])
    assert private.classes_.tolist() == ["angry", *LABELS]
    private.classes_[0] = "changed"
    assert private.classes_[0] == "angry"
    assert private.predict(X).tolist() == model.predict(X).tolist()


def test_a_pipeline_of_texts():
    texts = ["good day", "bad day", "good", "bad", "so bad", "so good"]
    model = make_pipeline(TfidfVectorizer(), LogisticRegression()).fit(texts, ["up", "down", "up", "down", "down", "up"])
    private = wrapped(model, labels=["down", "up"])
    assert private.classify(texts).labels == private.predict(texts).tolist() == model.predict(texts).tolist()
    assert private.classify("good").labels == ["up"]
    with pytest.raises(TypeError, match="inputs must not hold None"):
        private.predict(["good", None])


class NanProbabilities(GaussianNB):
    def predict_proba(self, X):  # noqa: N803
        return np.full((len(X), 3), np.nan)


class WrongShape(GaussianNB):
    def predict_proba(self, X):  # noqa: N803
        return np.full((len(X), 2), 0.5)


def test_what_fails_charges_nothing():
    for failing, inputs, error in [
        (LogisticRegression(), X, NotFittedError),
        (LogisticRegression().fit(X, Y), X[:, :2], ValueError),
        (LogisticRegression().fit(X, Y), np.full((2, 3), np.nan), ValueError),
        (LogisticRegression().fit(X, Y), None, TypeError),
        (MultiOutputClassifier(LogisticRegression()).fit(X, np.stack([Y, Y], axis=1)), X, ValueError),
    ]:
        budget = Counting()
        with pytest.raises(error):
            wrapped(failing, budget=budget).predict(inputs)
        assert budget.charges == []
    late = LogisticRegression()
    private = wrapped(late, labels=["calm", "glad"], budget=budget)
    late.fit(X, Y)
    with pytest.raises(ValueError, match="among the 2 labels"):
        private.predict(X)
    assert budget.charges == []


def test_bad_scores_of_an_estimator():
    with pytest.raises(ValueError, match="predict_proba must return finite scores, got NaN or Inf"):
        wrapped(NanProbabilities().fit(X, Y), scores="source").classify(X)
    with pytest.raises(ValueError, match=r"predict_proba must return shape \(120, 3\), got \(120, 2\)"):
        wrapped(WrongShape().fit(X, Y), scores="source").classify(X)
    assert len(wrapped(NanProbabilities().fit(X, Y)).classify(X)) == 120  # uniform scores ask for none


def test_no_rows():
    budget = Counting()
    assert wrapped(LogisticRegression().fit(X, Y), budget=budget).predict(np.zeros((0, 3))).shape == (0,)
    assert budget.charges == []


def test_a_classifier_of_many_people_answers_as_itself_when_epsilon_is_large(tmp_path):
    """Its own receipt is for the people that it was made of; that of an answer is for the asker."""
    from hushvec.aggregates import LinearClassifier, private_classifier

    private_classifier(X, Y, labels=LABELS, epsilon=2.0, delta=1e-5).save(tmp_path / "moods.npz")
    model = LinearClassifier.load(tmp_path / "moods.npz")
    private = wrapped(model, labels=model.classes_.tolist(), scores="source")
    answers = private.classify(X)
    assert answers.labels == private.predict(X).tolist() == model.predict(X).tolist() and len(set(answers.labels)) > 1
    assert answers[0].all_scores == dict(zip(LABELS, model.predict_proba(X)[0].tolist()))
    by_text = wrapped(lambda texts: model.predict(X[[len(text) for text in texts]]))
    assert by_text.classify(["a", "bc"]).labels == model.predict(X[1:3]).tolist()
    assert (model.receipt.epsilon, wrapped(model).classify(X[:2]).receipt.epsilon) == (2.0, SURE)


def test_predict_charges_once():
    budget = hv.PrivacyBudget(4.0)
    private = wrapped(LogisticRegression().fit(X, Y), epsilon=2.0, budget=budget)
    receipts = [private.predict(X).receipt, private.classify(X).receipt]
    assert budget.consumed() == 4.0
    assert hv.verify_charges(receipts, budget.export()).status == "holds"


def test_scikit_learn_is_not_imported_by_wrapping():
    code = (
        "import sys, hushvec.middleware as m\n"
        "model = m.wrap_classification_model(type('E', (), {'predict': lambda self, x: ['a'] * len(x)})(),\n"
        "    m.dp_classification_middleware(epsilon=1.0, labels=['a', 'b']))\n"
        "assert len(model.predict([[1], [2]])) == 2\n"
        "assert not {'sklearn', 'transformers', 'torch'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
