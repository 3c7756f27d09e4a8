"""What an index promises: documents on two grounds at once, of which the smaller cost holds."""

from __future__ import annotations

import math

from hushvec._util import validate
from hushvec.mechanisms import product_up
from hushvec.retrieval.noise import ScoreNoise

# A delta is stated for scores that need none only where it makes epsilon this much smaller.
_WORTH_A_DELTA = 0.99


def cost_of_queries(noise: ScoreNoise, queries: int) -> tuple[float, float]:
    """(epsilon, delta) that so many queries cost every document, over any number of searches, chosen adaptively.

    The smallest epsilon that hushvec.accounting proves from any of the noise's losses, at its delta. Without a delta the sum.
    """
    from hushvec.accounting import compose

    count = validate.whole_number("queries", queries, at_least=1)
    if count == 1:
        return noise.cost()
    pure = noise.mechanism != "gaussian"
    together = (product_up(count, float(noise.epsilon)), 0.0) if pure else (math.inf, noise.delta)
    if noise.delta == 0:
        return together
    best = min(compose([(loss, count)], delta=noise.delta).epsilon for loss in noise.losses)
    return (best, noise.delta) if best < _WORTH_A_DELTA * together[0] else together


def smaller(first: tuple[float, float] | None, second: tuple[float, float] | None) -> tuple[float, float] | None:
    """Of two bounds that both hold, the one with the smaller epsilon; of equal ones, with the smaller delta."""
    bounds = [bound for bound in (first, second) if bound is not None]
    return min(bounds) if bounds else None
