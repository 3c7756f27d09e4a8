"""A document as one of k public texts: the nearest one, released by randomized response. Pure epsilon-DP, and no noisy vector.

The truth has probability e^epsilon / (e^epsilon + k - 1), so that from epsilon = 2 + ln k on nearly every document gets the best
public text there is. Which k texts there are is chosen on public data alone.
"""

from __future__ import annotations

import heapq
import math
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.products import inner_products
from hushvec._util import validate
from hushvec.extend import Budget
from hushvec.mechanisms import RandomizedResponse
from hushvec.receipts import LabelReceipt
from hushvec.release import privatize_labels
from hushvec.text.corpus import PublicCorpus, Rows, blocks, checked_rows, spread_evenly

_MOST_CANDIDATES = 2**14  # texts that are put in order; of larger corpora as many, spread evenly, unless all are taken
_MOST_SEEN = 1024  # texts that the order is made for, and as many others that the number of texts is chosen by

_EQUAL = 1e-4  # of cosine: of sizes that do as well as the best on held-out texts, the largest serves texts unlike them
_FEW = 8  # texts: whoever lists so few means each of them
_ENOUGH = 32  # held-out texts that tell sizes apart by themselves


class TextChoice(NamedTuple):
    """The result of `PublicChoice.release`: one public text a row, and the receipt of the randomized response."""

    texts: list[str]
    receipt: LabelReceipt


@dataclass(frozen=True, eq=False)
class PublicChoice:
    """Releases for each row a public text: the nearest of k representative ones, or another by chance.

    Args:
        corpus: public texts with their embeddings; at least two.
        epsilon: > 0, of one row.
        size: k, public: how many texts can be answered; None: as many as serve public texts best at this epsilon (`best_size`).

    Guarantees:
        (epsilon, 0)-DP under replace-one of one row, exact as sampled: which text is nearest is a function of the row and of public
        data, regardless of floating-point errors, and its number is released by `RandomizedResponse`. The representatives are chosen
        by looking at the corpus only.

    Edge cases:
        Cosines only: the length of a row has no influence. A row of zeros is near to nothing and answers with the first text.

    Reference:
        Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy" (2016): at large epsilon randomized response is
        the best for a wide class of utilities. Nemhauser, Wolsey, Fisher (1978) for the greedy choice of representatives.

    Example:
        >>> import numpy as np
        >>> from hushvec.text.corpus import PublicCorpus
        >>> from hushvec.text.public_choice import PublicChoice
        >>> corpus = PublicCorpus(("north", "east", "south"), np.array([[0, 1], [1, 0], [0, -1]], np.float32))
        >>> choice = PublicChoice(corpus, 12.0, size=3)
        >>> round(choice.mechanism.probability_of_truth, 5)
        0.99999
        >>> texts, receipt = choice.release(np.array([[0.9, 0.2]], np.float32))
        >>> len(texts), receipt.epsilon
        (1, 12.0)
    """

    corpus: PublicCorpus
    epsilon: float
    size: int | None = None

    def __post_init__(self) -> None:
        validate.instance("corpus", self.corpus, PublicCorpus, "a PublicCorpus")
        if len(self.corpus) < 2:
            raise ValueError(f"corpus must hold at least two texts, got {len(self.corpus)}")
        validate.keep_floats(self, "epsilon")
        validate.positive("epsilon", self.epsilon)
        if self.size is not None and validate.whole_number("size", self.size, at_least=2) > len(self.corpus):
            raise ValueError(f"size must be at most {len(self.corpus)}, the texts in corpus, got {self.size}")

    @cached_property
    def numbers(self) -> NDArray[np.int64]:
        """Indices of the possible answers [k] in the corpus, the most typical first."""
        if self.size == len(self.corpus):
            return np.arange(len(self.corpus))
        order = representatives(self.corpus.directions)
        return order[: self.size] if self.size is not None else order[: best_size(self.corpus.directions, order, self.epsilon)]

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """The possible answers [k], in the order of `numbers`."""
        return tuple(self.corpus.texts[number] for number in self.numbers.tolist())

    @cached_property
    def mechanism(self) -> RandomizedResponse:
        """Randomized response over the numbers 0, ..., k - 1."""
        return RandomizedResponse(epsilon=self.epsilon, k=len(self.numbers))

    def nearest(self, embeddings: NDArray[np.float32]) -> NDArray[np.int32]:
        """The true answer of each row [n], before any noise: private, not to be released."""
        rows = checked_rows(embeddings, self.corpus.dimension)
        answers = [np.argmax(inner_products(rows[block], self._directions), axis=1) for block in blocks(len(rows), len(self.numbers))]
        return np.concatenate(answers).astype(np.int32) if answers else np.empty(0, np.int32)

    def release(
        self, embeddings: NDArray[np.float32], *, budget: Budget | None = None, per: str = "record",
        generator: _core.Generator | None = None,
    ) -> TextChoice:
        """One public text for each row.

        Args:
            embeddings: float32 [n, d], clean rows of the corpus's embedder.
            budget, per, generator: as in `privatize_labels`. With per="release" all rows are one person's and share epsilon; the
                representatives are those for epsilon.

        Raises:
            ValueError: another shape, NaN or Inf: before anything is charged or drawn.
            PrivacyBudgetExhaustedError: as in `privatize_labels`.
        """
        released = privatize_labels(
            self.nearest(embeddings), range(len(self.numbers)), epsilon=self.epsilon, budget=budget, per=per, generator=generator
        )
        return TextChoice([self.texts[answer] for answer in np.asarray(released.values).tolist()], released.receipt)

    @cached_property
    def _directions(self) -> Rows:
        return self.corpus.directions[self.numbers]


