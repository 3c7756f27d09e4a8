"""The Walsh-Hadamard transform: its matrix of signs, and what it refuses."""

import numpy as np
import pytest

from hushvec._native import _core


def signs(size):
    return (-1.0) ** np.array([[(i & j).bit_count() for j in range(size)] for i in range(size)])


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_rows_are_multiplied_by_the_matrix_of_signs(size):
    rows = np.random.default_rng(0).integers(-1000, 1000, (3, size)).astype(np.float64)
    expected = rows @ signs(size)
    for row in (found := rows.copy()):
        _core.hadamard_transform(row)
    assert found.tolist() == expected.tolist()
    _core.hadamard_transform(found)
    assert found.tolist() == (size * rows).tolist()


@pytest.mark.parametrize(
    ("x", "error", "text"),
    [
        (np.ones(4, np.float32), TypeError, "x must be float64"),
        (np.ones(12), ValueError, "x must have a power of two of columns, got shape (12,)"),
        (np.ones(0), ValueError, "x must have a power of two of columns, got shape (0,)"),
        (np.ones((4, 8))[:, ::2], ValueError, "x must have contiguous rows"),
    ],
)
def test_other_arrays_are_refused(x, error, text):
    with pytest.raises(error) as refused:
        _core.hadamard_transform(x)
    assert str(refused.value) == text
