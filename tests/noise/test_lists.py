"""What stands in for a float array: lists, tuples, sequences of arrays, integers. Numbers become float32 without a silent rounding."""

from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from hushvec._native.rowwise import as_array
from hushvec.mechanisms import MetricLaplace, PublicCodebook, PublicProjection
from hushvec.retrieval import PrivateIndex, VectorNoise, evaluate

LIMIT = 1 << 24
ROWS = [[1, 2], [3, 4]]
EXPECTED = np.array(ROWS, np.float32)

GIVEN = {
    "list of lists": ROWS,
    "tuple of tuples": ((1, 2), (3, 4)),
    "floats": [[1.0, 2.0], [3.0, 4.0]],
    "floats and integers": [[1.0, 2], [3, 4.0]],
    "numpy scalars": [[np.float64(1), np.int64(2)], [np.float32(3), np.uint8(4)]],
    "rows of integers": [np.array(row) for row in ROWS],
    "a row and a list": [np.array([1, 2]), [3, 4]],
    **{f"array of {dtype}": np.array(ROWS, dtype) for dtype in ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", ">i4")},
}


@pytest.mark.parametrize("given", GIVEN.values(), ids=GIVEN)
def test_numbers_become_float32(given):
    found = as_array("x", given)
    assert found.dtype == np.float32 and found.dtype.isnative
    np.testing.assert_array_equal(found, EXPECTED)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_rows_that_are_float_arrays_keep_their_dtype(dtype):
    assert as_array("x", [np.ones(3, dtype), np.zeros(3, dtype)]).dtype == dtype


def test_float_arrays_are_not_copied():
    for dtype in ("float16", "float32", "float64"):
        x = np.ones((2, 3), dtype)
        assert as_array("x", x) is x


def test_tensors_in_a_list_give_a_tensor():
    torch = pytest.importorskip("torch")
    found = as_array("x", [torch.ones(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16)])
    assert isinstance(found, torch.Tensor) and found.dtype == torch.bfloat16 and found.shape == (2, 3)
    for whole in (torch.tensor(ROWS), [torch.tensor(row) for row in ROWS], torch.tensor(ROWS, dtype=torch.uint8)):
        found = as_array("x", whole)
        assert found.dtype == torch.float32
        np.testing.assert_array_equal(found.numpy(), EXPECTED)
    with pytest.raises(ValueError, match=r"^x must have rows of one length, got shape \(3,\) in row 1 and \(2,\) in row 0$"):
        as_array("x", [torch.ones(2), torch.ones(3)])
    with pytest.raises(ValueError, match=r"^x must hold whole numbers of at most 2\^24 in size, .* got -33554432 \(pass"):
        as_array("x", torch.tensor([-(1 << 25)]))


def too_large(value):
    return f"x must hold whole numbers of at most 2^24 in size, which float32 holds exactly, got {value} (pass a float64 array)"


REFUSED = {
    "one more": ([LIMIT + 1], ValueError, too_large(LIMIT + 1)),
    "one less": ([-LIMIT - 1], ValueError, too_large(-LIMIT - 1)),
    "in an array": (np.array([3, LIMIT + 1]), ValueError, too_large(LIMIT + 1)),
    "unsigned": (np.array([2**64 - 1], np.uint64), ValueError, too_large(2**64 - 1)),
    "the least int64": (np.array([-(2**63)]), ValueError, too_large(-(2**63))),
    "beyond int64": ([2**70], ValueError, too_large(2**70)),
    "among floats": ([0.5, LIMIT + 1], ValueError, too_large(LIMIT + 1)),
    "among float64 rows": (
        [np.array([0.5]), np.array([2**53 + 1])],
        ValueError,
        f"x must hold whole numbers of at most 2^53 in size, which float64 holds exactly, got {2**53 + 1}",
    ),
    "beyond float32": ([1e300], ValueError, "x must be in the range of float32, got 1e+300 (a float64 array keeps its range)"),
    "ragged": ([[1, 2], [3]], ValueError, "x must have rows of one length, got 1 in row 1 and 2 in row 0"),
    "ragged arrays": ([np.ones(2), np.ones(3)], ValueError, "x must have rows of one length, got 3 in row 1 and 2 in row 0"),
    "a number among rows": ([[1, 2], 3], ValueError, "x must have rows of one length, got a number in row 1 and 2 in row 0"),
    "ragged inside": ([[[1], [2, 3]]], ValueError, "x must have rows of one length, got lengths that differ within row 0"),
    "texts": (["a"], TypeError, "x must hold numbers, got str in it"),
    "None": ([1.0, None], TypeError, "x must hold numbers, got NoneType in it"),
    "truths": ([True, False], TypeError, "x must hold numbers, got bool in it"),
    "complex": ([1j], TypeError, "x must hold numbers, got complex in it"),
    "fractions": ([Fraction(1, 2)], TypeError, "x must hold numbers, got Fraction in it"),
    "a text among rows": ([[1.0], "ab"], TypeError, "x must hold numbers, got str in it"),
    "masked": ([np.ma.masked_array([1.0])], TypeError, "x must hold plain numpy arrays, got MaskedArray (its mask would be lost)"),
}


@pytest.mark.parametrize(("given", "error", "text"), REFUSED.values(), ids=REFUSED)
def test_refused(given, error, text):
    for call in (lambda: hv.privatize(given, epsilon=1.0), lambda: hv.clip(given, 1.0)):
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value) == text


