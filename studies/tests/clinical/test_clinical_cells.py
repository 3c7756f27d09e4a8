"""One cell: ranks, prices, and top-1 against theory. alpha = 1e-6 where a test is statistical; noise comes from seeds."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from evidence.reference.sizes import SCALE
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian, PrivUnit
from hushvec.mechanisms.privunit import top_1_probability
from hushvec.noise.calibration import gaussian_delta, gaussian_epsilon
from hushvec.retrieval.attacks.bounds import identification_bound
from hushvec_studies.clinical.agreement import Agreement, agreements, measure_agreement
from hushvec_studies.clinical.cell import Cell, measure, prepared, ranks_of
from hushvec_studies.clinical.cohort import COHORTS, Population, Recorded, Strengths
from hushvec_studies.clinical.contenders import CLASSICAL, EMPIRICAL, LDP, PRIVUNIT, PRIVUNIT_CORPUS, expected_top_1

pytestmark = pytest.mark.ranks


ALPHA = 1e-6


def cell(name=PRIVUNIT, *, strengths=Strengths(), dimension=256, **settings):  # noqa: B008
    source = Population(name="ward", strengths=strengths, dimension=dimension)
    asked = {"epsilon": None, "sigma": 0.2} if name == EMPIRICAL else {"epsilon": 16.0, "sigma": None}
    usual = {"patients": 300, "public_rows": 600, "public_map": "none", "delta": 1e-5, "draws": 4, "seed": 1}
    return Cell(source=source, mechanism=name, **{**usual, **asked, **settings})


# ---- ranks ----


def test_ranks_count_what_comes_before():
    rng = np.random.default_rng(1)
    clean = rng.integers(-1, 2, (60, 5)).astype(np.float32)  # few values: many ties
    released = rng.integers(-2, 3, (60, 5)).astype(np.float32)
    expected = []
    for row in range(60):
        order = sorted(range(60), key=lambda one: (-float(released[row] @ clean[one]), one))
        expected.append(order.index(row))
    assert ranks_of(released, clean).tolist() == expected


def test_copies_of_a_row_come_in_their_order():
    """Copies lie at every place of a block of up to 29 rows, where kernels of the BLAS may round differently."""
    distinct, copies = 29, 7
    once = np.random.default_rng(1).standard_normal((distinct, 45)).astype(np.float32)
    rows = np.tile(once / np.linalg.norm(once, axis=1, keepdims=True), (copies, 1))
    assert np.array_equal(ranks_of(rows, rows), np.repeat(np.arange(copies), distinct))


def test_ranks_in_blocks_are_ranks_at_once(monkeypatch):
    rng = np.random.default_rng(2)
    released, clean = rng.standard_normal((2, 50, 8)).astype(np.float32)
    whole = ranks_of(released, clean)
    monkeypatch.setattr("hushvec_studies.clinical.cell._SCORES_AT_ONCE", 7 * 50)
    assert np.array_equal(ranks_of(released, clean), whole)


# ---- top-1 ----


@pytest.mark.parametrize("epsilon", [4.0, 10.0, 16.0])
@pytest.mark.parametrize("others", [1, 99, 9999])
def test_theory_is_the_closed_form_for_distinct_rows(epsilon, others):
    mechanism = PrivUnit(epsilon=epsilon, dimension=1920)
    exact = top_1_probability(mechanism.cap_probability, mechanism.threshold, others)
    assert expected_top_1(mechanism, others) == pytest.approx(exact, abs=1e-4)


@pytest.mark.parametrize("mechanism", [
    EmpiricalGaussian(chosen_sigma=0.2, dimension=1920),
    Gaussian(epsilon=50.0, delta=1e-5, dimension=384),
    Laplacian(epsilon=500.0, dimension=384),
    L2Laplace(epsilon=300.0, dimension=384),
    PrivUnit(epsilon=12.0, dimension=384),
    PrivUnit(epsilon=12.0, dimension=384, corpus_size=500),
], ids=lambda one: one.name)  # fmt: skip
@pytest.mark.parametrize("own", [1.0, 0.5, 0.1])
def test_theory_is_what_its_model_gives(mechanism, own):
    """40,000 draws of the model, statistic: mean of Phi(score)^n, within 5 standard errors; own share 20 % off is rejected."""
    rng = np.random.default_rng(4)
    count, others = 40_000, 500
    if isinstance(mechanism, PrivUnit):
        inside = rng.random(count) < mechanism.cap_probability
        uniform = rng.random(count)
        along = np.where(
            inside,
            stats.norm.isf(uniform * stats.norm.sf(mechanism.threshold)),
            stats.norm.ppf(uniform * stats.norm.cdf(mechanism.threshold)),
        )
    else:
        along = math.sqrt(mechanism.dimension) / mechanism.noise_norm + rng.standard_normal(count)
    scores = math.sqrt(own) * along + math.sqrt(1 - own) * rng.standard_normal(count)
    wins = stats.norm.cdf(scores) ** others
    error = wins.std() / math.sqrt(count)
    assert abs(wins.mean() - expected_top_1(mechanism, others, own)) < 5 * error
    assert abs(wins.mean() - expected_top_1(mechanism, others, 0.8 * own)) > 5 * error


@pytest.mark.parametrize("name", [PRIVUNIT, PRIVUNIT_CORPUS, EMPIRICAL])
@pytest.mark.parametrize("mean, public_map", [(0.0, "none"), (0.5, "none"), (0.5, "mean")])
def test_measured_top_1_is_that_of_theory(name, mean, public_map):
    """300 patients, 8 draws. 1920 dimensions would follow the model closer: in 256 random rows are not orthogonal, worth 0.02."""
    row = measure(
        cell(
            name,
            strengths=Strengths(mean=mean),
            public_map=public_map,
            draws=8,
            **({"epsilon": 10.0} if name != EMPIRICAL else {"sigma": 0.25}),
        )
    )
    error = (row["top_1_high"] - row["top_1_low"]) / 3.92
    assert abs(row["top_1"] - row["top_1_theory"]) < 5 * error + 0.02
    if (mean, public_map) == (0.5, "none"):
        assert row["top_1"] < row["top_1_distinct"] - 5 * error - 0.02


def test_theory_keeps_silent_where_it_is_not_known():
    assert measure(cell(strengths=Strengths(diagnosis=0.3), draws=1))["top_1_theory"] is None
    assert measure(cell(strengths=Strengths(own_dimension=9), draws=1))["top_1_theory"] is None


def test_a_thousand_patients_in_1920_dimensions_at_epsilon_16():
    """One draw each. The Gaussian mechanism finds hardly anyone at the same price."""
    source = {"strengths": COHORTS["distinct"], "dimension": 1920, "patients": 1000, "draws": 1}
    assert measure(cell(PRIVUNIT_CORPUS, **source))["top_1_low"] > 0.95
    assert measure(cell("gaussian", **source))["top_1_high"] < 0.08


@pytest.mark.skipif(SCALE != "full", reason="half a minute: HUSHVEC_TEST_SCALE=full")
@pytest.mark.parametrize("name", ["clinical", "alike", "pairs"])
def test_patients_who_are_alike_need_a_public_map(name):
    source = {"strengths": COHORTS[name], "dimension": 1920, "patients": 1000, "draws": 1, "public_rows": 4000}
    bare, whitened = (measure(cell(PRIVUNIT_CORPUS, public_map=one, **source)) for one in ("none", "whitened"))
    assert bare["top_1_high"] < 0.6 < whitened["top_1_low"]


def random_mechanism(rng, people, outputs, epsilon):
    """A matrix of P[output | person] that is epsilon-DP: every column within a factor of e^epsilon; None where the draw gave none."""
    table = rng.random(outputs) * np.exp(epsilon * rng.integers(0, 2, (people, outputs)))
    table /= 1.2 * table.sum(axis=1).max()
    rest = 1 - table.sum(axis=1)  # an output of its own makes rows sum to one
    return np.column_stack((table, rest)) if rest.max() <= math.exp(epsilon) * rest.min() else None


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_no_mechanism_finds_more_than_the_bound(epsilon):
    """Random mechanisms under the best way to look up; randomized response reaches the bound."""
    rng = np.random.default_rng(5)
    tables = [random_mechanism(rng, people, int(rng.integers(2, 9)), epsilon) for people in (2, 3, 5) for _ in range(200)]
    found = [(table.max(axis=0).sum() / len(table), len(table)) for table in tables if table is not None]
    assert len(found) > 100
    assert all(top_1 <= identification_bound(epsilon, 0.0, people) + 1e-12 for top_1, people in found)
    assert any(top_1 > 0.8 * identification_bound(epsilon, 0.0, people) for top_1, people in found)
    for people in (2, 10, 1000):
        truth = math.exp(epsilon) / (math.exp(epsilon) + people - 1)
        assert identification_bound(epsilon, 0.0, people) == pytest.approx(truth)


@pytest.mark.parametrize("delta, people", [(0.1, 4), (0.5, 50)])
def test_the_bound_with_delta_is_reached_too(delta, people):
    """The truth with probability delta and nothing else: (0, delta)-DP, and the rest is guessed."""
    assert identification_bound(0.0, delta, people) == pytest.approx(delta + (1 - delta) / people)


def test_the_ends_of_the_bound():
    assert identification_bound(2000.0, 0.0, 1000) == 1.0 and identification_bound(0.0, 0.0, 1000) == pytest.approx(1e-3)


# ---- prices ----


@pytest.mark.parametrize("name", LDP)
def test_the_price_is_the_mechanisms(name):
    row = measure(cell(name, draws=1))
    gaussian = name.startswith("gaussian")
    assert row["true_delta"] == (1e-5 if gaussian else 0.0)
    assert row["grade"] == ("float" if name == "l2_laplace" else "exact")
    if name == CLASSICAL:
        sigma = 2 * math.sqrt(2 * math.log(1.25e5)) / 16
        assert row["noise_parameter"] == pytest.approx(sigma, rel=1e-6)
        assert row["true_epsilon"] == pytest.approx(gaussian_epsilon(1e-5, sigma, 2.0), rel=1e-5) and row["true_epsilon"] > 18
        assert (
            row["delta_at_epsilon"] == pytest.approx(gaussian_delta(16.0, sigma, 2.0), rel=1e-4)
            and row["delta_at_epsilon"] > 3e-4
        )
    else:
        assert row["true_epsilon"] == 16.0
        assert row["delta_at_epsilon"] is None or row["delta_at_epsilon"] <= 1e-5


def test_an_empirical_sigma_is_bought_at_every_delta():
    row = measure(cell(EMPIRICAL, draws=1))
    assert (row["epsilon"], row["sigma"]) == (None, 0.2)
    assert row["true_epsilon"] == pytest.approx(91.8, abs=0.05)
    assert row["true_epsilon_at_0.001"] < row["true_epsilon"] < row["true_epsilon_at_1e-08"]


# ---- the cell itself ----


def test_a_cell_measures_the_same_again_and_something_else_with_another_seed():
    assert measure(cell()) == measure(cell())
    assert measure(cell())["cosine"] != measure(cell(seed=2))["cosine"]


@pytest.mark.parametrize(
    "change", [{"seed": 2}, {"draws": 5}, {"epsilon": 15.0}, {"delta": 1e-6}, {"public_map": "mean"}, {"patients": 301}]
)
def test_whatever_matters_is_in_the_digest(change):
    assert cell().digest != replace(cell(), **change).digest
    assert cell().digest == cell().digest


def test_public_rows_matter_to_maps_only():
    assert cell(public_rows=500).digest == cell(public_rows=600).digest
    assert cell(public_rows=500, public_map="mean").digest != cell(public_rows=600, public_map="mean").digest


def test_a_recorded_cohort_is_known_by_its_content(tmp_path):
    for name in ("a.npy", "b.npy"):
        np.save(tmp_path / name, np.eye(6, dtype=np.float32))
    first, second = (replace(cell(), source=Recorded(tmp_path / name), patients=3) for name in ("a.npy", "b.npy"))
    assert first.digest == second.digest
    np.save(tmp_path / "b.npy", 1 + np.eye(6, dtype=np.float32))
    assert replace(first, source=Recorded(tmp_path / "b.npy")).digest != first.digest


def test_maps_bring_rows_to_unit_length_and_say_what_they_keep():
    source = Population(name="ward", strengths=Strengths(mean=0.5, diagnosis=0.2, own_dimension=20), dimension=256)
    none, mean, whitened = (prepared(source, 100, 800, name) for name in ("none", "mean", "whitened"))
    assert none[1] is mean[1] is None
    assert whitened[1] == whitened[0].shape[1] and 20 <= whitened[1] <= 40  # own directions, and at most one for each diagnosis
    for rows, _ in (none, mean, whitened):
        assert np.linalg.norm(rows, axis=1) == pytest.approx(1.0, abs=1e-5)
    products = mean[0] @ mean[0].T
    assert abs(products[np.triu_indices(100, 1)].mean()) < 0.05


def test_maps_that_cannot_be(tmp_path):
    np.save(tmp_path / "rows.npy", np.eye(6, dtype=np.float32))
    recorded = Recorded(tmp_path / "rows.npy")
    with pytest.raises(ValueError, match="needs at least 2 public rows, got 0"):
        prepared(recorded, 6, 10, "mean")
    with pytest.raises(ValueError, match="must be for a drawn population"):
        prepared(recorded, 3, 10, "mean (elsewhere)")
    np.save(tmp_path / "rows.npy", np.ones((4, 6), np.float32))
    with pytest.raises(ValueError, match="patient 0 is nothing but the public mean"):
        prepared(Recorded(tmp_path / "rows.npy"), 2, 4, "mean")


# ---- cosines ----


@pytest.mark.parametrize(
    "name, price", [(PRIVUNIT, {"epsilon": 50.0, "sigma": None}), (EMPIRICAL, {"epsilon": None, "sigma": 0.05})]
)
def test_agreement_is_measured_with_the_error_that_was_asked_for(name, price):
    row = measure_agreement(Agreement(mechanism=name, dimension=384, delta=1e-5, seed=1, **price))
    assert row["cosine_error"] < 0.002 * row["cosine"]
    assert abs(row["difference"]) < 0.01


def test_every_mechanism_is_compared_in_both_dimensions():
    planned = agreements(1e-5, 1)
    for dimension in (384, 1920):
        assert {one.mechanism for one in planned if one.dimension == dimension} == {*LDP, EMPIRICAL} - {CLASSICAL}
    assert len({one.digest for one in planned}) == len(planned)
