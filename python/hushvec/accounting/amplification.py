"""Amplification by Poisson sampling: what a mechanism costs when each person takes part with a small probability."""

from __future__ import annotations

import math
from typing import Any

from hushvec._util import validate
from hushvec._util.rounding import up
from hushvec.accounting.losses import (
    ApproximateDP,
    GaussianDP,
    PoissonSampledGaussianDP,
    PrivacyLoss,
    PureDP,
    ZeroConcentratedDP,
)
from hushvec.accounting.releases import one


def amplify_by_poisson_sampling(release: Any, sampling_probability: float) -> PrivacyLoss:
    """Loss of a mechanism that runs on a Poisson sample, which includes every person with this probability, independently.

    Args:
        release: the loss of the mechanism on the sample, or an object with a `loss`; add-remove.
        sampling_probability: q in (0, 1]. It must not depend on the data, and who was sampled must stay secret.

    Returns:
        PureDP(ln(1 + q (e^epsilon - 1))) for what is epsilon-DP, ApproximateDP with that epsilon and q delta for what is
        (epsilon, delta)-DP, PoissonSampledGaussianDP for GaussianDP.

    Raises:
        ValueError: the adjacency is replace-one, for which this theorem does not hold; a value breaks its rule.
        TypeError: a loss for which no theorem is implemented.

    Guarantees:
        Under add-remove, rounded up. Nothing is claimed for shuffling, fixed-size samples or replace-one.

    Edge cases:
        q = 1 returns an equal guarantee; a loss that is already sampled is a TypeError: sample once.

    Reference:
        Balle, Barthe, Gaboardi, "Privacy Amplification by Subsampling" (2018), theorem 8.

    Example:
        >>> from hushvec.accounting import PureDP, amplify_by_poisson_sampling
        >>> loss = amplify_by_poisson_sampling(PureDP(epsilon=1.0, adjacency="add-remove"), 0.01)
        >>> round(loss.epsilon(0.0), 5)
        0.01704
    """
    validate.rounding_to_nearest()
    loss, count = one("release", release, adjacency="add-remove")
    q = validate.positive("sampling_probability", sampling_probability)
    if q > 1:
        raise ValueError(f"sampling_probability must be > 0 and <= 1, got {q!r}")
    if count != 1:
        raise ValueError(f"release must be one release, got {count}")
    if loss.adjacency != "add-remove":
        raise ValueError(f"adjacency must be 'add-remove' for amplification by Poisson sampling, got {loss.adjacency!r}")
    if isinstance(loss, GaussianDP):
        return PoissonSampledGaussianDP(noise_multiplier=loss.noise_multiplier, sampling_probability=q)
    if isinstance(loss, (ZeroConcentratedDP, PoissonSampledGaussianDP)):
        raise TypeError(f"release must have an epsilon of its own or be GaussianDP, got {type(loss).__name__}")
    epsilon = amplified_epsilon(loss.pure_epsilon, q)
    if isinstance(loss, ApproximateDP) and loss.delta_bound > 0:
        return ApproximateDP(epsilon=epsilon, delta=up(q * loss.delta_bound, units=2), adjacency="add-remove")
    return PureDP(epsilon=epsilon, adjacency="add-remove")


def amplified_epsilon(epsilon: float, sampling_probability: float) -> float:
    """ln(1 + q (e^epsilon - 1)), rounded up and never above epsilon."""
    if sampling_probability == 1 or epsilon > 700:
        return epsilon
    return min(epsilon, up(math.log1p(sampling_probability * math.expm1(epsilon))))
