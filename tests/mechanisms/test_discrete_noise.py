"""`DiscreteGaussian` and `DiscreteLaplacian`: releases of whole numbers, their law, their cost and what they refuse."""

import dataclasses
import math

import numpy as np
import pytest

import hushvec as hv
from audit.samplers import CONFIDENCE, seeds
from evidence.statistical.test_discrete_laws import ALPHA, chi_square, probabilities
from hushvec.accounting import DiscreteGaussianDP, LaplaceDP, PureDP
from hushvec.audit import MechanismTarget, audit_mechanism
from hushvec.jobs import NoiseJob
from hushvec.mechanisms import INTEGER_MECHANISMS, DiscreteGaussian, DiscreteLaplacian, Gaussian, Laplacian
from hushvec.retrieval import VectorNoise

NAMES = tuple(INTEGER_MECHANISMS)
X = np.arange(-12, 12).reshape(6, 4)


def law_of(mechanism):
    return mechanism.name.removeprefix("discrete_")


@pytest.mark.parametrize(
    "mechanism",
    [
        DiscreteGaussian(epsilon=8.0, dimension=3, clip_norm=5.0),
        DiscreteGaussian(epsilon=200.0, dimension=3, clip_norm=5.0),
        DiscreteLaplacian(epsilon=4.0, dimension=3, clip_norm=5.0),
    ],
    ids=lambda mechanism: f"{mechanism.name} {mechanism.epsilon:g}",
)
def test_releases_have_the_law(mechanism):
    """Chi-square of n = 300,000 released numbers minus the clipped row (3, -4, 0) or (2, -2, 0); alpha = 1e-6. A noise parameter two
    per cent larger is rejected."""
    rows = np.tile([30, -40, 0], (100_000, 1))
    clipped = [3, -4, 0] if mechanism.sensitivity_norm == "l2" else [2, -2, 0]
    noise = mechanism.apply(rows, None, hv.Generator.unsafe_seeded(31)) - clipped
    reach = int(abs(noise).max()) + 1
    observed = np.bincount((noise + reach).ravel(), minlength=2 * reach + 1).astype(float)
    for factor, follows in ((1.0, True), (1.02, False)):
        expected = probabilities(law_of(mechanism), mechanism.noise_parameter * factor, reach) * noise.size
        assert (chi_square(observed, expected) > ALPHA) == follows
    root_mean_square = math.sqrt(float((noise.astype(float) ** 2).sum()) / len(rows))
    assert root_mean_square == pytest.approx(mechanism.noise_norm, rel=0.02)


@pytest.mark.parametrize("dtype", ["int64", "int32"])
@pytest.mark.parametrize("per", ["record", "release"])
@pytest.mark.parametrize("mechanism", NAMES)
def test_privatize(mechanism, per, dtype):
    budget = hv.PrivacyBudget(10.0, 1e-3)
    x = X.astype(dtype)
    values, receipt = hv.privatize(x, mechanism=mechanism, epsilon=2.0, clip_norm=9.5, per=per, budget=budget)
    assert values.dtype == dtype and values.shape == x.shape and (x == X).all()
    assert (receipt.mechanism, receipt.dtype, receipt.grid, receipt.grade, receipt.clip_norm) == (mechanism, dtype, 1.0, "exact", 9.5)
    assert hv.verify_receipt(receipt).status == "holds" and budget.remaining() == 8.0 and receipt.charge is not None
    assert hv.verify_charges([receipt], budget.export()).status == "holds"
    assert receipt.loss == hv.Receipt.from_json(receipt.to_json()).loss
    assert "clipped to length 9.5 (L1)" in str(receipt) or mechanism == "discrete_gaussian"
    seeded = [hv.privatize(row, mechanism=mechanism, epsilon=2.0, generator=hv.Generator.unsafe_seeded(3)) for row in (x[0], x[:1])]
    assert (seeded[0].values == seeded[1].values[0]).all() and not seeded[0].receipt.is_dp_claim


def test_sensitivities():
    settings = {"epsilon": 1.0, "dimension": 4, "clip_norm": 2.5}
    for rows in (1, 3):
        assert DiscreteGaussian(**settings, rows_per_person=rows).sensitivity == pytest.approx(5 * math.sqrt(rows), rel=1e-15)
        assert DiscreteLaplacian(**settings, rows_per_person=rows).sensitivity == 5.0 * rows
        assert DiscreteLaplacian(**settings, rows_per_person=rows).scale == 5.0 * rows


@pytest.mark.parametrize("dimension", [1, 8, 384])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_sigma_is_the_smallest(dimension, epsilon):
    mechanism = DiscreteGaussian(epsilon=epsilon, delta=1e-6, dimension=dimension, clip_norm=50)
    loss = mechanism.loss
    assert loss == DiscreteGaussianDP(sigma=mechanism.sigma, sensitivity=100.0, coordinates=dimension)
    assert loss.delta(epsilon) <= 1e-6 < dataclasses.replace(mechanism, epsilon=epsilon * (1 - 1e-6)).loss.delta(epsilon * (1 - 1e-5))
    continuous = Gaussian(epsilon=epsilon, delta=1e-6, dimension=dimension, clip_norm=50).sigma
    assert 0.999 * continuous < mechanism.sigma < 1.1 * continuous  # about a tenth where rho alone is known


