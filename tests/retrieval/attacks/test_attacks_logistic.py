"""Logistic regression against scikit-learn, and where it is degenerate."""

import numpy as np
import pytest

from hushvec.retrieval.attacks.statistics import fit_logistic

RANDOM = np.random.default_rng(8)


def data(rows=400, width=7, signal=1.0):
    features = RANDOM.normal(0, 1, (rows, width)) * np.logspace(-3, 3, width) + 5
    truth = RANDOM.random(rows) < 1 / (1 + np.exp(-signal * (features[:, 0] - 5) * 1e3))
    return features, truth


@pytest.mark.parametrize("ridge", [1.0, 10.0])
@pytest.mark.parametrize("signal", [0.0, 1.0, 30.0])
def test_same_as_scikit_learn(ridge, signal):
    linear_model = pytest.importorskip("sklearn.linear_model")
    features, truth = data(signal=signal)
    scaled = (features - features.mean(axis=0)) / features.std(axis=0)
    theirs = linear_model.LogisticRegression(C=1 / ridge, tol=1e-10, max_iter=10_000).fit(scaled, truth)
    ours = fit_logistic(features, truth, ridge=ridge)
    np.testing.assert_allclose(ours.weights, theirs.coef_[0], atol=1e-4)
    np.testing.assert_allclose(ours.logits(features), theirs.decision_function(scaled), atol=1e-3)


def test_perfect_separation_and_constant_features():
    features = np.stack([np.repeat([0.0, 1.0], 50), np.full(100, 3.0), np.zeros(100)], axis=1)
    fitted = fit_logistic(features, features[:, 0] == 1)
    assert np.isfinite(fitted.logits(features)).all()
    assert (fitted.logits(features) > 0).tolist() == (features[:, 0] == 1).tolist()
    assert fitted.weights[1] == fitted.weights[2] == 0


def test_no_features_that_vary():
    fitted = fit_logistic(np.zeros((10, 7)), np.arange(10) < 5)
    np.testing.assert_allclose(fitted.logits(np.zeros((3, 7))), 0.0, atol=1e-9)
