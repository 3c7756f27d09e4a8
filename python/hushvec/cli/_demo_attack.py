"""The measurements of `hushvec demo`: what releases keep, and how often a thief with a list of candidates picks the true text.

The thief knows the list, the public model and the mechanism, and takes the candidate under which what was released is likeliest; of
several that are equally likely, one at random. Nothing here is private: it is a function of the texts without noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native._core import Generator
from hushvec._native.products import inner_products
from hushvec._util.display import Progress
from hushvec.accounting.releases import one
from hushvec.aggregates import class_centroids
from hushvec.extend import RowReceipt
from hushvec.mechanisms import Laplacian, PrivUnit
from hushvec.noise import clip, gaussian_sigma
from hushvec.receipts import AggregateReceipt, LabelReceipt
from hushvec.release import privatize
from hushvec.retrieval.measures import cosines
from hushvec.text.corpus import PublicCorpus
from hushvec.text.public_choice import PublicChoice

Rows = NDArray[np.float32]
Numbers = NDArray[np.intp]
Scores = Callable[[slice], NDArray[Any]]

CHOICE = "randomized_response"
LIST_LENGTH = 320
SWEEP_EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
# Releases of all texts for a line of the table: enough for about this many rows.
_SWEEP_ROWS = 800
_ROWS_AT_ONCE = 64
_VECTORS_AT_ONCE = 4096

# The shipped sentences by topic, in their order in the file, and how many there are of each.
TOPICS = {"health": 64, "money": 56, "customers": 48, "work": 40, "law": 40, "travel": 24, "school": 24, "home": 24}
TOPIC_OF = np.repeat(np.arange(len(TOPICS)), list(TOPICS.values()))
NOTE_TOPICS = TOPIC_OF[::4]  # four sentences treat the subject of a shipped note
AGGREGATE_EPSILON = 1.0
AGGREGATE_PEOPLE = 8000
ROW_EPSILONS = (8.0, 1.0)


def nearest(vectors: NDArray[np.float32], corpus: NDArray[np.float32]) -> NDArray[np.intp]:
    """Return the index of the corpus row with the largest cosine, for every vector; corpus rows have unit length."""
    runs = [vectors[first : first + _VECTORS_AT_ONCE] for first in range(0, len(vectors), _VECTORS_AT_ONCE)]
    return np.concatenate([inner_products(run, corpus).argmax(axis=1) for run in runs])


@dataclass(frozen=True, eq=False)
class StolenVectors:
    """The texts and their vectors, the public sentences, and the list of the thief."""

    texts: Sequence[str]  # n
    clean: Rows  # their vectors [n, d]
    corpus: PublicCorpus  # the public sentences with their vectors

    @cached_property
    def candidates(self) -> tuple[str, ...]:
        """The distinct texts, among as many public sentences as make `LIST_LENGTH` (none where there are more texts)."""
        own = dict.fromkeys(self.texts)
        others = [text for text in self.corpus.texts if text not in own]
        wanted = max(0, min(LIST_LENGTH - len(own), len(others)))
        spread = np.linspace(0, len(others) - 1, wanted).round().astype(int)
        return (*own, *(others[place] for place in spread.tolist()))

    @cached_property
    def candidate_rows(self) -> Rows:
        row_of = dict(zip(self.corpus.texts, self.corpus.embeddings)) | dict(zip(self.texts, self.clean))
        return np.array([row_of[text] for text in self.candidates], np.float32)

    @cached_property
    def truth(self) -> Numbers:
        """The place of each text in the list."""
        place_of = {text: place for place, text in enumerate(self.candidates)}
        return np.array([place_of[text] for text in self.texts], np.intp)

    @cached_property
    def clean_decoded(self) -> Numbers:
        """The public sentence nearest to each text."""
        return nearest(self.clean, self.corpus.embeddings)

    def closeness(self, row: int, sentence: int) -> float:
        """Return the cosine of a text with a public sentence."""
        return float(cosines(self.clean[row : row + 1], self.corpus.embeddings[sentence : sentence + 1])[0])

    def picked(self, scores: Scores) -> float:
        """Return the share of the texts that the thief picks; `scores` of rows are [rows, candidates], the largest is likeliest."""
        found = 0.0
        for first in range(0, len(self.texts), _ROWS_AT_ONCE):
            rows = slice(first, first + _ROWS_AT_ONCE)
            likeliest = (these := scores(rows)) == these.max(axis=1, keepdims=True)
            found += float((likeliest[np.arange(len(these)), self.truth[rows]] / likeliest.sum(axis=1)).sum())
        return found / len(self.texts)

    def picked_clean(self) -> float:
        """Return the share of the texts that the vectors without noise give away."""
        return self.picked(lambda rows: inner_products(self.clean[rows], self.candidate_rows))


SHARES = ("same_sentence", "same_topic", "picked")


@dataclass(frozen=True, eq=False)
class Outcome:
    """One release of all texts by one mechanism, and what it keeps."""

    mechanism: str  # its name
    decoded: Numbers  # the public sentence that comes out for each text
    same_sentence: float  # share of the texts for which it is the one nearest to the text
    same_topic: float  # share of the texts for which it has the topic of that one
    picked: float  # share of the texts that the thief picks
    receipt: RowReceipt
    cosines: NDArray[np.float64] | None = None  # of each noisy vector with its clean one; None for public sentences

    @property
    def mean_cosine(self) -> float | None:
        return None if self.cosines is None else float(self.cosines.mean())

    @property
    def noise(self) -> float | None:
        """The standard deviation or the scale of the noise on an element."""
        return None if isinstance(self.receipt, LabelReceipt) else self.receipt.sigma or self.receipt.scale

    @property
    def right_one_of_two(self) -> float | None:
        """The claim of the release: nobody who has only it tells which of two texts it is from more often; None without a claim."""
        return one_of_two(self.receipt)


def one_of_two(receipt: RowReceipt | AggregateReceipt) -> float | None:
    """Return the largest probability of telling right which of two values was released, by the loss that the receipt claims.

    Over a fair coin between any two. (1 + delta(0)) / 2, as delta(0) bounds the total variation distance of the two laws.
    """
    if not receipt.is_dp_claim:
        return None
    loss, count = one("receipt", receipt, adjacency=None)
    return (1 + min(1.0, count * loss.total_variation)) / 2


Releaser = Callable[[], Outcome]


def releaser(stolen: StolenVectors, mechanism: str, arguments: dict[str, Any]) -> Releaser:
    """Return a function that releases all texts once, by a mechanism of `privatize`, whose `arguments` it gets, or by `CHOICE`."""
    if mechanism == CHOICE:
        return _choices(stolen, arguments["epsilon"], arguments["per"], arguments["generator"])
    return lambda: _noisy_vectors(stolen, {**arguments, "mechanism": mechanism})


def _noisy_vectors(stolen: StolenVectors, arguments: dict[str, Any]) -> Outcome:
    values, receipt = privatize(stolen.clean, **arguments)

    def scores(rows: slice) -> NDArray[Any]:
        if arguments["mechanism"] != Laplacian.name:  # all candidates have the same length: the nearest is the likeliest
            return inner_products(values[rows], stolen.candidate_rows)
        possible = clip(stolen.candidate_rows, arguments["clip_norm"])
        return np.array([-np.abs(possible - value).sum(axis=1) for value in values[rows]])

    decoded = nearest(values, stolen.corpus.embeddings)
    return _outcome(stolen, arguments["mechanism"], decoded, scores, receipt, cosines(values, stolen.clean))


def _choices(stolen: StolenVectors, epsilon: float, per: str, generator: Generator | None) -> Releaser:
    """Return a function that releases each text as one of the public sentences, by randomized response."""
    choice = PublicChoice(stolen.corpus, epsilon)
    number_of = {text: number for number, text in enumerate(stolen.corpus.texts)}
    answers = choice.numbers[choice.nearest(stolen.candidate_rows)]

    def release() -> Outcome:
        texts, receipt = choice.release(stolen.clean, per=per, generator=generator)
        decoded = np.array([number_of[text] for text in texts], np.intp)
        return _outcome(stolen, CHOICE, decoded, lambda rows: answers[None, :] == decoded[rows, None], receipt)

    return release


def _outcome(
    stolen: StolenVectors, mechanism: str, decoded: Numbers, scores: Scores, receipt: RowReceipt, cosines: Any = None
) -> Outcome:
    return Outcome(
        mechanism=mechanism, decoded=decoded, same_sentence=float((decoded == stolen.clean_decoded).mean()),
        same_topic=float((TOPIC_OF[decoded] == TOPIC_OF[stolen.clean_decoded]).mean()), picked=stolen.picked(scores),
        receipt=receipt, cosines=cosines,
    )


def sweep(stolen: StolenVectors, mechanisms: Sequence[str], arguments: dict[str, Any]) -> dict[float, list[Outcome]]:
    """Release at other epsilons; returns the outcome of each mechanism by epsilon, with means over some releases."""
    found: dict[float, list[Outcome]] = {epsilon: [] for epsilon in SWEEP_EPSILONS}
    with Progress("other epsilons", len(SWEEP_EPSILONS) * len(mechanisms)) as progress:
        for epsilon, name in product(SWEEP_EPSILONS, mechanisms):
            release = releaser(stolen, name, {**arguments, "epsilon": epsilon})
            outcomes = [release() for _ in range(max(1, _SWEEP_ROWS // len(stolen.texts)))]
            means: dict[str, Any] = {share: float(np.mean([getattr(one, share) for one in outcomes])) for share in SHARES}
            cosines = [one.cosines for one in outcomes if one.cosines is not None]
            found[epsilon].append(replace(outcomes[0], **means, cosines=np.concatenate(cosines) if cosines else None))
            progress.advance(1)
    return found


@dataclass(frozen=True)
class TopicAccuracy:
    """How well the topic of a public sentence is told by the nearest centroid of the topics of many people's texts."""

    people: int  # how many, each with one text and its topic
    largest: float  # share of the sentences that are of the largest topic
    clean: float  # share of the sentences whose topic is told, from centroids without noise,
    centroids: float  # from one release of centroids,
    # and by epsilon from centroids of rows that were released one by one with PrivUnit, with the bound as of an Outcome
    rows: dict[float, tuple[float, float | None]]
    receipt: AggregateReceipt  # of the release of centroids


