"""Texts that stand for many people's: public ones, or variants of them by any model, weighted by votes of private rows."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.display import Sheet, plural, share, shown
from hushvec._util.publish import SHARED, published_text
from hushvec.aggregates.classifiers import STEPS, LinearClassifier, require_classes, steps_of
from hushvec.aggregates.rows import PrivateRows, unit
from hushvec.aggregates.spending import Terms
from hushvec.aggregates.topics import require_columns_of_pool, texts_of_pool
from hushvec.extend import release_sheet
from hushvec.mechanisms import nearest_codes, unit_public_rows
from hushvec.receipts import AggregateReceipt
from hushvec.receipts.aggregates import MOST_STATISTICS

_Rows = NDArray[np.float32]

VOTES_SHARE = 0.2  # of mu^2, where labels are learned with the rest; chosen on Banking77 (docs/topics.md)
_SURE = 1.0  # deviations of its noise that a candidate's votes must reach
_SHOWN = 10


@shown
@dataclass(frozen=True, eq=False)
class StandIns:
    """The result of `private_stand_ins`. `print` shows the first ones, and the receipt in words.

    Args:
        texts: m, by weight, the largest first.
        vectors: float32 [m, d], of unit length.
        weights: float64 [m], > 0: the share of people's rows that each stands for, by its noisy votes.
        labels: the likeliest label of each, or None where rows had none.
        receipt: the guarantee.
        classifier: what gave the labels, and gives those of other rows; or None.
    """

    texts: tuple[str, ...]
    vectors: _Rows
    weights: NDArray[np.float64]
    labels: tuple[Hashable, ...] | None
    receipt: AggregateReceipt
    classifier: LinearClassifier | None = None

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write lines of JSON with text, weight and label, atomically."""
        labels = self.labels or (None,) * len(self.texts)
        with published_text(Path(path), mode=SHARED) as file:
            for text, weight, label in zip(self.texts, self.weights.tolist(), labels):
                file.write(f"{json.dumps({'text': text, 'weight': weight, 'label': label}, ensure_ascii=False)}\n")

    def labelled(self, classifier: LinearClassifier) -> StandIns:
        """With the labels that a classifier of the same people's rows gives: post-processing, which costs nothing."""
        return replace(self, labels=tuple(classifier.predict(self.vectors).tolist()), classifier=classifier)

    def under(self, receipt: AggregateReceipt) -> StandIns:
        """With the receipt of a release that this is a part of."""
        if self.classifier is not None:
            self.classifier.receipt = receipt
        return replace(self, receipt=receipt)

    def __repr__(self) -> str:
        return f"StandIns({plural(len(self.texts), 'text')}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        labels = ("",) * len(self.texts) if self.labels is None else map(str, self.labels)
        cells = [(text, label, share(weight)) for text, label, weight in zip(self.texts, labels, self.weights.tolist())][:_SHOWN]
        sheet = release_sheet(f"{plural(len(self.texts), 'text')} in place of people's", self.receipt)
        return sheet._replace(table=(("text", "label", "share"), *cells))


