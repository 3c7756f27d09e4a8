"""privatize: what comes back, normalisation, units of privacy, budgets and key streams."""

from dataclasses import FrozenInstanceError
from functools import partial

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, L2Laplace, Laplacian, Mechanism, PrivUnit, PublicProjection
from hushvec.release.vectors import plan_release

DTYPES = ["float32", "float64", "float16"]
MECHANISMS = {
    "gaussian": {"epsilon": 20.0},
    "laplacian": {"epsilon": 20.0, "delta": 0},
    "l2_laplace": {"epsilon": 20.0, "delta": 0},
    "privunit": {"epsilon": 20.0, "delta": 0},
    "empirical": {"sigma": 0.1},
}


def some_rows(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (1,), (4, 384), (384,), (3, 257), (2, 100_000)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_shape_dtype_and_untouched_input(mechanism, shape, dtype):
    x = some_rows(shape, dtype)
    before = x.copy()
    release = hv.privatize(x, mechanism=mechanism, **MECHANISMS[mechanism])
    values, receipt = release
    assert values is release.values
    assert values.shape == shape
    assert values.dtype == dtype
    assert np.isfinite(values).all()
    assert not np.shares_memory(values, x)
    np.testing.assert_array_equal(x, before)
    assert (receipt.rows, receipt.dimension, receipt.dtype) == (1 if len(shape) == 1 else shape[0], shape[-1], dtype)
    assert receipt.mechanism == mechanism
    assert (receipt.key_source, receipt.cipher, receipt.adjacency) == ("os", hv.Generator().cipher, "replace-one")


def test_gaussian_values_are_those_of_clip_and_noise():
    x = some_rows((5, 384))
    values, receipt = hv.privatize(x, epsilon=8.0, clip_norm=0.7, generator=hv.Generator.unsafe_seeded(4))
    expected = hv.clip_and_noise(x, 0.7, receipt.sigma, generator=hv.Generator.unsafe_seeded(4))
    np.testing.assert_array_equal(values, expected)


def test_empirical_uses_the_given_sigma():
    receipt = hv.privatize(some_rows((2, 8)), mechanism="empirical", sigma=0.25).receipt
    assert receipt.sigma == 0.25
    ceiling = hv.privatize(some_rows((2, 8)), mechanism="empirical", sigma=0.25, epsilon=100.0).receipt
    assert ceiling.epsilon == receipt.epsilon < 100


NORMALIZABLE = {
    "ordinary": some_rows((6, 50)),
    "zero row": np.vstack([np.zeros((1, 50)), some_rows((2, 50))]).astype(np.float32),
    "subnormal": np.full((2, 50), 1e-45, np.float32),
    "subnormal float64": np.full((2, 50), 5e-324),
    "largest": np.full((2, 50), np.finfo(np.float32).max, np.float32),
    "largest float64": np.full((2, 50), np.finfo(np.float64).max),
    "largest float16": np.full((2, 50), np.finfo(np.float16).max, np.float16),
    "mixed": np.array([[1e300, 1e-300, 0.0], [1e-300, 1e-300, 1e-300]]),
    "one column": some_rows((5, 1)),
}


@pytest.mark.parametrize("name", NORMALIZABLE)
def test_normalize_is_total(name):
    """Tiny noise shows the rows that the noise was added to: unit length, and zero rows zero."""
    x = NORMALIZABLE[name]
    values, receipt = hv.privatize(x, mechanism="empirical", sigma=1e-6, normalize=True)
    wide = x.astype(np.float64) / np.where(np.abs(x).max(axis=1) == 0, 1, np.abs(x).max(axis=1))[:, None].astype(np.float64)
    norms = np.linalg.norm(wide, axis=1, keepdims=True)
    expected = wide / np.where(norms == 0, 1, norms)
    np.testing.assert_allclose(values, expected, atol=1e-3 if x.dtype == np.float16 else 1e-5)
    assert (receipt.clip_norm, receipt.sensitivity, receipt.normalize) == (1.0, 2.0, True)
    assert hv.verify_receipt(receipt).status == "holds"


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize(("value", "printed"), [(np.nan, "nan"), (np.inf, "inf"), (-np.inf, "-inf")])
def test_a_row_that_is_not_finite_is_named(value, printed, normalize):
    x = some_rows((9, 8))
    x[5, 3] = x[7, 0] = value
    for settings in ({"mechanism": "gaussian"}, {"mechanism": "privunit"}):
        plan = plan_release(
            rows=9, dimension=8, dtype="float32", epsilon=3.0, delta=1e-5, clip_norm=1.0, sigma=None, normalize=normalize,
            renormalize=False, per="record", generator=None, **settings,
        )
        for call, row in ((plan.run, 5), (partial(plan.run, first_row=20), 25), (plan.without_noise, 5)):
            with pytest.raises(ValueError, match=f"^x must be finite, got {printed} in row {row}$"):
                call(x)


def test_a_plan_is_fixed_and_keeps_lengths_unless_asked():
    plan = plan_release(rows=2, dimension=8, dtype="float32", epsilon=3.0, delta=1e-5, clip_norm=1.0, mechanism="gaussian")
    assert (plan.normalize, plan.renormalize, plan.per) == (False, False, "record")
    with pytest.raises(FrozenInstanceError):
        plan.normalize = True


@pytest.mark.parametrize("normalize", [False, True])
def test_an_epsilon_that_is_enough_whatever_the_length(normalize):
    assert hv.privatize(some_rows((2, 8)) * 1000, epsilon=3.0, normalize=normalize).receipt.sensitivity == 2.0


@pytest.mark.parametrize("dtype", DTYPES)
def test_renormalize_gives_unit_rows_of_the_same_release(dtype):
    x = some_rows((50, 384), dtype)
    plain = hv.privatize(x, epsilon=8.0, generator=hv.Generator.unsafe_seeded(1)).values.astype(np.float64)
    unit, receipt = hv.privatize(x, epsilon=8.0, renormalize=True, generator=hv.Generator.unsafe_seeded(1))
    np.testing.assert_allclose(
        unit, plain / np.linalg.norm(plain, axis=1, keepdims=True), rtol=1e-3 if dtype == "float16" else 1e-6, atol=1e-7
    )
    assert receipt.renormalize
    assert not receipt.normalize


@pytest.mark.parametrize(("mechanism", "factor"), [("gaussian", 3.0), ("laplacian", 9.0), ("l2_laplace", 9.0)])
def test_all_rows_of_one_person_cost_more_noise(mechanism, factor):
    x = some_rows((9, 64))
    record = hv.privatize(x, epsilon=5.0, mechanism=mechanism).receipt
    release = hv.privatize(x, epsilon=5.0, mechanism=mechanism, per="release").receipt
    assert release.sensitivity == pytest.approx(factor * record.sensitivity)
    assert (release.sigma or release.scale) == pytest.approx(factor * (record.sigma or record.scale), rel=1e-6)
    assert release.epsilon == record.epsilon
    assert hv.privatize(x[:1], epsilon=5.0, mechanism=mechanism, per="release").receipt.sensitivity == record.sensitivity


class Budget:
    def __init__(self, log, error=None):
        self.log, self.error = log, error

    def consume(self, epsilon, delta):
        self.log.append(("consume", epsilon, delta))
        if self.error:
            raise self.error


@pytest.fixture
def log(monkeypatch):
    """What happened in which order: charges, and applications of a mechanism."""
    events = []
    apply = Mechanism.apply

    def logged(self, *arguments, **options):
        events.append("apply")
        return apply(self, *arguments, **options)

    monkeypatch.setattr(Mechanism, "apply", logged)
    return events


def test_the_budget_is_charged_before_the_release(log):
    hv.privatize(some_rows((3, 8)), epsilon=2.0, delta=1e-6, budget=Budget(log))
    assert log == [("consume", 2.0, 1e-6), "apply"]


@pytest.mark.parametrize(("mechanism", "delta"), [("laplacian", 0.0), ("l2_laplace", 0.0)])
def test_pure_mechanisms_charge_no_delta(log, mechanism, delta):
    hv.privatize(some_rows((3, 8)), epsilon=2.0, mechanism=mechanism, per="release", budget=Budget(log))
    assert log == [("consume", 2.0, delta), "apply"]


def test_empirical_charges_what_it_buys(log):
    receipt = hv.privatize(some_rows((3, 8)), mechanism="empirical", sigma=0.2, budget=Budget(log)).receipt
    assert log[0] == ("consume", receipt.epsilon, 1e-5)
    assert receipt.epsilon > 91


def test_a_refused_charge_releases_nothing(log):
    class ExhaustedError(Exception):
        pass

    with pytest.raises(ExhaustedError):
        hv.privatize(some_rows((3, 8)), epsilon=2.0, budget=Budget(log, ExhaustedError()))
    assert log == [("consume", 2.0, 1e-5)]


@pytest.mark.parametrize(
    "arguments",
    [
        {"x": np.array([[1.0, np.nan]]), "epsilon": 1.0},
        {"x": np.ones((2, 2)), "epsilon": -1.0},
        {"x": np.ones((2, 2)), "epsilon": 1.0, "per": "row"},
        {"x": np.ones((2, 2)), "epsilon": 1.0, "renormalize": 1},
        {"x": np.ones((2, 2)), "epsilon": 1.0, "generator": 1},
        {"x": np.ones((2, 2)), "epsilon": 1e12, "mechanism": "laplacian"},
        {"x": np.ones((2, 2)), "epsilon": 1e-40, "mechanism": "laplacian"},
        {"x": np.ones((2, 2)), "mechanism": "empirical", "sigma": 1e-12},
        {"x": np.ones((2, 2)), "mechanism": "empirical", "sigma": 1.0, "epsilon": 0.1},
        {"x": [["1.0"]], "epsilon": 1.0},
        {"x": [[1.0], [1.0, 2.0]], "epsilon": 1.0},
    ],
    ids=str,
)
def test_bad_arguments_are_never_charged(log, arguments):
    with pytest.raises((TypeError, ValueError)):
        hv.privatize(**arguments, budget=Budget(log))
    assert log == []


def test_a_seeded_generator_is_refused_with_a_budget(log):
    with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
        hv.privatize(some_rows((3, 8)), epsilon=2.0, budget=Budget(log), generator=hv.Generator.unsafe_seeded(1))
    assert log == []


def test_a_seed_repeats_a_release_and_the_receipt_says_so():
    x = some_rows((3, 64))
    first, second = (hv.privatize(x, epsilon=2.0, generator=hv.Generator.unsafe_seeded(9)) for _ in range(2))
    np.testing.assert_array_equal(first.values, second.values)
    assert first.receipt.key_source == "seed"
    assert not first.receipt.is_dp_claim


def test_releases_never_repeat():
    x = np.zeros((4, 64), np.float32)
    first, second = hv.privatize(x, epsilon=2.0).values, hv.privatize(x, epsilon=2.0).values
    assert (first == second).mean() < 0.2  # values lie on a grid: 1 in 28 is equal at most


def test_rounds_are_stated():
    receipt = hv.privatize(some_rows(8), epsilon=2.0, generator=hv.Generator(rounds=12)).receipt
    assert (receipt.cipher, receipt.rounds, receipt.format_version) == ("chacha12", 12, 3)


@pytest.mark.parametrize("name", MECHANISMS)
def test_a_ready_mechanism_releases_what_its_name_does(name):
    x = some_rows((4, 32))
    arguments = MECHANISMS[name]
    make = {
        "gaussian": lambda: Gaussian(epsilon=20.0, dimension=32, clip_norm=0.5),
        "laplacian": lambda: Laplacian(epsilon=20.0, dimension=32, clip_norm=0.5),
        "l2_laplace": lambda: L2Laplace(epsilon=20.0, dimension=32, clip_norm=0.5),
        "privunit": lambda: PrivUnit(epsilon=20.0, dimension=32, clip_norm=0.5),
        "empirical": lambda: EmpiricalGaussian(chosen_sigma=0.1, dimension=32, clip_norm=0.5),
    }[name]
    by_name = hv.privatize(x, mechanism=name, clip_norm=0.5, generator=hv.Generator.unsafe_seeded(1), **arguments)
    by_object = hv.privatize(x, mechanism=make(), generator=hv.Generator.unsafe_seeded(1))
    np.testing.assert_array_equal(by_name.values, by_object.values)
    assert by_name.receipt == by_object.receipt


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"epsilon": 1.0}, "epsilon and sigma must be left out with a mechanism object"),
        ({"sigma": 1.0}, "epsilon and sigma must be left out with a mechanism object"),
        ({"per": "release"}, "mechanism.rows_per_person must be 4 for this input, got 1"),
        ({"normalize": True}, "clip_norm must be 1.0 with normalize=True, got 0.5"),
    ],
)
def test_a_ready_mechanism_must_fit(arguments, text):
    with pytest.raises(ValueError, match=text):
        hv.privatize(some_rows((4, 32)), mechanism=Gaussian(epsilon=1.0, dimension=32, clip_norm=0.5), **arguments)
    with pytest.raises(ValueError, match=r"mechanism\.dimension must be 32, the columns of x, got 33"):
        hv.privatize(some_rows((4, 32)), mechanism=Gaussian(epsilon=1.0, dimension=33))


