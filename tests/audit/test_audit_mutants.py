"""Broken mechanisms are caught, each by the audit that is meant to, and with confidence 1 - 1e-6.

n is 4e5 outputs of each input (pair), or as stated. Seeds are fixed: a mutant is caught on every run or on none. The correct
mechanisms pass the same audits in test_audit_correct.py; here every mutant stands beside its correct original.
"""

import math

import numpy as np
import pytest

from audit import samplers
from audit.samplers import CONFIDENCE, seeds
from hushvec.audit import LabelTarget, MechanismTarget, audit_mechanism, audit_one_run, audit_pair, audit_repeats
from hushvec.mechanisms import Gaussian, L2Laplace, Laplacian

SAMPLES = 400_000


def pair(mechanism, seed, samples=SAMPLES):
    target = mechanism if isinstance(mechanism, LabelTarget) else MechanismTarget(mechanism, seeds(seed))
    return audit_pair(target, samples=samples, confidence=CONFIDENCE)


def one_run(mechanism, seed, samples=SAMPLES, confidence=CONFIDENCE):
    target = mechanism if isinstance(mechanism, LabelTarget) else MechanismTarget(mechanism, seeds(seed))
    return audit_one_run(target, samples=samples, confidence=confidence, coins=np.random.default_rng(seed))


@pytest.mark.parametrize(("epsilon", "dimension"), [(1.0, 1), (1.0, 8), (2.0, 8), (4.0, 8)])
def test_2c_written_as_c_in_gaussian(epsilon, dimension):
    wrong = samplers.GaussianForC(epsilon=epsilon, dimension=dimension)
    right = Gaussian(epsilon=epsilon, dimension=dimension)
    assert wrong.sigma == pytest.approx(right.sigma / 2, rel=1e-6)
    assert pair(wrong, 1).flagged
    assert not pair(right, 1).flagged


@pytest.mark.full
@pytest.mark.parametrize("confidence", [0.999, 0.95])
def test_one_run_misses_2c_written_as_c_at_epsilon_4(confidence):
    """The cell of docs/audit.md: ten audits of a million records, none of which is flagged. At 0.95 the bounds are 3.5, near 4."""
    for seed in range(10):
        found = one_run(samplers.GaussianForC(epsilon=4.0, dimension=8), seed, samples=1_000_000, confidence=confidence)
        assert not found.flagged and found.epsilon_lower < 3.6


@pytest.mark.full
def test_2c_written_as_c_in_gaussian_384():
    assert pair(samplers.GaussianForC(epsilon=3.0, dimension=384), 2, samples=120_000).flagged
    assert not pair(Gaussian(epsilon=3.0, dimension=384), 2, samples=120_000).flagged


@pytest.mark.parametrize("dimension", [1, 2])
def test_2c_written_as_c_in_l2_laplace(dimension):
    for audit in (pair, one_run):
        assert audit(samplers.L2LaplaceForC(epsilon=1.5, dimension=dimension), 3).flagged
        assert not audit(L2Laplace(epsilon=1.5, dimension=dimension), 3).flagged


@pytest.mark.parametrize("dimension", [2, 16])
def test_root_of_d_dropped_in_laplacian(dimension):
    for audit in (pair, one_run):
        found = audit(samplers.LaplacianWithoutRoot(epsilon=2.0, dimension=dimension), 4, samples=100_000)
        assert found.flagged
        assert not audit(Laplacian(epsilon=2.0, dimension=dimension), 4, samples=100_000).flagged
        assert found.epsilon_lower <= math.sqrt(dimension) * 2.0  # what the mutant really has


@pytest.mark.full
def test_root_of_d_dropped_in_laplacian_384():
    assert pair(samplers.LaplacianWithoutRoot(epsilon=3.0, dimension=384), 5, samples=30_000).flagged
    assert not pair(Laplacian(epsilon=3.0, dimension=384), 5, samples=30_000).flagged


@pytest.mark.parametrize(("epsilon", "dimension"), [(1.0, 8), (2.0, 2), (4.0, 2), (4.0, 8)])
def test_wrong_split_in_privunit(epsilon, dimension):
    """Really 1.15 epsilon."""
    for audit in (pair, one_run):
        found = audit(samplers.privunit_with_p_of_more(epsilon, dimension), 6)
        assert found.flagged
        assert epsilon < found.epsilon_lower <= 1.15 * epsilon
        assert not audit(samplers.privunit(epsilon, dimension), 6).flagged