class Candidates:
    """Public texts with their vectors, and how others are made of them."""

    def __init__(
        self,
        pool: Any,
        texts: Sequence[str],
        variants: Callable[[list[str]], Sequence[str]] | None = None,
        embed: Callable[[list[str]], Any] | None = None,
        rounds: int = 1,
        most: int = 1000,
    ) -> None:
        self.vectors: _Rows = unit_public_rows(pool, "pool")
        self.texts = list(texts_of_pool(texts, len(self.vectors)))
        if len({variants is None, embed is None}) > 1 or (variants is None) != (rounds == 1):
            raise ValueError(f"variants, embed and rounds >= 2 must be given together, got rounds = {rounds!r}")
        self.rounds = validate.whole_number("rounds", rounds, at_least=1, at_most=MOST_STATISTICS // 2)
        self.most = validate.whole_number("most", most, at_least=1)
        self._variants, self._embed = variants, embed

    def extend(self, texts: list[str], vectors: _Rows) -> None:
        """Go on with these and with new variants of them."""
        assert self._variants is not None and self._embed is not None
        made = validate.strings("variants(texts)", self._variants(list(texts)))
        known = set(texts)
        new = list(dict.fromkeys(text for text in made if text not in known))
        self.texts, self.vectors = [*texts, *new], vectors
        if new:
            found = unit_public_rows(self._embed(new), "embed(texts)", at_least=1)
            if found.shape != (len(new), vectors.shape[1]):
                raise ValueError(f"embed(texts) must have shape {(len(new), vectors.shape[1])}, got {found.shape}")
            self.vectors = np.concatenate([vectors, found])


def private_stand_ins(
    rows: Any,
    groups: Any = None,
    *,
    labels: Any = None,
    pool: Any,
    texts: Sequence[str],
    variants: Callable[[list[str]], Sequence[str]] | None = None,
    embed: Callable[[list[str]], Any] | None = None,
    rounds: int = 1,
    most: int = 1000,
    epsilon: float,
    delta: float,
    **terms: Any,
) -> StandIns:
    """Texts that stand for many people's, of which none is theirs: what to look at, to test with and to train on.

    Each row votes for the nearest candidate. Those with more votes than their noise go into the next round beside variants of them,
    which any model makes that was not trained on the rows; after the last one they are the stand-ins, weighted by their votes.

    Args:
        rows: float array [n, d], or `RowsInParts`; only directions count.
        groups, labels: as in `private_classifier`, for stand-ins with labels; they take four fifths of mu^2.
        pool, texts: public rows [m, d] and their m texts, the candidates of the first round.
        variants: a function of a list of texts that returns new ones of their kind, by a language model for example.
        embed: what made the vectors: a function of a list of texts that returns rows [., d]. With variants.
        rounds: of votes, >= 2 with variants. All of them together cost epsilon once; more of them, more noise in each.
        most: how many stand-ins there are at most, and how many texts `variants` is given.
        epsilon, delta, and in `terms` adjacency, people, rows_per_person, budget, generator: `hushvec.aggregates.Terms`.

    Raises:
        ValueError: as `private_topics`; nothing is charged. What `variants` and `embed` raise comes after the charge.

    Guarantees:
        (epsilon, delta)-DP for one person with all their rows and labels. What `variants` is given has been released before: a model
        elsewhere learns no more than the result tells.

    Reference:
        Lin, Gopi, Kulkarni, Nori, Yekhanin (2024), "Differentially private synthetic data via foundation model APIs", algorithm 1; Xie
        and others (2024), for texts. docs/proofs/aggregates.md, claim 11.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_stand_ins
        >>> rows, pool = np.eye(8)[[0] * 900 + [1] * 100], np.eye(8)[:3]
        >>> private_stand_ins(rows, pool=pool, texts=["tea", "milk", "rum"], epsilon=1.0, delta=1e-5).texts[0]
        'tea'
    """
    candidates = Candidates(pool, texts, variants, embed, rounds, most)
    given = PrivateRows(rows, Terms(epsilon, delta, **terms), "stand-ins", groups, labels)
    require_columns_of_pool(given.dimension, candidates.vectors)
    if given.names is None:
        return stand_ins_of(given, candidates)
    require_classes(given)
    given.read()
    given.spending.charge()
    found = stand_ins_of(given.part(VOTES_SHARE), candidates)
    return found.labelled(steps_of(given.part(None), STEPS, LinearClassifier)).under(given.spending.receipt(given.count))


def stand_ins_of(given: PrivateRows, candidates: Candidates) -> StandIns:
    """As `private_stand_ins` without labels, for all that is left to spend."""
    spending = given.spending
    for step in range(1, candidates.rounds + 1):
        counts = given.total(partial(_nearest, pool=candidates.vectors))
        purpose = f"votes for stand-ins, round {step} of {candidates.rounds}"
        sigma = spending.counts(purpose, len(counts), 1 / candidates.rounds if step < candidates.rounds else None)
        if step == 1:
            spending.charge()
        released = spending.noisy_counts(counts, sigma)
        order = np.argsort(-released, kind="stable")[: candidates.most]
        order = order[released[order] >= min(_SURE * sigma, released.max())]
        texts, vectors = [candidates.texts[place] for place in order], candidates.vectors[order]
        if step < candidates.rounds:
            candidates.extend(texts, vectors)
    votes = np.maximum(released[order], 1.0)
    return StandIns(tuple(texts), vectors, votes / votes.sum(), None, spending.receipt(given.count))


def _nearest(rows: Any, codes: Any, *, pool: _Rows) -> NDArray[np.int64]:
    nearest = nearest_codes(unit(rows).astype(np.float32, copy=False), pool)
    return np.bincount(nearest, minlength=len(pool))
