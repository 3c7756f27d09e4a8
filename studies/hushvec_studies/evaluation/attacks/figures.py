"""One figure of an attack: its value, what a guess reaches, what the claim allows, and whether it succeeds."""

from __future__ import annotations

from typing import Any, NamedTuple

from hushvec._util.statistics import Estimate

SUCCEEDS, FAILS, OPEN = "succeeds", "fails", "not shown to succeed"

# Of an interval's lower half: beyond it luck has a chance of about 1 in 10,000 where the interval is one of 95 %.
_BEYOND_LUCK = 2.0


class AttackFigure(NamedTuple):
    """A share or an area, larger for a better attack.

    Args:
        value: with its interval.
        chance: without the release.
        bound: that the claim has for the expected value; None without a claim.
    """

    value: Estimate
    chance: float
    bound: float | None

    def to_dict(self) -> dict[str, Any]:
        return {"value": [self.value.value, self.value.low, self.value.high], "chance": self.chance, "bound": self.bound}


def outcome(figure: dict[str, Any], success: float) -> str:
    """Whether an attack is better than chance by `success`. Said only where the whole interval says so."""
    _, low, high = figure["value"]
    wanted = figure["chance"] + success
    if low >= wanted:
        return SUCCEEDS
    return FAILS if high < wanted else OPEN


def exceeds(figure: dict[str, Any]) -> bool:
    """Whether an attack did more than the claim allows, by more than luck in a page of many figures explains."""
    value, low, _ = figure["value"]
    return figure["bound"] is not None and value - _BEYOND_LUCK * (value - low) > figure["bound"]