@pytest.mark.full
def test_wrong_split_in_privunit_384():
    assert pair(samplers.privunit_with_p_of_more(4.0, 384), 7, samples=30_000).flagged
    assert not pair(samplers.privunit(4.0, 384), 7, samples=30_000).flagged


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("labels", [10, 10_000])
def test_dictionary_response(epsilon, labels):
    wrong = samplers.dictionary_response(epsilon, labels, seeds(8))
    right = samplers.randomized_response(epsilon, labels, seeds(8))
    for audit in (pair, one_run):
        found = audit(wrong, 8)
        assert found.flagged
        assert found.epsilon_lower <= math.log(1 + labels * math.exp(epsilon))  # 10.2 for epsilon = 1 and 10,000 words
        assert not audit(right, 8).flagged


@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian(epsilon=1.0, dimension=1),
        Gaussian(epsilon=1.0, dimension=384),
        Laplacian(epsilon=1.0, dimension=8),
        L2Laplace(epsilon=1.0, dimension=8),
        samplers.privunit(1.0, 16),
    ],
    ids=lambda mechanism: f"{mechanism.name} {mechanism.dimension}",
)
def test_reused_nonce(mechanism):
    """n = 2,000 rows a release."""
    again = audit_repeats(MechanismTarget(mechanism, samplers.reused(9)), samples=2000, confidence=CONFIDENCE)
    assert again.flagged
    assert "new stream" in again.statistic
    assert not audit_repeats(MechanismTarget(mechanism, seeds(9)), samples=2000, confidence=CONFIDENCE).flagged


def test_reused_nonce_in_randomized_response():
    target = samplers.randomized_response(1.0, 10, samplers.reused(10))
    assert audit_repeats(target, samples=2000, confidence=CONFIDENCE).flagged


def test_reused_nonce_is_caught_by_all_methods_together():
    target = MechanismTarget(Gaussian(epsilon=1.0, dimension=8), samplers.reused(11))
    audit = audit_mechanism(target, samples=20_000, confidence=CONFIDENCE)
    assert audit.flagged
    assert [result.flagged for result in audit.results] == [False, False, True]


def test_one_noise_for_all_rows():
    wrong = samplers.OneNoiseForAllRows(epsilon=1.0, dimension=8)
    found = audit_repeats(MechanismTarget(wrong, seeds(12)), samples=2000, confidence=CONFIDENCE)
    assert found.flagged
    assert found.statistic == "equality within a release"


def test_missing_clip():
    assert pair(samplers.GaussianWithoutClip(epsilon=1.0, dimension=8), 13, samples=20_000).flagged


def test_coordinate_without_noise_is_learned():
    """The log ratio of the claimed law misses it at this dimension; the classifier does not."""
    found = pair(samplers.GaussianWithAHole(epsilon=1.0, dimension=384), 14, samples=20_000)
    assert found.flagged
    assert found.statistic == "classifier"
    assert found.details["statistics"]["log ratio"]["epsilon_lower"] < 1.0


def test_classical_sigma_at_large_epsilon_is_seen_by_the_gaussian_bound_only():
    """At epsilon = 20 the classical sigma really gives 28: far above what any number of samples could show by counting."""
    wrong = samplers.GaussianClassical(epsilon=20.0, dimension=1)
    found = pair(wrong, 15)
    assert not found.could_flag and not found.flagged
    assert found.details["gaussian"]["epsilon_lower"] > 20.0
    right = pair(Gaussian(epsilon=20.0, dimension=1), 15)
    assert right.details["gaussian"]["epsilon_lower"] < 20.0


@pytest.mark.parametrize("epsilon", [1.0, 2.0])
def test_2c_written_as_c_in_gaussian_in_one_run(epsilon):
    """The term with delta asks for less confidence: 0.95, and n = 100,000 records."""
    wrong = samplers.GaussianForC(epsilon=epsilon, delta=1e-6, dimension=1)
    assert one_run(wrong, 16, samples=100_000, confidence=0.95).flagged
    assert not one_run(Gaussian(epsilon=epsilon, delta=1e-6, dimension=1), 16, samples=100_000, confidence=0.95).flagged
