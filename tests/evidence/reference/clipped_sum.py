"""What rows add to a sum, in whole units: docs/format.md section 7, without a fast path.

Rows come as lists of parts, float32 (the 16-bit dtypes widened) or float64 arrays [rows, elements].
"""

import math
from fractions import Fraction

import numpy as np

from evidence.reference import clip

STRETCH = 8192
SAMPLE = 128
SAMPLED_FROM = 2**16
GUESS_MARGIN = 1.0 - 2.0**-15
LARGEST_LOSS = 0.03


def unit(clip_norm):
    mantissa, exponent = math.frexp(clip_norm)
    return 2.0 ** ((exponent - 1 if mantissa == 0.5 else exponent) - 25)


def _runs(part):
    return [part[:, first : first + STRETCH] for first in range(0, part.shape[1], STRETCH)]


def _joined(values):
    """float64[rows, k] added up in the order of section 4."""
    rows, count = values.shape
    padded = np.zeros((rows, -(-max(count, 1) // 32) * 32))
    padded[:, :count] = values
    total = np.zeros((rows, 32))
    for chunk in padded.reshape(rows, -1, 32).transpose(1, 0, 2):
        total = total + chunk
    half = 16
    while half:
        total = total[:, :half] + total[:, half : 2 * half]
        half //= 2
    return total[:, 0]


def exact_scales(parts, clip_norm):
    """float64[rows]; float32 numbers where no part is float64. Rows whose squares overflow are not for this function."""
    rows = parts[0].shape[0]
    squares = np.zeros(rows)
    for part in parts:
        squares = squares + _joined(np.array([clip.sum_of_squares(run) for run in _runs(part)]).reshape(-1, rows).T)
    norms = np.sqrt(squares)
    limit = float(clip_norm) * clip.SHRINK
    with np.errstate(divide="ignore"):
        scales = np.where(norms <= limit, 1.0, limit / norms)
    wide = any(part.dtype == np.float64 for part in parts)
    return scales if wide else clip.round_to_zero(scales, np.float32).astype(np.float64)


def _elements(parts, scales, clip_norm):
    u = unit(clip_norm)
    for part in parts:
        if part.dtype == np.float64:
            yield part * (scales / u)[:, None]
        else:
            narrow = clip.round_to_zero(scales, np.float32).astype(np.float64)
            yield part * clip.round_to_zero(narrow / u, np.float32)[:, None]


def _sample_of(stretch):
    start = stretch * STRETCH + ((stretch * 2654435761) % 2**32 >> 26) * SAMPLE
    return slice(start, start + SAMPLE)


def estimated_norms(parts):
    """(norm with its margin, whether it is usable) of each row."""
    rows = parts[0].shape[0]
    whole, samples = np.zeros(rows), []
    for part in parts:
        stretches = part.shape[1] // STRETCH if part.shape[1] >= SAMPLED_FROM else 0
        samples += [clip.sum_of_squares(part[:, _sample_of(k)]) for k in range(stretches)]
        for run in _runs(part[:, stretches * STRETCH :]):
            whole = whole + clip.sum_of_squares(run)
    sampled, differences = np.zeros(rows), np.zeros(rows)
    for number, squares in enumerate(samples):
        sampled = sampled + squares
        if number:
            change = squares - samples[number - 1]
            differences = differences + change * change
    count = float(len(samples))
    squares = whole + 64.0 * sampled
    variance = 64.0 * 64.0 * differences / 2 * (count / (count - 1)) if count > 1 else np.zeros(rows)
    upper = squares + 3.0 * np.sqrt(variance)
    return np.sqrt(upper), upper <= (1 + LARGEST_LOSS) * (1 + LARGEST_LOSS) * squares


def _float32_squares(x):
    """Of each row of float32 elements: products, and sums in the order of section 4, rounded to float32."""
    rows, count = x.shape
    padded = np.zeros((rows, -(-count // 32) * 32), np.float32)
    padded[:, :count] = x
    total = np.zeros((rows, 32), np.float32)
    with np.errstate(over="ignore"):
        for chunk in padded.reshape(rows, -1, 32).transpose(1, 0, 2):
            total = total + chunk * chunk
        half = 16
        while half:
            total = total[:, :half] + total[:, half : 2 * half]
            half //= 2
    return total[:, 0].astype(np.float64)


def estimated_scales(parts, clip_norm):
    """(scale, whether the guess was wrong) of each row."""
    norms, usable = estimated_norms(parts)
    target = float(clip_norm) * GUESS_MARGIN
    with np.errstate(divide="ignore"):
        guesses = np.where(norms <= target, 1.0, target / norms)
    guesses = clip.round_to_zero(guesses, np.float32).astype(np.float64)
    squares = np.zeros(parts[0].shape[0])
    for x in _elements(parts, guesses, clip_norm):
        for run in _runs(x):
            squares = squares + _float32_squares(run)
    most = (clip_norm / unit(clip_norm)) ** 2
    least = np.where(guesses == 1.0, 0.0, (1 - LARGEST_LOSS) * (1 - LARGEST_LOSS) * most)
    stays = (squares <= most * GUESS_MARGIN) & (squares >= least)
    scales = np.where(usable & stays, guesses, exact_scales(parts, clip_norm))
    return scales, usable & ~stays


def units(parts, clip_norm, clipping):
    """[part][rows, elements]: the integers that each row adds, as float64."""
    scales = exact_scales(parts, clip_norm) if clipping == "exact" else estimated_scales(parts, clip_norm)[0]
    return [np.trunc(x.astype(np.float64)) for x in _elements(parts, scales, clip_norm)]


def square_norm(row_units):
    """The sum of the squares of integers below 2^27, as a Python int: int64 holds 512 of them."""
    total = 0
    for part in row_units:
        values = np.abs(part.ravel())
        assert (values < 2**27).all() and (values == np.rint(values)).all()
        squares = values.astype(np.int64) ** 2
        total += sum(map(int, np.add.reduceat(squares, np.arange(0, squares.size, 512)))) if squares.size else 0
    return total


def largest_square_norm(clip_norm):
    """(C / u)^2 as a Fraction."""
    return (Fraction(clip_norm) / Fraction(unit(clip_norm))) ** 2
