"""The likelihood-ratio attack (LiRA): is a candidate's statistic more likely with it in the index, or without it?

For each candidate the shadow models give the statistic's law with and without it, as two normal laws. Few shadows tell little about
one candidate, so means are shrunk towards the mean of all candidates, and variances towards the pooled one (empirical Bayes); with
many shadows both become the candidate's own.

Reference:
    Carlini, Chien, Nasr, Song, Terzis, Tramer, "Membership inference attacks from first principles" (2022), algorithm 1;
    Efron and Morris, "Stein's estimation rule and its competitors" (1973), for the means.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float64]
Flags = NDArray[np.bool_]

# The pooled variance counts as so many of a candidate's own observations.
_VARIANCE_PRIOR = 16.0
# No law is narrower than this share of the statistic's whole spread.
_NARROWEST = 1e-6


@dataclass(frozen=True)
class _Side:
    """What shadows say about one side, "in" or "out": sums over the shadows on that side."""

    counts: Rows
    sums: Rows
    squares: Rows
    center: float
    between: float
    within: float
    narrowest: float

    @classmethod
    def of(cls, values: Rows, on_side: Flags) -> _Side:
        counts = on_side.sum(axis=0).astype(np.float64)
        sums = np.where(on_side, values, 0.0).sum(axis=0)
        squares = np.where(on_side, values**2, 0.0).sum(axis=0)
        means = sums / counts
        freedom = max(1.0, float((counts - 1).sum()))
        narrowest = (_NARROWEST * float(values.std())) ** 2 + 1e-24
        within = max(narrowest, float((squares - counts * means**2).sum()) / freedom)
        between = max(0.0, float(means.var()) - within * float((1 / counts).mean()))
        return cls(counts, sums, squares, float(means.mean()), between, within, narrowest)

    def log_density(self, values: Rows, removed: Rows | None = None) -> Rows:
        """ln of the predictive density, after one observation of each candidate has been taken out, if `removed` has one."""
        counts, sums, squares = self.counts, self.sums, self.squares
        if removed is not None:
            counts, sums, squares = counts - 1, sums - removed, squares - removed**2
        means = sums / np.maximum(counts, 1.0)
        own = np.maximum(0.0, squares - counts * means**2)
        freedom = np.maximum(counts - 1, 0.0)
        variance = np.maximum(self.narrowest, (_VARIANCE_PRIOR * self.within + own) / (_VARIANCE_PRIOR + freedom))
        # without observations of its own a candidate is one of all: trust 0, and the spread between them
        trust = np.where(counts > 0, self.between / (self.between + variance / np.maximum(counts, 1.0)), 0.0)
        mean = self.center + trust * (means - self.center)
        spread = variance + self.between * (1 - trust)
        density: Rows = -0.5 * ((values - mean) ** 2 / spread + np.log(spread))
        return density


@dataclass(frozen=True)
class LikelihoodRatio:
    """Both laws of a statistic for every candidate.

    Args:
        inside: from the shadows with the candidate in.
        outside: from those without it.
    """

    inside: _Side
    outside: _Side

    @classmethod
    def fit(cls, values: Rows, members: Flags) -> LikelihoodRatio:
        """From the statistic [shadows, n] and who was a member [shadows, n]."""
        return cls(_Side.of(values, members), _Side.of(values, ~members))

    def ratios(self, values: Rows) -> Rows:
        """ln of how much likelier each candidate's value is with it in, for a model that is not among the shadows."""
        found: Rows = self.inside.log_density(values) - self.outside.log_density(values)
        return found

    def ratios_left_out(self, values: Rows, members: Flags) -> Rows:
        """The same for the shadows' own values [shadows, n], each judged without its couple.

        Shadows 2 i and 2 i + 1 have opposite members: without both, either side has lost one observation of each candidate.
        Without one of them the side that is true would be the poorer one, and the ratio would know it.
        """
        partners = values.reshape(-1, 2, values.shape[1])[:, ::-1].reshape(values.shape)
        found: Rows = self.inside.log_density(values, np.where(members, values, partners))
        found -= self.outside.log_density(values, np.where(members, partners, values))
        return found
