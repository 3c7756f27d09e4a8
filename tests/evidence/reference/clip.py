"""The clipped row in units of the grid, and the grid itself: docs/format.md, sections 4 and 5.

All arithmetic is IEEE float32 and float64 in the order that the format fixes; numpy's elementwise +, *, /, sqrt and
casts are correctly rounded. float16 and bfloat16 rows come in widened to float32.
"""

import math
from fractions import Fraction

import numpy as np

ACCUMULATORS = 32
GRID_BITS = 6   # s is in [64, 128) where sigma sets the grid
SHRINK = 1.0 - 2.0**-20  # room for the rounding of the norm and of each element


def round_up_to_float32(value):
    """The smallest float32 not below `value`."""
    nearest = np.float32(value)
    return nearest if float(nearest) >= value else np.nextafter(nearest, np.float32(np.inf))


def round_to_zero(values, dtype):
    """`values` rounded towards 0 to float32, float16 or (as float32) bfloat16."""
    values = np.asarray(values)
    if dtype == "bfloat16":
        return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    with np.errstate(over="ignore"):
        nearest = values.astype(dtype)
    too_large = np.abs(nearest.astype(np.float64)) > np.abs(values.astype(np.float64))
    return np.where(too_large, np.nextafter(nearest, np.zeros_like(nearest)), nearest)


def sum_of_squares(rows):
    """float64[n] for rows float32 or float64 [n, d]; element j goes to accumulator j mod 32."""
    count, dimension = rows.shape
    padded = np.zeros((count, -(-dimension // ACCUMULATORS) * ACCUMULATORS), dtype=np.float64)
    padded[:, :dimension] = rows
    accumulators = np.zeros((count, ACCUMULATORS))
    with np.errstate(over="ignore"):
        for chunk in padded.reshape(count, -1, ACCUMULATORS).transpose(1, 0, 2):
            accumulators = accumulators + chunk * chunk
        half = ACCUMULATORS // 2
        while half:
            accumulators = accumulators[:, :half] + accumulators[:, half : 2 * half]
            half //= 2
    return accumulators[:, 0]


def scales(rows, clip_norm):
    """The factor of each row: float32 for float32 rows, float64 for float64 rows."""
    limit = float(clip_norm) * SHRINK
    squares = sum_of_squares(rows)
    norms = np.sqrt(squares)
    with np.errstate(divide="ignore"):
        result = np.where(norms <= limit, 1.0, limit / norms)
    if rows.dtype == np.float32:
        return round_to_zero(result, np.float32)
    for row in np.flatnonzero(np.isinf(squares)):
        result[row] = _scale_of_huge_row(rows[row], limit)
    return result


def _scale_of_huge_row(row, limit):
    """For a norm of at least 2^512, which is above every clip_norm."""
    exponent = int(np.frexp(np.max(np.abs(row)))[1]) + 1
    norm = float(np.sqrt(sum_of_squares(np.ldexp(row, -exponent)[None, :])[0]))
    return _power_of_two_product(limit / norm, -exponent)


def _power_of_two_product(value, exponent):
    """value * 2^exponent rounded towards 0 to float64 (exact unless subnormal); value >= 0."""
    exact = Fraction(value) * Fraction(2) ** exponent
    result = float(np.ldexp(value, exponent))
    return result if Fraction(result) <= exact else float(np.nextafter(result, 0.0))


def clipped_rows(rows, clip_norm, g=1.0):
    """X of section 4: the clipped rows in units of g, in the dtype of rows (float32 or float64)."""
    rows = np.atleast_2d(rows)
    factors = scales(rows, clip_norm)
    if rows.dtype == np.float32:
        quotients = round_to_zero(factors.astype(np.float64) / g, np.float32)
    else:
        exponent = 1 - math.frexp(g)[1]
        quotients = np.array([_power_of_two_product(float(f), exponent) for f in factors])
    return rows * quotients[:, None]


def grid(sigma, clip_norm, bits=GRID_BITS):
    """(sigma rounded up to float32, g) as Python floats."""
    sigma = float(round_up_to_float32(sigma))
    floor_log2_sigma = math.frexp(sigma)[1] - 1
    mantissa, exponent = math.frexp(clip_norm)
    ceil_log2_clip = exponent - 1 if mantissa == 0.5 else exponent
    return sigma, 2.0 ** max(floor_log2_sigma - bits, ceil_log2_clip - 21)


def int8_grid(sigma, clip_norm):
    """g of int8 values, for a float32 sigma: docs/format.md, section 14."""
    mantissa, exponent = math.frexp(clip_norm)
    return 2.0 ** max(math.frexp(sigma)[1] - 1 - 3, exponent - (mantissa == 0.5) - 6)


def exact_square_norm(row):
    """The real sum of squares of a row of floats, as a Fraction."""
    mantissas, exponents = np.frexp(np.asarray(row, dtype=np.float64))
    lowest = int(exponents.min()) - 53
    integers = [int(m) << (int(e) - 53 - lowest) for m, e in zip(mantissas * 2.0**53, exponents, strict=True)]
    return Fraction(sum(i * i for i in integers)) * Fraction(2) ** (2 * lowest)