def test_a_privacy_budget_is_charged_and_named_in_the_receipt():
    budget = hv.PrivacyBudget(10.0)
    names = ("gaussian", "privunit")
    receipts = [hv.privatize(some_rows((3, 8)), epsilon=4.0, mechanism=name, budget=budget).receipt for name in names]
    assert budget.consumed() == 8.0
    assert [receipt.charge.sequence for receipt in receipts] == [2, 3]
    assert hv.verify_charges(receipts, budget.export()).status == "holds"
    with pytest.raises(hv.PrivacyBudgetExhaustedError) as caught:
        hv.privatize(some_rows((3, 8)), epsilon=4.0, budget=budget)
    assert (caught.value.code, caught.value.max_epsilon, caught.value.consumed_epsilon) == ("PRIVACY_BUDGET_EXHAUSTED", 10.0, 8.0)
    assert budget.consumed() == 8.0


def test_a_budget_in_rho_is_charged_what_the_noise_costs():
    budget = hv.PrivacyBudget(max_rho=5.0)
    receipt = hv.privatize(some_rows((3, 8)), epsilon=2.0, budget=budget).receipt
    assert budget.state().consumed_rho == pytest.approx((2.0 / receipt.sigma) ** 2 / 2, rel=1e-12)
    hv.privatize(some_rows((3, 8)), epsilon=0.5, mechanism="laplacian", budget=budget)
    assert hv.verify_charges([receipt], budget.export()).status == "holds"