def test_the_largest_whole_numbers_are_exact():
    np.testing.assert_array_equal(as_array("x", [[LIMIT, -LIMIT]]).astype(int), [[LIMIT, -LIMIT]])
    assert as_array("x", [2.0**30])[0] == 2.0**30  # a float may be rounded


def test_an_integer_array_with_a_mask_is_refused():
    with pytest.raises(TypeError, match=r"^x must be a plain numpy array, got MaskedArray \(its mask would be lost\)$"):
        hv.clip(np.ma.masked_array([1, 2]), 1.0)


def test_refused_rows_are_not_charged():
    budget = hv.PrivacyBudget(10.0)
    for given, error, _ in REFUSED.values():
        with pytest.raises(error):
            hv.privatize(given, epsilon=1.0, budget=budget)
    assert budget.consumed() == 0


def seeded():
    return hv.Generator.unsafe_seeded(7)


BOOK = PublicCodebook.fit(np.random.default_rng(1).standard_normal((64, 2)).astype(np.float32), epsilon=4.0)
MAP = PublicProjection(np.full(2, 0.5, np.float32), None, None)
SAME_BITS = {
    "clip": lambda x: hv.clip(x, 1.0),
    "clip_and_noise": lambda x: hv.clip_and_noise(x, 1.0, 1.0, generator=seeded()),
    "privatize": lambda x: hv.privatize(x, epsilon=1.0, generator=seeded()).values,
    "privatize behind a map": lambda x: hv.privatize(x, epsilon=1.0, projection=MAP, generator=seeded()).values,
    "privatize by codes": lambda x: hv.privatize(x, mechanism=BOOK.mechanism(epsilon=4.0), generator=seeded()).values,
    "add_noise": lambda x: hv.add_noise(x, ROWS),
    "transform": MAP.transform,
    "encode": BOOK.encode,
    "metric": lambda x: MetricLaplace(epsilon=1.0, dimension=2).release(x, generator=seeded()),
}


@pytest.mark.parametrize("call", SAME_BITS.values(), ids=SAME_BITS)
def test_lists_and_integers_give_the_bits_of_float32(call):
    expected = call(EXPECTED)
    for given in (ROWS, np.array(ROWS)):
        found = call(given)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_an_index_takes_lists():
    index = PrivateIndex(2, documents=VectorNoise(epsilon=64.0), store="numpy")
    index.add(ROWS)
    index.add([5, 6])
    assert len(index) == 3 and index.search([[1, 2]], k=2).ids.shape == (1, 2)
    assert evaluate(index, ROWS, [0, 1], k=1, resamples=50).metrics["recall_at_1"].value >= 0


def test_a_wrapped_model_may_answer_with_integers():
    class Whole:
        def embed(self, texts):
            return np.array([[1, 2]] * len(texts), np.int8)

    wrapped = hv.wrap_embedding_model(Whole(), hv.dp_embedding_middleware(epsilon=1.0, clip_norm=3.0))
    assert wrapped.embed(["a", "b"]).dtype == np.float32


def test_outputs_are_arrays():
    text = "^out must be a numpy array, a torch tensor or a CuPy array, got list$"
    for call in (lambda: hv.clip(ROWS, 1.0, out=[[0, 0], [0, 0]]), lambda: hv.gaussian_noise(2, out=[0.0, 0.0])):
        with pytest.raises(TypeError, match=text):
            call()
    with pytest.raises(TypeError, match=r"^out must be float32 or float64 or float16, got int64$"):
        hv.clip(ROWS, 1.0, out=np.zeros((2, 2), np.int64))
    out = np.zeros((2, 2), np.float32)
    assert hv.clip(ROWS, 100.0, out=out) is out
    np.testing.assert_array_equal(out, EXPECTED)


@pytest.mark.parametrize("number", [np.float64, np.float32, np.float16, np.int64, np.uint8], ids=lambda number: number.__name__)
def test_numpy_scalars_are_numbers(number):
    release = hv.privatize(ROWS, epsilon=number(2), delta=np.float64(1e-5), clip_norm=number(1))
    assert type(release.receipt.epsilon) is float and release.receipt.epsilon == 2.0
    assert hv.Receipt.from_json(release.receipt.to_json()) == release.receipt
    budget = hv.PrivacyBudget(number(10), np.float64(1e-3))
    budget.consume(number(2), np.float32(1e-5))
    assert budget.consumed() == 2.0
    assert hv.gaussian_sigma(number(2), 1e-5) == hv.gaussian_sigma(2.0, 1e-5)
    assert hv.recommend(np.int64(8), number(2)).mechanism.epsilon == 2.0
