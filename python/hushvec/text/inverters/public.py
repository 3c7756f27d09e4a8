"""Decoding to public texts: the public text, or a few of them joined, that fits a released row best.

The text nearest to the posterior mean of the private row's embedding has the largest expected cosine with the private one. How
many principal components are released is measured on public rows alone, so the choice costs nothing (docs/proofs/projection.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec.mechanisms import MECHANISMS, PublicProjection, VectorMechanism
from hushvec.text.corpus import PublicCorpus, Rows, blocks, checked_rows, spread_evenly, unit_rows
from hushvec.text.inverters.decoding import MOST_TOGETHER, NearestRows, ReleaseDecoder, as_taken_in, chosen_parts
from hushvec.text.public_choice import PublicChoice

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
    """The map behind which public texts are recovered best at epsilon for one row: mean and components; None: no map."""
    kind = MECHANISMS[validate.choice("mechanism", mechanism, MECHANISMS)]
    one_row, of_gaussians = validate.positive("epsilon", epsilon), validate.delta(delta)

    def made(dimension: int) -> VectorMechanism:
        """For rows of this dimension. Lengths do not matter: noise grows with clip_norm."""
        return kind.for_price(epsilon=one_row, delta=of_gaussians, dimension=dimension)

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
    """The first within a standard error of the best: held-out texts flatter many dimensions, being like the rest."""
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
    held_out = spread_evenly(count, min(_MOST_HELD_OUT, count // _HELD_OUT_SHARE))
    rest = np.setdiff1d(np.arange(count), held_out)
    kept = rest[spread_evenly(len(rest), _MOST_CANDIDATES)]
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
    decoder = ReleaseDecoder(public, mechanism, projection)
    directions, truth = unit_rows(public), unit_rows(private)
    cosines = []
    for draw in range(_DRAWS):
        noisy = np.empty_like(clean)
        mechanism.apply(clean, noisy, _core.Generator.unsafe_seeded(_SEED + draw), out_is_fresh=True)
        parts = blocks(len(noisy), len(public))
        found = [chosen_parts(decoder.posterior_mean(noisy[block]), directions, 1)[:, 0] for block in parts]
        cosines.append(np.einsum("ij,ij->i", truth, directions[np.concatenate(found)], dtype=np.float64))
    return np.asarray(np.mean(cosines, axis=0))


MOST_PARTS = 16


class PublicInverter:
    """Turns rows, noisy or not, into public texts.

    Args:
        corpus: the public texts and their embeddings, made by the embedder whose rows are inverted.
        parts: how many public texts at most are joined into one answer; a further one only where it brings the sum of unit
            embeddings nearer to the posterior mean. For corpora of sentences.
        separator: between joined texts.
        delta: that `projection_for` assumes for the Gaussian mechanism.

    Guarantees:
        Post-processing: what it returns is a function of the released rows and of public data, so the release's guarantee is the
        text's. Every word of the answer is a public text's. The same rows give the same texts.

    Edge cases:
        No rows give no texts. Without a law (`invert` of this object, for rows lifted back or without noise) the answer is the text
        with the largest cosine. A row of zeros decodes to the text with the largest prior.

    Reference:
        Robbins, "An empirical Bayes approach to statistics" (1956), for a prior made of other data; docs/inverters.md, with what
        each part of it adds on real posts.

    Example:
        >>> import numpy as np
        >>> from hushvec.text.corpus import PublicCorpus
        >>> from hushvec.text.inverters.public import PublicInverter
        >>> corpus = PublicCorpus(("north", "east", "south"), np.array([[0, 1], [1, 0], [0, -1]], np.float32))
        >>> PublicInverter(corpus).invert(np.array([[0.9, 0.2]], np.float32))
        ['east']
    """

    def __init__(self, corpus: PublicCorpus, *, parts: int = 1, separator: str = " ", delta: float = DEFAULT_DELTA) -> None:
        validate.instance("corpus", corpus, PublicCorpus, "a PublicCorpus")
        validate.instance("separator", separator, str, "a str")
        self.corpus, self.separator = corpus, separator
        self.parts = validate.whole_number("parts", parts, at_least=1, at_most=MOST_PARTS)
        self.delta = validate.delta(delta)
        self._spaces: dict[tuple[str, float], PublicProjection | None] = {}
        self._choices: dict[float, PublicChoice] = {}

    def invert(self, embeddings: NDArray[np.float32]) -> list[str]:
        """The nearest public text, or the parts whose sum comes nearest, for each row [n, d] in the embedder's space."""
        rows = checked_rows(embeddings, self.corpus.dimension)
        return [text for block in blocks(len(rows), len(self.corpus)) for text in self.texts_nearest(rows[block])]

    def for_release(self, mechanism: VectorMechanism, projection: PublicProjection | None) -> ReleasedInverter:
        """As `LawInverter.for_release`; the map, if there is one, brought rows to the length clip_norm."""
        validate.instance("projection", projection, PublicProjection | None, "a PublicProjection or None")
        validate.instance("mechanism", mechanism, VectorMechanism, "a mechanism of noisy vectors")
        if projection is not None and projection.dimension != self.corpus.dimension:
            raise ValueError(f"projection must take {self.corpus.dimension} columns, got {projection.dimension}")
        return ReleasedInverter(self, ReleaseDecoder(self.corpus.embeddings, mechanism, projection))

    def projection_for(self, mechanism: str, epsilon: float) -> PublicProjection | None:
        """The public map behind which releases at about this epsilon decode best, found on the corpus alone; None: no map.

        A part of the corpus stands in for the private texts, at the power of sqrt(2) nearest to epsilon; the answer is kept.

        Args:
            mechanism: "gaussian", "laplacian", "l2_laplace", "privunit" or "empirical" (taken for a Gaussian one of this epsilon).
            epsilon: > 0, of one row.
        """
        key = (mechanism, on_grid(epsilon))
        if key not in self._spaces:
            self._spaces[key] = best_space(self.corpus, mechanism, key[1], self.delta)
        return self._spaces[key]

    def choice_for(self, epsilon: float) -> PublicChoice:
        """The public texts to choose from by randomized response, those for the power of sqrt(2) nearest to epsilon per row."""
        near = on_grid(epsilon)
        if near not in self._choices:
            self._choices[near] = PublicChoice(self.corpus, near)
        return self._choices[near]

    def texts_nearest(self, targets: Rows) -> list[str]:
        """The text, or the joined parts, nearest to each row [b, d] of the embedder's space."""
        # One text of many is looked up in an index; for several parts all texts are compared.
        is_large = self.parts == 1 and len(self.corpus) > MOST_TOGETHER
        numbers = self._nearest.search(unit_rows(targets), 1) if is_large else self._parts(targets)
        return [self.separator.join(self.corpus.texts[number] for number in row if number >= 0) for row in numbers.tolist()]

    def _parts(self, targets: Rows) -> NDArray[np.int64]:
        directions = self.corpus.directions
        slices = blocks(len(targets), len(directions))
        return np.concatenate([chosen_parts(targets[block], directions, self.parts) for block in slices])

    @cached_property
    def _nearest(self) -> NearestRows:
        return NearestRows(self.corpus.directions)


@dataclass(frozen=True, eq=False)
class ReleasedInverter:
    """Decodes rows of one mechanism behind one projection. Made by `PublicInverter.for_release`."""

    inverter: PublicInverter
    decoder: ReleaseDecoder

    def invert(self, embeddings: NDArray[np.float32]) -> list[str]:
        """One text for each released row [n, m], as `PublicInverter` describes."""
        rows = checked_rows(embeddings, self.decoder.mechanism.dimension)
        return [
            text
            for block in blocks(len(rows), min(len(self.inverter.corpus), MOST_TOGETHER))
            for text in self.inverter.texts_nearest(self.decoder.posterior_mean(rows[block]))
        ]


def on_grid(epsilon: float) -> float:
    """The power of sqrt(2) nearest to epsilon: the best choice changes slowly with it, and takes a while to find."""
    return float(2.0 ** (round(2 * math.log2(validate.positive("epsilon", epsilon))) / 2))
