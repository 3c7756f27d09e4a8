"""Which noisy scores are the largest, exactly: with more and more bits of each uniform until nothing can change the order.

The float64 brackets of the core decide nearly every row; this is for the rest. Rational arithmetic, and logarithms from `decimal`,
whose `ln` is correctly rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from typing import NamedTuple

# First step and what each further one adds: docs/format.md section 9.
FIRST_BITS = 64
STEP_BITS = 512
LAST_STEP = 2**16

_GUARD_DIGITS = 30


class Bracket(NamedTuple):
    """A noisy score lies in [low, high]; an end may be infinite."""

    low: Fraction | float
    high: Fraction | float


_NO_LOW, _NO_HIGH = float("-inf"), float("inf")


def noisy_bracket(signal: Fraction, prefix: int, bits: int) -> Bracket:
    """signal - ln(-ln u) for every u in [prefix, prefix + 1] / 2^bits.

    With P digits, e = -ln u is in [2^-bits, bits ln 2] and has a relative error of at most 10^(1-P); -ln e takes that over and rounds
    by 10^(1-P) of itself. Together (1.1 + bits ln 2) 10^(1-P), below bits 10^(1-P). u itself is exact: it has at most `bits` digits.
    """
    context = Context(prec=bits + _GUARD_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)
    margin = Fraction(bits, 10 ** (context.prec - 1))

    def at(numerator: int) -> Fraction:
        u = context.divide(Decimal(numerator), Decimal(1 << bits))
        return signal - Fraction(context.ln(context.minus(context.ln(u))))

    low = at(prefix) - margin if prefix > 0 else _NO_LOW
    high = at(prefix + 1) + margin if prefix + 1 < 1 << bits else _NO_HIGH
    return Bracket(low, high)


def best(signals: Mapping[int, Fraction], picks: int, known_bits: Callable[[int, int], int]) -> list[int]:
    """The `picks` candidates with the largest signal + Gumbel noise, the largest first.

    `signals` has the score times its factor by candidate; known_bits(candidate, step) are the first 64 + 512 step bits of its
    uniform.
    """
    contest = dict(signals)
    for step in range(LAST_STEP + 1):
        bits = FIRST_BITS + STEP_BITS * step
        brackets = {candidate: noisy_bracket(signal, known_bits(candidate, step), bits) for candidate, signal in contest.items()}
        lowest_best = sorted((bracket.low for bracket in brackets.values()), reverse=True)[picks - 1]
        contest = {candidate: signal for candidate, signal in contest.items() if brackets[candidate].high >= lowest_best}
        ranked = sorted(contest, key=lambda candidate: brackets[candidate].low, reverse=True)
        if _is_decided([brackets[candidate] for candidate in ranked], picks):
            return ranked[:picks]
    raise RuntimeError("65,536 steps of 512 bits did not decide an order: the key stream repeats itself")


def _is_decided(ranked: list[Bracket], picks: int) -> bool:
    """Each of the first `picks` brackets lies above all that follow it."""
    highest_behind: Fraction | float = _NO_LOW
    for place in range(len(ranked) - 1, -1, -1):
        if place < picks and not (place == len(ranked) - 1 or ranked[place].low > highest_behind):
            return False
        highest_behind = max(highest_behind, ranked[place].high)
    return True
