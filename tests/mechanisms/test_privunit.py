"""PrivUnitG as an object: its law against golden values and high precision, its cost, and what it says of its harm."""

import contextlib
import csv
import math
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import hushvec as hv
from evidence.reference import checks
from hushvec import accounting
from hushvec._native import _core
from hushvec.mechanisms import Gaussian, PrivUnit, privunit

with (Path(__file__).parents[1] / "evidence" / "vectors" / "privunitg.csv").open() as file:
    GOLDEN = [{name: float(value) for name, value in row.items()} for row in csv.DictReader(file)]


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: str(row["epsilon"]))
def test_golden_laws(row):
    mechanism = PrivUnit(epsilon=row["epsilon"], dimension=384)
    assert mechanism.cap_probability == pytest.approx(row["p"], abs=1e-9)
    assert mechanism.threshold == pytest.approx(row["gamma_sqrt_d"], abs=1e-9)
    assert mechanism.mean_inner_product == pytest.approx(row["expected_inner_product_sqrt_d"], abs=1e-9)


def exact_epsilon(cap_probability, threshold):
    """|ln(p/(1-p)) + ln(q/(1-q))| to 50 digits beyond the cancellation in 1 - q."""
    with mpmath.workdps(50):
        p, t = mpmath.mpf(cap_probability), mpmath.mpf(threshold)
        above = mpmath.erfc(t / mpmath.sqrt(2)) / 2
        return abs(mpmath.log(p / (1 - p)) + mpmath.log((1 - above) / above))


@pytest.mark.parametrize("epsilon", [2.0**-20, 1e-3, 0.3, 1.0, 5.0, 16.0, 100.0, 700.0, 1500.0, 4096.0])
def test_epsilon_is_never_exceeded_and_nearly_used_up(epsilon):
    mechanism = PrivUnit(epsilon=epsilon, dimension=10)
    true = exact_epsilon(mechanism.cap_probability, mechanism.threshold)
    assert true <= _core.privunit_epsilon(mechanism.cap_probability, mechanism.threshold) <= epsilon
    assert true >= epsilon - 1e-12 * (1 + epsilon)


@pytest.mark.parametrize("cap_probability", [2.0**-53, 2.0**-10, 0.25, 0.5, 0.75, 0.999, 1 - 2.0**-53])
@pytest.mark.parametrize("threshold", [0.0, 1e-9, 0.5, 1.0, 4.0, 20.0, 60.0, 128.0])
def test_epsilon_of_any_law_is_rounded_up(cap_probability, threshold):
    found = _core.privunit_epsilon(cap_probability, threshold)
    true = exact_epsilon(cap_probability, threshold)
    assert true <= found <= true + 1e-12 * (1 + abs(true))


REFUSED = {(2.0**-20, 8.0), (2.0**-20, 8.2), (1e-3, 8.0), (1e-3, 8.2)}


@pytest.mark.parametrize("threshold", [0.0, 1.0, 5.0, 8.0, 8.2])
@pytest.mark.parametrize("epsilon", [2.0**-20, 1e-3, 0.3])
def test_a_law_with_a_given_threshold_keeps_epsilon_or_is_refused(epsilon, threshold):
    """Where 1 - q is a few units of 2^-53, the next multiple below it may be too unlikely a cap."""
    refused = contextlib.nullcontext()
    if (epsilon, threshold) in REFUSED:
        refused = pytest.raises(ValueError, match="threshold must leave a multiple of 2\\^-53 for the cap")
    with refused:
        assert exact_epsilon(*_core.privunit_law(epsilon, threshold)) <= epsilon


def test_a_cap_less_likely_than_chance_costs_what_the_kernel_shows():
    """n = 20,000 rows for each of u and -u: values below 0 are 1/p - 1 times as likely for u. Exact binomial tests, alpha = 1e-9."""
    p, n = 2.0**-10, 20_000
    rounded_below_0 = math.erfc(1 / 16 / math.sqrt(2))  # P(W < -1/16 | W < 0): the grid is 1/8
    rows = np.zeros((n, 4), np.float32)
    seen = []
    for sign in (1, -1):
        rows[:, 0] = sign
        out = np.empty_like(rows)
        _core.privunit(rows, p, 0.0, 1.0, out, hv.Generator.unsafe_seeded(7 + sign))
        seen.append(int((out[:, 0] < 0).sum()))
    for found, probability in zip(seen, (1 - p, p)):
        assert checks.count(found, n, probability * rounded_below_0) > 1e-9
    assert checks.count(seen[0], n, rounded_below_0 / 2) < 1e-9
    assert _core.privunit_epsilon(p, 0.0) >= np.log((1 - p) / p) > 6.9


