"""What schedules cost: against dp-accounting and integrals, in both adjacencies; clipped batches."""

import math
import os

import numpy as np
import pytest
from scipy import stats

from hushvec.accounting import GaussianDP, PoissonSampledGaussianDP, compose
from hushvec.receipts.training import sensitivity_factor
from hushvec.training import StepSchedule

dp_accounting = pytest.importorskip("dp_accounting")

# (noise multiplier sigma/C, sampling probability, steps, delta)
SCHEDULES = [(2.5, 0.02, 1000, 1e-5), (4.0, 0.2, 50, 1e-7), (10.0, 1.0, 100, 1e-5)]
if os.environ.get("HUSHVEC_TEST_SCALE") == "full":
    SCHEDULES += [
        (1.0, 0.01, 100, 1e-5),
        (1.0, 0.01, 1_000, 1e-5),
        (1.0, 0.01, 10_000, 1e-5),
        (2.0, 0.1, 500, 1e-6),
        (0.7, 0.001, 3_000, 1e-6),
        (0.8, 0.004, 30_000, 1e-6),
        (1.0, 0.05, 200, 1e-5),
        (8.0, 0.25, 4_000, 1e-5),
    ]


def epsilon_of_dp_accounting(noise_multiplier, probability, steps, delta, adjacency, interval=1e-4):
    from dp_accounting.pld import PLDAccountant

    relations = dp_accounting.NeighboringRelation
    relation = relations.REPLACE_ONE if adjacency == "replace-one" else relations.ADD_OR_REMOVE_ONE
    accountant = PLDAccountant(relation, value_discretization_interval=interval)
    step = dp_accounting.PoissonSampledDpEvent(probability, dp_accounting.GaussianDpEvent(noise_multiplier))
    accountant.compose(step, steps)
    return accountant.get_epsilon(delta)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("noise_multiplier, probability, steps, delta", SCHEDULES)
def test_epsilon_is_that_of_dp_accounting(noise_multiplier, probability, steps, delta, adjacency):
    """Within 1e-6 of dp-accounting, or between what it finds by default and on a grid ten times as fine: both are upper bounds.
    It takes sigma / C in both adjacencies. Where all take part, the exact Gaussian is below its grid."""
    schedule = StepSchedule(noise_multiplier=noise_multiplier, sampling_probability=probability, adjacency=adjacency)
    theirs = epsilon_of_dp_accounting(noise_multiplier, probability, steps, delta, adjacency)
    by_grid = PoissonSampledGaussianDP(
        noise_multiplier=schedule.loss.noise_multiplier, sampling_probability=probability, adjacency=adjacency
    )
    composed = compose([(by_grid, steps)], delta=delta)
    grid = next(one.epsilon for one in composed.candidates if one.theorem == "pld")
    finer = theirs
    if grid < theirs - 1e-6:
        finer = epsilon_of_dp_accounting(noise_multiplier, probability, steps, delta, adjacency, interval=1e-5)
    assert finer - 1e-6 <= grid <= theirs + 1e-6
    assert schedule.epsilon(steps, delta) <= grid
    if probability < 1:
        assert schedule.epsilon(steps, delta) == composed.epsilon == grid


def test_losses_are_relative_to_the_sensitivity():
    """Sensitivities 1, 2, 2, 4 (and 2 without sampling) clip norms."""
    expected = {("example", "add-remove"): 1, ("example", "replace-one"): 2, ("batch", "add-remove"): 2, ("batch", "replace-one"): 4}
    for (clipped, adjacency), factor in expected.items():
        schedule = StepSchedule(noise_multiplier=3.0, sampling_probability=0.1, adjacency=adjacency, clipped=clipped)
        assert schedule.loss == PoissonSampledGaussianDP(
            noise_multiplier=3.0 / factor, sampling_probability=0.1, adjacency=adjacency
        )
        assert schedule.sensitivity_factor == factor
    whole = StepSchedule(noise_multiplier=3.0, sampling_probability=1.0, adjacency="replace-one", clipped="batch")
    assert whole.loss == GaussianDP(noise_multiplier=1.5, adjacency="replace-one")


def two_normals(weights, means, points):
    return sum(weight * stats.norm.pdf(points, mean, 1.0) for weight, mean in zip(weights, means))


def divergence(first, second, epsilon):
    """H_epsilon of two densities on a fine grid from -30 to 30."""
    step = 1e-3
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum() * step)


POINTS = np.arange(-30.0, 30.0, 1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0])
def test_a_clipped_batch_moves_by_two_clip_norms(epsilon):
    """Noise of deviation 1 = C, sampling 0.3: a batch gradient that one example turns round, from C to -C."""
    q = 0.3
    present = two_normals((1 - q, q), (1.0, -1.0), POINTS)
    absent = two_normals((1.0,), (1.0,), POINTS)
    other = two_normals((1 - q, q), (1.0, 0.2), POINTS)
    removal = StepSchedule(noise_multiplier=1.0, sampling_probability=q, clipped="batch").loss
    for pair in ((present, absent), (absent, present)):
        assert divergence(*pair, epsilon) <= removal.delta(epsilon) + 1e-6
    assert removal.delta(epsilon) <= divergence(present, absent, epsilon) + 1e-6
    replacement = StepSchedule(noise_multiplier=1.0, sampling_probability=q, adjacency="replace-one", clipped="batch").loss
    assert max(divergence(present, other, epsilon), divergence(other, present, epsilon)) <= replacement.delta(epsilon) + 1e-6


def test_half_the_sensitivity_is_too_small():
    """The claim that batch-level clipping is often made with, C for 2 C, is below what such a batch loses."""
    q, epsilon = 0.3, 0.5
    lost = divergence(two_normals((1 - q, q), (1.0, -1.0), POINTS), two_normals((1.0,), (1.0,), POINTS), epsilon)
    claimed = StepSchedule(noise_multiplier=1.0, sampling_probability=q).loss.delta(epsilon)
    assert lost > 1.5 * claimed


def test_the_ends_of_a_schedule():
    schedule = StepSchedule(noise_multiplier=0.0, sampling_probability=0.1)
    assert schedule.epsilon(0, 1e-5) == 0.0 == schedule.rho(0)
    assert schedule.epsilon(1, 1e-5) == math.inf == schedule.rho(1)
    with pytest.raises(ValueError, match="noise_multiplier must be > 0 for a privacy loss"):
        _ = schedule.loss
    assert StepSchedule(noise_multiplier=1.0, sampling_probability=0.5).rho(4) == pytest.approx(2.0)


def test_what_is_clipped_is_named():
    with pytest.raises(ValueError, match="clipped must be one of"):
        StepSchedule(noise_multiplier=1.0, sampling_probability=0.1, clipped="layer")


@pytest.mark.parametrize(
    "adjacency, clipped, message",
    [
        ("swap", "example", "adjacency must be one of 'replace-one', 'add-remove', got 'swap'"),
        ("add-remove", "row", "clipped must be one of 'example', 'batch', got 'row'"),
    ],
)
def test_no_sensitivity_for_an_unknown_name(adjacency, clipped, message):
    with pytest.raises(ValueError) as caught:
        sensitivity_factor(adjacency, clipped, 0.5)
    assert str(caught.value) == message
