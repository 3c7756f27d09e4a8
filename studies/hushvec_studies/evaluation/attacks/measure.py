"""One measurement: every attack on the rows of a task, released by one mechanism at one epsilon."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

import hushvec
from hushvec._util.statistics import Estimate
from hushvec.audit.indexes.bounds import identification_bound, membership_auc_bound, membership_bound
from hushvec.audit.indexes.curves import RocCurve, bootstrap
from hushvec_studies.evaluation.attacks import membership, words
from hushvec_studies.evaluation.attacks.alignment import PAIRS, named_by_stranger
from hushvec_studies.evaluation.attacks.figures import AttackFigure
from hushvec_studies.evaluation.attacks.linear import trained
from hushvec_studies.evaluation.attacks.recognition import attack_interval
from hushvec_studies.evaluation.attacks.targets import Target
from hushvec_studies.evaluation.cell import Cell
from hushvec_studies.evaluation.contenders import DOCUMENTS, NONE, Contender, clean, contender, generators
from hushvec_studies.search_by_mechanism.measure import unit

FPRS = (0.01, 0.001)
PAIR, AREA, WORDS = "pair", "membership_auc", "words_auc"

Rows = NDArray[np.float32]


def rate_name(attack: str, fpr: float) -> str:
    """Of the rate of true positives at one of false ones: of PAIR, or of "membership"."""
    return f"{attack}_tpr_at_{fpr:g}"


def alignment_name(stranger: str, pairs: int) -> str:
    return f"alignment {stranger} {pairs}"


class _Draw:
    """One release of all rows, and what each attack made of it."""

    def __init__(self, cell: Cell, data: Target, draw: int, generator: hushvec.Generator) -> None:
        made = made_for(cell, data, draw, generator)
        released = made.released(data.private, generator)
        # The adversary's own texts, which it sends through the same mechanism.
        learned = made.released(data.public, generator)
        behind = made.beside(data.private)
        random = np.random.default_rng([cell.seed, draw])
        self.delta = made.delta
        ratios = membership.pair_ratios(made, released, behind, random)
        self.told_apart = membership.told_apart(ratios, random)
        # Of half of the releases the adversary asks whether the own row is behind it, of the others whether the other one is.
        asked = membership.members(len(behind) // 2 * 2, random)
        scores = membership.ties_broken(np.where(asked, ratios[: len(asked)], -ratios[: len(asked)]), random)
        self.pair_scores = scores[asked], scores[~asked]
        self.scores = _membership(made, released, behind, random)
        self.words = _word_places(data, learned, released)
        self.named = dict(_named(data, learned, released, random))


def measure_attacks(cell: Cell) -> dict[str, Any]:
    """The row of a cell of attacks: for each figure its value, chance and bound."""
    data = cell.data
    assert isinstance(data, Target)
    draws = [_Draw(cell, data, draw, generator) for draw, generator in enumerate(generators(cell.noise_seed, cell.draws))]
    figures = dict(_figures(cell, data, draws))
    return {
        "task": cell.task,
        "mechanism": cell.mechanism,
        "epsilon": cell.epsilon,
        "delta": None if cell.epsilon is None else draws[0].delta,
        "draws": len(draws),
        "rows": len(data.private),
        "figures": {name: figure.to_dict() for name, figure in figures.items()},
    }


def made_for(cell: Cell, data: Target, draw: int, generator: hushvec.Generator) -> Contender:
    """The mechanism of a cell, made from the public rows."""
    if cell.mechanism == NONE:
        return clean()
    assert cell.epsilon is not None
    return contender(
        cell.mechanism,
        data.public,
        cell.epsilon,
        cell.delta,
        rows=None if data.averaged else len(data.private),
        purpose=data.purpose,
        side=DOCUMENTS,
        seed=cell.seed + draw,
        generator=generator,
    )


def _figures(cell: Cell, data: Target, draws: list[_Draw]) -> Iterator[tuple[str, AttackFigure]]:
    """Every figure over all draws, with the bound for (epsilon, delta) of one row."""
    epsilon, delta, count = cell.epsilon, draws[0].delta, len(data.private)
    random = np.random.default_rng(cell.seed)
    told_apart = attack_interval(np.concatenate([one.told_apart for one in draws]), cell.confidence)
    yield PAIR, AttackFigure(told_apart, 0.5, None if epsilon is None else identification_bound(epsilon, delta, 2))
    area_bound = None if epsilon is None else membership_auc_bound(epsilon, delta)
    for attack, scores in ((PAIR, [one.pair_scores for one in draws]), ("membership", [one.scores for one in draws])):
        curve = RocCurve.of(*(np.concatenate(side) for side in zip(*scores, strict=True)))
        others = int(curve.others.sum())
        area, rates = bootstrap(curve, FPRS, confidence=cell.confidence, resamples=cell.resamples, random=random)
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
        found = words.mean_area(places, data.private_words, cell.confidence, cell.resamples, random)
        yield WORDS, AttackFigure(found, 0.5, area_bound)
    for name in draws[0].named:
        named: Estimate = attack_interval(np.concatenate([one.named[name] for one in draws]), cell.confidence)
        yield name, AttackFigure(named, 1 / count, None if epsilon is None else identification_bound(epsilon, delta, count))


def _expected_fpr(fpr: float, others: int) -> float:
    """The rate of false positives to expect at the lowest threshold that at most a share `fpr` of so many others reaches.

    With k = floor(fpr n), that threshold lies between the k-th and the (k + 1)-th of them, and another one is above the (k + 1)-th
    with probability (k + 1) / (n + 1). The bound is concave in this rate, so that it holds for the expected rate of true positives.
    """
    return (int(fpr * others + 1e-9) + 1) / (others + 1)


def _membership(made: Contender, released: Rows, behind: Rows, random: np.random.Generator) -> tuple[Any, Any]:
    """Scores of members and of others, where one of each couple of rows was released."""
    even = len(behind) // 2 * 2
    inside = membership.members(even, random)
    scores = membership.ties_broken(membership.explained(made, released[:even][inside], behind[:even]), random)
    return scores[inside], scores[~inside]


def _word_places(data: Target, learned: Rows, released: Rows) -> NDArray[np.float64]:
    if not data.private_words.shape[1]:
        return np.empty((len(released), 0))
    decoder = trained(unit(learned), data.public_words)
    return words.places(decoder(unit(released)), data.private_words)


def _named(data: Target, learned: Rows, released: Rows, random: np.random.Generator) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """For each stranger and number of pairs, whether each release was named."""
    order = random.permutation(len(learned))
    for foreign in data.foreign:
        for pairs in PAIRS:
            if pairs <= len(order):
                known = order[:pairs]
                hits = named_by_stranger(unit(learned[known]), foreign.public[known], unit(released), foreign.private)
                yield alignment_name(foreign.name, pairs), hits
