"""Products of rows: near the exact ones, and with bits that depend on the two rows alone."""

import math

import numpy as np
import pytest

from hushvec._native import _core
from hushvec._native.products import inner_products, product

DTYPES = (np.float32, np.float64)
# Around the pieces that the kernel works in, and one of ours.
COLUMNS = (1, 15, 16, 17, 384, 1001)


def rows_of(count, columns, dtype, seed=1):
    return np.random.default_rng(seed).standard_normal((count, columns)).astype(dtype)


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_within_the_stated_bound_of_the_exact_product(dtype, columns):
    """gamma_(n/8 + 4) sum |a b|, which holds for every backend."""
    a, b = rows_of(7, columns, dtype), rows_of(23, columns, dtype, 2)
    found = inner_products(a, b)
    unit = np.finfo(dtype).eps / 2
    steps = columns / 8 + 4
    assert found.dtype == dtype
    for i in range(7):
        for j in range(23):
            terms = a[i].astype(object) * b[j].astype(object) if dtype == np.float32 else a[i] * b[j]
            exact = math.fsum(float(term) for term in terms)
            size = math.fsum(abs(float(term)) for term in terms)
            slack = size * columns * 2.0**-53 if dtype == np.float64 else 0.0  # of the terms themselves
            assert abs(float(found[i, j]) - exact) <= steps * unit / (1 - steps * unit) * size + slack


@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_is_the_same_in_every_company_and_layout(dtype, columns):
    a, b = rows_of(70, columns, dtype), rows_of(40, columns, dtype, 2)
    whole = inner_products(a, b)
    for part in (slice(0, 1), slice(5, 6), slice(3, 20), slice(69, 70), slice(1, 70)):
        assert np.array_equal(inner_products(a[part], b), whole[part])
        assert np.array_equal(inner_products(b[:9], a[part]), whole[part, :9].T)
    spread = np.zeros((140, 2 * columns), dtype)
    spread[::2, ::2] = a
    unaligned = np.zeros(a.nbytes + 1, np.uint8)[1:].view(dtype).reshape(a.shape)
    unaligned[:] = a
    for layout in (np.asfortranarray(a), spread[::2, ::2], a[::-1].copy()[::-1], unaligned):
        assert np.array_equal(inner_products(layout, b), whole)
    assert np.array_equal(product(a, np.ascontiguousarray(b.T)), whole)
    assert np.array_equal(product(a, b[3]), whole[:, 3])
    assert np.array_equal(product(a.reshape(7, 10, columns), b.T), whole.reshape(7, 10, 40))


@pytest.mark.parametrize("shapes", [((0, 5), (3, 5)), ((3, 5), (0, 5)), ((2, 0), (3, 0))])
def test_nothing_to_multiply(shapes):
    found = inner_products(*(np.ones(shape, np.float32) for shape in shapes))
    assert found.shape == (shapes[0][0], shapes[1][0]) and not found.any()


def test_infinite_sums_come_without_a_warning():
    found = inner_products(np.float32([[3e38, 3e38], [3e38, -np.inf]]), np.float32([[3e38, 1.0], [np.inf, 1.0]]))
    assert found[0, 0] == np.inf and np.isnan(found[1, 1])


def test_threads_do_not_change_a_bit():
    a, b = rows_of(3000, 384, np.float32), rows_of(300, 384, np.float32, 2)
    before = _core.get_num_threads()
    try:
        found = []
        for threads in (1, 2, 5):
            _core.set_num_threads(threads)
            found.append(inner_products(a, b))
    finally:
        _core.set_num_threads(before)
    assert np.array_equal(found[0], found[1]) and np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    "arguments,words",
    [
        ((np.ones((2, 3)), np.ones((2, 4)), np.ones((2, 2))), "b must have the columns of a"),
        ((np.ones((2, 3)), np.ones((2, 3)), np.ones((2, 3))), "out must have a row for each row of a and a column for each row of b"),
        ((np.ones((2, 3)), np.ones(3), np.ones((2, 1))), "b must have 2 dimensions"),
        ((np.ones((4, 3))[::-1], np.ones((2, 3)), np.ones((4, 2))), "a must have contiguous rows"),
    ],
)
def test_the_core_refuses_what_does_not_fit(arguments, words):
    with pytest.raises(ValueError, match=words):
        _core.inner_products(*arguments)


def test_the_core_refuses_other_kinds():
    with pytest.raises(TypeError, match="b must have the dtype of a"):
        _core.inner_products(np.ones((2, 3)), np.ones((2, 3), np.float32), np.ones((2, 2)))
    with pytest.raises(TypeError, match="a must be float32 or float64"):
        _core.inner_products(*(np.ones((2, 2), np.float16) for _ in range(3)))
