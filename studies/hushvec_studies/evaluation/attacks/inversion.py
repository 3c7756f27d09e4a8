"""A text searched for whose embedding explains a release: no decoder is trained, the embedding model itself guides the search.

The search begins with the public texts that explain a release best, and changes them: a word of another near text, or one that
explains the release alone, comes in or replaces another one; a word goes; the end of a near text replaces the own one. The best few of
each round go on.

Reference:
    Zhang, Morris, Shmatikov, "Universal zero-shot embedding inversion" (2025, ZSInvert), for the search that the embedding guides. Its
    proposals come from a language model; these come from public texts, as no such model is at hand without a download.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.audit.bootstrap import bootstrap
from hushvec.extend.helpers import Estimate
from hushvec.retrieval.attacks.bounds import identification_bound, membership_bound
from hushvec_studies.evaluation.attacks.measure import AttackFigure, Sought, row_of
from hushvec_studies.evaluation.attacks.rows import attack_interval
from hushvec_studies.evaluation.cells import Cell
from hushvec_studies.evaluation.contenders import CODEBOOK, PRIVUNIT, generators
from hushvec_studies.harness.embeddings import embedder
from hushvec_studies.rewriting.metrics import token_f1

# ---- the search ----

Rows = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Rows]

BEAM, CHANGES, ROUNDS = 4, 8, 8
_NEAR = 20  # public texts whose words are tried
_LIKELY = 40  # words that explain a release best alone
_AT_LEAST = 2  # texts that a word of the vocabulary stands in

_WORD = re.compile(r"\w+(?:['’-]\w+)*")


@dataclass(frozen=True)
class Search:
    """How texts are looked for.

    Args:
        embed: texts -> rows where releases are, to compare with them.
        texts, rows: public ones, and their rows where releases are.
        beam, changes, rounds: texts that go on, changes of each, and how often.
    """

    embed: Embed
    texts: Sequence[str]
    rows: Rows
    beam: int = BEAM
    changes: int = CHANGES
    rounds: int = ROUNDS

    def found(self, released: Rows, random: np.random.Generator) -> tuple[list[str], list[str]]:
        """(the public text that the search begins with, the text that it ends with) for each release."""
        vocabulary = self._vocabulary()
        near = np.argsort(-(released @ self.rows.T), axis=1, kind="stable")[:, : max(_NEAR, self.beam)]
        starts = [[words_of(self.texts[place]) for place in places] for places in near]
        likely = np.argsort(-(released @ self.embed(vocabulary).T), axis=1, kind="stable")[:, :_LIKELY]
        sources = [
            _Proposals(own[:_NEAR], [vocabulary[word] for word in words], random)
            for own, words in zip(starts, likely, strict=True)
        ]
        beams = [own[: self.beam] for own in starts]
        for _ in range(self.rounds):
            beams = self._round(beams, sources, released)
        return [self.texts[places[0]] for places in near], [" ".join(beam[0]) for beam in beams]

    def _round(
        self, beams: list[list[tuple[str, ...]]], sources: list[_Proposals], released: Rows
    ) -> list[list[tuple[str, ...]]]:
        """The best texts of each beam and of its changes. All releases' texts are embedded together."""
        tried = [
            list(dict.fromkeys([*beam, *(source.changed(text) for text in beam for _ in range(self.changes))]))
            for beam, source in zip(beams, sources, strict=True)
        ]
        rows = self.embed([" ".join(text) for texts in tried for text in texts])
        best, first = [], 0
        for texts, release in zip(tried, released, strict=True):
            scores = rows[first : first + len(texts)] @ release
            best.append([texts[place] for place in np.argsort(-scores, kind="stable")[: self.beam]])
            first += len(texts)
        return best

    def _vocabulary(self) -> list[str]:
        counts = Counter(word for text in self.texts for word in set(words_of(text)))
        return [word for word, count in counts.items() if count >= _AT_LEAST] or list(counts)


