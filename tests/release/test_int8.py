"""privatize(dtype="int8"): values, scale, receipt, the bound on saturation, and what is refused."""

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import hushvec as hv
from hushvec._native import _core
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, PrivUnit, PublicCodebook
from hushvec.mechanisms.int8 import gaussian_saturation, privunit_saturation

MECHANISMS = {
    "gaussian": {"epsilon": 8.0},
    "privunit": {"epsilon": 8.0},
    "empirical": {"sigma": 0.2},
}
KNOWN = "int8 values are those of 'gaussian', 'empirical' and 'privunit'"
DTYPES = ("float16", "float32", "float64")


def some_rows(shape, dtype="float32", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def one_way(dimension, share=1.0):
    """A unit row with this share in its first element, the rest in equal parts in the others."""
    row = np.full(dimension, math.sqrt((1 - share * share) / max(1, dimension - 1)))
    row[0] = share
    return row


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("shape", [(0, 5), (1, 1), (1,), (4, 384), (384,), (3, 257)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_values_scale_and_receipt(mechanism, shape, dtype):
    x = some_rows(shape, dtype)
    before = x.copy()
    release = hv.privatize(x, mechanism=mechanism, dtype="int8", **MECHANISMS[mechanism])
    values, receipt = release
    assert (values.dtype, values.shape) == (np.int8, shape)
    assert (np.abs(values.astype(int)) <= 127).all()
    np.testing.assert_array_equal(x, before)
    assert (receipt.dtype, receipt.saturation, receipt.grade) == ("int8", (-127, 127), "exact")
    assert release.scale == receipt.grid
    assert math.frexp(release.scale)[0] == 0.5
    assert 0 < receipt.saturation_probability < 1e-5
    floats = release.to_float32()
    assert floats.dtype == np.float32
    np.testing.assert_array_equal(floats, values.astype(np.float64) * release.scale)
    assert hv.verify_receipt(receipt).status == "holds"


def test_other_releases_have_the_scale_1():
    release = hv.privatize(some_rows((2, 8), "float64"), epsilon=8.0)
    assert release.scale == 1.0
    np.testing.assert_array_equal(release.to_float32(), release.values.astype(np.float32))


@pytest.mark.parametrize("mechanism", ["privunit", "gaussian"])
def test_tensors(mechanism):
    torch = pytest.importorskip("torch")
    x = some_rows((3, 50))
    expected = hv.privatize(x, epsilon=8.0, mechanism=mechanism, dtype="int8", generator=hv.Generator.unsafe_seeded(3)).values
    for dtype in (torch.float32, torch.bfloat16):
        release = hv.privatize(
            torch.from_numpy(x).to(dtype), epsilon=8.0, mechanism=mechanism, dtype="int8", generator=hv.Generator.unsafe_seeded(3)
        )
        assert release.values.dtype == torch.int8
        assert release.to_float32().dtype == torch.float32
        if dtype is torch.float32:
            np.testing.assert_array_equal(release.values.numpy(), expected)


def test_privunit_has_the_float_values_where_the_grid_is_the_same():
    x = some_rows((300, 384))
    seeded = [hv.Generator.unsafe_seeded(5) for _ in range(2)]
    floats = hv.privatize(x, epsilon=8.0, mechanism="privunit", generator=seeded[0])
    release = hv.privatize(x, epsilon=8.0, mechanism="privunit", generator=seeded[1], dtype="int8")
    assert release.scale == floats.receipt.grid
    np.testing.assert_array_equal(release.to_float32(), floats.values)


def test_normalize_and_projection():
    x = 5 * some_rows((40, 30))
    unit = hv.privatize(
        x, mechanism="empirical", sigma=0.1, normalize=True, dtype="int8", generator=hv.Generator.unsafe_seeded(1)
    )
    again = hv.privatize(
        x / np.linalg.norm(x, axis=1, keepdims=True),
        mechanism="empirical",
        sigma=0.1,
        dtype="int8",
        generator=hv.Generator.unsafe_seeded(1),
    )
    assert (unit.values != again.values).mean() < 1e-3  # norms differ in their last bits
    projection = hv.mechanisms.PublicProjection.johnson_lindenstrauss(30, 12, seed=1)
    assert hv.privatize(x, epsilon=8.0, projection=projection, dtype="int8").values.shape == (40, 12)


def test_a_budget_is_charged_the_same():
    budget = hv.PrivacyBudget(max_epsilon=20.0)
    receipt = hv.privatize(some_rows((2, 8)), epsilon=8.0, budget=budget, dtype="int8").receipt
    assert receipt.charge is not None
    (verified, *_) = hv.verify_charges([receipt], budget.export())
    assert verified == "holds"


@pytest.mark.parametrize(
    "sigma, clip_norm",
    [(1.0, 1.0), (1.99, 1.0), (0.25, 1.0), (0.2, 1.0), (0.125, 1.0), (0.02, 1.0), (2.0**-6, 1.0), (3.0, 100.0)],
)
def test_the_grid(sigma, clip_norm):
    mechanism = EmpiricalGaussian(chosen_sigma=sigma, dimension=4, clip_norm=clip_norm)
    s, grid = Fraction(mechanism.sigma) / Fraction(mechanism.int8_grid), Fraction(mechanism.int8_grid)
    assert 1 <= s < 16
    assert Fraction(clip_norm) / grid <= 64
    assert s >= 8 or Fraction(clip_norm) / grid > 32  # coarser only where rows need it


@pytest.mark.parametrize("epsilon", [0.1, 4.0, 16.0, 50.0, 200.0, 500.0])
def test_the_grid_of_privunit(epsilon):
    mechanism = PrivUnit(epsilon=epsilon, dimension=64)
    s = mechanism.sigma / mechanism.int8_grid
    assert 1 <= s < 16
    assert mechanism.threshold * s <= 64
    assert s >= 8 or mechanism.threshold > 4


def expected_share(row_signal, sigma, grid):
    """Of saturated values of a Gaussian release, by scipy."""
    return np.mean(
        stats.norm.sf(127.5 * grid - row_signal, scale=sigma) + stats.norm.cdf(-127.5 * grid - row_signal, scale=sigma)
    )


@pytest.mark.parametrize("sigma", [0.02, 0.1, 0.2, 0.249, 0.4, 1.9])
@pytest.mark.parametrize("dimension", [1, 2, 16, 768])
def test_the_bound_is_above_what_happens(sigma, dimension):
    """Gaussian: rows with every share in one element. The worst of them is within a factor of the bound where it matters."""
    mechanism = EmpiricalGaussian(chosen_sigma=sigma, dimension=dimension)
    shares = [1.0] if dimension == 1 else np.linspace(0, 1, 200)
    worst = max(expected_share(one_way(dimension, share), mechanism.sigma, mechanism.int8_grid) for share in shares)
    assert worst <= mechanism.int8_saturation <= 3.7e-5
    if worst > 1e-12:
        assert mechanism.int8_saturation < 8 * worst


def test_the_bound_is_above_what_is_drawn():
    """s = 15.2 and X = 64: of n = 4 * 10^6 values the count of saturated ones is Poisson with mean n p, p = 1.47e-5, alpha = 1e-6."""
    x = np.ones((4_000_000, 1), np.float32)
    release = hv.privatize(x, mechanism="empirical", sigma=0.2375, dtype="int8", generator=hv.Generator.unsafe_seeded(9))
    floats = np.empty_like(x)
    _core.clip_and_noise(
        hv.clip(x, 1.0), 2.0**21 * release.scale, 0.2375, floats, hv.Generator.unsafe_seeded(9), "gaussian", True
    )
    count = int((np.abs(floats / release.scale) > 127).sum())
    mean = len(x) * release.receipt.saturation_probability
    assert min(stats.poisson.cdf(count, mean), stats.poisson.sf(count - 1, mean)) > 5e-7
    # A bound for a clip norm 10 % smaller is noticed.
    smaller = len(x) * gaussian_saturation(release.receipt.sigma, 0.9, release.scale, 1)
    assert stats.poisson.sf(count - 1, smaller) < 1e-6


def element_beyond(mechanism, share):
    """P that an element with this share of the direction saturates, by integration over alpha."""
    limit, t, p = 127.5 * mechanism.int8_grid / mechanism.sigma, mechanism.threshold, mechanism.cap_probability
    width = math.sqrt(1 - share * share)

    def beyond(alpha):
        return stats.norm.sf((limit - share * alpha) / width) + stats.norm.sf((limit + share * alpha) / width)

    parts = [(p / stats.norm.sf(t), t, t + 12), ((1 - p) / stats.norm.cdf(t), -12, t)]
    return sum(
        scale * integrate.quad(lambda a: beyond(a) * stats.norm.pdf(a), low, high, limit=200)[0] for scale, low, high in parts
    )


@pytest.mark.parametrize("epsilon", [0.5, 8.0, 16.0, 60.0, 300.0])
@pytest.mark.parametrize("dimension", [2, 16, 768])
def test_the_bound_of_privunit_is_above_what_happens(epsilon, dimension):
    mechanism = PrivUnit(epsilon=epsilon, dimension=dimension)
    for share in (0.0, 0.1, 0.5, 0.9, 0.99):
        others = math.sqrt((1 - share * share) / (dimension - 1))
        average = (
            element_beyond(mechanism, share) + (dimension - 1) * element_beyond(mechanism, min(others, 0.9999))
        ) / dimension
        assert average <= mechanism.int8_saturation
    assert mechanism.int8_saturation < 1e-3


def test_the_bound_is_the_formula():
    """docs/proofs/saturation.md, claims 3 and 4, with scipy's normal law."""
    q = stats.norm.sf
    sigma, clip, grid, d = 0.2375, 1.0, 2.0**-6, 3

    def f(c, x):
        return np.where(x < c, q(c - x) + q(c + x), 1.0)

    shares = np.arange(1, 16) / 16

    def bound(b):
        return min(b(1.0), min(b(a) + min(1, 1 / (d * a * a)) * b(1.0) for a in shares))

    c = 127.5 * grid / sigma
    assert gaussian_saturation(sigma, clip, grid, d) == pytest.approx(bound(lambda a: float(f(c, a * clip / sigma))), rel=1e-9)

    p, t = 0.75, 3.5
    lengths = (t + 8) * np.arange(129) / 128
    excess = np.maximum(0, lengths - t)
    longer = p * np.exp(-excess * (t + excess / 2)) + (1 - p) * np.minimum(1, 4 * q(lengths))

    def b(a):
        values = f(c, a * lengths)
        return values[0] + (np.diff(values) * longer[:-1]).sum() + (1 - values[-1]) * longer[-1]

    assert privunit_saturation(sigma, p, t, grid, d) == pytest.approx(bound(b), rel=1e-9)
    assert gaussian_saturation(100.0, 1.0, 2.0**3, 8) == pytest.approx(2 * q(127.5 * 8 / 100), rel=1e-3)
    assert gaussian_saturation(1.0, 1.0, 1.0, 8) == 2.0**-64


@pytest.mark.parametrize(
    "arguments, error, text",
    [
        ({"dtype": "int16"}, ValueError, "dtype must be None or 'int8', got 'int16'"),
        ({"dtype": np.int8}, ValueError, "dtype must be None or 'int8', got <class 'numpy.int8'>"),
        ({"renormalize": True}, ValueError, "renormalize must be False with dtype='int8': unit rows are no multiples of a grid"),
        ({"mechanism": "laplacian"}, ValueError, f"dtype must be None for mechanism 'laplacian': {KNOWN}"),
        ({"mechanism": "l2_laplace"}, ValueError, f"dtype must be None for mechanism 'l2_laplace': {KNOWN}"),
    ],
)
def test_what_is_refused(arguments, error, text):
    budget = hv.PrivacyBudget(max_epsilon=20.0)
    with pytest.raises(error) as raised:
        hv.privatize(some_rows((2, 8)), **{"epsilon": 8.0, "dtype": "int8", "budget": budget, **arguments})
    assert str(raised.value) == text
    assert len(budget.export()["rows"]) == 1


def test_codes_are_refused():
    codebook = PublicCodebook.of(some_rows((20, 8)))
    with pytest.raises(ValueError) as raised:
        hv.privatize(some_rows((2, 8), seed=1), mechanism=codebook.mechanism(epsilon=4.0), dtype="int8")
    assert str(raised.value) == f"dtype must be None for mechanism 'codebook': {KNOWN}"


def test_noise_that_is_too_small():
    with pytest.raises(ValueError) as raised:
        hv.privatize(some_rows((2, 8)), mechanism="empirical", sigma=0.01, dtype="int8")
    assert str(raised.value) == "sigma must be >= 0.015625 for int8 values with clip_norm 1, got 0.010000000707805157"
    with pytest.raises(ValueError, match=r"^threshold must be in \[0, 32\] for int8 values, got 90."):
        hv.privatize(some_rows((2, 8)), mechanism="privunit", epsilon=4096.0, dtype="int8")


def test_rows_with_nan_are_refused():
    x = some_rows((5, 8))
    x[3, 2] = np.nan
    for mechanism in ("gaussian", "privunit"):
        with pytest.raises(ValueError, match="got nan in row 3"):
            hv.privatize(x, epsilon=8.0, mechanism=mechanism, dtype="int8")


def test_the_core_takes_int8_as_an_output_only():
    x, values, generator = some_rows((2, 8)), np.zeros((2, 8), np.int8), hv.Generator.unsafe_seeded(1)
    for call in (
        lambda: _core.clip(values, 1.0, x),
        lambda: _core.clip(x, 1.0, values),
        lambda: _core.fill_gaussian(values, 1.0, generator),
        lambda: _core.clip_and_noise(values, 1.0, 1.0, values, generator, "gaussian", True),
        lambda: _core.unit_rows(x, values),
    ):
        with pytest.raises(TypeError, match=r"must have dtype float32, float64, float16 or bfloat16, got int8"):
            call()
    for law, exact, sigma, text in (
        ("laplacian", True, 1.0, "law must be gaussian for an out of int8"),
        ("gaussian", False, 1.0, "exact must be True and sigma > 0 for an out of int8"),
        ("gaussian", True, 0.0, "exact must be True and sigma > 0 for an out of int8"),
    ):
        with pytest.raises(ValueError) as raised:
            _core.clip_and_noise(x, 1.0, sigma, values, generator, law, exact)
        assert str(raised.value) == text
    assert not values.any()
    bytes_of_x = x.view(np.int8)[:, :8]
    with pytest.raises(ValueError, match="out must be x itself or not overlap it"):
        _core.clip_and_noise(x, 1.0, 1.0, bytes_of_x, generator, "gaussian", True)


def receipt_of(mechanism="gaussian"):
    return hv.privatize(some_rows((2, 64)), mechanism=mechanism, dtype="int8", **MECHANISMS[mechanism]).receipt


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_receipts_come_back_from_json(mechanism):
    receipt = receipt_of(mechanism)
    fields = json.loads(receipt.to_json())
    assert (fields["dtype"], fields["saturation"]) == ("int8", [-127, 127])
    assert hv.Receipt.from_json(receipt.to_json()) == receipt


def test_receipts_of_other_values_have_no_fields_of_int8():
    receipt = hv.privatize(some_rows((2, 8)), epsilon=8.0).receipt
    fields = receipt.to_dict()
    assert not {"saturation", "saturation_probability"} & set(fields)
    assert hv.Receipt.from_dict(fields) == receipt
    with pytest.raises(hv.ReceiptError) as raised:
        hv.Receipt.from_dict({**fields, "saturation": None})
    assert str(raised.value) == "receipt must not have the field 'saturation': it is unknown"


@pytest.mark.parametrize(
    "changed, text",
    [
        ({"saturation": None}, "saturation must be given with dtype 'int8'"),
        ({"saturation_probability": None}, "saturation_probability must be given with dtype 'int8'"),
        ({"saturation": (-128, 127)}, "saturation must be [-127, 127] or null, got (-128, 127)"),
        ({"saturation": (-127.0, 127)}, "saturation must be [-127, 127] or null, got (-127.0, 127)"),
        ({"saturation_probability": 0.0}, "saturation_probability must be > 0 and <= 1, or null, got 0.0"),
        ({"dtype": "float32"}, "saturation must be left out with dtype 'float32'"),
    ],
)
def test_receipts_out_of_their_values(changed, text):
    with pytest.raises(hv.ReceiptError) as raised:
        dataclasses.replace(receipt_of(), **changed)
    assert str(raised.value) == text


@pytest.mark.parametrize(
    "mechanism, changed, text",
    [
        ("gaussian", {"saturation_probability": 1e-300}, "saturation_probability must be >= "),
        ("privunit", {"saturation_probability": 1e-19}, "saturation_probability must be >= "),
        ("gaussian", {"grid": 2.0**-6}, "for this sigma, clip_norm and int8 values, got 0.015625"),
        ("privunit", {"grid": 2.0**-12}, "for this sigma, threshold and int8 values, got 0.000244140625"),
        ("gaussian", {"renormalize": True}, "renormalize must be false with dtype 'int8'"),
        ("empirical", {"grade": "float", "is_dp_claim": False, "grid": None}, "grade must be 'exact' with dtype 'int8', got 'float'"),
        ("gaussian", {"mechanism": "laplacian"}, "dtype must not be 'int8' for laplacian"),
    ],
)  # fmt: skip
def test_forged_receipts(mechanism, changed, text):
    status, reasons = hv.verify_receipt(dataclasses.replace(receipt_of(mechanism), **changed))
    assert status == "does not hold"
    assert any(text in reason for reason in reasons)


def test_a_larger_probability_is_still_true():
    assert hv.verify_receipt(dataclasses.replace(receipt_of(), saturation_probability=0.5)).status == "holds"


def test_mechanism_objects():
    mechanism = Gaussian(epsilon=8.0, dimension=16)
    release = hv.privatize(some_rows((2, 16)), mechanism=mechanism, dtype="int8")
    assert release.scale == mechanism.int8_grid
    assert release.receipt.saturation_probability == mechanism.int8_saturation
