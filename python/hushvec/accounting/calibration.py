"""Noise for several Gaussian releases under one budget."""

from __future__ import annotations

import math
from typing import Any

from hushvec._util import validate
from hushvec._util.rounding import quotient_down, up
from hushvec.noise.calibration import gaussian_sigma

COMPOSITIONS = ("joint", "basic")


def gaussian_sigma_for(
    n_releases: Any, epsilon: float, delta: float, sensitivity: float = 1.0, *, composition: str = "joint"
) -> float:
    """sigma per release with which n Gaussian releases together are (epsilon, delta)-DP.

    Args:
        n_releases: K >= 1; public.
        epsilon: > 0, for all releases together.
        delta: in (0, 1), for all releases together.
        sensitivity: L2 sensitivity of one release, in the unit of sigma.
        composition: "joint": the releases are one Gaussian release of sensitivity * sqrt(K), which is exact. "basic": every
            release gets (epsilon/K, delta/K), as older receipts do; sigma is larger.

    Returns:
        sigma, in the unit of sensitivity.

    Raises:
        ValueError: a value breaks its rule.
        TypeError: an argument is of the wrong kind; K is no whole number.

    Guarantees:
        As `hushvec.gaussian_sigma`: never below the exact value.

    Edge cases:
        K = 1 gives ``hushvec.gaussian_sigma(epsilon, delta, sensitivity)`` for both.

    Reference:
        Dong, Roth, Su (2022), corollary 3.3; Balle and Wang (2018), theorem 8.

    Example:
        >>> from hushvec.accounting import gaussian_sigma_for
        >>> round(gaussian_sigma_for(4, 16.0, 1e-3, 3.0), 4), round(gaussian_sigma_for(4, 16.0, 1e-3, 3.0, composition="basic"), 4)
        (1.7316, 2.7196)
    """
    validate.rounding_to_nearest()
    count = validate.whole_number("n_releases", n_releases, at_least=1)
    epsilon, delta = validate.positive("epsilon", epsilon), validate.delta(delta)
    sensitivity = validate.positive("sensitivity", sensitivity)
    if validate.choice("composition", composition, COMPOSITIONS) == "joint":
        together = sensitivity * math.sqrt(count)
        exact = math.isqrt(count) ** 2 == count and math.log2(math.isqrt(count)).is_integer()
        return float(gaussian_sigma(epsilon, delta, together if exact else up(together, units=3)))
    return float(gaussian_sigma(quotient_down(epsilon, count), quotient_down(delta, count), sensitivity))