def test_the_laplacian_is_pure_and_no_continuous_laplacian():
    mechanism = DiscreteLaplacian(epsilon=2.0, dimension=384, clip_norm=100)
    assert mechanism.scale == 100.0 == Laplacian(epsilon=2.0, dimension=1, clip_norm=100).scale and mechanism.cost == (2.0, 0.0)
    assert mechanism.loss == PureDP(epsilon=2.0)
    law = np.exp(-abs(np.arange(-200, 201)) / 0.5)
    exact = float(np.maximum(0, law[1:] - law[:-1]).sum() / law.sum())  # at distance 1, epsilon 0
    assert exact == pytest.approx(0.76159, abs=1e-5) and LaplaceDP(noise_multiplier=0.5).delta(0.0) < 0.633
    assert exact <= PureDP(epsilon=2.0).delta(0.0) * (1 + 1e-9)


@pytest.mark.parametrize("mechanism", [DiscreteGaussian, DiscreteLaplacian])
def test_audits(mechanism):
    """Confidence 1 - 1e-6, fixed seeds: a correct mechanism is not flagged; one with a fifth of its noise is."""
    share = 1 - 3 * (1 - CONFIDENCE)
    for settings in ({"dimension": 1, "clip_norm": 3}, {"dimension": 4, "clip_norm": 2.5, "rows_per_person": 2}):
        right = mechanism(epsilon=2.0, **settings)
        assert not audit_mechanism(MechanismTarget(right, seeds(41)), samples=20_000, confidence=share).flagged

        class Wrong(mechanism):
            noise_parameter = right.noise_parameter / 5

        assert audit_mechanism(MechanismTarget(Wrong(epsilon=2.0, **settings), seeds(42)), samples=20_000, confidence=share).flagged


@pytest.mark.parametrize(
    ("x", "settings", "error", "message"),
    [
        (X.astype(float), {}, TypeError, "x must be a numpy array of int64 or int32.*takes floats.*, got ndarray of float"),
        (X.tolist(), {}, TypeError, "got list"),
        (X, {"clip_norm": 0.5}, ValueError, r"clip_norm must be >= 1 for 'discrete_gaussian' .*, got 0.5"),
        (X, {"normalize": True}, ValueError, "normalize must be False for mechanism 'discrete_gaussian'"),
        (X, {"renormalize": True}, ValueError, "renormalize must be False for mechanism 'discrete_gaussian'"),
        (X, {"dtype": "int8"}, ValueError, "dtype must be None for mechanism 'discrete_gaussian'"),
        (X, {"sigma": 3.0}, ValueError, "sigma must be None for mechanism 'discrete_gaussian'"),
        (X, {"epsilon": None}, TypeError, "epsilon must be given for mechanism 'discrete_gaussian'"),
        (X, {"delta": 0.0}, ValueError, "delta must be > 0 and < 1, got 0.0"),
        (X, {"epsilon": 1e9}, ValueError, r"sigma must be in \[2\^-6, 2\^40\] for 'discrete_gaussian'"),
        (X, {"mechanism": "discrete_laplacian", "epsilon": 1e9}, ValueError, r"scale must be in \[2\^-6, 2\^40\]"),
        (X, {"mechanism": "discrete"}, ValueError, "mechanism must be one of .*'discrete_laplacian', got 'discrete'"),
        (X, {"mechanism": DiscreteGaussian(epsilon=1.0, dimension=3), "epsilon": None}, ValueError, "mechanism.dimension must be 4"),
        (X, {"projection": object()}, ValueError, "projection must be None for mechanism 'discrete_gaussian'"),
        (X[:, :0], {}, ValueError, "x must have at least 1 column"),
    ],
)
def test_bad_input(x, settings, error, message):
    budget = hv.PrivacyBudget(1e12, 0.5)
    with pytest.raises(error, match=message):
        hv.privatize(x, budget=budget, **{"mechanism": "discrete_gaussian", "epsilon": 1.0, **settings})
    assert budget.remaining() == 1e12


def test_a_float_or_a_wrong_output_is_refused_by_the_mechanism_itself():
    mechanism, generator = DiscreteGaussian(epsilon=1.0, dimension=4), hv.Generator.unsafe_seeded(1)
    for x, out in ((X.astype(float), None), (X, np.empty((6, 4), np.int32)), (X, np.empty((6, 4)))):
        with pytest.raises(TypeError, match="must be"):
            mechanism.apply(x, out, generator)
    with pytest.raises(ValueError, match=r"out must have shape \(6, 4\)"):
        mechanism.apply(X, np.empty((5, 4), np.int64), generator)
    out = np.empty((6, 4), np.int64)
    assert mechanism.apply(X, out, generator) is out


@pytest.mark.parametrize("mechanism", [*NAMES, DiscreteGaussian(epsilon=1.0, dimension=4)], ids=str)
def test_what_takes_floats_refuses_it(mechanism):
    """Middleware, jobs and indexes work on the floats of a model."""
    epsilon = 1.0 if isinstance(mechanism, str) else None
    message = r"x must be int64 or int32 for mechanism 'discrete_\w+', got float32, which 'gaussian' takes"
    with pytest.raises(TypeError, match=message):
        hv.dp_embedding_middleware(epsilon=epsilon, mechanism=mechanism)
    with pytest.raises(TypeError, match=message):
        NoiseJob.start(dimension=4, epsilon=epsilon, mechanism=mechanism)
    with pytest.raises(TypeError, match=message):
        VectorNoise(epsilon=epsilon, mechanism=mechanism).plan(rows=3, dimension=4, dtype="float32", normalize=False, generator=None)


def test_no_rows_and_counts():
    assert hv.privatize(np.empty((0, 3), np.int64), mechanism="discrete_laplacian", epsilon=1.0).values.shape == (0, 3)
    counts = np.array([[3], [2000], [0]])
    values, receipt = hv.privatize(counts, mechanism="discrete_gaussian", epsilon=50.0, delta=1e-5, clip_norm=100)
    assert receipt.sensitivity == 200.0 and abs(values[1, 0] - 100) < 40 * receipt.sigma and values[0, 0] != values[1, 0]
