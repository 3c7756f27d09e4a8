"""Arrays of codebooks and maps: their form, that they are copies which nobody can write, and the rows that they are made of."""

import numpy as np
import pytest

from hushvec.mechanisms import PublicCodebook, PublicProjection
from hushvec.mechanisms.public_arrays import FittedRows, checked_public_rows, frozen

ROWS = np.random.default_rng(0).standard_normal((30, 6)).astype(np.float32)
WRONG = {
    "another dtype": (ROWS.astype(np.float64), TypeError, "x must be a float32 numpy array, got float64"),
    "a list": ([[1.0]], TypeError, "x must be a float32 numpy array, got list"),
    "too few dimensions": (ROWS[0], ValueError, "x must have 2 dimensions, none empty, got shape (6,)"),
    "too many dimensions": (ROWS[None], ValueError, "x must have 2 dimensions, none empty, got shape (1, 30, 6)"),
    "no column": (ROWS[:, :0], ValueError, "x must have 2 dimensions, none empty, got shape (30, 0)"),
    "NaN": (ROWS * np.float32(np.nan), ValueError, "x must be finite"),
}


@pytest.mark.parametrize("array, error, text", WRONG.values(), ids=WRONG)
def test_an_array_of_another_form_is_refused(array, error, text):
    with pytest.raises(error) as raised:
        frozen("x", array, 2)
    assert str(raised.value) == text
    with pytest.raises(ValueError) as raised:
        frozen("x", ROWS, 1)
    assert str(raised.value) == "x must have 1 dimension, none empty, got shape (30, 6)"


def test_a_kept_array_is_a_copy_with_one_zero():
    given = np.array([[0.0, -0.0, 1.0]], np.float32)
    kept = frozen("x", given, 2)
    given[0, 2] = 5
    assert kept.tolist() == [[0.0, 0.0, 1.0]] and not np.signbit(kept).any()


@pytest.mark.parametrize(
    "rows, text",
    [
        (ROWS[0], "x must have at least two rows and one column, got shape (6,)"),
        (ROWS[:1], "x must have at least two rows and one column, got shape (1, 6)"),
        (ROWS[:, :0], "x must have at least two rows and one column, got shape (30, 0)"),
        (np.concatenate([ROWS, ROWS * np.float32(np.inf)]), "x must be finite, got "),
    ],
)
def test_public_rows_are_two_at_least_and_finite(rows, text):
    with pytest.raises(ValueError) as raised:
        checked_public_rows("x", rows)
    assert str(raised.value).startswith(text)
    assert checked_public_rows("x", ROWS[:2, :1]).shape == (2, 1)


MADE = {
    "codebook": PublicCodebook.of(ROWS),
    "map": PublicProjection.fit(ROWS, components=3, whiten=True),
    "mean": PublicProjection.mean_only(ROWS),
    "random map": PublicProjection.johnson_lindenstrauss(6, 3, seed=1),
    "rows": FittedRows.of(ROWS),
}


@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_no_array_of_it_can_be_written(made):
    kept = [value for value in vars(made).values() if isinstance(value, np.ndarray)]
    assert kept
    for array in kept:
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0


def test_components_are_the_strongest_and_come_in_their_order():
    """Rows that vary along three axes, the most along the last: the map keeps that one first."""
    spread = np.array([0.5, 0.0, 1.0, 0.0, 2.0, 0.0])
    rows = np.random.default_rng(1).standard_normal((4000, 6)) * spread
    components = np.abs(PublicProjection.fit(rows, components=2).components)
    np.testing.assert_allclose(components, np.eye(6)[[4, 2]], atol=0.1)
