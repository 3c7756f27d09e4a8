"""Totals are exact: equal to rational arithmetic, whatever the blocks, the order and what else is added."""

import math
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from hushvec import clip
from hushvec._native import _core
from hushvec.aggregates import private_classifier, private_covariance, private_pca
from hushvec.aggregates import rows as rows_module
from hushvec.aggregates import totals as totals_module
from hushvec.aggregates.classifiers import _residuals
from hushvec.aggregates.rows import directions, unit
from hushvec.aggregates.totals import GroupTotals, MomentTotals, whole_rows


def rows_of(count, dimension, dtype="float32", seed=0):
    return (np.random.default_rng(seed).normal(size=(count, dimension)) * 0.4).astype(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
@pytest.mark.parametrize("groups", [1, 5, 300])
def test_sums_of_groups_are_those_of_their_rows(dtype, groups):
    rows, codes = rows_of(500, 33, dtype), np.random.default_rng(1).integers(0, groups, 500).astype(np.uint32)
    totals = GroupTotals(groups, 33, 1.0)
    for block in np.array_split(np.random.default_rng(2).permutation(500), 7):
        totals.add(rows[block], codes[block])
    expected = np.zeros((groups, 33), np.int64)
    for row, code in zip(rows, codes):
        alone = _core.ClippedSum([33], 1.0, 0.0, 1, "exact")
        alone.add([row[None]])
        expected[code] += alone._units()[0].astype(np.int64)
    assert (totals.sums() == expected).all() and (totals.counts == np.bincount(codes, minlength=groups)).all()
    near = np.zeros((groups, 33))
    np.add.at(near, codes, rows / np.maximum(np.linalg.norm(rows.astype(float), axis=1), 1)[:, None])
    assert np.abs(totals.sums() * totals.unit - near).max() < (0.1 if dtype == "float16" else 5e-4)


def test_a_refused_block_changes_nothing():
    totals = GroupTotals(2, 4, 1.0)
    codes = np.array([0, 1], np.uint32)
    totals.add(rows_of(2, 4), codes)
    before = totals.sums()
    for groups in (codes, None):
        with pytest.raises(ValueError, match=r"rows must be finite, got inf in row 1"):
            totals.add(np.array([[1, 0, 0, 0], [0, np.inf, 0, 0]], np.float32), groups)
    assert (totals.sums() == before).all() and totals.counts.tolist() == [1, 1]


@pytest.mark.parametrize("clip_norm", [1.0, 0.7, 2.0**-20])
def test_moments_are_those_of_rational_arithmetic(clip_norm):
    rows = rows_of(60, 5) * clip_norm * 2
    totals = MomentTotals(5, clip_norm)
    totals.add(rows[:13])
    totals.add(rows[13:])
    whole, square = np.zeros((5, 5), object), Fraction(clip_norm) ** 2
    for row in rows:
        alone = MomentTotals(5, clip_norm)
        alone.add(row[None])
        entries = [[Fraction(int(entry)) * Fraction(alone.unit) for entry in line] for line in alone.total()]
        assert sum(entries[i][i] for i in range(5)) <= square  # |f(x)|^2
        whole = whole + np.array(entries, object)
    found = [[Fraction(int(entry)) * Fraction(totals.unit) for entry in line] for line in totals.total()]
    assert (np.array(found, object) == whole).all()
    clipped = rows / np.maximum(np.linalg.norm(rows.astype(float), axis=1) / clip_norm, 1)[:, None]
    assert np.abs(totals.total() * totals.unit - clipped.T @ clipped).max() < 60 * 1e-4 * clip_norm**2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("clip_norm", [1e-30, 1e-7, 0.3, 1.0, 100.0, 1e30])
def test_whole_rows_are_clipped_rows_in_units_cut_towards_zero(dtype, clip_norm):
    rng = np.random.default_rng(0)
    most = min(float(np.finfo(dtype).max), 1e35)
    rows = (rng.standard_normal((50, 30)) * clip_norm * 2.0 ** rng.integers(-40, 3, (50, 1))).clip(-most, most).astype(dtype)
    whole, unit = whole_rows(rows, clip_norm), Fraction(math.sqrt(MomentTotals(1, clip_norm).unit))  # a power of 2
    expected = [[float(math.trunc(Fraction(float(x)) / unit)) for x in row] for row in clip(rows, clip_norm)]
    assert whole.tolist() == expected


def test_directions_that_are_kept_change_nothing(monkeypatch):
    rows, codes = rows_of(3000, 40), np.arange(3000) % 7
    terms = {"labels": 7, "epsilon": 4.0, "delta": 1e-5}
    monkeypatch.setattr(totals_module, "_ELEMENTS_AT_ONCE", 40_000)
    made = []
    for most in (0, 1 << 29):
        monkeypatch.setattr(rows_module, "_KEPT_ELEMENTS", most)
        made.append(private_classifier(rows, codes, generator=hv.Generator.unsafe_seeded(1), **terms))
    assert (made[0].coef_ == made[1].coef_).all() and made[0].receipt.statistics == made[1].receipt.statistics
    given = rows_module.PrivateRows(rows, rows_module.Terms(4.0, 1e-5), "test")
    for most in (rows.size - 1, rows.size):   # more than that would be a second copy of all rows
        monkeypatch.setattr(rows_module, "_KEPT_ELEMENTS", most)
        assert (given.changed(unit)._changed is not None) == (most == rows.size)


def test_directions_of_float64_may_be_as_long_as_they_like():
    """Beyond float32: nothing is narrowed before it has unit length."""
    for size in (1e-200, 1e200):
        assert unit(size * np.array([[3.0, 4.0]])) == pytest.approx(np.array([[0.6, 0.8]]))
        assert directions(size * np.array([[3.0, 4.0]]), np.zeros(2)) == pytest.approx(np.array([[0.6, 0.8]]))


def test_variances_of_components_are_those_of_the_directions():
    """With next to no noise: the largest eigenvalues of the mean of z z^T, the largest first."""
    rows = rows_of(2000, 6) * np.float32([6, 5, 4, 3, 2, 1])
    found = private_pca(rows, components=3, epsilon=1e6, delta=1e-5, clip_norm=64.0)
    moved = rows - rows.mean(axis=0, dtype=np.float64)
    moved /= np.linalg.norm(moved, axis=1, keepdims=True)
    assert found.variances == pytest.approx(np.linalg.eigvalsh(moved.T @ moved / 2000)[:2:-1], rel=1e-3)


def test_a_count_that_is_public_has_no_noise_and_costs_nothing():
    rows = rows_of(300, 4)
    for adjacency, most, private in (("add-remove", 1, True), ("replace-one", 1, False), ("replace-one", 2, True)):
        given = {"adjacency": adjacency, "rows_per_person": most, "epsilon": 1.0, "delta": 1e-5}
        sums = private_pca(rows, components=2, **given).receipt.statistics[0]
        assert (sums.count_sigma is not None) == private


def test_rows_may_have_one_column():
    found = private_covariance(np.full((1000, 1), 0.5, np.float32), clip_norm=1.0, epsilon=1e4, delta=1e-5)
    assert found.mean == pytest.approx([0.5], abs=1e-3) and found.covariance.shape == (1, 1)
    with pytest.raises(ValueError, match="rows must have at least 1 column, got 0"):
        private_covariance(np.zeros((10, 0), np.float32), clip_norm=1.0, epsilon=1.0, delta=1e-5)


def test_a_direction_depends_on_its_row_alone():
    """Its bits are the same among other rows, at another place in memory and in another layout."""
    rows, mean = rows_of(301, 77) + 1, rows_of(1, 77)[0].astype(np.float64)
    together = directions(rows, mean)
    assert np.linalg.norm(together.astype(float), axis=1) == pytest.approx(np.ones(301), abs=1e-6)
    for layout in (np.asfortranarray(rows), rows[::-1][::-1], np.pad(rows, ((3, 0), (1, 2)))[3:, 1:-2]):
        assert (directions(layout, mean) == together).all()
    for row in range(0, 301, 50):
        assert (directions(rows[row : row + 1], mean)[0] == together[row]).all()
    assert (directions(mean[None].astype(np.float64), mean) == 0).all()
    assert np.isfinite(directions(np.full((1, 77), 3e38, np.float32), -np.full(77, 1e30))).all()


@pytest.mark.parametrize("classes", [2, 16, 77])
def test_a_residual_depends_on_its_row_alone(classes):
    rows, weights = directions(rows_of(203, 40), np.zeros(40)), directions(rows_of(classes, 40, seed=1), np.zeros(40))
    codes = np.arange(203, dtype=np.uint32) % classes
    together = _residuals(rows, codes, weights, 3.0)
    assert np.abs(together.sum(axis=1)).max() < 1e-12 and (together[np.arange(203), codes] >= 0).all()
    for first, last in ((0, 1), (1, 2), (3, 103), (7, 203), (202, 203)):
        assert (_residuals(rows[first:last], codes[first:last], weights, 3.0) == together[first:last]).all()
    odd = np.zeros((203, 43), np.float32)
    odd[:, 1:41] = rows
    assert (_residuals(odd[:, 1:41], codes, weights, 3.0) == together).all()


def test_too_many_rows_are_refused():
    totals = MomentTotals(1, 1.0)
    totals.rows = 2**26
    with pytest.raises(ValueError, match=r"rows must be at most 2\^26, got 67108864 \+ 1"):
        totals.add(np.ones((1, 1), np.float32))