@pytest.mark.parametrize(
    "arguments",
    [
        {"epsilon": 0.0},
        {"epsilon": float("nan")},
        {"epsilon": 1.0, "delta": 0.0},
        {"epsilon": 1.0, "mechanism": "gauss"},
        {"epsilon": 1.0, "clip_norm": -1.0},
    ],
    ids=str,
)
def test_bad_input_charges_nothing(arguments):
    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(ValueError):
        hv.privatize(some_rows((3, 8)), budget=budget, **arguments)
    bad = some_rows((3, 8))
    bad[1, 1] = np.inf
    with pytest.raises(ValueError, match="x must be finite"):
        hv.privatize(bad, epsilon=1.0, budget=budget)
    assert budget.consumed() == 0.0 and budget.state().rows == 1


@pytest.mark.parametrize("mechanism", ["gaussian", "privunit"])
def test_rows_go_through_a_public_map(mechanism):
    public, rows = some_rows((300, 24), seed=1), some_rows((5, 24), seed=2)
    projection = PublicProjection.fit(public, components=6, remove_mean=True)
    release = hv.privatize(
        rows, epsilon=9.0, mechanism=mechanism, normalize=True, projection=projection, generator=hv.Generator.unsafe_seeded(3)
    )
    direct = hv.privatize(
        projection.transform(rows), epsilon=9.0, mechanism=mechanism, normalize=True, generator=hv.Generator.unsafe_seeded(3)
    )
    np.testing.assert_array_equal(release.values, direct.values)
    assert release.values.shape == (5, 6)
    assert release.receipt.projection == projection.digest
    assert any("public map" in note for note in release.receipt.notes)


def test_a_projection_of_the_wrong_kind():
    with pytest.raises(TypeError, match=r"projection must be a hushvec\.mechanisms\.PublicProjection or None, got function"):
        hv.privatize(some_rows((3, 8)), epsilon=1.0, projection=lambda x: x)
