"""What one release costs: a privacy loss, in epsilon and delta, rho and Renyi DP.

A loss is a statement about a mechanism under one adjacency:

    class                       the mechanism's guarantee                                                    epsilon(delta)  rho  rdp
    PureDP                      epsilon-DP                                                                   exact*          yes  yes
    ApproximateDP               (epsilon, delta)-DP                                                          exact*          no   no
    BoundedRangeDP              log-probability ratios of any two outcomes differ by at most epsilon         exact*          yes  yes
    ZeroConcentratedDP          Renyi divergence of order a at most rho a, for every a > 1                   bound           yes  yes
    GaussianDP                  no worse than two unit normals 1/noise_multiplier apart                      exact           yes  yes
    LaplaceDP                   no worse than two Laplace laws, distance/scale = 1/noise_multiplier          exact           yes  yes
    PoissonSampledGaussianDP    GaussianDP on a random subset                                                exact           yes  yes
    Shuffled                    PureDP of each of n people's reports, seen in random order                   bound           yes  yes

(* of the worst mechanism with that guarantee.)

`adjacency` says which inputs are neighbors: "replace-one" (one person's data is replaced by any other) or "add-remove" (a person
is there or not). Noise multipliers are relative to the sensitivity **under that adjacency**: vectors of norm at most C in a sum
have sensitivity C under add-remove and 2 C under replace-one. Nothing here converts one adjacency into the other.

delta, epsilon, rho and rdp are never below the exact values. docs/accounting.md says which theorem is behind each.
"""

from __future__ import annotations

from hushvec.accounting.guarantees import ApproximateDP, BoundedRangeDP, PureDP, ZeroConcentratedDP
from hushvec.accounting.noise_losses import GaussianDP, LaplaceDP, PoissonSampledGaussianDP
from hushvec.accounting.privacy_loss import ADJACENCIES, PrivacyLoss
from hushvec.accounting.shuffled import Shuffled

__all__ = [
    "ADJACENCIES",
    "LOSSES",
    "ApproximateDP",
    "BoundedRangeDP",
    "GaussianDP",
    "LaplaceDP",
    "PoissonSampledGaussianDP",
    "PrivacyLoss",
    "PureDP",
    "Shuffled",
    "ZeroConcentratedDP",
]

LOSSES: dict[str, type[PrivacyLoss]] = {
    loss.name: loss
    for loss in (
        PureDP,
        ApproximateDP,
        BoundedRangeDP,
        ZeroConcentratedDP,
        GaussianDP,
        LaplaceDP,
        PoissonSampledGaussianDP,
        Shuffled,
    )
}
