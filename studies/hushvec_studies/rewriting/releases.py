"""Rows as they come out of a mechanism, without rewriting around it, and the adversary's best score for each candidate behind one.

Candidates are ordered by how likely they make the vector that was released:

    gaussian, l2_laplace   the density falls with |y - x|_2
    laplacian              the density falls with |y - x|_1
    privunit               the density has two values, for directions inside the cap around u and outside it. Larger <y, u> is never
                           less likely; among equally likely candidates every order is as good, for secrets drawn uniformly from them

So with a uniform prior the first candidate is the Bayes guess, and the first k are the best k guesses.
"""

import math
from dataclasses import replace

import numpy as np
from scipy.spatial.distance import cdist

import hushvec as hv
from hushvec.retrieval.attacks.bounds import identification_bound
from hushvec_studies.harness.rows import unit

DELTA = 1e-5


def delta_of(mechanism):
    return DELTA if mechanism == "gaussian" else 0.0


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


def scores(mechanism, released, candidates):
    """float [rows, candidates], larger is likelier; a release without noise ("none") is scored as a Gaussian one.

    Candidates are rows as they would have gone in, the same for all released rows; for "privunit" unit rows.
    """
    if mechanism == "laplacian":
        return -cdist(released, candidates, "cityblock")
    if mechanism == "privunit":
        return released @ candidates.T
    return released @ candidates.T - np.einsum("ij,ij->i", candidates, candidates) / 2


def scores_of_own(mechanism, released, candidates):
    """float [rows, m]: as `scores`, for candidates [rows, m, d] that differ from row to row."""
    if mechanism == "laplacian":
        return -np.abs(released[:, None, :] - candidates).sum(axis=2)
    along = np.einsum("id,imd->im", released, candidates)
    return along if mechanism == "privunit" else along - np.einsum("imd,imd->im", candidates, candidates) / 2


def found_within(scored, own, guesses):
    """For each row, the probability that the true candidate, `own`, is among the first so many, ties in random order."""
    rows = np.arange(len(scored))
    true = scored[rows, own][:, None]
    better = (scored > true).sum(axis=1)
    tied = (scored == true).sum(axis=1)
    return np.clip((guesses - better) / tied, 0, 1)


def most_allowed(epsilon, delta, candidates):
    """The largest share of right first guesses that (epsilon, delta) allows any adversary, uniform prior over that many candidates."""
    return 1.0 if epsilon == math.inf else identification_bound(float(epsilon), delta, candidates)
