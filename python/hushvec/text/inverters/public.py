"""Decoding to public texts: the public text, or a few of them joined, that fits a released row best.

For each released row: the posterior over public rows (`posterior`), the mean of the private row's embedding under it, in all of the
embedder's dimensions, and the public text that comes nearest to this mean. That text has the largest expected cosine with the private
one: the cosine with a text s is <x, s> for unit x, whose expectation is <E x, s>. `spaces` chooses what is released.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.mechanisms import PublicProjection
from hushvec.mechanisms.base import VectorMechanism
from hushvec.text.corpus import PublicCorpus
from hushvec.text.inverters.decoding import MOST_TOGETHER, ReleaseDecoder, chosen_parts
from hushvec.text.inverters.nearest_rows import NearestRows, blocks
from hushvec.text.inverters.posterior import unit_rows
from hushvec.text.inverters.rows import Rows, checked_rows
from hushvec.text.inverters.spaces import DEFAULT_DELTA, best_space
from hushvec.text.public_choice import PublicChoice

MOST_PARTS = 16


class PublicInverter:
    """Turns rows, noisy or not, into public texts.

    Args:
        corpus: the public texts and their embeddings, made by the embedder whose rows are inverted.
        parts: how many public texts at most are joined into one answer. A further one is taken only if the sum of the unit
            embeddings comes nearer to the posterior mean with it. For corpora of sentences; an embedder that reads only the first
            tokens of a text sees little of what is joined to a long one.
        separator: between joined texts.
        delta: that `projection_for` assumes for the Gaussian mechanism.

    Raises:
        TypeError: wrong kinds.
        ValueError: parts not in [1, 16], delta not in (0, 1).

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
        >>> from hushvec.mechanisms import PrivUnit
        >>> from hushvec.text.corpus import PublicCorpus
        >>> from hushvec.text.inverters.public import PublicInverter
        >>> corpus = PublicCorpus(("north", "east", "south"), np.array([[0, 1], [1, 0], [0, -1]], np.float32))
        >>> PublicInverter(corpus).invert(np.array([[0.9, 0.2]], np.float32))
        ['east']
        >>> mechanism = PrivUnit(epsilon=8.0, dimension=2)
        >>> PublicInverter(corpus).for_release(mechanism, None).invert(np.array([[0.1, 1.3]], np.float32))
        ['north']
    """

    def __init__(self, corpus: PublicCorpus, *, parts: int = 1, separator: str = " ", delta: float = DEFAULT_DELTA) -> None:
        if not isinstance(corpus, PublicCorpus):
            raise TypeError(f"corpus must be a PublicCorpus, got {validate.kind(corpus)}")
        if not isinstance(separator, str):
            raise TypeError(f"separator must be a str, got {validate.kind(separator)}")
        if validate.whole_number("parts", parts, at_least=1) > MOST_PARTS:
            raise ValueError(f"parts must be at most {MOST_PARTS}, got {parts}")
        self.corpus, self.parts, self.separator = corpus, parts, separator
        self.delta = validate.delta(delta)
        self._spaces: dict[tuple[str, float], PublicProjection | None] = {}
        self._choices: dict[float, PublicChoice] = {}

    def invert(self, embeddings: NDArray[np.float32]) -> list[str]:
        """The nearest public text, or the parts whose sum comes nearest, for each row in the embedder's space.

        Args:
            embeddings: float32 [n, d], d the corpus's dimension.

        Raises:
            TypeError: no numpy array of floats.
            ValueError: another shape, NaN or Inf.
        """
        rows = checked_rows(embeddings, self.corpus.dimension)
        return [text for block in blocks(len(rows), len(self.corpus)) for text in self.texts_nearest(rows[block])]

    def for_release(
        self, mechanism: VectorMechanism, projection: PublicProjection | None, *, normalized: bool | None = None
    ) -> ReleasedInverter:
        """The inverter for rows that this mechanism released.

        Args:
            mechanism: Gaussian, Laplacian, L2Laplace, PrivUnit or EmpiricalGaussian, with the numbers of its law.
            projection: what the rows went through before it; None if nothing.
            normalized: whether rows were brought to the length clip_norm before the noise, rather than clipped to it; None: they
                were if there is a projection. PrivUnit knows directions only.

        Raises:
            TypeError: wrong kinds.
            ValueError: dimensions of corpus, projection and mechanism that do not fit.
        """
        if projection is not None and not isinstance(projection, PublicProjection):
            raise TypeError(f"projection must be a PublicProjection or None, got {validate.kind(projection)}")
        if not isinstance(mechanism, VectorMechanism):
            raise TypeError(f"mechanism must be a mechanism of noisy vectors, got {validate.kind(mechanism)}")
        if projection is not None and projection.dimension != self.corpus.dimension:
            raise ValueError(f"projection must take {self.corpus.dimension} columns, got {projection.dimension}")
        to_length = projection is not None if normalized is None else validate.flag("normalized", normalized)
        return ReleasedInverter(self, ReleaseDecoder(self.corpus.embeddings, mechanism, projection, to_length))

    def projection_for(self, mechanism: str, epsilon: float) -> PublicProjection | None:
        """The public map behind which releases at about this epsilon decode best, found on the corpus alone; None: no map.

        A part of the corpus stands in for the private texts (`spaces.best_space`), at the power of sqrt(2) nearest to epsilon;
        the answer is kept for the next call.

        Args:
            mechanism: "gaussian", "laplacian", "l2_laplace", "privunit" or "empirical" (taken for a Gaussian one of this epsilon).
            epsilon: > 0, of one row.
        """
        key = (mechanism, on_grid(epsilon))
        if key not in self._spaces:
            self._spaces[key] = best_space(self.corpus, mechanism, key[1], self.delta)
        return self._spaces[key]

    def choice_for(self, epsilon: float) -> PublicChoice:
        """The public texts to choose from by randomized response at about this epsilon per row: see `PublicChoice`.

        Args:
            epsilon: > 0, of one row; the texts are those for the power of sqrt(2) nearest to it.
        """
        near = on_grid(epsilon)
        if near not in self._choices:
            self._choices[near] = PublicChoice(self.corpus, near)
        return self._choices[near]

    def texts_nearest(self, targets: Rows) -> list[str]:
        """The text, or the joined parts, nearest to each row [b, d] of the embedder's space."""
        numbers = self._nearest.search(unit_rows(targets), 1) if self._is_large else self._parts(targets)
        return [self.separator.join(self.corpus.texts[number] for number in row if number >= 0) for row in numbers.tolist()]

    @property
    def _is_large(self) -> bool:
        """Whether one text is looked up in an index. For several parts all texts are compared."""
        return self.parts == 1 and len(self.corpus) > MOST_TOGETHER

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
