"""The noise of `dp_embedding_middleware`: which sensitivity it is for, what it is charged, and that it is there."""

import numpy as np
import pytest

import hushvec as hv
from hushvec.mechanisms import Gaussian, PublicProjection
from hushvec.middleware import EmpiricalSensitivity
from middleware.embedders import Charges, Recorder

MECHANISMS = {"gaussian": 1e-5, "laplacian": 0.0, "l2_laplace": 0.0, "privunit": 0.0}


class Long(Recorder):
    """Rows of norm 3."""

    def __init__(self, **settings):
        super().__init__(norm=3.0, **settings)


def wrapped(model, **settings):
    return hv.wrap_embedding_model(model, hv.dp_embedding_middleware(**settings))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_release_is_that_of_privatize(mechanism):
    def generator():
        return hv.Generator.unsafe_seeded(5)

    texts = [f"text {number}" for number in range(7)]
    rows = wrapped(Recorder(dimension=33), epsilon=4.0, mechanism=mechanism, generator=generator()).embed(texts)
    direct = hv.privatize(Recorder(dimension=33).embed(texts), epsilon=4.0, mechanism=mechanism, generator=generator())
    assert np.array_equal(rows, direct.values)
    assert rows.receipt.delta == MECHANISMS[mechanism]
    assert rows.receipt.to_dict() | {"notes": []} == direct.receipt.to_dict() | {"notes": []}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_each_call_draws_anew(mechanism):
    model = wrapped(Recorder(), epsilon=4.0, mechanism=mechanism)
    assert not np.array_equal(model.embed(["x"]), model.embed(["x"]))


def receipt_of(model, **settings):
    return wrapped(model, **{"epsilon": 4.0, **settings}).embed(["x"]).receipt


class Named(Long):
    model_id = "Xenova/all-MiniLM-L6-v2"


# The rules in their order, each with one that it goes before.
RULES = {
    "clip_norm, before a name": (Named(), dict(clip_norm=5.0, model_id="all-mpnet-base-v2"), 5.0, "clip_norm was given"),
    "a sensitivity": (Named(), dict(sensitivity=7.0), 3.5, "clip_norm is half of the sensitivity that was given"),
    "normalize": (Named(), dict(normalize=True), 1.0, "rows are brought to unit length"),
    "model_id, before the model's own": (Named(), dict(model_id="BAAI/bge-small-en-v1.5"), 1.0, "that of BAAI/bge-small-en-v1.5"),
    "an unknown model_id": (Named(), dict(model_id="nobody/knows"), 1.0, "that of Xenova/all-MiniLM-L6-v2"),
    "the model's own": (Named(), dict(), 1.0, "clip_norm is that of Xenova/all-MiniLM-L6-v2"),
    "a look at the rows": (Recorder(), dict(), 1.0, "clip_norm is that of unit vectors, as which these rows were found"),
    "privunit": (Long(), dict(mechanism="privunit"), 1.0, "only the direction of a row is released"),
}


@pytest.mark.parametrize("model, settings, clip_norm, note", RULES.values(), ids=RULES)
def test_what_rows_are_clipped_to(model, settings, clip_norm, note):
    receipt = receipt_of(model, **settings)
    assert receipt.clip_norm == clip_norm
    assert receipt.sensitivity == 2 * clip_norm
    assert note in receipt.notes[-1]
    assert hv.verify_receipt(receipt).status == "holds"


@pytest.mark.parametrize("settings", [dict(), dict(mechanism="laplacian"), dict(model_id="nobody/knows")], ids=str)
@pytest.mark.parametrize("dtype, off", [("float32", 1.01), ("float32", 0.99), ("float32", 3.0), ("float16", 1.05), ("float64", 1.01)])
def test_rows_off_unit_norm_are_refused_before_a_charge(settings, dtype, off):
    budget = hv.PrivacyBudget(100.0)
    model = Recorder(dtype=dtype, norm=off)
    with pytest.raises(ValueError, match=r"model must make vectors of unit norm .* got norm .* in row 0; give clip_norm="):
        wrapped(model, epsilon=4.0, budget=budget, **settings).embed(["x"])
    assert budget.consumed() == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_rounding_is_not_off_unit_norm(dtype):
    assert receipt_of(Recorder(dimension=1024, dtype=dtype)).clip_norm == 1.0


