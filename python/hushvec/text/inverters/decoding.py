"""From released rows to indices of public texts: the posterior mean in the embedder's space, and the texts nearest to it.

The rows nearest to a query are found by FAISS where it is installed, in numpy otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products, product
from hushvec.mechanisms import Mechanism, PublicProjection, VectorMechanism
from hushvec.text.corpus import Rows, blocks, row_lengths, spread_evenly, unit_rows
from hushvec.text.inverters.posterior import CandidateLaw, nearest_cosine, softmax

_LISTS_PER_ROOT = 2  # lists of the index by sqrt(rows)
_LISTS_READ = 24  # of them, for each query
_SEED = 6
_TRAINED_ON = 64  # rows a list


class NearestRows:
    """Nearest rows by inner product.

    Args:
        rows: float32 [n, d].

    Guarantees:
        Exact without FAISS, the first of equal rows for count = 1. With it only the nearest lists are read, nearly always the
        same answer, and a list at the edge may differ on another processor or with other queries in the call.
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = np.ascontiguousarray(rows, np.float32)

    def search(self, queries: Rows, count: int) -> NDArray[np.int64]:
        """Indices of `count` rows for each query [b, count], in no particular order; count = 1: the nearest."""
        if self._index is None:
            return self._exact(queries, count)
        _, found = self._index.search(np.ascontiguousarray(queries, np.float32), count)
        missing = np.flatnonzero((found < 0).any(axis=1))  # so few rows in the lists that were read
        if len(missing):
            found[missing] = self._exact(queries[missing], count)
        return np.asarray(found, np.int64)

    def _exact(self, queries: Rows, count: int) -> NDArray[np.int64]:
        found = np.empty((len(queries), count), np.int64)
        for block in blocks(len(queries), len(self.rows)):
            scores = inner_products(queries[block], self.rows)
            found[block] = scores.argmax(axis=1)[:, None] if count == 1 else np.argpartition(-scores, count - 1, axis=1)[:, :count]
        return found

    @cached_property
    def _index(self) -> Any:
        try:
            import faiss
        except ImportError:
            return None
        count, dimension = self.rows.shape
        lists = max(1, int(_LISTS_PER_ROOT * math.sqrt(count)))
        index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dimension), dimension, lists, faiss.METRIC_INNER_PRODUCT)
        index.cp.seed, index.cp.max_points_per_centroid, index.cp.niter = _SEED, _TRAINED_ON, 8
        index.cp.min_points_per_centroid = 1
        index.train(self.rows)
        index.add(self.rows)
        index.nprobe = min(lists, _LISTS_READ)
        return index


MOST_TOGETHER = 20_000  # texts that every row is compared with; of more, a shortlist and a sample
_SHORTLIST, _SAMPLE = 512, 4096
_SMALLEST_GAIN = np.float32(1e-6)  # in cosine, that a further part must bring


