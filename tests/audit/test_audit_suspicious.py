"""Estimates of epsilon and when they make an audit suspicious: rates on correct mechanisms, and the mutants they are for."""

import json
import math

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from audit import samplers
from audit.samplers import seeds
from evidence.reference.sizes import scaled
from hushvec.audit import MechanismTarget, audit_mechanism, audit_pair
from hushvec.audit import results as estimates
from hushvec.mechanisms import Gaussian, Laplacian

# What docs/audit.md says of correct mechanisms: one estimate is more than 3 standard errors too high in at most 0.2 % of audits, and
# any of those that one audit makes in at most 1 %.
ONE, WHOLE = 0.002, 0.01
ALPHA = 1e-6


def alarms(estimated, truth):
    return sum(one is not None and one.low > truth for one in estimated)


@pytest.mark.parametrize(("epsilon", "p", "delta"), [(1.0, 0.4, 0.0), (1.0, 0.01, 1e-3), (4.0, 0.5, 0.0), (8.0, 0.3, 1e-5)])
def test_an_event_that_tells_epsilon_exactly(epsilon, p, delta):
    """n = 20,000 pairs of binomial counts out of 50,000; statistic: how many estimates are too high; binomial tail, alpha = 1e-6."""
    rng, n, rows = np.random.default_rng(1), scaled(20_000, 400_000), 50_000
    likelier, other = rng.binomial(rows, p, n), rng.binomial(rows, (p - delta) * math.exp(-epsilon), n)
    found = alarms((estimates.of_event("e", int(a), int(b), rows, delta) for a, b in zip(likelier, other)), epsilon)
    assert stats.binom.sf(found - 1, n, ONE) > ALPHA


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_a_gaussian_curve_that_is_kept_exactly(epsilon):
    """n = 5,000 pairs of binomial counts out of 50,000; binomial tail, alpha = 1e-6. A curve 10 % farther out is seen in most."""
    delta, rng, n, rows = 1e-5, np.random.default_rng(2), scaled(5_000, 100_000), 50_000
    mu = 1 / hv.gaussian_sigma(epsilon, delta, 1.0)

    def found(mu):
        counts = rng.binomial(rows, stats.norm.cdf(-mu / 2), (n, 2))
        return alarms((estimates.of_gaussian_curve(int(a), int(b), rows, delta) for a, b in counts), epsilon)

    assert stats.binom.sf(found(mu) - 1, n, ONE) > ALPHA
    if epsilon > 1:
        assert found(mu / 0.9) > 0.9 * n


@pytest.mark.parametrize(("epsilon", "guesses"), [(1.0, 50_000), (4.0, 500), (0.1, 2_000)])
def test_guesses_that_are_right_as_often_as_epsilon_allows(epsilon, guesses):
    """n = 20,000 binomial counts; binomial tail, alpha = 1e-6."""
    n = scaled(20_000, 400_000)
    right = np.random.default_rng(3).binomial(guesses, 1 / (1 + math.exp(-epsilon)), n)
    found = alarms((estimates.of_guesses(guesses, guesses, int(v), 0.0) for v in right), epsilon)
    assert stats.binom.sf(found - 1, n, ONE) > ALPHA


def test_estimates_are_right_on_average():
    rng, rows = np.random.default_rng(4), 50_000
    event = [estimates.of_event("e", int(a), int(b), rows, 0.0) for a, b in rng.binomial(rows, [0.4, 0.4 / math.e], (2000, 2))]
    values = np.array([(one.epsilon, one.standard_error) for one in event])
    assert abs(values[:, 0].mean() - 1) < 5 * values[:, 0].std() / math.sqrt(2000)
    assert values[:, 1].mean() == pytest.approx(values[:, 0].std(), rel=0.1)


def test_whole_audits_of_correct_mechanisms():
    """n = 120 audits by pairs and in one run, of two mechanisms without any slack, 2,000 samples each; binomial tail, alpha = 1e-6,
    that no more than 1 % are suspicious. An estimate without its standard errors would call far more so.
    """
    runs, suspicious, above = scaled(60, 1500), 0, 0
    for seed in range(runs):
        for target in (
            MechanismTarget(Gaussian(epsilon=2.0, dimension=1), seeds(100 + seed)),
            samplers.randomized_response(1.0, 2, seeds(100 + seed)),
        ):
            found = [audit_mechanism(target, samples=2000, method=method) for method in ("pair", "one-run")]
            suspicious += any(audit.suspicious for audit in found)
            above += any(audit.results[0].estimate.epsilon > target.epsilon for audit in found)
    assert stats.binom.sf(suspicious - 1, 2 * runs, WHOLE) > ALPHA
    assert stats.binom.sf(above - 1, 2 * runs, WHOLE) < ALPHA


def test_noise_10_percent_low_is_suspicious_and_not_refuted():
    """sigma 10 % low at epsilon 8, which really has 9.09: n = 100,000 samples do not refute it, and are 10 standard errors away."""
    found = audit_mechanism(MechanismTarget(samplers.GaussianTenPercentLow(epsilon=8.0, dimension=8), seeds(5)))
    assert found.suspicious and not found.flagged
    pair = found.results[0]
    assert pair.estimate.of == "Gaussian curve"
    truth = float(hv.gaussian_epsilon(1e-5, samplers.GaussianTenPercentLow(epsilon=8.0, dimension=8).noise_parameter, 2.0))
    assert abs(pair.estimate.epsilon - truth) < 5 * pair.estimate.standard_error < 1
    right = audit_mechanism(MechanismTarget(Gaussian(epsilon=8.0, dimension=8), seeds(5)))
    assert not right.suspicious and not right.flagged


def test_a_flagged_audit_is_not_suspicious_as_well():
    found = audit_pair(MechanismTarget(samplers.L2LaplaceForC(epsilon=2.0, dimension=1), seeds(6)), samples=20_000)
    assert found.flagged and not found.suspicious
    assert found.estimate.low > found.epsilon_claimed


def test_json():
    found = audit_mechanism(
        MechanismTarget(samplers.GaussianTenPercentLow(epsilon=8.0, dimension=1), seeds(7)), samples=50_000
    ).to_dict()
    read = json.loads(json.dumps(found, allow_nan=False))
    assert (read["flagged"], read["suspicious"]) == (False, True)
    assert set(read["results"][0]["estimate"]) == {"of", "epsilon", "standard_error"}
    assert [result["suspicious"] for result in read["results"]] == [True, False, False]


def test_edges():
    assert estimates.of_event("e", 0, 0, 1000, 0.1) is None
    assert estimates.of_event("e", 1000, 0, 1000, 0.0).epsilon == pytest.approx(math.log(2001))
    assert estimates.of_gaussian_curve(600, 600, 1000, 1e-5) is None
    assert estimates.of_gaussian_curve(0, 0, 1000, 1e-5).standard_error > 0
    assert estimates.of_guesses(1000, 10, 10, 0.1) is None
    assert estimates.most_telling([None, None]) is None
    assert audit_pair(MechanismTarget(Laplacian(epsilon=1.0, dimension=1), seeds(8)), samples=2000).estimate is not None
