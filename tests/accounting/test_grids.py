"""Grids of sampled Gaussians, all cells at once: against dp-accounting's own constructor, and what a wrong one would be short of."""

import math
from functools import partial

import numpy as np
import pytest

from hushvec.accounting import GaussianDP, LaplaceDP, PoissonSampledGaussianDP, PureDP, compose, pld
from hushvec.accounting import pld as grids
from hushvec.accounting import poisson as curves
from hushvec.accounting.releases import collect
from hushvec.accounting.tilted import shortfall

pytest.importorskip("dp_accounting")
from dp_accounting import NeighboringRelation  # noqa: E402
from dp_accounting.pld import common, privacy_loss_distribution  # noqa: E402

# loss, direction, grid step
RELEASES = [
    (PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.02), "remove", 2e-4),
    (PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.02), "add", 2e-4),
    (PoissonSampledGaussianDP(noise_multiplier=30.0, sampling_probability=1e-4), "add", 1e-6),
    (PoissonSampledGaussianDP(noise_multiplier=0.6, sampling_probability=0.3, adjacency="replace-one"), "remove", 1e-3),
    (PoissonSampledGaussianDP(noise_multiplier=2.0, sampling_probability=1.0, adjacency="replace-one"), "remove", 1e-3),
    (GaussianDP(noise_multiplier=2.0), "remove", 1e-3),
]


@pytest.mark.parametrize("loss, direction, step", RELEASES)
def test_grids_are_those_of_dp_accounting(loss, direction, step):
    """The same cells, and masses up to the rounding of the points: differences of deltas near 1, divided by the step."""
    deviation, probability, way = pld._gaussian_curve(loss, direction)
    relation = NeighboringRelation.REPLACE_ONE if way == "replace" else NeighboringRelation.ADD_OR_REMOVE_ONE
    made = privacy_loss_distribution.from_gaussian_mechanism(
        deviation, value_discretization_interval=step, sampling_prob=probability, neighboring_relation=relation
    )
    require_equal(grids.sampled_gaussian_law(deviation, probability, way, step), getattr(made, f"_pmf_{direction}"), step)


@pytest.mark.parametrize("loss", [LaplaceDP(noise_multiplier=2.0), LaplaceDP(noise_multiplier=0.5), PureDP(epsilon=0.3)])
def test_grids_of_other_noise_are_those_of_dp_accounting(loss):
    if isinstance(loss, LaplaceDP):
        made = privacy_loss_distribution.from_laplace_mechanism(loss.noise_multiplier, value_discretization_interval=1e-3)
    else:
        parameters = common.DifferentialPrivacyParameters(loss.pure_epsilon, 0.0)
        made = privacy_loss_distribution.from_privacy_parameters(parameters, value_discretization_interval=1e-3)
    ours = pld._law(loss, "remove", 1e-3)
    if isinstance(loss, PureDP):   # rounding moves next to nothing one cell up
        assert 0 < ours.masses[-1] < 1e-12
        ours = ours._replace(masses=ours.masses[:-1])
    require_equal(ours, made._pmf_remove, 1e-3)


def require_equal(ours, theirs, step):
    theirs = theirs.to_dense_pmf()
    assert (ours.first, len(ours.masses)) == (theirs._lower_loss, len(theirs._probs))
    assert np.abs(ours.masses - theirs._probs).max() < 8 * 2.0**-53 / step
    assert ours.unbounded == pytest.approx(theirs._infinity_mass, rel=1e-6, abs=1e-16)
    assert math.fsum(ours.masses) == pytest.approx(math.fsum(theirs._probs), abs=1e-11)


@pytest.mark.parametrize("loss, direction, step", RELEASES)
def test_points_off_by_a_little_are_noticed_and_paid_for(loss, direction, step, monkeypatch):
    """Deltas at any other point than the crossing are too small; the comparison with the curve adds what they are short of."""
    assert pld._law(loss, direction, step).short.max() < 1e-12
    curve, crossings = pld._gaussian_curve(loss, direction), curves.crossings
    at_crossings = partial(curves.sampled_gaussian, *curve)
    monkeypatch.setattr(pld, "crossings", lambda *at: (crossings(*at)[0] + 0.1 * loss.noise_multiplier, crossings(*at)[1]))
    wrong = grids.sampled_gaussian_law(*curve, step)
    monkeypatch.undo()
    assert shortfall(wrong, step, at_crossings).max() > 1e-9


def test_losses_beyond_the_floats_have_a_grid_that_is_not_compared():
    """Next to no noise: e^loss overflows."""
    loss = PoissonSampledGaussianDP(noise_multiplier=0.025, sampling_probability=0.5)
    for direction in ("remove", "add"):
        law = pld._law(loss, direction, 0.1)
        assert law.short is None and max(-law.first, law.first + len(law.masses)) * 0.1 > grids.LARGEST_LOSS
        assert math.fsum([law.unbounded, *law.masses]) == pytest.approx(1.0, abs=1e-9)


def test_a_mixture_of_kinds_has_all_of_them():
    """Laplace noise has no such grid, and a sum with it costs more than without."""
    step = PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.05)
    alone = compose([(step, 50)], delta=1e-5)
    both = compose([(step, 50), (LaplaceDP(noise_multiplier=10.0, adjacency="add-remove"), 5)], delta=1e-5)
    assert both.theorem == "pld" and alone.epsilon < both.epsilon < alone.epsilon + 0.5


@pytest.mark.parametrize("of", [curves.sampled_gaussian, curves.crossings])
def test_no_curve_for_an_unknown_direction(of):
    with pytest.raises(ValueError) as caught:
        of(1.0, 0.5, "swap", np.zeros(1))
    assert str(caught.value) == "direction must be one of 'remove', 'add', 'replace', got 'swap'"


def test_the_grid_of_many_sampled_steps_is_a_tenth_of_the_spread_of_one():
    """So that what rounding within a cell adds to each does not add up; a hundred or fewer need it no finer than their sum."""
    loss = PoissonSampledGaussianDP(noise_multiplier=30.0, sampling_probability=1e-3)
    steps = [pld._step(collect([(loss, count)], independent_samples=True)) for count in (100, 101)]
    assert steps[1] == pld._spread(loss)[0] / 10 < 0.95 * steps[0]