def test_the_row_off_unit_norm_is_named():
    rows = np.eye(4, dtype=np.float32)
    rows[2] *= 2
    with pytest.raises(ValueError, match="got norm 2 in row 2"):
        wrapped(lambda texts: rows, epsilon=4.0).embed(["x"] * 4)


def test_clipping_is_real_whatever_the_table_says():
    """A model that is in the table and makes long rows all the same: the rows are clipped, so the noise is enough."""
    long = wrapped(Named(dimension=8), epsilon=50.0, generator=hv.Generator.unsafe_seeded(1)).embed(["x"])
    unit = wrapped(Recorder(dimension=8), epsilon=50.0, generator=hv.Generator.unsafe_seeded(1)).embed(["x"])
    assert np.allclose(long, unit, atol=1e-5)


def test_an_empirical_sensitivity_is_labelled_and_its_receipt_states_what_it_buys():
    estimate = hv.calibrate_sensitivity(Long())
    assert isinstance(estimate, EmpiricalSensitivity)
    budget = hv.PrivacyBudget(100.0)
    receipt = receipt_of(Long(), sensitivity=estimate, budget=budget)
    assert receipt.mechanism == "empirical"
    assert receipt.sigma == pytest.approx(float(hv.gaussian_sigma(4.0, 1e-5, float(estimate))), rel=1e-6)
    assert any("is empirical" in note for note in receipt.notes)
    assert receipt.clip_norm == pytest.approx(3.0) and receipt.epsilon > 4.0
    assert hv.verify_receipt(receipt).status == "holds"
    assert budget.consumed() == receipt.epsilon


def test_an_empirical_sensitivity_with_a_clip_norm():
    receipt = receipt_of(Long(), sensitivity=hv.calibrate_sensitivity(Long()), clip_norm=4.0)
    assert receipt.clip_norm == 4.0 and receipt.mechanism == "empirical"


def test_a_batch_costs_as_much_as_a_text_unless_all_are_about_one_person():
    budget = hv.PrivacyBudget(100.0)
    wrapped(Recorder(), epsilon=4.0, budget=budget).embed(["x", "y", "z"])
    assert budget.consumed() == 4.0
    rows = wrapped(Recorder(), epsilon=4.0, budget=budget, per="release").embed(["x", "y", "z"])
    assert budget.consumed() == 8.0
    assert rows.receipt.sensitivity == pytest.approx(2 * 3**0.5)


def test_the_receipt_names_the_charge():
    budget = hv.PrivacyBudget(100.0)
    receipts = [wrapped(Recorder(), epsilon=4.0, budget=budget).embed(["x"]).receipt for _ in range(3)]
    assert hv.verify_charges(receipts, budget.export()).status == "holds"


def test_what_a_budget_refuses_is_not_released():
    refusal = hv.PrivacyBudgetExhaustedError("spent")
    with pytest.raises(hv.PrivacyBudgetExhaustedError, match="spent"):
        wrapped(Recorder(), epsilon=4.0, budget=Charges(refusal)).embed(["x"])


def test_an_own_budget_is_charged_epsilon_and_delta():
    budget = Charges()
    wrapped(Recorder(), epsilon=4.0, delta=1e-6, budget=budget).embed(["x"])
    assert budget.spent == [(4.0, 1e-6)]


def test_a_mechanism_object():
    mechanism = Gaussian(epsilon=4.0, delta=1e-6, dimension=16, clip_norm=2.0)
    receipt = receipt_of(Recorder(), epsilon=None, mechanism=mechanism)
    assert (receipt.clip_norm, receipt.delta) == (2.0, 1e-6)


def test_a_public_projection():
    public = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
    projection = PublicProjection.fit(public, components=4)
    model = wrapped(Recorder(), epsilon=4.0, mechanism="privunit", projection=projection)
    assert model.dimension == 4
    rows = model.embed(["x", "y"])
    assert rows.shape == (2, 4) and rows.receipt.projection == projection.digest


@pytest.mark.parametrize("mechanism", ["gaussian", "laplacian"])
def test_the_noise_has_the_scale_of_the_receipt(mechanism):
    """n = 4096 samples; the mean square over its expectation within 6 standard errors (alpha < 1e-8), and a scale 25 % off is not."""
    model = wrapped(Recorder(dimension=64), epsilon=1.0, mechanism=mechanism)
    texts = ["x"] * 64
    rows = model.embed(texts)
    noise = (np.array(rows) - Recorder(dimension=64).embed(texts)).ravel().astype(np.float64)
    receipt = rows.receipt
    variance = receipt.sigma**2 if mechanism == "gaussian" else 2 * receipt.scale**2
    kurtosis = 3 if mechanism == "gaussian" else 6
    bound = 6 * ((kurtosis - 1) / noise.size) ** 0.5
    assert abs(np.mean(noise**2) / variance - 1) < bound
    assert abs(np.mean((1.25 * noise) ** 2) / variance - 1) > bound