@pytest.mark.parametrize("epsilon", [0.5, 4.0, 16.0, 50.0])
def test_no_other_split_has_a_larger_mean(epsilon):
    mechanism = PrivUnit(epsilon=epsilon, dimension=10)
    for other in np.linspace(0.2, 1.8, 33) * mechanism.threshold:
        with mpmath.workdps(30):
            logit = epsilon - float(exact_epsilon(0.5, other))
        p = float(mpmath.floor(2**53 / (1 + mpmath.exp(-logit)))) / 2**53
        if 0 < p < 1:
            assert _core.privunit_mean(p, other) <= mechanism.mean_inner_product * (1 + 1e-12)


def test_cost_is_shared_by_the_rows_of_a_person():
    for rows in (1, 3, 7, 1000):
        mechanism = PrivUnit(epsilon=10.0, dimension=5, rows_per_person=rows)
        assert mechanism.cost == (10.0, 0.0)
        assert Fraction(mechanism.epsilon_per_row) * rows <= 10
        assert mechanism.epsilon_per_row == pytest.approx(10.0 / rows, rel=1e-15)


@pytest.mark.parametrize("epsilon", [1.0, 10.0, 30.0])
@pytest.mark.parametrize("clip_norm", [1.0, 0.05, 300.0])
def test_expected_harm_matches_what_happens(epsilon, clip_norm):
    """n = 20,000 rows: each mean within 5 of its standard errors, alpha = 6e-7."""
    dimension = 96
    rows = np.random.default_rng(4).standard_normal((20_000, dimension)).astype(np.float32)
    mechanism = PrivUnit(epsilon=epsilon, dimension=dimension, clip_norm=clip_norm)
    out = np.empty_like(rows)
    mechanism.apply(rows, out, hv.Generator.unsafe_seeded(5))
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float64)

    squared_errors = np.square(out - clip_norm * unit).sum(1)
    expected = mechanism.noise_norm**2
    assert abs(squared_errors.mean() - expected) < 5 * squared_errors.std() / np.sqrt(len(rows))
    cosines = (out * unit).sum(1) / np.linalg.norm(out, axis=1)
    assert cosines.mean() == pytest.approx(mechanism.expected_cosine(), rel=0.02)
    assert mechanism.expected_cosine(norm=3.0) == mechanism.expected_cosine()


@pytest.mark.parametrize("epsilon, least", [(1.0, 2.5), (5.0, 3.0), (10.0, 3.0), (20.0, 2.5)])
def test_it_beats_the_gaussian_mechanism(epsilon, least):
    ours = PrivUnit(epsilon=epsilon, dimension=384).expected_cosine()
    theirs = Gaussian(epsilon=epsilon, delta=1e-5, dimension=384).expected_cosine()
    assert ours > least * theirs


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"epsilon": 0.0}, "epsilon must be > 0, got 0.0"),
        ({"epsilon": -1.0}, "epsilon must be > 0, got -1.0"),
        ({"epsilon": float("nan")}, "epsilon must be finite, got nan"),
        ({"epsilon": 1e-9}, r"epsilon must be in \[2\^-20, 4096\] for privunit, got 1e-09"),
        ({"epsilon": 5000.0}, r"epsilon must be in \[2\^-20, 4096\] for privunit, got 5000.0"),
        ({"epsilon": 1.0, "rows_per_person": 2**21}, r"epsilon must be in \[2\^-20, 4096\] times the 2097152 rows of a person"),
        ({"epsilon": 1.0, "clip_norm": 0.0}, "clip_norm must be > 0"),
        ({"epsilon": 1.0, "dimension": 0}, "dimension must be >= 1, got 0"),
        ({"epsilon": 1.0, "corpus_size": 0}, "corpus_size must be >= 1, got 0"),
    ],
)
def test_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        PrivUnit(**{"dimension": 8, **arguments})


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.5, 4.0, 10.0, 16.0, 100.0, 4096.0])
@pytest.mark.parametrize("corpus_size", [1, 2000, 10**9])
def test_a_law_for_retrieval_keeps_epsilon(epsilon, corpus_size):
    mechanism = PrivUnit(epsilon=epsilon, dimension=10, corpus_size=corpus_size)
    assert mechanism.cap_probability >= 0.4999
    assert exact_epsilon(mechanism.cap_probability, mechanism.threshold) <= epsilon
    balanced = PrivUnit(epsilon=epsilon, dimension=10)
    score = lambda m: privunit.top_1_probability(m.cap_probability, m.threshold, corpus_size)
    assert score(mechanism) >= score(balanced) * (1 - 1e-9)


