"""scikit-learn: its checks, pipelines, clones, data frames, and bad input of numbers."""

import numpy as np
import pytest

import hushvec as hv
from integrations.adapter_cases import DIMENSION, EPSILON, LIMIT, ToyModel, faint, private, unit_row

pytest.importorskip("sklearn")

from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from hushvec.aggregates import class_centroids
from hushvec.integrations.sklearn import PrivateLinearClassifier, PrivateTextTransformer, PrivateTransformer
from hushvec.mechanisms import PublicProjection

TWICE = "compares the output of two calls, which is two releases with noise of their own"
FAILED_CHECKS = {"check_estimators_pickle": TWICE, "check_fit_idempotent": TWICE}


class LabelsOfY(PrivateLinearClassifier):
    """The checks make labels of their own, taken here for the public list, and compare two fits, which draw here from one key."""

    def fit(self, X, y, people=None):  # noqa: N803
        given = self.get_params() | {"classes": None if y is None else np.unique(np.asarray(y))}
        given |= {"generator": hv.Generator.unsafe_seeded(1)}
        made = PrivateLinearClassifier(**given).fit(X, y, people)
        vars(self).update({name: value for name, value in vars(made).items() if name.endswith("_")})
        return self


@parametrize_with_checks(
    [
        PrivateTransformer(epsilon=4.0),
        PrivateTransformer(epsilon=4.0, mechanism="laplacian"),
        PrivateTransformer(epsilon=4.0, per="release", normalize=True),
        LabelsOfY(epsilon=1000.0),
        LabelsOfY(epsilon=1000.0, method="centroids", adjacency="replace-one"),
    ],
    expected_failed_checks=lambda estimator: {} if isinstance(estimator, LabelsOfY) else FAILED_CHECKS,
)
def test_the_checks_of_scikit_learn(estimator, check):
    check(estimator)


def classes(rows=400):
    """Two kinds of unit rows that a line separates."""
    generator = np.random.default_rng(7)
    labels = generator.integers(0, 2, rows)
    x = generator.normal(size=(rows, 8)) * 0.2
    x[:, 0] += np.where(labels == 1, 1.0, -1.0)
    return x / np.linalg.norm(x, axis=1, keepdims=True), labels


def test_a_pipeline_with_a_classifier():
    x, labels = classes()
    receipts = []
    budget = hv.PrivacyBudget(100.0)
    pipeline = make_pipeline(PrivateTransformer(epsilon=20.0, budget=budget, on_receipt=receipts.append), LogisticRegression())
    assert pipeline.fit(x, labels).score(x, labels) > 0.8
    assert [receipt.rows for receipt in receipts] == [400, 400] and budget.consumed() == 40.0


def test_a_text_pipeline_with_a_classifier():
    texts, labels = ["a", "b"] * 20, [0, 1] * 20
    pipeline = make_pipeline(PrivateTextTransformer(ToyModel(), faint()), LogisticRegression())
    assert pipeline.fit(texts, labels).score(np.array(["b", "a"], object), [1, 0]) == 1.0


def test_a_private_classifier():
    """n = 4,000, two classes whose centers are 2 apart in noise of 0.2: at epsilon 1 a line tells nearly all; one seed of the rows."""
    x, labels = classes(4000)
    topics, receipts = np.array(["tea", "milk"])[labels], []
    budget = hv.PrivacyBudget(10.0)
    settings = {"classes": ["tea", "milk"], "budget": budget, "on_receipt": receipts.append}
    for method, releases in (("steps", 4), ("centroids", 2)):
        pipeline = make_pipeline(FunctionTransformer(), PrivateLinearClassifier(1.0, method=method, steps=2, **settings))
        assert pipeline.fit(x, topics).score(x, topics) > 0.95
        last = pipeline[-1]
        assert last.classes_.tolist() == ["milk", "tea"] and last.receipt_ is receipts[-1] is last.classifier_.receipt
        assert len(last.receipt_.statistics) == releases and hv.verify_receipt(last.receipt_).status == "holds"
        assert ((pipeline.decision_function(x) > 0) == (pipeline.predict(x) == "tea")).all()
        assert (pipeline.predict_proba(x).argmax(axis=1) == (pipeline.predict(x) == "tea")).all()
    cross_val_score(clone(last), x, topics, cv=3)
    assert clone(last).budget is budget and budget.consumed() == 5.0 and len(receipts) == 5


