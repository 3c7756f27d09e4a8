"""Densities of released rows: against densities written out, and against rows of the real code."""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from hushvec.mechanisms import laws
from hushvec.retrieval.attacks.row_laws import log_densities, log_ratios
from retrieval.attacks.small_indexes import directions

MECHANISMS = ["gaussian", "empirical", "laplacian", "l2_laplace", "privunit"]


def release(rows, mechanism, seed=1, **more):
    setting = {"sigma": 2.0} if mechanism == "empirical" else {"epsilon": 2.0}
    return hv.privatize(rows, mechanism=mechanism, generator=hv.Generator.unsafe_seeded(seed), **(setting | more))


def written_out(row, centre, receipt):
    if receipt.mechanism in ("gaussian", "empirical"):
        return stats.norm.logpdf(row, centre, receipt.sigma).sum()
    if receipt.mechanism == "laplacian":
        return stats.laplace.logpdf(row, centre, receipt.scale).sum()
    if receipt.mechanism == "l2_laplace":
        return -np.linalg.norm(row - centre) / receipt.scale
    w = row / receipt.sigma
    p, q = receipt.cap_probability, stats.norm.cdf(receipt.threshold)
    # of the cell of the grid around the row, the share that is inside the cap
    spread = receipt.grid / receipt.sigma / np.sqrt(12)
    inside = stats.norm.cdf((w @ centre / np.linalg.norm(centre) - receipt.threshold) / spread)
    return stats.norm.logpdf(w).sum() + np.log(inside * p / (1 - q) + (1 - inside) * (1 - p) / q)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_differences_of_log_densities(mechanism):
    rows, centres = directions(6, 5, seed=2), directions(4, 5, seed=3)
    released = release(rows, mechanism)
    values = released.values.astype(np.float64)
    table = log_densities(released.values, centres, released.receipt)
    wanted = np.array([[written_out(row, centre, released.receipt) for centre in centres.astype(np.float64)] for row in values])
    np.testing.assert_allclose(table - table[:, :1], wanted - wanted[:, :1], rtol=1e-4, atol=1e-3)
    first, second = directions(6, 5, seed=4), directions(6, 5, seed=5)
    ratios = [
        written_out(row, one, released.receipt) - written_out(row, two, released.receipt)
        for row, one, two in zip(values, first.astype(np.float64), second.astype(np.float64))
    ]
    np.testing.assert_allclose(log_ratios(released.values, first, second, released.receipt), ratios, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_law_is_that_of_the_code(mechanism):
    """Over rows released with `one` behind them the mean of p(row | two) / p(row | one) is 1.

    n = 10,000, d = 16, epsilon = 2: within 5 standard errors (alpha 6e-7). With a sigma or scale that is 30 % off it is not.
    """
    one, two = directions(2, 16, seed=8)
    released = release(np.tile(one, (10_000, 1)), mechanism, seed=3)

    def errors(receipt):
        table = log_densities(released.values, np.stack([one, two]), receipt)
        ratios = np.exp(table[:, 1] - table[:, 0])
        return abs(ratios.mean() - 1) / (ratios.std() / 100)

    assert errors(released.receipt) < 5
    name = "scale" if released.receipt.sigma is None else "sigma"
    assert errors(replace(released.receipt, **{name: 0.7 * getattr(released.receipt, name)})) > 5


def test_the_grid_blurs_the_edge_of_the_cap():
    """PrivUnitG, n = 1,000 rows in 384 dimensions at epsilon = 20: the posterior over all of them is as often right as it says.

    Its deviation is 0.01; taken as sharp, the edge would put 7 % of the rows outside their own caps instead of 3 %.
    """
    clean = directions(1000, 384, seed=9)
    released = release(clean, "privunit", epsilon=20.0)
    table = log_densities(released.values, clean, released.receipt)
    posterior = np.exp(table - np.logaddexp.reduce(table, axis=1, keepdims=True))
    right = (np.argmax(table, axis=1) == np.arange(1000)).mean()
    assert abs(posterior.max(axis=1).mean() - right) < 5 * np.sqrt(right * (1 - right) / 1000)
    along = np.einsum("nd,nd->n", released.values, clean, dtype=np.float64) / released.receipt.sigma
    outside = 1 - released.receipt.cap_probability
    assert (along < released.receipt.threshold).mean() > outside + 5 * np.sqrt(outside / 1000)


@pytest.mark.parametrize("epsilon", [1.0, 5.0, 20.0, 100.0, 500.0])
def test_the_law_of_a_direction_of_privunit(epsilon):
    """n = 4,000 rows, d = 64: the posterior over the true vector and 20 others gives the truth what it gives its own draws.

    Within 5 standard errors (alpha 6e-7) and 0.01 for the approximations.
    """
    one, *others = directions(21, 64, seed=11)
    released = release(np.tile(one, (4_000, 1)), "privunit", seed=12, epsilon=epsilon, renormalize=True)
    table = log_densities(released.values, np.stack([one, *others]), released.receipt)
    posterior = np.exp(table - np.logaddexp.reduce(table, axis=1, keepdims=True))
    truth, draws = posterior[:, 0], np.square(posterior).sum(axis=1)
    assert abs((truth - draws).mean()) < 5 * (truth - draws).std() / np.sqrt(4_000) + 0.01
    assert truth.mean() > {1.0: 1.2 / 21, 5.0: 0.3, 20.0: 0.9, 100.0: 0.95, 500.0: 0.95}[epsilon]


@pytest.mark.parametrize("dimension", [8, 64, 384, 1920])
def test_the_tail_of_a_length(dimension):
    lengths = np.linspace(0.3, 5.0, 100) * np.sqrt(dimension)
    exact = stats.chi(dimension).logsf(lengths)
    there = np.isfinite(exact)
    assert np.abs(laws.log_chi_tail(lengths, dimension) - exact)[there].max() < 0.2


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_rows_renormalised_afterwards_keep_most_of_it(mechanism):
    """The stretched row's ratios order pairs nearly as the row's own do: rank correlation above 0.9 in 64 dimensions."""
    clean, other = directions(400, 64, seed=6), directions(400, 64, seed=7)
    plain = release(clean, mechanism, seed=4)
    short = release(clean, mechanism, seed=4, renormalize=True)
    exact = log_ratios(plain.values, clean, other, plain.receipt)
    stretched = log_ratios(short.values, clean, other, short.receipt)
    if mechanism == "privunit":
        assert np.corrcoef(exact, stretched)[0, 1] > 0.8
    else:
        assert stats.spearmanr(exact, stretched).statistic > 0.9


def test_rows_without_noise_are_near_their_own_vector():
    rows = directions(50, 8)
    assert (np.argmax(log_densities(rows, rows, None), axis=1) == np.arange(50)).all()


def test_blocks_do_not_matter(monkeypatch):
    rows, centres = directions(30, 5, seed=2), directions(20, 5, seed=3)
    receipt = release(rows, "laplacian").receipt
    whole = log_densities(rows, centres, receipt)
    monkeypatch.setattr(laws, "_BLOCK", 1)
    np.testing.assert_array_equal(log_densities(rows, centres, receipt), whole)
