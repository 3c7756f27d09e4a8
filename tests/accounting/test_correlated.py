"""Coefficients of correlated noise, the sensitivity of its runs by every schedule that is allowed, and its error."""

import itertools
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from evidence.reference.sizes import scaled
from hushvec.accounting.correlated import CorrelatedNoise

GUIDE = Path(__file__).parents[2] / "docs/training_noise.md"


def matrix(noise):
    """C, dense."""
    inverse = sum(c * np.eye(noise.steps, k=-back) for back, c in enumerate(noise.coefficients[: noise.steps]))
    return np.linalg.inv(inverse)


def schedules(noise):
    """Every set of steps that one example may take part in."""
    for count in range(1, noise.max_participations + 1):
        for steps in itertools.combinations(range(noise.steps), count):
            if all(later - earlier >= noise.min_separation for earlier, later in itertools.pairwise(steps)):
                yield steps


def worst(noise):
    c = matrix(noise)
    return max(float(np.linalg.norm(c[:, list(steps)].sum(1))) for steps in schedules(noise))


SMALL = [
    CorrelatedNoise.bisr(bands=3, steps=12, min_separation=4),
    CorrelatedNoise.bisr(bands=4, steps=13, min_separation=3, max_participations=2),
    CorrelatedNoise(coefficients=(1.0, -0.75), steps=10, min_separation=2),
    CorrelatedNoise.optimized(bands=3, steps=12, min_separation=4),
    CorrelatedNoise(coefficients=(1.0,), steps=9, min_separation=3),
]


@pytest.mark.parametrize("noise", SMALL, ids=str)
def test_no_schedule_exceeds_the_sensitivity_and_one_attains_it(noise):
    assert worst(noise) == pytest.approx(noise.sensitivity, rel=1e-12)
    assert worst(noise) <= noise.sensitivity * (1 + 1e-14)


@pytest.mark.parametrize("coefficients", [(1.0, 0.0, -1.0), (1.0, -0.25, -0.75), (1.0, -0.1, -0.9, -0.3)])
def test_columns_that_do_not_fall_are_bounded_from_above(coefficients):
    noise = CorrelatedNoise(coefficients=coefficients, steps=11, min_separation=3)
    assert worst(noise) <= noise.sensitivity * (1 + 1e-14)


def test_examples_of_other_lengths_and_directions_stay_below():
    noise, rng = SMALL[0], np.random.default_rng(1)
    c = matrix(noise)
    for steps in schedules(noise):
        shares = rng.standard_normal((len(steps), 5))
        shares *= rng.uniform(0, 1, (len(steps), 1)) / np.linalg.norm(shares, axis=1, keepdims=True)
        assert np.linalg.norm(c[:, list(steps)] @ shares) <= noise.sensitivity


@pytest.mark.parametrize("mutant", [{"min_separation": 5}, {"max_participations": 2}, {"coefficients": (1.0, -0.5)}])
def test_a_schedule_outside_of_what_was_declared_costs_more(mutant):
    """A band forgotten, a participation too many, steps too near: the true schedule is longer than the mutant's sensitivity."""
    noise = SMALL[0]
    changed = CorrelatedNoise(**{**noise.to_dict(), "coefficients": noise.coefficients, **mutant})
    assert worst(noise) > changed.sensitivity * 1.001


def test_a_restart_costs_no_more():
    """Steps 0 to 4, then anew: C is block diagonal, and every schedule's columns are shorter."""
    noise = SMALL[0]
    c = matrix(noise)
    c[5:, :5] = 0
    assert max(float(np.linalg.norm(c[:, list(steps)].sum(1))) for steps in schedules(noise)) <= noise.sensitivity


@pytest.mark.parametrize(("bands", "gain"), [(4, 2.49), (8, 3.38), (16, 4.44)])
def test_bisr_has_its_published_gain(bands, gain):
    noise = CorrelatedNoise.bisr(bands=bands, steps=1024, min_separation=256)
    assert round(noise.gain, 2) == gain
    root = np.array(noise.coefficients)
    square = np.convolve(root, root)[:bands]   # of the root of I - shift
    np.testing.assert_allclose(square, [1, -1] + [0] * (bands - 2), atol=1e-7)


def test_the_gain_is_that_of_dense_matrices():
    for noise in SMALL:
        n = noise.steps
        error = np.linalg.norm(np.tri(n) @ np.linalg.inv(matrix(noise))) / math.sqrt(n) * noise.sensitivity
        independent = np.linalg.norm(np.tri(n)) / math.sqrt(n) * math.sqrt(noise.max_participations)
        assert noise.gain == pytest.approx(independent / error, rel=1e-9)


@pytest.mark.parametrize(("bands", "least"), [(2, 4.7), (4, 5.5)])
def test_solved_coefficients_are_better(bands, least):
    noise = CorrelatedNoise.optimized(bands=bands, steps=1024, min_separation=256)
    assert noise.gain > least > CorrelatedNoise.bisr(bands=16, steps=1024, min_separation=256).gain
    assert len(noise.coefficients) == bands


