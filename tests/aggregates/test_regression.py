"""`private_regression`: what it learns, what a row can move, what is refused before anything is charged."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.aggregates import LinearClassifier, LinearRegressor, private_regression, regression
from hushvec.errors import PrivacyBudgetExhaustedError

RNG = np.random.default_rng(0)
ROWS = RNG.normal(size=(3000, 12)) * np.linspace(0.1, 0.5, 12) + 0.2
COEF = RNG.normal(size=12)
CLEAN = 40 + 10 * ROWS @ COEF
TARGETS = CLEAN + RNG.normal(size=3000) * CLEAN.std() / 2  # R^2 of 0.8
TERMS = {"low": 0.0, "high": 80.0, "epsilon": 1.0, "delta": 1e-5, "clip_norm": 1.5}


def seeded(number):
    return hv.Generator.unsafe_seeded(number)


def least_squares(rows, targets):
    return np.linalg.lstsq(np.column_stack([rows, np.ones(len(rows))]), targets, rcond=None)[0]


def test_without_noise_to_speak_of_it_is_the_least_squares_fit():
    model = private_regression(ROWS, CLEAN, **{**TERMS, "epsilon": 1e5, "low": -100, "high": 200})
    found = np.append(model.coef_, model.intercept_)
    assert np.abs(found - least_squares(ROWS, CLEAN)).max() < 0.2
    assert model.predict(ROWS) == pytest.approx(ROWS @ model.coef_ + model.intercept_) and model.predict(ROWS[0]).shape == (1,)
    assert model.score(ROWS, CLEAN) > 0.9999 and np.abs(model.mean_ - ROWS.mean(axis=0)).max() < 0.05


@pytest.mark.parametrize("terms", [{}, {"adjacency": "replace-one"}], ids=["add-remove", "replace-one"])
def test_at_epsilon_1_it_predicts_nearly_as_well_as_the_clean_fit(terms):
    """8 fits of 2,000 rows; mean R^2 on 1,000 others is within 0.05 of the clean one, and their spread below 0.02."""
    train, test = slice(0, 2000), slice(2000, 3000)
    models = [private_regression(ROWS[train], TARGETS[train], generator=seeded(key), **TERMS, **terms) for key in range(8)]
    scores = [model.score(ROWS[test], TARGETS[test]) for model in models]
    clean = least_squares(ROWS[train], TARGETS[train])
    missed = TARGETS[test] - ROWS[test] @ clean[:-1] - clean[-1]
    assert np.mean(scores) > 1 - np.mean(missed**2) / np.var(TARGETS[test]) - 0.05 and np.std(scores) < 0.02
    assert models[0].receipt.rows == (2000 if terms else None)


def test_rows_far_out_do_not_bend_it():
    """A hundredth of the rows is 1,000 times as long, with targets as before: no longer of the same function."""
    rows = ROWS.copy()
    rows[::100] *= 1000
    model = private_regression(rows, TARGETS, generator=seeded(1), **TERMS)
    assert model.score(ROWS, TARGETS) > 0.7


@pytest.mark.parametrize("kind", ["float32", "fortran", "list", "torch"])
def test_kinds_of_rows_and_targets(kind):
    rows, targets = ROWS[:400].astype(np.float32), np.round(TARGETS[:400]).astype(np.float32)
    expected = private_regression(rows, targets, generator=seeded(2), **TERMS)
    if kind == "fortran":
        rows, targets = np.asfortranarray(rows), np.repeat(targets, 2)[::2]
    elif kind == "list":
        rows, targets = rows.tolist(), targets.astype(int).tolist()
    elif kind == "torch":
        torch = pytest.importorskip("torch")
        rows, targets = torch.tensor(rows), torch.tensor(targets)
    found = private_regression(rows, targets, generator=seeded(2), **TERMS)
    assert (found.coef_ == expected.coef_).all() and found.intercept_ == expected.intercept_


def test_blocks_change_nothing(monkeypatch):
    """Every total is exact and every row enters by itself: with blocks of 7 rows, the same bits."""
    whole = private_regression(ROWS[:200], TARGETS[:200], generator=seeded(3), **TERMS)
    monkeypatch.setattr("hushvec.aggregates.totals._ELEMENTS_AT_ONCE", 7 * 12)
    parts = private_regression(ROWS[:200], TARGETS[:200], generator=seeded(3), **TERMS)
    assert (whole.coef_ == parts.coef_).all() and whole.intercept_ == parts.intercept_


def test_a_row_with_its_target_depends_on_nothing_else():
    """Its bits among other rows are those alone, and a constant beside it becomes its weight."""
    center = regression._Center(ROWS.mean(axis=0), 0.9, 0.1, 0.3, 3000.0)
    scaled = (TARGETS[:, None] - 40) / 40

    class Given:
        rows, dimension = ROWS, 12

    ((rows, targets, weights),) = regression._weighted(Given, scaled, center)
    assert np.linalg.norm(rows, axis=1).max() <= 1 and 0.2 < weights.min() < 0.9 < weights.max() <= 1
    assert np.abs(rows * 0.9 - weights * (ROWS - center.mean)).max() < 1e-12
    for place in (0, 1, 1234, 2999):
        Given.rows = ROWS[place : place + 1]
        ((row, target, weight),) = regression._weighted(Given, scaled[place : place + 1], center)
        assert (row[0] == rows[place]).all() and target[0] == targets[place] and weight[0] == weights[place]
    squares = regression._squares(ROWS)
    assert squares[:, 0] == pytest.approx((ROWS**2).sum(axis=1), rel=1e-9)
    assert regression._squares(ROWS[77:78])[0] == squares[77]


def test_the_receipt_holds_and_says_what_was_released():
    budget = hv.PrivacyBudget(1.5, 1e-4)
    receipt = private_regression(ROWS, TARGETS, budget=budget, **TERMS).receipt
    assert hv.verify_receipt(receipt).status == "holds" and hv.verify_charges([receipt], budget.export()).status == "holds"
    assert [one.statistic for one in receipt.statistics] == ["sums", "moments"] + ["sums"] * 16 + ["moments"]
    assert receipt.statistics[2].purpose == "step 1 of 16: residuals times rows"
    with pytest.raises(PrivacyBudgetExhaustedError):
        private_regression(ROWS, TARGETS, budget=budget, **TERMS)


def test_rows_beyond_those_of_a_person_are_dropped():
    people = [place // 2 for place in range(3000)]
    whole = private_regression(ROWS, TARGETS, people=people, generator=seeded(4), **TERMS)
    half = private_regression(ROWS[::2], TARGETS[::2], generator=seeded(4), **TERMS)
    assert (whole.coef_ == half.coef_).all() and whole.intercept_ == half.intercept_
    assert whole.receipt.rows_bound == "people" and half.receipt.rows_bound == "promised"
    twice = private_regression(ROWS, TARGETS, people=people, rows_per_person=2, **TERMS).receipt
    assert twice.statistics[0].sigma == pytest.approx(2 * whole.receipt.statistics[0].sigma)


@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e8])
@pytest.mark.parametrize("count", [0, 1, 50])
def test_few_rows_and_little_or_much_noise_end_in_finite_numbers(count, epsilon):
    for scale in (2.0**-70, 1.0, 2.0**70):
        terms = {**TERMS, "epsilon": epsilon, "clip_norm": scale, "low": -scale, "high": scale}
        model = private_regression(ROWS[:count] * scale, TARGETS[:count] * scale, **terms)
        assert np.isfinite(model.coef_).all() and np.isfinite(model.intercept_)


def test_a_saved_model_is_the_same(tmp_path):
    model = private_regression(ROWS, TARGETS, **TERMS)
    model.save(tmp_path / "ages.npz")
    loaded = LinearRegressor.load(tmp_path / "ages.npz")
    assert (loaded.predict(ROWS) == model.predict(ROWS)).all() and (loaded.mean_ == model.mean_).all()
    assert loaded.receipt == model.receipt and "linear regression on 12 columns" in str(loaded)
    with pytest.raises(ValueError, match="is not a saved LinearClassifier: it must be a LinearClassifier of format 1, got LinearReg"):
        LinearClassifier.load(tmp_path / "ages.npz")
    (tmp_path / "ages.npz").write_bytes((tmp_path / "ages.npz").read_bytes()[:-40])
    with pytest.raises(ValueError, match="is not a saved LinearRegressor"):
        LinearRegressor.load(tmp_path / "ages.npz")


def test_predictions_are_of_rows_with_the_same_columns():
    model = private_regression(ROWS[:50], TARGETS[:50], **TERMS)
    with pytest.raises(ValueError, match="rows must have 12 columns, got 11"):
        model.predict(ROWS[:, 1:])
    with pytest.raises(ValueError, match="rows must be finite, got nan in row 1"):
        model.predict(np.where(np.arange(3000)[:, None] == 1, np.nan, ROWS))
    with pytest.raises(ValueError, match=r"targets must have shape \(3000,\), got \(3000, 1\)"):
        model.score(ROWS, TARGETS[:, None])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rows": np.where(ROWS == ROWS[3, 0], np.inf, ROWS)}, "rows must be finite, got inf in row 3"),
        ({"targets": np.append(TARGETS[1:], np.nan)}, "targets must be finite, got nan in row 2999"),
        ({"targets": TARGETS[1:]}, r"targets must be 3000 numbers, one for each row, got shape \(2999,\)"),
        ({"targets": TARGETS[:, None]}, r"targets must be 3000 numbers, one for each row, got shape \(3000, 1\)"),
        ({"low": 80.0}, r"low must be below high, both in \[-2\^100, 2\^100\], got 80.0 and 80.0"),
        ({"high": np.inf}, "high must be finite, got inf"),
        ({"low": -1e300}, r"low must be below high, both in \[-2\^100, 2\^100\], got -1e\+300 and 80.0"),
        ({"clip_norm": 0.0}, "clip_norm must be > 0, got 0.0"),
        ({"people": ["ann"]}, "people must have 3000 elements, one for each row, got 1"),
        ({"epsilon": -1.0}, "epsilon must be > 0, got -1.0"),
    ],
)
def test_what_is_refused_is_not_charged(arguments, message):
    budget = hv.PrivacyBudget(1e14, 0.5)
    given = {"rows": ROWS, "targets": TARGETS, **TERMS, "budget": budget, **arguments}
    with pytest.raises(ValueError, match=message):
        private_regression(given.pop("rows"), given.pop("targets"), **given)
    assert budget.consumed() == 0