def test_people_of_a_private_classifier():
    """Of 400 rows of 2 people 2 enter: how many rows there are is in a receipt under replace-one with one row each."""
    x, labels = classes(400)
    estimator = PrivateLinearClassifier(1.0, classes=[0, 1], method="centroids", adjacency="replace-one")
    assert make_pipeline(estimator).fit(x, labels, privatelinearclassifier__people=[1, 2] * 200)[-1].receipt_.rows == 2
    with pytest.raises(ValueError, match="people must have 400 elements"):
        estimator.fit(x, labels, people=[1, 2])


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_data_frames_of_a_private_classifier(library):
    """A frame's rows and columns give the classifier that their arrays give with the same key."""
    frames = pytest.importorskip(library)
    x, labels = classes(400)
    frame, topics = frames.DataFrame({f"x{place}": x[:, place] for place in range(8)}), frames.Series(labels.astype(str))
    terms, people = {"epsilon": 1.0, "delta": 1e-5}, frames.Series(range(400))
    estimator = PrivateLinearClassifier(**terms, classes=["0", "1"], method="centroids", generator=hv.Generator.unsafe_seeded(1))
    fitted = estimator.fit(frame, topics, people=people)
    key = hv.Generator.unsafe_seeded(1)
    direct = class_centroids(frame.to_numpy(), topics, labels=["0", "1"], people=people, generator=key, **terms)
    assert (fitted.predict_proba(frame) == direct.predict_proba(x)).all() and list(fitted.feature_names_in_) == list(frame.columns)


@pytest.mark.parametrize(
    "parameters, error, words",
    [
        ({"epsilon": None}, TypeError, "epsilon must be given"),
        ({"classes": None}, TypeError, "classes must be given"),
        ({"classes": [1]}, ValueError, "classes must be at least 2, got 1 class"),
        ({"classes": [1, 0, 1]}, ValueError, "classes must be different from each other, got 3, of which 2"),
        ({"classes": [0, 2]}, ValueError, "groups must be among the 2 labels, got 1 at position"),
        ({"method": "ridge"}, ValueError, "method must be one of"),
    ],
)
def test_a_private_classifier_refuses_wrong_parameters(parameters, error, words):
    budget = hv.PrivacyBudget(10.0)
    estimator = PrivateLinearClassifier(**({"epsilon": 1.0, "classes": [0, 1], "budget": budget} | parameters))
    with pytest.raises(error, match=words):
        estimator.fit(*classes(40))
    assert budget.consumed() == 0 and not hasattr(estimator, "classes_")


class CountingBudget:
    """A budget that can be copied, which would make a second one."""

    def __init__(self):
        self.charges = 0

    def consume(self, epsilon, delta):
        self.charges += 1


@pytest.mark.parametrize("make_budget", [CountingBudget, lambda: hv.PrivacyBudget(100.0)], ids=["own", "in memory"])
def test_clones_spend_from_the_same_budget(make_budget):
    budget, receipts = make_budget(), []
    x, labels = classes(60)
    estimator = PrivateTransformer(epsilon=2.0, budget=budget, on_receipt=receipts.append)
    assert clone(estimator).budget is budget
    cross_val_score(make_pipeline(estimator, LogisticRegression()), x, labels, cv=3)
    assert len(receipts) == 6
    assert (budget.charges if isinstance(budget, CountingBudget) else budget.consumed() / 2.0) == 6


def test_parameters_can_be_searched_and_set():
    x, labels = classes(60)
    pipeline = make_pipeline(PrivateTransformer(), LogisticRegression())
    search = GridSearchCV(pipeline, {"privatetransformer__epsilon": [0.5, 50.0]}, cv=2, error_score="raise")
    assert search.fit(x, labels).best_params_["privatetransformer__epsilon"] in (0.5, 50.0)
    estimator = PrivateTransformer(epsilon=1.0).set_params(epsilon=3.0, mechanism="l2_laplace")
    assert estimator.get_params()["epsilon"] == 3.0 and clone(estimator).mechanism == "l2_laplace"
    assert estimator.fit_transform(x).receipt.epsilon == 3.0


def test_fit_learns_the_number_of_columns_only():
    x, _ = classes(10)
    one, other = PrivateTransformer(epsilon=1.0).fit(x), PrivateTransformer(epsilon=1.0).fit(np.ones((3, 8)))
    fitted = {name: value for name, value in vars(one).items() if name not in one.get_params()}
    assert fitted == {name: value for name, value in vars(other).items() if name not in other.get_params()} == {
        "n_features_in_": 8,
        "_n_features_out": 8,
    }


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_dtypes_are_kept(dtype):
    rows = PrivateTransformer(epsilon=8.0).fit_transform(np.eye(4, dtype=dtype))
    assert rows.dtype == dtype and rows.receipt.dtype == np.dtype(dtype).name


def test_whole_numbers_become_float64():
    assert PrivateTransformer(epsilon=8.0).fit_transform(np.eye(4, dtype=np.int32)).dtype == np.float64