def test_the_top_1_probability_is_that_of_its_model():
    """n = 40,000 rows of 4 others each, orthogonal; exact binomial test, alpha = 1e-6."""
    mechanism = PrivUnit(epsilon=3.0, dimension=8, corpus_size=4)
    rows = np.zeros((40_000, 8), np.float32)
    rows[:, 0] = 1
    out = np.empty_like(rows)
    mechanism.apply(rows, out, hv.Generator.unsafe_seeded(8))
    hits = int((out[:, :1] > out[:, 1:5]).all(1).sum())
    model = privunit.top_1_probability(mechanism.cap_probability, mechanism.threshold, 4)
    assert checks.count(hits, len(rows), model) > 1e-6
    assert checks.count(hits, len(rows), 0.95 * model) < 1e-6


def test_privatize_releases_directions_whatever_the_lengths():
    rows = np.random.default_rng(6).standard_normal((50, 40)).astype(np.float32)
    short = hv.privatize(rows * 2.0**-20, epsilon=8.0, mechanism="privunit", generator=hv.Generator.unsafe_seeded(1)).values
    long = hv.privatize(rows * 2.0**20, epsilon=8.0, mechanism="privunit", generator=hv.Generator.unsafe_seeded(1)).values
    assert (short == long).all()


def test_privatize_writes_the_law_into_the_receipt():
    receipt = hv.privatize(np.ones((3, 40), np.float32), epsilon=8.0, delta=1e-5, mechanism="privunit").receipt
    mechanism = PrivUnit(epsilon=8.0, dimension=40)
    assert (receipt.cap_probability, receipt.threshold) == (mechanism.cap_probability, mechanism.threshold)
    assert (receipt.epsilon, receipt.delta, receipt.sigma) == (8.0, 0.0, mechanism.sigma)
    assert receipt.is_dp_claim and receipt.grade == "exact" and receipt.normalize


@pytest.mark.parametrize("epsilon", [2.0**-10, 0.5, 1.0, 4.0, 10.0])
@pytest.mark.parametrize("rows", [1, 3])
def test_the_total_variation_of_privunit_is_that_of_opposite_rows(epsilon, rows):
    """By the probabilities of the two caps, which do not meet: p in the own one, (1 - p)(1 - q)/q in the other."""
    mechanism = PrivUnit(epsilon=epsilon, dimension=20, rows_per_person=rows)
    with mpmath.workdps(50):
        p, above = mpmath.mpf(mechanism.cap_probability), mpmath.erfc(mpmath.mpf(mechanism.threshold) / mpmath.sqrt(2)) / 2
        exact = float(p - (1 - p) * above / (1 - above))
    row = privunit.privunit_variation(mechanism.epsilon_per_row, *mechanism._split)
    assert exact <= row <= exact * (1 + 1e-6)
    per = "release" if rows > 1 else "record"
    receipt = hv.privatize(np.ones((rows, 20), np.float32), mechanism=mechanism, per=per, normalize=True).receipt
    loss = receipt.loss.item if rows > 1 else receipt.loss
    assert loss.total_variation == row and (rows == 1 or receipt.loss.count == rows) and (rows > 1 or mechanism.loss == loss)
    assert accounting.compose([receipt], delta=1e-9).epsilon <= epsilon


