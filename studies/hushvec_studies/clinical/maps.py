"""The public maps that stand before a mechanism, fitted on people who are not among the patients."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hushvec.mechanisms import PublicProjection
from hushvec_studies.clinical.cohort import Population, Source

NONE, MEAN, WHITENED, MEAN_ELSEWHERE = "none", "mean", "whitened", "mean (elsewhere)"
MAPS = (NONE, MEAN, WHITENED)

# A direction in which public rows vary less than this, relative to the strongest, is kept out of whitening: it would be stretched
# that much more than the others.
_SMALLEST_SPREAD = 1e-2


def fitted(name: str, source: Source, public_rows: int, patients: int) -> PublicProjection | None:
    """The map of that name, None for "none".

    Args:
        name: "mean" removes the mean of public rows; "whitened" also stretches all directions in which they vary to the same spread;
            "mean (elsewhere)" removes the mean of another population.
        source: whose public rows are used.
        public_rows: how many of them, where they are drawn.
        patients: how many of the source's patients are to be released: none of them is among the public rows.
    """
    if name == NONE:
        return None
    if name == MEAN_ELSEWHERE:
        if not isinstance(source, Population):
            raise ValueError(f"map {name!r} must be for a drawn population, got rows of {source.name}")
        return PublicProjection.mean_only(source.elsewhere(public_rows))
    public = source.public(public_rows, patients)
    if len(public) < 2:
        raise ValueError(
            f"map {name!r} needs at least 2 public rows, got {len(public)}: leave some of {source.name} out of the patients"
        )
    if name == MEAN:
        return PublicProjection.mean_only(public)
    return PublicProjection.fit(public, components=_directions(public), whiten=True)


def _directions(public: NDArray[np.float32]) -> int:
    """In how many directions the public rows vary."""
    wide = public.astype(np.float64)
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(np.cov(wide, rowvar=False, bias=True)), 0.0))
    return int((spread > _SMALLEST_SPREAD * spread[-1]).sum())
