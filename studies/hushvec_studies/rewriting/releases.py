"""Rows as they come out of a mechanism, for the attacks: no rewriting around it."""

import math
from dataclasses import replace

import numpy as np

import hushvec as hv

DELTA = 1e-5


def delta_of(mechanism):
    return DELTA if mechanism == "gaussian" else 0.0


def unit(rows):
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)


def released(rows, mechanism, epsilon, projection, generator):
    """Unit rows after the mechanism, in the space of the projection if there is one; as they are before it if epsilon is infinite."""
    if epsilon == math.inf:
        return rows if projection is None else unit(projection.transform(rows))
    return hv.privatize(
        rows,
        epsilon=float(epsilon),
        delta=delta_of(mechanism),
        clip_norm=1.0,
        normalize=True,
        mechanism=mechanism,
        projection=None if projection is None else replace(projection, fitted_rows=None),  # a corpus may have a text twice
        generator=generator,
    ).values
