"""The pairs of inputs that the proof notes call worst: the loss attains epsilon there, and the tempting shortcuts exceed it."""

import math

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import L2Laplace, Laplacian

DIMENSIONS = [1, 2, 384, 1920]


def worst_pair(mechanism):
    """Clipped rows of one person, and their opposites: all elements of one size, so that L1 is as large as L2 allows."""
    rows, dimension = mechanism.rows_per_person, mechanism.dimension
    x = np.full((rows, dimension), mechanism.clip_norm / math.sqrt(dimension))
    clipped = hv.clip(x, mechanism.clip_norm)
    return clipped, -clipped


def loss_at_the_input(mechanism, x, other, scale):
    """ln of the ratio of the two output densities at y = x, where it is largest."""
    if mechanism.law == "laplacian":
        return np.abs(x - other).sum() / scale
    return np.linalg.norm(x - other, axis=1).sum() / scale


@pytest.mark.parametrize("kind", [Laplacian, L2Laplace])
@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("rows", [1, 5])
def test_the_worst_pair_attains_the_bound(kind, dimension, rows):
    mechanism = kind(epsilon=4.0, dimension=dimension, clip_norm=0.7, rows_per_person=rows)
    x, other = worst_pair(mechanism)
    loss = loss_at_the_input(mechanism, x, other, mechanism.scale)
    assert 4.0 * (1 - 1e-5) < loss <= 4.0
    shortcuts = {"2 C written as C": 0.7 * rows / 4.0}
    if kind is Laplacian and dimension > 1:
        shortcuts["sqrt(d) dropped"] = 2 * 0.7 * rows / 4.0
    if rows > 1:
        shortcuts["rows as one"] = mechanism.scale / rows
        shortcuts["rows as for Gaussian noise"] = mechanism.scale / math.sqrt(rows)
    for told, scale in shortcuts.items():
        assert loss_at_the_input(mechanism, x, other, scale) > 4.0 * 1.3, told


@pytest.mark.parametrize("dimension", DIMENSIONS[2:])
def test_without_the_square_root_the_loss_is_that_much_larger(dimension):
    mechanism = Laplacian(epsilon=1.0, dimension=dimension)
    x, other = worst_pair(mechanism)
    assert loss_at_the_input(mechanism, x, other, 2.0) == pytest.approx(math.sqrt(dimension), rel=1e-5)
