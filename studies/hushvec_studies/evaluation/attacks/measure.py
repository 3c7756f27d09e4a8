"""One measurement: every attack but inversion on the rows of a task, released by one mechanism at one epsilon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec.extend.helpers import Estimate
from hushvec.retrieval.attacks.bounds import identification_bound, membership_auc_bound, membership_bound
from hushvec.retrieval.attacks.curves import RocCurve
from hushvec_studies.evaluation.attacks import decoders, rows
from hushvec_studies.evaluation.cells import Cell
from hushvec_studies.evaluation.contenders import Contender, generators
from hushvec_studies.evaluation.vectors import Hashed, Labelled, Posts, Rows, Searched, Texts, halves
from hushvec_studies.harness.rows import unit

# ---- figures ----

SUCCEEDS, FAILS, OPEN = "succeeds", "fails", "not shown to succeed"

# Of an interval's lower half: beyond it luck has a chance of about 1 in 10,000 where the interval is one of 95 %.
_BEYOND_LUCK = 2.0


class AttackFigure(NamedTuple):
    """A share or an area, larger for a better attack: with its chance, and the bound of the claim on its expected value."""

    value: Estimate
    chance: float
    bound: float | None

    def to_dict(self) -> dict[str, Any]:
        return {"value": [self.value.value, self.value.low, self.value.high], "chance": self.chance, "bound": self.bound}


def outcome(figure: dict[str, Any], success: float) -> str:
    """Whether an attack is better than chance by `success`. Said only where the whole interval says so."""
    _, low, high = figure["value"]
    wanted = figure["chance"] + success
    if low >= wanted:
        return SUCCEEDS
    return FAILS if high < wanted else OPEN


def exceeds(figure: dict[str, Any]) -> bool:
    """Whether an attack did more than the claim allows, by more than luck in a page of many figures explains."""
    value, low, _ = figure["value"]
    return figure["bound"] is not None and value - _BEYOND_LUCK * (value - low) > figure["bound"]


# ---- what is attacked ----

@dataclass(frozen=True)
class Foreign(Hashed):
    """A stranger's embeddings of public and of private texts."""

    name: str
    public: Rows
    private: Rows


@dataclass(frozen=True)
class Target(Hashed):
    """Private rows that are released, and what an adversary has who can send public texts through the same mechanism.

    Args:
        public_words, private_words: which words stand in which text.
        foreign: a stranger's embeddings.
        averaged: whether releases serve averages, not a search: it decides how a mechanism splits epsilon.
        purpose: of `PublicCodebook.fit`.
    """

    name: str
    public: Rows
    private: Rows
    public_words: NDArray[np.bool_]
    private_words: NDArray[np.bool_]
    foreign: tuple[Foreign, ...]
    averaged: bool
    purpose: str

    def contender(self, cell: Cell, draw: int, generator: hushvec.Generator) -> Contender:
        return cell.contender(self.public, None if self.averaged else len(self.private), self.purpose, draw, generator)


@dataclass(frozen=True)
class Sought(Target):
    """A target of which the texts at the places `sought` are looked for by their releases; `texts` are public and private."""

    model: str
    sought: NDArray[np.int64]
    texts: Texts


def sought(data: Labelled, model: str, count: int, seed: int) -> Sought:
    public, private, public_texts, private_texts = _parts(data)
    no_words = (np.empty((len(public), 0), bool), np.empty((len(private), 0), bool))
    drawn = np.sort(np.random.default_rng(seed).permutation(len(private))[:count]).astype(np.int64)
    texts = (public_texts, private_texts)
    return Sought(data.name, public, private, *no_words, (), True, "cosine", model, drawn, texts)


def target(data: Searched | Posts | Labelled, strangers: Sequence[str]) -> Target:
    """The rows that a task releases: of documents the private half of the first split, of posts the private ones, of classes the
    training rows."""
    public, private, public_texts, private_texts = _parts(data)
    foreign = tuple(Foreign(name, *decoders.stranger(name)(public_texts, private_texts)) for name in strangers)
    purpose = "search" if isinstance(data, Searched) else "cosine"
    words = decoders.word_tables(public_texts, private_texts)
    return Target(data.name, public, private, *words, foreign, isinstance(data, Labelled), purpose)


def _parts(data: Searched | Posts | Labelled) -> tuple[Rows, Rows, list[str], list[str]]:
    if isinstance(data, Searched):
        public, private, _, _ = next(halves(len(data.documents), data.relevant, 1))
        (texts,) = data.texts
        return data.documents[public], data.documents[private], [texts[one] for one in public], [texts[one] for one in private]
    if isinstance(data, Posts):
        public_texts, private_texts = data.texts
        return data.public, data.private, public_texts, private_texts
    public_texts, training_texts = data.texts
    return data.public, data.training, public_texts, training_texts


# ---- one measurement ----

FPRS = (0.01, 0.001)
PAIR, AREA, WORDS = "pair", "membership_auc", "words_auc"


def rate_name(attack: str, fpr: float) -> str:
    """Of the rate of true positives at one of false ones: of PAIR, or of "membership"."""
    return f"{attack}_tpr_at_{fpr:g}"


def alignment_name(stranger: str, pairs: int) -> str:
    return f"alignment {stranger} {pairs}"


