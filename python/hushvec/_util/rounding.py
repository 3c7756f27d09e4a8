"""Directed rounding: floats that are never on the unsafe side of an exact value. docs/proofs/rounding.md proves each function.

Names say where a result lies: `..._up` is at least the exact value, `..._down` at most. Nothing else in hushvec rounds by hand.

All of it assumes a thread that rounds to nearest (`validate.rounding_to_nearest`). `up`, `down` and `exp_up` also assume that the
standard library's functions of one variable err by at most a few units in the last place: callers say how many roundings a
term can be off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

__all__ = [
    "down", "exp_up", "float32_down", "float32_up", "fraction_up", "log_ratio_up", "next_down", "product_up",
    "quotient_down", "root_up", "up",
]

UNIT = 2.0**-53  # half of one unit in the last place, relative: what one rounding to nearest can change
SMALLEST = 5e-324

# Decimal arithmetic that rounds up at every step, except `ln`, `exp` and `sqrt`, which decimal always rounds to nearest.
DECIMAL_UP = Context(prec=80, rounding=ROUND_CEILING)


# ---- one step ----


def next_up(value: float) -> float:
    """The next float above: at least the exact value of what was rounded to nearest once."""
    return math.nextafter(value, math.inf)


def next_down(value: float) -> float:
    """The next float below."""
    return math.nextafter(value, -math.inf)


# ---- from exact values ----


def fraction_up(exact: Fraction | Decimal) -> float:
    """The smallest float that is at least exact, which is >= 0; infinity beyond them."""
    fraction = exact if isinstance(exact, Fraction) else Fraction(exact)
    try:
        nearest = float(fraction)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= fraction else next_up(nearest)


def fraction_down(exact: Fraction) -> float:
    """The largest float that is at most exact, which is >= 0."""
    try:
        nearest = float(exact)
    except OverflowError:
        return next_down(math.inf)
    return nearest if Fraction(nearest) <= exact else next_down(nearest)


def float32_up(exact: Fraction) -> np.float32:
    """The smallest float32 that is at least exact, which has to be within their range."""
    nearest = np.float32(float(exact))
    return nearest if Fraction(float(nearest)) >= exact else np.nextafter(nearest, np.float32(math.inf))


def float32_down(exact: Fraction) -> np.float32:
    """The largest float32 that is at most exact, which has to be within their range."""
    return -float32_up(-exact)


def tensor_to_float32_down(values: Any) -> Any:
    """A float64 tensor in float32: for each element >= 0 the largest float32 that is at most it."""
    import torch

    nearest = values.float()
    return torch.where(nearest.double() > values, torch.nextafter(nearest, torch.zeros_like(nearest)), nearest)


def at_least(converted: float, value: Any) -> float:
    """`converted`, the float nearest to a number of another kind, or the next one above it: at least value."""
    return converted if converted >= value else next_up(converted)


def at_most(converted: float, value: Any) -> float:
    """The mirror image of `at_least`."""
    return converted if converted <= value else next_down(converted)


def decimal_up(value: float, digits: int) -> Decimal:
    """The smallest number of `digits` decimal digits that is at least value."""
    return Context(prec=digits, rounding=ROUND_CEILING).create_decimal_from_float(value)


def rounded_up(value: float, digits: int) -> float:
    """`decimal_up` as the nearest float, which is itself at least value."""
    return float(decimal_up(value, digits))


# ---- arithmetic that is exact until its one rounding ----


@lru_cache(maxsize=1024)  # each release and receipt asks, and exact arithmetic takes longer than the noise of a row
def quotient_down(numerator: float, denominator: float) -> float:
    """The largest float that is at most numerator / denominator, for numbers > 0."""
    return fraction_down(Fraction(numerator) / Fraction(denominator))


@lru_cache(maxsize=1024)
def product_up(*factors: float | Fraction) -> float:
    """The smallest float that is at least the product of numbers >= 0."""
    return fraction_up(math.prod((Fraction(factor) for factor in factors), start=Fraction(1)))


def root_up(square: Fraction) -> float:
    """A float that is at least sqrt(square), and at most one unit in the last place above the smallest such."""
    root = math.sqrt(square)
    while Fraction(root) ** 2 < square:
        root = next_up(root)
    return root


def products_up(pairs: Iterable[tuple[Decimal, Decimal]]) -> Decimal:
    """At least the sum of the products of numbers >= 0, and above it by at most one 80-digit rounding for each of them."""
    found = Decimal(0)
    for first, second in pairs:
        found = DECIMAL_UP.fma(first, second, found)
    return found


def decimal_root_up(square: Decimal) -> float:
    """The smallest float that is at least the root of square >= 0, or the next where the root is a float to 78 digits."""
    root = DECIMAL_UP.sqrt(square)  # rounded to nearest
    return fraction_up(root if Fraction(root) ** 2 >= Fraction(square) else DECIMAL_UP.next_plus(root))


def log_ratio_up(numerator: int, denominator: int, *, times: int = 1) -> Decimal:
    """At least `times` ln(numerator / denominator) of whole numbers > 0, by 80-digit decimals; 0 where the ratio is at most 1."""
    # the quotient is rounded up, its logarithm to nearest: the next decimal above covers that
    logarithm = DECIMAL_UP.divide(Decimal(numerator), Decimal(denominator)).ln(DECIMAL_UP)
    return DECIMAL_UP.multiply(DECIMAL_UP.next_plus(logarithm), Decimal(times)) if numerator > denominator else Decimal(0)


def total(values: Iterable[float]) -> float:
    """The sum of values >= 0, rounded once to nearest; infinity where it exceeds every float."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def sum_up(terms: Iterable[tuple[float, int]]) -> float:
    """The smallest float that is at least the sum of value * count, all >= 0; infinity if a value is."""
    pairs = list(terms)
    if any(value == math.inf for value, _ in pairs):
        return math.inf
    if sum(count for _, count in pairs) == len(pairs):
        values = [value for value, _ in pairs]
        nearest = total(values)
        return nearest if total([*values, -nearest]) <= 0 else next_up(nearest)
    return fraction_up(sum((Fraction(value) * count for value, count in pairs), Fraction(0)))