def representatives(directions: Rows) -> NDArray[np.int64]:
    """The texts in an order such that every prefix covers the others well, within 1 - 1/e of the best choice.

    Gains only shrink, so a gain is recomputed only when it is first in line.
    """
    numbers = spread_evenly(len(directions), _MOST_CANDIDATES)
    seen = spread_evenly(len(directions), 2 * _MOST_SEEN)[::2]
    cosines = np.maximum(_others_only(inner_products(directions[seen], directions[numbers]), seen, numbers), 0).T.copy()
    reached = np.zeros(len(seen), np.float32)
    queue = [(-gain, place) for place, gain in enumerate(cosines.sum(axis=1).tolist())]
    heapq.heapify(queue)
    order = []
    while queue and queue[0][0] < 0:
        place = queue[0][1]
        gain = float(np.maximum(cosines[place] - reached, 0).sum())
        heapq.heapreplace(queue, (-gain, place))
        if queue[0] == (-gain, place):
            heapq.heappop(queue)
            order.append(place)
            np.maximum(reached, cosines[place], out=reached)
    chosen = numbers[np.array(order, np.int64)]
    return np.concatenate([chosen, np.setdiff1d(np.arange(len(directions)), chosen)])


def best_size(directions: Rows, order: NDArray[np.int64], epsilon: float) -> int:
    """k: the length of the prefix with the largest expected cosine at this epsilon, on texts that the order was not made from.

    With T the probability of truth, a held-out text gets T (its best cosine among the k) + (1 - T) (the mean of the others'). Of
    sizes that do equally well the largest is chosen: all of 8 texts or fewer; with 32 or more held-out texts those within 1e-4;
    with fewer those within one standard error, where one more text is imagined with a best cosine of 1.
    """
    if len(order) <= _FEW:
        return len(order)
    considered = order[:_MOST_CANDIDATES]
    held_out = spread_evenly(len(directions), 2 * _MOST_SEEN)[1::2]
    cosines = _others_only(inner_products(directions[held_out], directions[considered]), held_out, considered)
    others = np.arange(1, len(considered))
    truth = 1 / (1 + others * np.exp(-epsilon))
    best = np.maximum.accumulate(cosines, axis=1)[:, 1:]
    finite = np.where(np.isfinite(cosines), cosines, 0)
    if len(held_out) < _ENOUGH:
        rest = (finite.cumsum(axis=1, dtype=np.float64)[:, 1:] - best) / others
        found = _largest_equal(truth * best + (1 - truth) * rest, truth + (1 - truth) * rest.mean(axis=0))
    else:
        sums = finite.sum(axis=0, dtype=np.float64).cumsum()[1:] / len(held_out)
        means = best.mean(axis=0, dtype=np.float64)
        expected = truth * means + (1 - truth) * (sums - means) / others
        found = int(np.flatnonzero(expected >= expected.max() - _EQUAL)[-1])
    return len(order) if found + 2 == len(considered) else found + 2


def _largest_equal(scores: NDArray[np.float64], imagined: NDArray[np.float64]) -> int:
    """The last column whose mean is that of the best one within a standard error.

    Args:
        scores: [texts, sizes].
        imagined: [sizes], of one more text, which the best size serves as it does the others.
    """
    means = scores.mean(axis=0)
    best = int(means.argmax())
    losses = np.vstack([scores[:, best : best + 1] - scores, means[best] - imagined])
    errors = losses.std(axis=0, ddof=1) / math.sqrt(len(losses))
    return int(np.flatnonzero(losses.mean(axis=0) <= errors)[-1])


def _others_only(cosines: Rows, rows: NDArray[np.int64], columns: NDArray[np.int64]) -> Rows:
    """The cosines, with those of a text and itself set to -Inf."""
    return np.where(rows[:, None] == columns[None, :], np.float32(-np.inf), cosines)
