"""The adversary's best score for each candidate: what orders candidates by how likely they make the vector that was released.

    gaussian, l2_laplace   the density falls with |y - x|_2
    laplacian              the density falls with |y - x|_1
    privunit               the density has two values, for directions inside the cap around u and outside it. Larger <y, u> is never
                           less likely; among equally likely candidates every order is as good, for secrets drawn uniformly from them

So with a uniform prior the first candidate is the Bayes guess, and the first k are the best k guesses.
"""

import numpy as np
from scipy.spatial.distance import cdist


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
    """The largest share of right first guesses that (epsilon, delta) allows any adversary, uniform prior over that many candidates.

    For sets S_i of outputs at which i is guessed, P(S_i | i) <= e^epsilon P(S_i | j) + delta for all j; summed over i and j != i,
    and because the S_i are disjoint: (n - 1) p <= e^epsilon (1 - p) + (n - 1) delta.
    """
    others = (candidates - 1) * np.exp(-epsilon)
    return float(min(1.0, (1 + others * delta) / (1 + others)))