class _Proposals:
    """What may stand in a text: words of near public texts, and words that explain the release alone."""

    def __init__(self, near: Sequence[tuple[str, ...]], likely: Sequence[str], random: np.random.Generator) -> None:
        self._near, self._likely, self._random = near, likely, random
        self._words = [word for text in near for word in text]

    def changed(self, text: tuple[str, ...]) -> tuple[str, ...]:
        """The text with one change; never without a word."""
        place = int(self._random.integers(len(text) + 1))
        kind = self._random.integers(4)
        if kind == 0:
            return (*text[:place], self._word(), *text[place:])
        if kind == 1 and len(text) > 1:
            return text[:place] + text[place + 1 :] if place < len(text) else text[:-1]
        if kind == 2:
            other = self._near[int(self._random.integers(len(self._near)))]
            cut = int(self._random.integers(len(other) + 1))
            return (text[:place] + other[cut:]) or text
        place = min(place, len(text) - 1)
        return (*text[:place], self._word(), *text[place + 1 :])

    def _word(self) -> str:
        words = self._words if self._random.random() < 0.5 else self._likely
        return words[int(self._random.integers(len(words)))]


def words_of(text: str) -> tuple[str, ...]:
    """Words in lower case, without marks; a text without one is its own word."""
    return tuple(_WORD.findall(text.lower())) or (text,)


# ---- one measurement ----

# A search takes a minute for each epsilon, so that the two most useful mechanisms alone are attacked in this way.
INVERTED = (PRIVUNIT, CODEBOOK)
START, FOUND, EXACT, NAMED = "inversion_start_f1", "inversion_f1", "inversion_exact", "inversion_named"


def measure_inversion(cell: Cell) -> dict[str, Any]:
    """The row of a cell of inversion, of one release of each text that is looked for."""
    data = cell.data
    assert isinstance(data, Sought)
    (generator,) = generators(cell.noise_seed, 1)
    made = data.contender(cell, 0, generator)
    public_texts, private_texts = data.texts
    wanted = [private_texts[place] for place in data.sought]
    embed = _embed(data.model)
    search = Search(lambda texts: made.beside(embed(texts)), public_texts, made.beside(data.public))
    released = made.released(data.private[data.sought], generator)
    starts, found = search.found(released, np.random.default_rng(cell.seed))
    count = len(private_texts)
    bound = None if cell.epsilon is None else identification_bound(cell.epsilon, made.delta, count)
    exact = np.array([words_of(one) == words_of(text) for one, text in zip(found, wanted, strict=True)])
    named = np.equal((embed(found) @ data.private.T).argmax(axis=1), data.sought)
    figures = {
        START: _words_in_common(cell, made.delta, starts, wanted),
        FOUND: _words_in_common(cell, made.delta, found, wanted),
        EXACT: AttackFigure(attack_interval(exact, cell.confidence), 1 / count, bound),
        NAMED: AttackFigure(attack_interval(named, cell.confidence), 1 / count, bound),
    }
    return row_of(cell, made.delta, 1, len(wanted), figures)


def _words_in_common(cell: Cell, delta: float, outputs: Sequence[str], wanted: Sequence[str]) -> AttackFigure:
    """Token F1 of each output and its text. Chance is the same with the other texts, and the interval is that of the difference.

    F1 lies in [0, 1], so its expectation with the true text behind the release is bounded by that with another one, as a rate of true
    positives is by one of false positives; the upper end of the interval stands for the latter, so that this bound is one with the
    confidence of the interval.
    """
    table = np.array([[token_f1(text, output) for text in wanted] for output in outputs])
    own = np.diagonal(table)
    others = (table.sum(axis=1) - own) / (len(wanted) - 1)
    of = bootstrap({"gain": own - others, "others": others}, **cell.fields("confidence", "resamples", "seed"))
    gain, chance = of["gain"], of["others"]
    assert gain.low is not None and gain.high is not None and chance.high is not None
    value = Estimate(float(own.mean()), chance.value + gain.low, chance.value + gain.high, cell.confidence)
    bound = None if cell.epsilon is None else membership_bound(cell.epsilon, delta, min(1.0, chance.high))
    return AttackFigure(value, chance.value, bound)


@cache
def _embed(model: str) -> Callable[[Sequence[str]], NDArray[np.float32]]:
    """The embedding model, which is public; loaded once in a process."""
    found = embedder(model)
    return lambda texts: np.asarray(found.embed(list(texts)), np.float32)