@dataclass(frozen=True)
class TooFewPeople:
    """Why no topics are learned: the noise of a centroid is so many times as long as a row; from `enough` people on it is shorter."""

    times: float
    enough: int


def learned_topics(
    stolen: StolenVectors, topics: Numbers, people: int, delta: float, generator: Generator | None
) -> TopicAccuracy | TooFewPeople:
    """Learn centroids of the topics of the texts, which are taken in turn for so many people; nothing is released of too few."""
    count, dimension = len(TOPICS), stolen.clean.shape[1]
    enough = math.ceil(gaussian_sigma(AGGREGATE_EPSILON, delta, 2.0) * count * math.sqrt(dimension))
    if people < enough:
        return TooFewPeople(enough / people, enough)
    rows, labels = np.resize(stolen.clean, (people, dimension)), np.resize(topics, people)
    sentences = stolen.corpus.embeddings
    terms: dict[str, Any] = {"labels": count, "delta": delta, "adjacency": "replace-one", "generator": generator}
    made = class_centroids(rows, labels, epsilon=AGGREGATE_EPSILON, **terms)

    def right(values: Rows) -> float:
        sums = np.array([values[labels == topic].sum(axis=0, dtype=np.float64) for topic in range(count)])
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        centroids = (sums / np.where(lengths == 0, 1.0, lengths)).astype(np.float32)
        return float((nearest(sentences, centroids) == TOPIC_OF).mean())

    by_rows = {}
    for epsilon in ROW_EPSILONS:
        values, receipt = privatize(rows, mechanism=PrivUnit.name, epsilon=epsilon, generator=generator)
        by_rows[epsilon] = (right(values), one_of_two(receipt))
    largest = max(TOPICS.values()) / len(TOPIC_OF)
    return TopicAccuracy(people, largest, right(rows), made.score(sentences, TOPIC_OF), by_rows, made.receipt)