BAD_SETTINGS = {
    "no epsilon": (dict(epsilon=None), TypeError, "epsilon must be given for mechanism 'gaussian'"),
    "epsilon 0": (dict(epsilon=0), ValueError, "epsilon must be > 0, got 0.0"),
    "epsilon NaN": (dict(epsilon=float("nan")), ValueError, "epsilon must be finite, got nan"),
    "epsilon True": (dict(epsilon=True), TypeError, "epsilon must be a number, got bool"),
    "delta 0 with Gaussian": (dict(delta=0), ValueError, "delta must be > 0 and < 1, got 0.0"),
    "mechanism": (dict(mechanism="uniform"), ValueError, "mechanism must be one of"),
    "sensitivity 0": (dict(sensitivity=0), ValueError, "sensitivity must be > 0, got 0.0"),
    "sensitivity NaN": (dict(sensitivity=float("nan")), ValueError, "sensitivity must be finite, got nan"),
    "sensitivity word": (dict(sensitivity="automatic"), ValueError, "sensitivity must be 'auto' or a number > 0, got 'automatic'"),
    "sensitivity None": (dict(sensitivity=None), TypeError, "sensitivity must be a number, got NoneType"),
    "sensitivity and clip_norm": (
        dict(sensitivity=3.0, clip_norm=1.0),
        ValueError,
        "sensitivity must be 2 * clip_norm = 2.0 or left out",
    ),
    "empirical and laplacian": (
        dict(sensitivity=EmpiricalSensitivity(1.0, 1.0, 2), mechanism="laplacian"),
        ValueError,
        "mechanism must be 'gaussian' with an empirical sensitivity, got 'laplacian'",
    ),
    "clip_norm": (dict(clip_norm=-1.0), ValueError, "clip_norm must be > 0, got -1.0"),
    "clip_norm and normalize": (dict(clip_norm=2.0, normalize=True), ValueError, "clip_norm must be 1.0 with normalize=True, got 2.0"),
    "model_id": (dict(model_id=3), TypeError, "model_id must be a str or None, got int"),
    "per": (dict(per="row"), ValueError, "per must be one of 'record', 'release', got 'row'"),
    "budget": (dict(budget=10.0), TypeError, "budget must have a method consume(epsilon, delta), got float"),
    "budget and seed": (
        dict(budget=Charges(), generator=hv.Generator.unsafe_seeded(1)),
        ValueError,
        "budget must be None with a seeded generator",
    ),
    "generator": (
        *(dict(generator=np.random.default_rng()), TypeError),
        "generator must be a hushvec.Generator or None, got numpy.random.Generator",
    ),
    "projection": (
        dict(projection=np.eye(3)),
        TypeError,
        "projection must be a hushvec.mechanisms.PublicProjection or None, got ndarray",
    ),
    "object and epsilon": (
        dict(mechanism=Gaussian(epsilon=1.0, delta=1e-5, dimension=4)),
        ValueError,
        "epsilon and sigma must be left out with a mechanism object",
    ),
    "object and clip_norm": (
        dict(epsilon=None, clip_norm=1.0, mechanism=Gaussian(epsilon=1.0, delta=1e-5, dimension=4)),
        ValueError,
        "sensitivity and clip_norm must be left out with a mechanism object",
    ),
}


@pytest.mark.parametrize("settings, error, message", BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings_are_refused_when_the_middleware_is_made(settings, error, message):
    with pytest.raises(error) as caught:
        hv.dp_embedding_middleware(**{"epsilon": 1.0, **settings})
    assert str(caught.value).startswith(message)


def test_a_projection_needs_a_clip_norm():
    projection = PublicProjection.fit(np.random.default_rng(0).standard_normal((50, 16)).astype(np.float32), components=4)
    with pytest.raises(ValueError, match="clip_norm must be given with a projection"):
        hv.dp_embedding_middleware(epsilon=1.0, projection=projection)
    assert receipt_of(Recorder(), projection=projection, clip_norm=0.5).clip_norm == 0.5