def test_data_frames_out():
    pandas = pytest.importorskip("pandas")
    x = pandas.DataFrame(classes(6)[0], columns=[f"x{number}" for number in range(8)])
    receipts = []
    estimator = PrivateTransformer(epsilon=8.0, on_receipt=receipts.append).set_output(transform="pandas")
    rows = clone(estimator).fit_transform(x)
    assert list(rows.columns) == [f"privatetransformer{number}" for number in range(8)] and len(receipts) == 1
    with pytest.raises(ValueError, match="feature names"):
        estimator.fit(x).transform(x[x.columns[::-1]])


def test_a_projection_changes_the_columns():
    projection = PublicProjection.johnson_lindenstrauss(8, 3, seed=1)
    estimator = PrivateTransformer(epsilon=8.0, projection=projection).fit(classes(6)[0])
    rows = estimator.transform(classes(6)[0])
    assert rows.shape == (6, 3) == (6, len(estimator.get_feature_names_out())) and rows.receipt.projection == projection.digest


def with_value(value):
    x = np.eye(4)
    x[1, 2] = value
    return x


BAD_ROWS = {
    "nothing": (np.empty((0, 4)), ValueError, "0 sample"),
    "no columns": (np.empty((4, 0)), ValueError, "0 feature"),
    "None": (None, ValueError, "got None|array"),
    "texts": (np.array([["a", "b"]]), ValueError, "could not convert|numeric"),
    "complex": (np.eye(4) * 1j, ValueError, "[Cc]omplex"),
    "NaN": (with_value(np.nan), ValueError, "NaN"),
    "infinity": (with_value(np.inf), ValueError, "infinity"),
    "one row": (np.ones(4), ValueError, "2D array"),
    "too few columns": (np.ones((2, 3)), ValueError, "expecting 4 features"),
}


@pytest.mark.parametrize("name", BAD_ROWS)
def test_bad_rows_cost_nothing(name):
    x, error, words = BAD_ROWS[name]
    budget = hv.PrivacyBudget(LIMIT)
    estimator = PrivateTransformer(epsilon=EPSILON, budget=budget).fit(np.eye(4))
    with pytest.raises(error, match=words):
        estimator.transform(x)
    assert budget.consumed() == 0
    estimator.transform(np.eye(4))
    assert budget.consumed() == EPSILON


@pytest.mark.parametrize(
    "parameters, error, words",
    [
        ({}, TypeError, "epsilon must be given"),
        ({"epsilon": -1.0}, ValueError, "epsilon must be > 0"),
        ({"epsilon": 1.0, "clip_norm": 0.0}, ValueError, "clip_norm must be > 0"),
        ({"epsilon": 1.0, "mechanism": "none"}, ValueError, "mechanism must be one of"),
        ({"epsilon": 1.0, "per": "row"}, ValueError, "per must be one of"),
        ({"epsilon": 1.0, "budget": 3.0}, TypeError, "budget must have a method consume"),
        ({"epsilon": 1.0, "projection": "map"}, TypeError, "projection must be"),
        ({"epsilon": 1.0, "on_receipt": "log"}, TypeError, "on_receipt must be a function"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_fit_refuses_wrong_parameters(parameters, error, words):
    with pytest.raises(error, match=words):
        PrivateTransformer(**parameters).fit(np.eye(4))


def test_an_exhausted_budget_releases_nothing():
    budget, receipts = hv.PrivacyBudget(EPSILON), []
    estimator = PrivateTransformer(epsilon=EPSILON, budget=budget, on_receipt=receipts.append).fit(np.eye(4))
    estimator.transform(np.eye(4))
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        estimator.transform(np.eye(4))
    assert budget.consumed() == EPSILON and len(receipts) == 1


def test_what_was_not_fitted_transforms_nothing():
    for estimator, x in ((PrivateTransformer(epsilon=1.0), np.eye(4)), (PrivateTextTransformer(ToyModel(), private()), ["a"])):
        with pytest.raises(NotFittedError):
            estimator.transform(x)


NO_TEXTS = {"lists": [["a"], ["b"]], "two dimensions": np.array([["a"], ["b"]]), "set": {"a"}, "one": "a"}


@pytest.mark.parametrize("texts", NO_TEXTS.values(), ids=NO_TEXTS)
def test_what_is_no_column_of_texts_is_refused(texts):
    budget = hv.PrivacyBudget(LIMIT)
    with pytest.raises(TypeError, match=r"X must be|texts must be"):
        PrivateTextTransformer(ToyModel(), private(budget)).fit_transform(texts)
    assert budget.consumed() == 0


def test_columns_of_texts_and_names_of_their_rows():
    pandas = pytest.importorskip("pandas")
    estimator = PrivateTextTransformer(ToyModel(), faint()).set_output(transform="pandas")
    rows = estimator.fit_transform(pandas.Series(["a", "b"]))
    assert list(rows.columns) == [f"privatetexttransformer{number}" for number in range(DIMENSION)]
    assert np.linalg.norm(rows.to_numpy()[1] - unit_row("b")) < 0.2
    assert clone(estimator).model is estimator.model