class _Draw:
    """One release of all rows, and what each attack made of it."""

    def __init__(self, cell: Cell, data: Target, draw: int, generator: hushvec.Generator) -> None:
        made = data.contender(cell, draw, generator)
        released = made.released(data.private, generator)
        # The adversary's own texts, which it sends through the same mechanism.
        learned = made.released(data.public, generator)
        behind = made.beside(data.private)
        random = np.random.default_rng([cell.seed, draw])
        self.delta = made.delta
        ratios = rows.pair_ratios(made, released, behind, random)
        self.told_apart = rows.told_apart(ratios, random)
        # Of half of the releases the adversary asks whether the own row is behind it, of the others whether the other one is.
        asked = rows.members(len(behind) // 2 * 2, random)
        scores = rows.ties_broken(np.where(asked, ratios[: len(asked)], -ratios[: len(asked)]), random)
        self.pair_scores = scores[asked], scores[~asked]
        self.scores = _membership(made, released, behind, random)
        self.words = _word_places(data, learned, released)
        self.named = dict(_named(data, learned, released, random))


def measure_attacks(cell: Cell) -> dict[str, Any]:
    """The row of a cell of attacks: for each figure its value, chance and bound."""
    data = cell.data
    assert isinstance(data, Target)
    draws = [_Draw(cell, data, draw, generator) for draw, generator in enumerate(generators(cell.noise_seed, cell.draws))]
    return row_of(cell, draws[0].delta, len(draws), len(data.private), dict(_figures(cell, data, draws)))


def row_of(cell: Cell, delta: float, draws: int, count: int, figures: Mapping[str, AttackFigure]) -> dict[str, Any]:
    return {
        **cell.fields("task", "mechanism", "epsilon"),
        "delta": None if cell.epsilon is None else delta,
        "draws": draws,
        "rows": count,
        "figures": {name: figure.to_dict() for name, figure in figures.items()},
    }


def _figures(cell: Cell, data: Target, draws: list[_Draw]) -> Iterator[tuple[str, AttackFigure]]:
    """Every figure over all draws, with the bound for (epsilon, delta) of one row."""
    epsilon, delta, count = cell.epsilon, draws[0].delta, len(data.private)
    random = np.random.default_rng(cell.seed)
    told_apart = rows.attack_interval(np.concatenate([one.told_apart for one in draws]), cell.confidence)
    yield PAIR, AttackFigure(told_apart, 0.5, None if epsilon is None else identification_bound(epsilon, delta, 2))
    area_bound = None if epsilon is None else membership_auc_bound(epsilon, delta)
    for attack, scores in ((PAIR, [one.pair_scores for one in draws]), ("membership", [one.scores for one in draws])):
        curve = RocCurve.of(*(np.concatenate(side) for side in zip(*scores, strict=True)))
        others = int(curve.others.sum())
        area, rates = curve.intervals(FPRS, confidence=cell.confidence, resamples=cell.resamples, random=random)
        if attack != PAIR:
            yield AREA, AttackFigure(area, 0.5, area_bound)
        for fpr, rate in rates.items():
            if fpr * others < 1:
                continue  # so few others say nothing of so small a rate
            expected = _expected_fpr(fpr, others)
            allowed = None if epsilon is None else membership_bound(epsilon, delta, expected)
            yield rate_name(attack, fpr), AttackFigure(rate, expected, allowed)
    if data.private_words.shape[1]:
        places = np.mean([one.words for one in draws], axis=0)
        found = decoders.mean_area(places, data.private_words, cell.confidence, cell.resamples, random)
        yield WORDS, AttackFigure(found, 0.5, area_bound)
    for name in draws[0].named:
        named: Estimate = rows.attack_interval(np.concatenate([one.named[name] for one in draws]), cell.confidence)
        yield name, AttackFigure(named, 1 / count, None if epsilon is None else identification_bound(epsilon, delta, count))


def _expected_fpr(fpr: float, others: int) -> float:
    """The rate of false positives to expect at the lowest threshold that at most a share `fpr` of so many others reaches.

    With k = floor(fpr n), that threshold lies between the k-th and the (k + 1)-th of them, and another one is above the (k + 1)-th
    with probability (k + 1) / (n + 1). The bound is concave in this rate, so that it holds for the expected rate of true positives.
    """
    return (int(fpr * others + 1e-9) + 1) / (others + 1)


def _membership(made: Contender, released: Rows, behind: Rows, random: np.random.Generator) -> tuple[Any, Any]:
    even = len(behind) // 2 * 2
    inside = rows.members(even, random)
    scores = rows.ties_broken(rows.explained(made, released[:even][inside], behind[:even]), random)
    return scores[inside], scores[~inside]


def _word_places(data: Target, learned: Rows, released: Rows) -> NDArray[np.float64]:
    if not data.private_words.shape[1]:
        return np.empty((len(released), 0))
    decoder = decoders.trained(unit(learned), data.public_words)
    return decoders.places(decoder(unit(released)), data.private_words)


def _named(data: Target, learned: Rows, released: Rows, random: np.random.Generator) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """For each stranger and number of pairs, whether each release was named."""
    order = random.permutation(len(learned))
    for foreign in data.foreign:
        for pairs in decoders.PAIRS:
            if pairs <= len(order):
                known = order[:pairs]
                hits = decoders.named_by_stranger(unit(learned[known]), foreign.public[known], unit(released), foreign.private)
                yield alignment_name(foreign.name, pairs), hits