def test_the_bands_are_those_that_are_worth_their_time():
    """Twice as many gain less than 5 %; half of them less by at least 5 %. The guide's table has both, and the choice in bold.

    The gains are ends of a search, which by the rounding of a processor differ in their last digit.
    """
    rows = re.findall(r"^  \| ([\d,]+) \| ([\d,]+) \| (.+) \|$", GUIDE.read_text(), re.MULTILINE)
    assert len(rows) == 4
    for steps, separation, cells in rows[:scaled(2, 4)]:
        terms = {name: int(text.replace(",", "")) for name, text in (("steps", steps), ("min_separation", separation))}
        gains = {bands: CorrelatedNoise.optimized(bands=bands, **terms).gain for bands in (2, 4, 8, 16, 32)}
        chosen = CorrelatedNoise.optimized(**terms)
        bands = len(chosen.coefficients)
        assert chosen.gain == gains[bands] and list(gains.values()) == sorted(gains.values())
        assert bands == 32 or gains[2 * bands] < 1.05 * gains[bands]
        assert bands == 2 or gains[bands] >= 1.05 * gains[bands // 2]
        assert [cell.startswith("**") for cell in cells.split(" | ")] == [one == bands for one in gains]
        assert [float(cell.strip("*")) for cell in cells.split(" | ")] == pytest.approx(list(gains.values()), abs=0.015)


# Decay and weight of each buffer, which a search by scipy found for the schedules of the guide's table.
BUFFERS = [
    ((100, 25), [0.001121, 0.912122, 0.912008, 0.912139], [0.078152, 0.410521, 0.022974, 0.009617]),
    ((1000, 100), [0.577769, 0.981664, 0.981663, 0.577765], [0.158313, 0.153035, 0.0972, 0.099032]),
    ((1024, 256), [0.33492, 0.825618, 0.991066], [0.12672, 0.221381, 0.155348]),
    ((4096, 1024), [0.763377, 0.953339, 0.997759, 0.31558], [0.178226, 0.132213, 0.078464, 0.112675]),
]


def test_the_guide_compares_with_matrices_that_reach_further_back():
    """The gain of a BLT, C_k = sum of weight decay^(k-1), whose columns fall: its sensitivity is that of b-separated columns."""
    gains, more = [], []
    for (steps, separation), decays, weights in BUFFERS:
        column = np.concatenate([[1.0], np.power.outer(decays, np.arange(steps - 1)).T @ weights])
        assert (np.diff(column) < 0).all()
        longest = sum(np.concatenate([np.zeros(place), column[: steps - place]]) for place in range(0, steps, separation))
        rows = np.cumsum(lfilter([1.0], column, np.eye(1, steps)[0]))   # of A C^-1
        error = np.linalg.norm(longest) * math.sqrt(np.cumsum(rows**2).mean())
        gains.append(math.sqrt(-(-steps // separation) * (steps + 1) / 2) / error)
        more.append(gains[-1] / CorrelatedNoise.optimized(steps=steps, min_separation=separation).gain - 1)
    words = " ".join(GUIDE.read_text().split())
    assert "has at least {:.2f}, {:.2f}, {:.2f} and {:.2f} here".format(*gains) in words
    stated = re.search(r"here: ([\d.]+), ([\d.]+), ([\d.]+) and ([\d.]+) % more", words)
    assert stated is not None and [float(one) for one in stated.groups()] == pytest.approx([100 * one for one in more], abs=0.3)


def test_a_search_for_many_bands_does_not_end_below_one_for_fewer():
    """From half as many bands on, whose best more bands contain."""
    gains = [CorrelatedNoise.optimized(bands=bands, steps=4096, min_separation=1024).gain for bands in (8, 12, 16)]
    assert gains == sorted(gains)


def test_participations_are_no_more_than_the_separation_allows():
    assert CorrelatedNoise.bisr(bands=2, steps=10, min_separation=4, max_participations=99).max_participations == 3
    assert CorrelatedNoise.bisr(bands=2, steps=10, min_separation=100).max_participations == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"coefficients": ()}, "coefficients must be 1 to 32, got 0"),
        ({"coefficients": (1.0,) + (0.0,) * 32}, "coefficients must be 1 to 32, got 33"),
        ({"coefficients": (0.5, -0.5)}, r"coefficients must be 1, and in [-1, 0] from the second on"),
        ({"coefficients": (1.0, 0.5)}, r"coefficients must be 1, and in [-1, 0] from the second on"),
        ({"coefficients": (1.0, float("nan"))}, "coefficients must be finite"),
        ({"coefficients": (1.0, *[-1.0] * 16)}, "coefficients must have magnitudes that sum to at most 16, got 17.0"),
        ({"steps": 0}, "steps must be"),
        ({"steps": 2**20 + 1}, "steps must be"),
        ({"min_separation": 0}, "min_separation must be"),
        ({"max_participations": 0}, "max_participations must be"),
    ],
)
def test_what_it_refuses(changed, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        CorrelatedNoise(**{"coefficients": (1.0, -0.5), "steps": 10, "min_separation": 5, **changed})


@pytest.mark.parametrize("bands", [0, 33, 1])
def test_bands(bands):
    make = CorrelatedNoise.optimized if bands == 1 else CorrelatedNoise.bisr
    with pytest.raises(ValueError, match="bands must be"):
        make(bands=bands, steps=10, min_separation=5)
