"""In which public space to release: how many principal components of the public embeddings, for a mechanism and an epsilon.

More dimensions keep more of a row and dilute the same signal. Where the best number lies depends on the texts, the embedder and the
signal, so it is measured: a part of the corpus stands in for the private texts, is released with the mechanism and decoded with
the rest. Only public rows are looked at, so the choice costs nothing (docs/proofs/projection.md).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec.mechanisms import Gaussian, L2Laplace, Laplacian, PrivUnit, PublicProjection
from hushvec.mechanisms.base import VectorMechanism
from hushvec.text.corpus import PublicCorpus
from hushvec.text.inverters.decoding import ReleaseDecoder, as_taken_in, chosen_parts
from hushvec.text.inverters.nearest_rows import blocks
from hushvec.text.inverters.posterior import unit_rows
from hushvec.text.inverters.rows import Rows

DEFAULT_DELTA = 1e-3

DIMENSIONS = (2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)

_MOST_HELD_OUT = 400
_HELD_OUT_SHARE = 4  # one text in so many of a small corpus
_MOST_CANDIDATES = 2048
_DRAWS = 2
_SEED = 6  # public: the choice must come out the same everywhere
_DIRECTIONS_PER_ROW = 0.8  # nearly as many components as rows only describe those very rows
_SMALLEST_SPREAD = 1e-5  # of a direction, by that of the strongest: less is rounding


def best_space(corpus: PublicCorpus, mechanism: str, epsilon: float, delta: float = DEFAULT_DELTA) -> PublicProjection | None:
    """The map behind which public texts are recovered best when they are released like private ones.

    Args:
        corpus: public texts.
        mechanism: name of the mechanism.
        epsilon: of one row.
        delta: for the Gaussian mechanism.

    Returns:
        Mean and principal components of the corpus, as many as did best; None if the rows as they are did better, or the corpus is
        too small to tell (fewer than eight texts).
    """
    made = _maker(mechanism, validate.positive("epsilon", epsilon), validate.delta(delta))
    made(1)  # refuses epsilon before any work
    if len(corpus) < 8:
        return None
    private, public = _split(corpus.embeddings)
    axes = _principal(public)
    counts = [count for count in DIMENSIONS if count <= len(axes)]
    recovered: list[NDArray[np.float64]] = []
    for count in counts:
        projection = PublicProjection(public.mean(axis=0), axes[:count])
        recovered.append(_recovered(private, public, made(count), projection))
        if _past_the_best(recovered):
            break
    else:
        recovered.append(_recovered(private, public, made(corpus.dimension), None))
    best = _smallest_good(recovered)
    return None if best == len(counts) else PublicProjection.fit(corpus.embeddings, components=counts[best])


def _past_the_best(recovered: list[NDArray[np.float64]]) -> bool:
    """Whether the last two are worse than the best before them by two standard errors of the difference each."""
    if len(recovered) < 3:
        return False
    best = max(recovered[:-2], key=lambda cosines: cosines.mean())
    return all((best - cosines).mean() > 2 * _standard_error(best - cosines) for cosines in recovered[-2:])


def _smallest_good(recovered: list[NDArray[np.float64]]) -> int:
    """The first that is at most a standard error of the difference worse than the best, for the fewest dimensions.

    The texts held out have more in common with the rest than private ones will have, which flatters the many.
    """
    best = max(recovered, key=lambda cosines: cosines.mean())
    for number, cosines in enumerate(recovered):
        shortfall = best - cosines
        if shortfall.mean() <= _standard_error(shortfall):
            return number
    raise AssertionError("the best falls short of itself by nothing")


def _standard_error(values: NDArray[np.float64]) -> float:
    return float(values.std() / np.sqrt(len(values)))


def _split(embeddings: Rows) -> tuple[Rows, Rows]:
    """Rows that stand in for private ones, spread evenly, and rows that stay public; a sample of a large corpus."""
    count = len(embeddings)
    held_out = np.unique(np.linspace(0, count - 1, min(_MOST_HELD_OUT, count // _HELD_OUT_SHARE)).astype(np.int64))
    rest = np.setdiff1d(np.arange(count), held_out)
    kept = rest[np.unique(np.linspace(0, len(rest) - 1, min(_MOST_CANDIDATES, len(rest))).astype(np.int64))]
    return embeddings[held_out], embeddings[kept]


def _principal(public: Rows) -> Rows:
    """Principal components, the strongest first: as many as the rows vary in, and not nearly as many as there are rows."""
    centered = public.astype(np.float64) - public.mean(axis=0)
    spread, axes = np.linalg.eigh(centered.T @ centered)
    varying = int((spread > _SMALLEST_SPREAD**2 * spread[-1]).sum()) if spread[-1] > 0 else 0
    most = max(1, min(varying, int(_DIRECTIONS_PER_ROW * len(public))))
    return np.asarray(axes[:, ::-1][:, :most].T, np.float32)


def _recovered(private: Rows, public: Rows, mechanism: VectorMechanism, projection: PublicProjection | None) -> NDArray[np.float64]:
    """Cosine of each private row and the public one that a release of it decodes to, mean over the draws."""
    mapped = private if projection is None else np.asarray(projection.transform(private), np.float32)
    clean = as_taken_in(mapped, mechanism, projection is not None)
    decoder = ReleaseDecoder(public, mechanism, projection, projection is not None)
    directions, truth = unit_rows(public), unit_rows(private)
    cosines = []
    for draw in range(_DRAWS):
        noisy = np.empty_like(clean)
        mechanism.apply(clean, noisy, _core.Generator.unsafe_seeded(_SEED + draw), out_is_fresh=True)
        parts = blocks(len(noisy), len(public))
        found = [chosen_parts(decoder.posterior_mean(noisy[block]), directions, 1)[:, 0] for block in parts]
        cosines.append(np.einsum("ij,ij->i", truth, directions[np.concatenate(found)], dtype=np.float64))
    return np.asarray(np.mean(cosines, axis=0))


def _maker(name: str, epsilon: float, delta: float) -> Callable[[int], VectorMechanism]:
    """The mechanism for rows of each dimension. Lengths do not matter: noise grows with clip_norm."""
    makers: dict[str, Callable[[int], VectorMechanism]] = {
        "gaussian": lambda dimension: Gaussian(epsilon=epsilon, delta=delta, dimension=dimension),
        "empirical": lambda dimension: Gaussian(epsilon=epsilon, delta=delta, dimension=dimension),
        "laplacian": lambda dimension: Laplacian(epsilon=epsilon, dimension=dimension),
        "l2_laplace": lambda dimension: L2Laplace(epsilon=epsilon, dimension=dimension),
        "privunit": lambda dimension: PrivUnit(epsilon=epsilon, dimension=dimension),
    }
    return makers[validate.choice("mechanism", name, makers)]
