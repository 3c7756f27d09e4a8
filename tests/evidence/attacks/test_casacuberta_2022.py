"""Casacuberta, Shoemate, Vadhan, Wagaman, "Widespread underestimation of sensitivity in differentially private libraries and
how to fix it" (2022): attacks on what is summed before the noise: overflow, reordering, rounding, repeated rounding.

Noise is calibrated to how far one person moves a sum over the reals. A sum in floating point, or in integers that wrap, moves
farther. Here every sum is of rows clipped to C, whose sensitivity is C (add or remove) and 2 C (replace), and each attack is a pair
of neighbouring data sets on which a sum as commonly written moves by more.

Nothing here is statistical: two calls with the same seeded stream draw the same noise, so their difference is that of the sums, each
rounded to the public grid. Sums themselves are compared as whole numbers.
"""

from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from evidence.attacks import naive
from evidence.reference import clipped_sum as reference
from hushvec.collect import Vocabulary
from hushvec.training import clip_and_noise_gradients
from hushvec.training.clipped_sums import ClippedSum

C = 1.0
SEED = 5


def sum_of(rows, clipping="exact"):
    """The sum that hushvec adds noise to, as fractions."""
    total = ClippedSum([rows.shape[1:]], clip_norm=C, sigma=0.0, clipping=clipping)
    total.add([rows])
    return [Fraction(int(units)) * Fraction(reference.unit(C)) for units in total._units()[0].ravel()]


def moved(first, second):
    """The square of how far two sums lie apart, exactly."""
    return sum((a - b) ** 2 for a, b in zip(first, second, strict=True))


def noisy(rows):
    """What `clip_and_noise_gradients` gives with one fixed noise; sigma = C / 2 has the grid 2^-7."""
    return clip_and_noise_gradients(rows, C, 0.5, generator=hv.Generator.unsafe_seeded(SEED)).astype(np.float64)


GRID = 2.0**-7


def repeated_rounding():
    """(rows, the same with one of them replaced): 2^14, then numbers a little above half a unit in the last place of it, which float32
    rounds up each time; below 2^14 it would not.
    """
    rows = np.concatenate([np.ones(2**14), np.full(2**12, 2.0**-10 * (1 + 2.0**-10))]).astype(np.float32)[:, None]
    neighbour = rows.copy()
    neighbour[0] = -1.0
    return rows, neighbour


def test_repeated_rounding():
    rows, neighbour = repeated_rounding()
    assert abs(naive.float_sum(rows) - naive.float_sum(neighbour)) > 2 * C + 1
    assert moved(sum_of(rows), sum_of(neighbour)) <= (2 * Fraction(C)) ** 2
    assert abs(noisy(rows) - noisy(neighbour)) <= 2 * C + GRID


def test_repeated_rounding_in_half_precision():
    """The same with float16 sums, where 2^10 people are enough: 4 C apart for a replaced row, 2 C for one that is gone."""
    rows = np.concatenate([np.ones(2**10), np.full(2**9, 2.0**-1 * (1 + 2.0**-9))]).astype(np.float16)[:, None]
    replaced, gone = rows.copy(), rows[1:]
    replaced[0] = -1.0
    for neighbour, bound in ((replaced, 2 * C), (gone, C)):
        assert abs(naive.float_sum(rows, np.float16) - naive.float_sum(neighbour, np.float16)) >= 2 * bound
        assert moved(sum_of(rows), sum_of(neighbour)) <= Fraction(bound) ** 2


@pytest.mark.parametrize("clipping", ["exact", "estimated"])
def test_reordering(clipping):
    """The same people in another order: a sum of floats moves by 4 C, this one by nothing."""
    rows = repeated_rounding()[0]
    backwards = rows[::-1].copy()
    assert abs(naive.float_sum(rows) - naive.float_sum(backwards)) > 2 * C
    assert sum_of(rows, clipping) == sum_of(backwards, clipping)
    assert np.array_equal(noisy(rows), noisy(backwards))


def test_reordering_of_people_and_of_virtual_batches():
    """500 rows of mixed magnitudes in 5 orders, in one call and in three."""
    rng = np.random.default_rng(1)
    rows = (rng.standard_normal((500, 33)) * 10.0 ** rng.uniform(-30, 30, (500, 1))).astype(np.float32)
    expected = sum_of(rows)
    for _ in range(5):
        shuffled = rng.permutation(rows)
        assert sum_of(shuffled) == expected
        total = ClippedSum([(33,)], clip_norm=C, sigma=0.0, clipping="exact")
        for part in np.split(shuffled, [7, 250]):
            total.add([part])
        assert np.array_equal(total._units()[0], np.array([units / Fraction(reference.unit(C)) for units in expected], float))


