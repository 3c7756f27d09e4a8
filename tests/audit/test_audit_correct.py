"""Mechanisms that keep their claim are not flagged, and the bounds come close to what they really have.

Each audit of the first test has confidence 1 - 1e-6. Its seeds are fixed; over the choice of seeds it would give a false alarm with
probability at most 1e-6 times the number of audits, 3 for each of 38 mechanisms: 1.2e-4. The 5 mechanisms with keys of the operating
system, below, have at most 5e-6 together, and that is how often this file may fail by chance.
"""

import math
from functools import partial

import numpy as np
import pytest
from scipy import special, stats

import hushvec as hv
from audit import samplers
from audit.samplers import CONFIDENCE, seeds
from evidence.reference.sizes import scaled
from hushvec.audit import LabelTarget, MechanismTarget, audit_mechanism, audit_one_run, audit_pair
from hushvec.mechanisms import Gaussian, L2Laplace, Laplacian, PrivUnit

SEEDS = scaled([21], list(range(21, 31)))
SAMPLES = scaled(30_000, 100_000)


@pytest.mark.parametrize("seed", SEEDS)
def test_correct_mechanisms_are_never_flagged(seed):
    share = 1 - 3 * (1 - CONFIDENCE)  # each of the three audits gets CONFIDENCE
    names = []
    for name, target in samplers.correct(seed):
        assert not audit_mechanism(target, samples=SAMPLES, confidence=share).flagged, name
        names.append(name)
    assert len(names) == 38


@pytest.mark.parametrize(
    "mechanism",
    [
        Gaussian(epsilon=1.0, dimension=8),
        Gaussian(epsilon=2.0, dimension=384),
        Laplacian(epsilon=2.0, dimension=1),
        L2Laplace(epsilon=2.0, dimension=2),
        Laplacian(epsilon=1.0, dimension=384),
    ],
    ids=lambda mechanism: f"{mechanism.name} {mechanism.dimension}",
)
def test_with_keys_of_the_operating_system(mechanism):
    assert not audit_mechanism(mechanism, samples=20_000, confidence=CONFIDENCE).flagged


@pytest.mark.parametrize(("epsilon", "labels"), [(1.0, 2), (2.0, 10), (4.0, 20)])
def test_the_real_randomized_response(epsilon, labels):
    target = LabelTarget(
        lambda truth, generator: hv.randomized_response(truth, range(labels), epsilon, generator=generator),
        labels=labels,
        epsilon=epsilon,
        new_generator=seeds(22),
    )
    audit = audit_mechanism(target, samples=200_000, confidence=CONFIDENCE)
    assert not audit.flagged
    assert audit.results[0].epsilon_lower > 0.9 * epsilon


@pytest.mark.parametrize(("epsilon", "dimension"), [(1.0, 8), (4.0, 2), (4.0, 384)])
def test_the_real_privunit(epsilon, dimension):
    mechanism = PrivUnit(epsilon=epsilon, dimension=dimension)
    audit = audit_mechanism(MechanismTarget(mechanism, seeds(23)), samples=60_000, confidence=CONFIDENCE)
    assert not audit.flagged
    assert audit.results[0].epsilon_lower > 0.85 * epsilon


@pytest.mark.parametrize(
    "target",
    [
        MechanismTarget(Laplacian(epsilon=2.0, dimension=1), seeds(24)),
        MechanismTarget(L2Laplace(epsilon=2.0, dimension=1), seeds(25)),
        MechanismTarget(samplers.privunit(2.0, 8), seeds(26)),
        samplers.randomized_response(2.0, 2, seeds(27)),
        samplers.randomized_response(2.0, 20, seeds(28)),
    ],
    ids=["laplacian", "l2_laplace", "privunit", "2 labels", "20 labels"],
)
def test_bounds_are_tight_where_the_pair_is(target):
    """These have an event whose log ratio is epsilon itself: 200,000 samples bound it within 5 %."""
    one_run = partial(audit_one_run, coins=np.random.default_rng(29))
    for audit in (audit_pair, one_run):
        found = audit(target, samples=200_000, confidence=0.99)
        assert 0.95 * 2.0 < found.epsilon_lower <= 2.0, found.method


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_the_gaussian_bound_is_close_to_mu(epsilon):
    mechanism = Gaussian(epsilon=epsilon, dimension=4)
    found = audit_pair(MechanismTarget(mechanism, seeds(29)), samples=400_000, confidence=0.99).details["gaussian"]
    mu = mechanism.sensitivity / mechanism.sigma
    assert mu - 0.03 < found["mu_lower"] < mu
    assert found["epsilon_lower"] < epsilon


def flagged_shares(confidence, runs, samples):
    """Of randomized response at exactly its claim: how often the pair audit and a plain estimate call it a liar."""
    target = samplers.randomized_response(1.0, 2, seeds(30))
    release = target.stream()
    flagged = exceeded = 0
    for _ in range(runs):
        flagged += audit_pair(target, samples=samples, confidence=confidence).flagged
        rates = [np.mean(release(np.tile(x, (samples, 1))) == 0) for x in target.pair]
        exceeded += math.log(rates[0] / rates[1]) > target.epsilon
    return flagged, exceeded


def test_false_alarms_are_as_rare_as_stated():
    """300 audits at confidence 0.8 of a mechanism without any slack; binomial tail, alpha = 1e-6."""
    runs, confidence = scaled(300, 3000), 0.8
    flagged, exceeded = flagged_shares(confidence, runs, samples=2000)
    assert stats.binom.sf(flagged - 1, runs, 1 - confidence) > 1e-6
    assert stats.binom.sf(exceeded - 1, runs, 1 - confidence) < 1e-6  # an estimate without a bound would not do


def test_privunit_sampler_has_the_law_that_is_claimed():
    """The sampler the tests lean on: the cap holds p of u's outputs and (1-p)(1-q)/q of -u's; n = 200,000, 5 standard errors."""
    mechanism = samplers.privunit(2.0, 4)
    target = MechanismTarget(mechanism, seeds(31))
    release, n, p = target.stream(), 200_000, mechanism.cap_probability
    q = special.ndtr(mechanism.threshold)
    for x, share in zip(target.pair, (p, (1 - p) * (1 - q) / q)):
        seen = np.mean(target.log_ratio(release(np.tile(x, (n, 1)))) > 0)
        assert abs(seen - share) < 5 * math.sqrt(share * (1 - share) / n)
    assert math.log(p / ((1 - p) * (1 - q) / q)) == pytest.approx(2.0)
