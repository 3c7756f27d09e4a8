"""Rows of unit length: right for every finite row, and with bits that depend on the row alone."""

import numpy as np
import pytest

from hushvec._native import arrays, rowwise

# Around the buffer lengths of numpy and the pieces that the core works in.
DIMENSIONS = (1, 7, 384, 1024, 8191, 8192, 8193, 9000)


def unit(x):
    out = arrays.empty_like(x)
    rowwise.unit_rows(x, out)
    return out


@pytest.mark.parametrize("dimension", DIMENSIONS)
@pytest.mark.parametrize("dtype", arrays.NUMPY_DTYPES)
def test_a_row_is_the_same_in_every_batch_and_layout(dtype, dimension):
    rows = np.random.default_rng(dimension).standard_normal((9, dimension)).astype(dtype)
    whole = unit(rows)
    for part in (rows[4], rows[4:5], rows[2:6]):
        assert np.array_equal(np.atleast_2d(unit(part)), whole[4:5] if len(np.atleast_2d(part)) == 1 else whole[2:6])
    spread = np.zeros((18, 2 * dimension), dtype)
    spread[::2, ::2] = rows
    for layout in (np.asfortranarray(rows), spread[::2, ::2], rows[::-1].copy()[::-1]):
        assert np.array_equal(unit(layout), whole)
    itself = rows.copy()
    rowwise.unit_rows(itself, itself)
    assert np.array_equal(itself, whole)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_torch_has_the_bits_of_numpy(dtype):
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(np.random.default_rng(0).standard_normal((5, 129))).to(getattr(torch, dtype))
    found = unit(tensor)
    assert found.dtype == tensor.dtype
    if dtype == "bfloat16":  # which numpy does not have: through float32
        expected = torch.from_numpy(unit(tensor.float().numpy())).to(torch.bfloat16)
    else:
        expected = torch.from_numpy(unit(tensor.numpy()))
    assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", arrays.NUMPY_DTYPES)
def test_the_norm_is_right_for_the_smallest_and_largest_rows(dtype):
    limits = np.finfo(dtype)
    rows = np.ones((4, 130), dtype)
    rows *= np.array([[limits.max / 2], [limits.tiny], [1], [0]], dtype)
    exact = np.full(130, 1 / np.sqrt(130))
    for row, expected in zip(unit(rows), (exact, exact, exact, 0 * exact)):
        np.testing.assert_allclose(row.astype(np.float64), expected, rtol=2 * float(limits.eps))
