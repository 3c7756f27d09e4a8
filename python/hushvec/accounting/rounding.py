"""Rounding away from the unsafe side, for bounds that must never be too small.

The standard library's functions of one variable err by at most one unit in the last place or so; UNIT is half of one. Callers
state how many units the terms of a formula can be off and get a float that is at least the exact value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction

UNIT = 2.0**-53
SMALLEST = 5e-324


def up(value: float, *, units: float = 8.0, of: float | None = None) -> float:
    """value plus `units` roundings of the size of `of`, by default of value itself."""
    if value == math.inf:
        return value
    return math.nextafter(value + units * UNIT * abs(value if of is None else of), math.inf)


def down(value: float, *, units: float = 8.0, of: float | None = None) -> float:
    """The mirror image of `up`."""
    return -up(-value, units=units, of=of)


def exp_up(exponent: float, *, units: float = 8.0, of: float | None = None) -> float:
    """e**exponent for an exponent that is off by `units` roundings of `of`; above 709 that is infinity."""
    above = up(exponent, units=units, of=of)
    return up(math.exp(above)) if above < 709 else math.inf


def fraction_up(exact: Fraction) -> float:
    """The smallest float that is at least exact; infinity beyond them."""
    try:
        nearest = float(exact)
    except OverflowError:
        return math.inf
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def total(values: Iterable[float]) -> float:
    """The sum of values >= 0, rounded once to nearest; infinity where it exceeds every float."""
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def sum_up(terms: Iterable[tuple[float, int]]) -> float:
    """The sum of value * count, rounded up once; infinity if a value is."""
    pairs = list(terms)
    if any(value == math.inf for value, _ in pairs):
        return math.inf
    if sum(count for _, count in pairs) == len(pairs):
        values = [value for value, _ in pairs]
        nearest = total(values)
        return nearest if total([*values, -nearest]) <= 0 else math.nextafter(nearest, math.inf)
    return fraction_up(sum((Fraction(value) * count for value, count in pairs), Fraction(0)))


def raised(holds: Callable[[float], bool], value: float) -> float:
    """value, or a float a few roundings above it: the first tried that holds. One well above it has to."""
    units, found = 1.0, value
    while not holds(found) and found < math.inf:
        found = up(value, units=units)
        units *= 2
    return found


def smallest(holds: Callable[[float], bool], upper: float) -> float:
    """The smallest float found in [0, upper] that holds, where all above one that holds do too; upper has to.

    The answer has been tried: it holds. If upper is infinite, a finite one is looked for by doubling, and infinity is the
    answer when no float holds.
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
