"""The cost of many releases together: basic, advanced, optimal, Gaussian, zCDP, Renyi and privacy-loss-distribution accounting.

    from hushvec.accounting import GaussianDP, PureDP, compose
    together = compose([GaussianDP(noise_multiplier=5.0), (PureDP(epsilon=0.1), 20)], delta=1e-5)
    print(together)                 # the smallest valid epsilon first, and what every other theorem says

`losses` says what one release costs, `compose` what many do, `Accountant` keeps count. Everything is closed form and numpy, except
the Renyi curve of sampled Gaussians and privacy loss distributions: those need hushvec[accounting].
"""

from hushvec.accounting.composition import (  # isort: skip
    COMPOSITIONS, Candidate, Composition, amplify_by_poisson_sampling, compose, gaussian_sigma_for,
)
from hushvec.accounting.losses import (  # isort: skip
    ADJACENCIES, ApproximateDP, BoundedRangeDP, DiscreteGaussianDP, GaussianDP, LaplaceDP, PoissonSampledGaussianDP,
    PoissonSampledLaplaceDP, PrivacyLoss, PureDP, Shuffled, ZeroConcentratedDP,
)
from hushvec.accounting.accountant import Accountant
from hushvec.accounting.closed_forms import zcdp_epsilon
from hushvec.accounting.correlated import CorrelatedNoise
from hushvec.accounting.pld import rough_epsilon
from hushvec.accounting.releases import Repeated, SampleRange

__all__ = [
    "ADJACENCIES", "COMPOSITIONS", "Accountant", "ApproximateDP", "BoundedRangeDP", "Candidate", "Composition",
    "CorrelatedNoise", "DiscreteGaussianDP", "GaussianDP", "LaplaceDP", "PoissonSampledGaussianDP",
    "PoissonSampledLaplaceDP", "PrivacyLoss", "PureDP", "Repeated", "SampleRange", "Shuffled", "ZeroConcentratedDP",
    "amplify_by_poisson_sampling", "compose", "gaussian_sigma_for", "rough_epsilon", "zcdp_epsilon",
]