@dataclass(frozen=True, eq=False)
class ReleaseDecoder:
    """Estimates the embeddings, before the map and the noise, from released rows.

    Args:
        embeddings: float32 [n, d], of the public texts.
        mechanism: that released the rows.
        projection: what they went through before it, and were brought to the length clip_norm by; None: they were clipped to it.
        rho: as in `CandidateLaw`; None: that of the public texts.
    """

    embeddings: Rows
    mechanism: VectorMechanism
    projection: PublicProjection | None
    rho: float | None = None

    def __post_init__(self) -> None:
        width = self.embeddings.shape[1] if self.projection is None else self.projection.output_dimension
        if self.mechanism.dimension != width:
            raise ValueError(f"mechanism must have dimension {width}, got {self.mechanism.dimension}")
        _ = self.law  # refuses a mechanism of another kind now rather than at the first row

    @cached_property
    def law(self) -> CandidateLaw:
        """The law of released rows, given each public text."""
        candidates = as_taken_in(self._mapped, self.mechanism, self.projection is not None)
        return CandidateLaw(self.mechanism, candidates, nearest_cosine(candidates) if self.rho is None else self.rho)

    def posterior_mean(self, released: Rows) -> Rows:
        """E[direction of the private embedding | released row], up to its length [b, d]; [b, n] floats are held meanwhile."""
        if len(self.embeddings) > MOST_TOGETHER:
            mean, centre = self._over_shortlists(released)
        else:
            weights = self.law.weights(released)
            mean, centre = product(weights, self._directions), product(weights, self.law.centres)
        # the information in y beyond its candidates, in the embedder's space and in units of its unit rows
        beyond = self.law.beyond(released, centre) * np.float32(self._unit)
        return mean + (beyond if self.projection is None else self.projection.lift(beyond) - self.projection.mean)

    def _over_shortlists(self, released: Rows) -> tuple[Rows, Rows]:
        """Means of directions [b, d] and of rho c_i [b, m], over the nearest candidates and a weighted sample of the rest."""
        count = len(self.embeddings)
        sample = spread_evenly(count, _SAMPLE)
        place = np.full(count, -1)
        place[sample] = np.arange(len(sample))
        of_sample = self.law.log_likelihood(released, sample)
        means, centres = np.empty((len(released), self.embeddings.shape[1]), np.float32), np.empty_like(released)
        directed = self.mechanism.directions_only
        queries = released if directed else np.column_stack([released, np.ones(len(released), np.float32)])
        for row, near in enumerate(self._nearest.search(queries, _SHORTLIST)):
            again = place[near][place[near] >= 0]
            of_sample[row] += np.float32(math.log((count - len(near)) / max(1, len(sample) - len(again))))
            of_sample[row, again] = -np.inf  # counted once, among the nearest
            of_near = self.law.log_likelihood(released[row : row + 1], near)[0]
            (weights,) = softmax(np.concatenate([of_near, of_sample[row]])[None])
            of_those = weights[None, : len(near)]
            means[row] = product(of_those, self._directions[near])[0]
            centres[row] = product(of_those, self.law.centres[near])[0]
            of_sample[row] = weights[len(near) :]  # for all rows at once below: a product of matrices reads the sample once
        return means + product(of_sample, self._directions[sample]), centres + product(of_sample, self.law.centres[sample])

    @cached_property
    def _nearest(self) -> NearestRows:
        """Over the candidates, so that the largest inner products belong to the largest likelihoods (for Laplacian nearly so)."""
        centres = self.law.centres
        if self.mechanism.directions_only:
            return NearestRows(centres)
        return NearestRows(np.column_stack([centres, -(row_lengths(centres) ** 2).astype(np.float32) / 2]))

    @cached_property
    def _directions(self) -> Rows:
        return unit_rows(self.embeddings)

    @cached_property
    def _mapped(self) -> Rows:
        return self.embeddings if self.projection is None else np.asarray(self.projection.transform(self.embeddings), np.float32)

    @cached_property
    def _unit(self) -> float:
        """Mean length of the public rows behind the map, relative to their length when the mechanism takes them in."""
        taken, mapped, own = (float(row_lengths(rows).mean()) for rows in (self.law.candidates, self._mapped, self.embeddings))
        return mapped / (taken * own) if taken > 0 else 0.0


def as_taken_in(rows: Rows, mechanism: Mechanism, normalized: bool) -> Rows:
    """Clean rows as they are before the noise is added: of length clip_norm, or clipped to it."""
    lengths = row_lengths(rows)
    scale = mechanism.clip_norm / np.where(lengths > 0, lengths, np.inf)
    to_length = normalized or mechanism.directions_only
    return rows * (scale if to_length else np.where(lengths > mechanism.clip_norm, scale, 1.0)).astype(np.float32)


def chosen_parts(targets: Rows, directions: Rows, parts: int) -> NDArray[np.int64]:
    """Texts whose unit embeddings' sum comes nearest to each target, greedily [b, parts]; -1 where none helps."""
    scores = inner_products(unit_rows(targets), directions)
    chosen = np.full((len(targets), parts), -1, np.int64)
    chosen[:, 0] = scores.argmax(axis=1)
    together = directions[chosen[:, 0]]
    reached, open_rows = scores.max(axis=1), np.arange(len(targets))
    for part in range(1, parts):
        so_far = together[open_rows]
        squares = np.einsum("ij,ij->i", so_far, so_far)
        with_next = np.sqrt(np.maximum((squares + 1)[:, None] + 2 * inner_products(so_far, directions), np.float32(1e-12)))
        cosines = ((reached[open_rows] * np.sqrt(squares))[:, None] + scores[open_rows]) / with_next
        np.put_along_axis(cosines, chosen[open_rows, :part], -np.inf, axis=1)
        best, cosine = cosines.argmax(axis=1), cosines.max(axis=1)
        better = cosine > reached[open_rows] + _SMALLEST_GAIN
        open_rows = open_rows[better]
        if len(open_rows) == 0:
            break
        chosen[open_rows, part] = best[better]
        together[open_rows] += directions[best[better]]
        reached[open_rows] = cosine[better]
    return chosen