def test_no_other_angle_tells_two_rows_better_apart():
    """200,000 Gaussian rows and the law of each of two directions in them; the noise of a mean is below 0.003."""
    mechanism = PrivUnit(epsilon=2.0, dimension=20)
    w, p, t = np.random.default_rng(5).standard_normal((200_000, 2)), mechanism.cap_probability, mechanism.threshold
    above = math.erfc(t / math.sqrt(2)) / 2
    density = lambda along: np.where(along >= t, p / above, (1 - p) / (1 - above))
    for angle in (0.3, 1.0, 1.6, 2.5, math.pi):
        other = w[:, 0] * math.cos(angle) + w[:, 1] * math.sin(angle)
        differ = np.maximum(0, density(w[:, 0]) - density(other)).mean()
        assert differ <= mechanism.loss.total_variation + 0.012
    assert differ >= mechanism.loss.total_variation - 0.012


def test_a_cap_less_likely_than_chance_states_no_total_variation():
    assert privunit.privunit_variation(1.0, 0.01, 0.5) is None


def test_a_row_is_e_to_the_epsilon_times_likelier_inside_its_cap():
    mechanism = PrivUnit(epsilon=4.0, dimension=64)
    edge = mechanism.threshold * mechanism.noise_parameter * np.eye(1, 64)
    densities = mechanism.log_densities(np.concatenate([2 * edge, edge / 2]), np.eye(1, 64))
    assert densities.tolist() == [[mechanism.epsilon_per_row], [0.0]]


def test_cells_of_a_grid_that_the_edge_of_the_cap_cuts_are_partly_inside():
    """ln((1 - s) + e^epsilon s) for the normal share s that is inside, from wholly outside to wholly inside."""
    mechanism = PrivUnit(epsilon=4.0, dimension=64)
    spread = max(mechanism.released_grid / (mechanism.noise_parameter * math.sqrt(12)), 1e-6)
    places = np.array([-30.0, -7.5, -2.0, -1.0, 0.0, 0.5, 3.0, 7.5, 30.0])
    rows = ((mechanism.threshold + spread * places) * mechanism.noise_parameter)[:, None] * np.eye(1, 64)
    inside = [math.erfc(-place / math.sqrt(2)) / 2 for place in places]
    wanted = [1 - share + math.exp(mechanism.epsilon_per_row) * share for share in inside]
    found = np.exp(mechanism.log_densities(rows, np.eye(1, 64))[:, 0])
    np.testing.assert_allclose(found, wanted, atol=1e-3 * math.exp(mechanism.epsilon_per_row))
    assert np.all(np.diff(found) >= 0) and found[0] == 1.0


def test_densities_behind_a_row_near_a_candidate_mix_inside_and_outside_of_its_cap():
    """The chance that x ~ N(rho c, tau^2 I) has the released row in its cap, of each row by itself; rows differ in length."""
    mechanism, rho, rng = PrivUnit(epsilon=4.0, dimension=16), 0.6, np.random.default_rng(0)
    rows = (rng.standard_normal((5, 16)) * np.array([[0.2], [0.7], [1], [2], [5]]) * mechanism.sigma).astype(np.float32)
    candidates = rng.standard_normal((3, 16)).astype(np.float32)
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    candidates[2] = 0
    found = mechanism.candidate_densities(rows, candidates, rho=rho, spread=0.0)
    w, tau = rows.astype(np.float64) / mechanism.sigma, math.sqrt((1 - rho * rho) / 16)
    p, above = mechanism.cap_probability, math.erfc(mechanism.threshold / math.sqrt(2)) / 2
    for row in range(5):
        for place in (0, 1):
            z = (mechanism.threshold - rho * w[row] @ candidates[place]) / (tau * np.linalg.norm(w[row]))
            inside = math.erfc(z / math.sqrt(2)) / 2
            exact = math.log((1 - p) / (1 - above) * (1 - inside) + p / above * inside)
            assert found[row, place] == pytest.approx(exact, abs=1e-4)
        assert found[row, 2] == 0.0, "a candidate without a direction is released as noise alone"
