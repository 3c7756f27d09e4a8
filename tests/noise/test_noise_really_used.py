"""The noise in a release, measured, against the noise that its receipt promises.

Zero rows are released, so that the values are noise alone. Each check allows six standard errors of its
statistic: alpha below 1e-8.
Each check must reject the mutants: sensitivity 2C written as C, sqrt(d) or the number of rows dropped, and a scale 5 % off.
"""

import dataclasses
import math

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import MECHANISMS, Gaussian, L2Laplace, Laplacian, base

ROWS, DIMENSION = 600, 384
STANDARD_ERRORS = 6
ARGUMENTS = {
    "gaussian": {"epsilon": 8.0, "delta": 1e-5},
    "laplacian": {"epsilon": 8.0},
    "l2_laplace": {"epsilon": 8.0},
    "empirical": {"sigma": 0.2},
}


def release(mechanism, per="record", dtype=np.float32, **changes):
    zeros = np.zeros((ROWS, DIMENSION), dtype)
    arguments = {**ARGUMENTS[mechanism], **changes}
    return hv.privatize(zeros, mechanism=mechanism, per=per, generator=hv.Generator.unsafe_seeded(2026), **arguments)


def measured_parameter(values, mechanism):
    """(estimate of sigma or scale, its relative standard error)."""
    z = values.astype(np.float64)
    if mechanism in ("gaussian", "empirical"):
        return math.sqrt(np.mean(z**2)), 1 / math.sqrt(2 * z.size)
    if mechanism == "laplacian":
        return np.abs(z).mean(), 1 / math.sqrt(z.size)
    return np.linalg.norm(z, axis=1).mean() / DIMENSION, 1 / math.sqrt(z.size)


def needed_parameter(receipt):
    """sigma or scale that the promise needs, from the definitions."""
    rows = ROWS if receipt.per == "release" else 1
    if receipt.mechanism in ("gaussian", "empirical"):
        return hv.gaussian_sigma(receipt.epsilon, receipt.delta, 2 * receipt.clip_norm * math.sqrt(rows))
    root = math.sqrt(DIMENSION) if receipt.mechanism == "laplacian" else 1.0
    return root * 2 * receipt.clip_norm * rows / receipt.epsilon


def noise_is_enough(values, receipt):
    estimate, error = measured_parameter(values, receipt.mechanism)
    return abs(estimate / needed_parameter(receipt) - 1) < STANDARD_ERRORS * error


@pytest.mark.parametrize("mechanism", ARGUMENTS)
@pytest.mark.parametrize("per", ["record", "release"])
@pytest.mark.parametrize("clip_norm", [1.0, 0.3])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_measured_noise_is_what_the_promise_needs(mechanism, per, clip_norm, dtype):
    values, receipt = release(mechanism, per, dtype, clip_norm=clip_norm)
    assert noise_is_enough(values, receipt)
    assert not noise_is_enough(values * 1.05, receipt)
    assert not noise_is_enough(values * 0.95, receipt)


TRUE_SENSITIVITY = base.sensitivity_of


def halved(kind, clip_norm, rows_per_person, dimension):
    return 0.5 * TRUE_SENSITIVITY(kind, clip_norm, rows_per_person, dimension)


def without_dimension(kind, clip_norm, rows_per_person, dimension):
    return TRUE_SENSITIVITY(kind, clip_norm, rows_per_person, 1)


def without_rows(kind, clip_norm, rows_per_person, dimension):
    return TRUE_SENSITIVITY(kind, clip_norm, 1, dimension)


MUTANTS = [
    ("gaussian", "record", halved),
    ("laplacian", "record", halved),
    ("l2_laplace", "record", halved),
    ("laplacian", "record", without_dimension),
    ("gaussian", "release", without_rows),
    ("laplacian", "release", without_rows),
    ("l2_laplace", "release", without_rows),
    ("empirical", "record", halved),
    ("empirical", "release", without_rows),
]


@pytest.mark.parametrize(("mechanism", "per", "mutant"), MUTANTS, ids=lambda value: getattr(value, "__name__", value))
def test_a_mutant_of_the_sensitivity_is_caught(monkeypatch, mechanism, per, mutant):
    """By the receipt's arithmetic and by the measured noise alike, even if the receipt lies about its sensitivity."""
    monkeypatch.setattr(base, "sensitivity_of", mutant)
    values, receipt = release(mechanism, per)
    assert not noise_is_enough(values, receipt)
    honest = {"per": per, "rows": receipt.rows, "dimension": DIMENSION}
    for stated in (
        receipt.sensitivity,
        TRUE_SENSITIVITY(MECHANISMS[mechanism], 1.0, 1 if per == "record" else ROWS, DIMENSION),
    ):
        assert hv.verify_receipt(dataclasses.replace(receipt, sensitivity=stated, **honest)).status == "does not hold"


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (Gaussian(epsilon=8.0, dimension=DIMENSION).sigma, hv.gaussian_sigma(8.0, 1e-5, 1.0)),
        (Laplacian(epsilon=8.0, dimension=DIMENSION).scale, 2.0 / 8.0),
        (L2Laplace(epsilon=8.0, dimension=DIMENSION).scale, 1.0 / 8.0),
    ],
)
def test_the_right_parameter_is_far_from_the_usual_mistakes(right, wrong):
    assert right > 1.9 * wrong


def test_the_classical_sigma_is_caught_above_its_range():
    """At epsilon = 20 the classical formula gives delta = 1.5e-3 instead of 1e-5."""
    sigma = hv.gaussian_sigma(20.0, 1e-5, 2.0, method="classical", allow_unproven=True)
    bought = hv.privatize(np.zeros((1, 8)), mechanism="empirical", sigma=sigma).receipt
    assert hv.verify_receipt(bought).status == "holds"
    assert hv.verify_receipt(dataclasses.replace(bought, mechanism="gaussian", epsilon=20.0)).status == "does not hold"