# ---- floating-point formulas, with the error that their terms can have ----


def up(value: float, *, units: float = 8.0, of: float | None = None) -> float:
    """value plus `units` roundings of the size of `of`, by default of value itself."""
    if math.isinf(value):
        return next_up(value)
    return next_up(value + units * UNIT * abs(value if of is None else of))


def down(value: float, *, units: float = 8.0, of: float | None = None) -> float:
    """The mirror image of `up`."""
    return -up(-value, units=units, of=of)


def exp_up(exponent: float, *, units: float = 8.0, of: float | None = None) -> float:
    """At least e**exponent for an exponent that is off by `units` roundings of `of`; infinity above 709."""
    above = up(exponent, units=units, of=of)
    return up(math.exp(above)) if above < 709 else math.inf


# ---- searches whose answer has been tried ----


def raised(holds: Callable[[float], bool], value: float) -> float:
    """value, or a float a few roundings above it: the first tried that holds. One well above it has to."""
    units, found = 1.0, value
    while not holds(found) and found < math.inf:
        found = up(value, units=units)
        units *= 2
    return found


def smallest(holds: Callable[[float], bool], upper: float) -> float:
    """The smallest float found in [0, upper] that holds, where all above one that holds do too; upper has to.

    The answer holds. If upper is infinite, a finite one is looked for by doubling; infinity is the answer when no float holds.
    """
    if holds(0.0):
        return 0.0
    low, high = 0.0, upper
    if upper == math.inf:
        high = 1.0
        while high < math.inf and not holds(high):
            low, high = high, 2 * high
        if high == math.inf:
            return high
    while high - low > high * 2 * UNIT:
        middle = low + (high - low) / 2
        if not low < middle < high:
            break
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def largest(holds: Callable[[float], bool], upper: float) -> float:
    """The largest float in [0, upper) that holds, where all below one that holds do too; 0 has to."""
    low, high = 0.0, upper
    while next_up(low) < high:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