def test_overflow_of_whole_numbers():
    """Sums are whole multiples of 2^-25: an int32 is full at 64 people. One that wraps moves by 127 when the 65th comes, ours by C."""
    rows = np.ones((5000, 1), np.float32) * 10
    wrapped = [naive.counting_sum(np.full((n, 1), C * (1 - 2.0**-20)), reference.unit(C))[0] for n in (64, 65)]
    assert abs(wrapped[1] - wrapped[0]) > 100 * C
    for people in (63, 64, 65, 66, 127, 128, 129, 130, 5000):
        total, without = sum_of(rows[:people]), sum_of(rows[: people - 1])
        assert moved(total, without) <= Fraction(C) ** 2
        assert total[0] > people * Fraction(C) * Fraction(999, 1000)


def test_counts_of_reports_do_not_wrap():
    """Counts of many reports: 300 of one word are more than a byte holds, and are counted as 300."""
    vocabulary = Vocabulary(["a", "b"], 40.0, mechanism="k_rr")
    sketch = vocabulary.sketch()
    for _ in range(3):
        sketch.add(vocabulary.report(["a"] * 100, generator=hv.Generator.unsafe_seeded(SEED)))
    assert sketch.estimate().counts.round().tolist() == [300, 0]


# ---- one person's own row: its norm is a sum as well ----


def exact_square_norm(row):
    values, times = np.unique(np.abs(row), return_counts=True)
    return sum(Fraction(float(value)) ** 2 * int(count) for value, count in zip(values, times))


ROWS = {
    # 1, then 2^20 numbers whose squares float32 loses beside it: the true norm is 1.03
    "many tiny": np.concatenate([[1.0], np.full(2**20, 2.0**-12)]),
    "tiny first": np.concatenate([np.full(2**20, 2.0**-12), [1.0]]),
    # squares just above half a unit in the last place of 1, which float32 rounds up each time
    "rounded up": np.concatenate([[1.0], np.full(2**16, 2.0**-12 * 1.0001)]),
    "huge and tiny": np.array([3e38, 1e-45, 1e-30, 1.0, 3e38]),
    "just outside": np.full(7, 0.378),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ROWS)
def test_rounding_in_the_norm_of_a_row(name, dtype):
    row = ROWS[name].astype(dtype)
    assert exact_square_norm(hv.clip(row, C)) <= Fraction(C) ** 2
    for clipping in ("exact", "estimated"):
        total = ClippedSum([row.shape], clip_norm=C, sigma=0.0, clipping=clipping)
        total.add([row[None]])
        assert reference.square_norm(total._units()) <= reference.largest_square_norm(C)


def test_a_norm_added_up_in_float32_would_not_clip():
    row = ROWS["many tiny"].astype(np.float32)
    assert exact_square_norm(naive.clip_in_float32(row[None], C)[0]) > Fraction(105, 100)
    assert exact_square_norm(hv.clip(row, C)) <= 1


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_unit_rows_stay_within_the_sensitivity(dtype):
    """normalize=True: rows of all magnitudes, noise of one seeded stream. Rows differ by at most 2 C and one step of the grid for each
    element, whatever rounding did to their norms; without the clip after it, a unit row in floating point is often longer than 1.
    """
    rng = np.random.default_rng(2)
    top = 4 if dtype == "float16" else 30
    rows = (rng.standard_normal((200, 64)) * 10.0 ** rng.uniform(-3, top, (200, 1))).clip(-6e4, 6e4).astype(dtype)
    unit = (rows / np.linalg.norm(rows.astype(np.float64), axis=1, keepdims=True)).astype(dtype)
    assert max(exact_square_norm(row) for row in unit) > 1
    release = lambda x: hv.privatize(x, epsilon=2.0, normalize=True, generator=hv.Generator.unsafe_seeded(SEED))
    values, receipt = release(rows)
    opposite = release(-rows).values
    apart = np.linalg.norm(values.astype(np.float64) - opposite, axis=1)
    rounding = 8 * (receipt.grid if dtype != "float16" else receipt.grid + 2.0**-7)
    assert apart.max() <= 2 * C + rounding
    assert apart.min() >= 2 * C - rounding - 0.1


def test_what_a_batch_is_divided_by_is_public():
    """The true number of examples would move the noisy mean of all others: batches of 8 and of 9 share one divisor, and a row of
    zeros more changes nothing. The mutant, a mean over the rows given, moves every coordinate.
    """
    rows = np.ones((8, 4), np.float32)
    more = np.concatenate([rows, np.zeros((1, 4), np.float32)])
    release = lambda x: clip_and_noise_gradients(x, C, 0.5, divisor=8, generator=hv.Generator.unsafe_seeded(SEED))
    assert np.array_equal(release(rows), release(more))
    assert not np.array_equal(release(rows), release(more) * 8 / len(more))
