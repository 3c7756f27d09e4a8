"""Grids of sampled Gaussians, all cells at once: against dp-accounting's own constructor, and what a wrong one would be short of."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest

from hushvec.accounting import GaussianDP, LaplaceDP, PoissonSampledGaussianDP, compose, pld
from hushvec.accounting import pld as grids
from hushvec.accounting import poisson as curves
from hushvec.accounting import poisson as extra
from hushvec.accounting.tilted import shortfall

pytest.importorskip("dp_accounting")
accounting = extra.dp_accounting("tests")

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
    theirs = grids.grid_law(getattr(pld._one(accounting, loss, step), f"_pmf_{direction}"))
    ours = grids.sampled_gaussian_law(accounting, *pld._gaussian_curve(loss, direction), step)
    assert (ours.first, len(ours.masses)) == (theirs.first, len(theirs.masses))
    assert np.abs(ours.masses - theirs.masses).max() < 8 * 2.0**-53 / step
    assert ours.unbounded == pytest.approx(theirs.unbounded, rel=1e-6)
    assert math.fsum(ours.masses) == pytest.approx(math.fsum(theirs.masses), abs=1e-11)


@pytest.mark.parametrize("loss, direction, step", RELEASES)
def test_points_off_by_a_little_are_noticed_and_paid_for(loss, direction, step, monkeypatch):
    """Deltas at any other point than the crossing are too small; the comparison with the curve adds what they are short of."""
    assert pld._law(accounting, loss, direction, step).short.max() < 1e-12
    curve, crossings = pld._gaussian_curve(loss, direction), curves.crossings
    at_crossings = partial(curves.sampled_gaussian, *curve)
    monkeypatch.setattr(pld, "crossings", lambda *at: (crossings(*at)[0] + 0.1 * loss.noise_multiplier, crossings(*at)[1]))
    wrong = grids.sampled_gaussian_law(accounting, *curve, step)
    monkeypatch.undo()
    assert shortfall(wrong, step, at_crossings).max() > 1e-9


def test_losses_beyond_the_floats_are_left_to_dp_accounting():
    """Next to no noise: e^loss overflows."""
    loss = PoissonSampledGaussianDP(noise_multiplier=0.025, sampling_probability=0.5)
    assert grids.sampled_gaussian_law(accounting, 0.025, 0.5, "remove", 0.1) is None
    law = pld._law(accounting, loss, "remove", 0.1)
    assert law.short is None and (law.first + len(law.masses)) * 0.1 > grids.LARGEST_LOSS
    assert math.fsum([law.unbounded, *law.masses]) == pytest.approx(1.0, abs=1e-9)


def test_a_mixture_of_kinds_has_all_of_them():
    """Laplace noise has no such grid, and a sum with it costs more than without."""
    step = PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.05)
    alone = compose([(step, 50)], delta=1e-5)
    both = compose([(step, 50), (LaplaceDP(noise_multiplier=10.0, adjacency="add-remove"), 5)], delta=1e-5)
    assert both.theorem == "pld" and alone.epsilon < both.epsilon < alone.epsilon + 0.5


def test_a_release_without_the_names_of_a_grid_is_refused():
    with pytest.raises(RuntimeError, match=r"dp-accounting must be 0.6.0, as the extra accounting has it, got \d"):
        grids.grid_law(SimpleNamespace(to_dense_pmf=lambda: SimpleNamespace(_probs=[1.0])))


@pytest.mark.parametrize("of", [curves.sampled_gaussian, curves.crossings])
def test_no_curve_for_an_unknown_direction(of):
    with pytest.raises(ValueError) as caught:
        of(1.0, 0.5, "swap", np.zeros(1))
    assert str(caught.value) == "direction must be one of 'remove', 'add', 'replace', got 'swap'"
