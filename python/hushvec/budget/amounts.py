"""Exact amounts: what a float means when it is charged, and how totals are written and read back.

An amount is counted as the decimal number that Python prints for its float64, the shortest one that reads back as the same
float: 0.1 is one tenth, so ten charges of 0.1 are exactly 1. Every such number is a whole multiple of 10^-324, and amounts
are kept as these whole numbers. Nothing is ever rounded when amounts are added or compared.
"""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Any, NamedTuple

from hushvec._util import validate
from hushvec._util.rounding import at_least, next_down, next_up

DECIMALS = 324  # the smallest float64 is written 5e-324, and no float64 needs a digit behind that place
UNIT: int = 10**DECIMALS

EPSILON_DELTA = "epsilon_delta"
RHO = "rho"

REMEMBERED_AMOUNTS = 4096  # a program charges few different amounts, and parsing one takes longer than the rest of a charge

_CANONICAL = re.compile(r"(0|[1-9][0-9]{0,999})(?:\.([0-9]{0,323}[1-9]))?")


class Spend(NamedTuple):
    """An amount, a total or a limit in units of 10^-324: `main` is epsilon or rho; delta is 0 in the rho currency."""

    main: int
    delta: int


ZERO = Spend(0, 0)


class Amounts(NamedTuple):
    """One charge's amounts: the floats as given, and what the ledger counts."""

    epsilon: float | None
    delta: float
    rho: float | None
    main_units: int
    delta_units: int
    rho_text: str

    @property
    def texts(self) -> tuple[str, str, str]:
        """Epsilon, delta and rho as a row writes them; an amount that was not given is empty."""
        return ("" if self.epsilon is None else text_of(units_of(self.epsilon)), text_of(units_of(self.delta)), self.rho_text)


def units_of(value: float) -> int:
    """The printed decimal of a finite float64 >= 0, in units of 10^-324. Exact."""
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, part = mantissa.partition(".")
    return int(whole + part) * _power_of_ten(DECIMALS + int(exponent or 0) - len(part))


@lru_cache(maxsize=1024)  # enough for any float64; creating one takes longer than a stat call
def _power_of_ten(exponent: int) -> int:
    power: int = 10**exponent
    return power


@lru_cache(maxsize=256)  # a program charges few different amounts
def text_of(units: int) -> str:
    """The decimal number, without exponent and superfluous zeros: 0, 0.00001, 12.5."""
    whole, part = divmod(units, UNIT)
    return f"{whole}.{part:0{DECIMALS}d}".rstrip("0").rstrip(".")


def units_of_text(text: str) -> int:
    """The inverse of `text_of`."""
    found = _CANONICAL.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r:.60} is not a decimal number in its shortest form")
    part = found[2] or ""
    return int(found[1] + part) * _power_of_ten(DECIMALS - len(part))


def float_up(units: int) -> float:
    """The nearest float64 whose printed decimal is not below the amount."""
    try:
        value = units / UNIT
    except OverflowError:
        return math.inf
    while math.isfinite(value) and units_of(value) < units:
        value = next_up(value)
    return value


def float_down(units: int) -> float:
    """The nearest float64 whose printed decimal is not above the amount: what is left can be charged as it is printed."""
    try:
        value = units / UNIT
    except OverflowError:
        return next_down(math.inf)
    while units_of(value) > units:
        value = next_down(value)
    return value


def amounts(currency: str, epsilon: Any, delta: Any, rho: Any) -> Amounts:
    """Check the arguments of a charge and turn them into exact amounts.

    In the rho currency a charge with delta = 0 and without rho counts as epsilon^2 / 2: epsilon-DP implies (epsilon^2 / 2)-zCDP
    (Bun and Steinke 2016, proposition 1.4).
    """
    try:
        return _amounts(currency, epsilon, delta, rho)
    except TypeError:
        return _amounts.__wrapped__(currency, epsilon, delta, rho)  # unhashable, so of the wrong kind: say which


@lru_cache(maxsize=REMEMBERED_AMOUNTS, typed=True)
def _amounts(currency: str, epsilon: Any, delta: Any, rho: Any) -> Amounts:
    epsilon = None if epsilon is None else not_below("epsilon", validate.positive("epsilon", epsilon), epsilon)
    delta = not_below("delta", validate.delta(delta, zero_allowed=True), delta)
    rho = None if rho is None else not_below("rho", validate.positive("rho", rho), rho)
    if currency == EPSILON_DELTA:
        if epsilon is None:
            raise TypeError("epsilon must be given: the budget is in (epsilon, delta)")
        rho_text = "" if rho is None else text_of(units_of(rho))
        return Amounts(epsilon, delta, rho, units_of(epsilon), units_of(delta), rho_text)
    counted = _counted_rho(epsilon, delta, rho)
    return Amounts(epsilon, delta, float_up(counted), counted, 0, text_of(counted))


def _counted_rho(epsilon: float | None, delta: float, rho: float | None) -> int:
    if rho is not None:
        return units_of(rho)
    if epsilon is None:
        raise TypeError("rho must be given: the budget is in rho")
    if delta > 0:
        raise ValueError(f"rho must be given: the budget is in rho, and a charge with delta = {delta!r} implies none")
    units = units_of(epsilon)
    return -(-units * units // (2 * UNIT))


def not_below(name: str, converted: float, value: Any) -> float:
    """A number that is not a float64 is counted as the next one above it."""
    return validate.number(name, at_least(converted, value))
