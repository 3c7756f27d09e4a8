"""One measurement of inversion: texts whose embeddings explain a few releases, compared with the texts behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.statistics import Estimate
from hushvec.audit.bootstrap import bootstrap
from hushvec.audit.indexes.bounds import identification_bound, membership_bound
from hushvec_studies.evaluation.attacks.figures import AttackFigure
from hushvec_studies.evaluation.attacks.inversion import Search, words_of
from hushvec_studies.evaluation.attacks.measure import made_for
from hushvec_studies.evaluation.attacks.recognition import attack_interval
from hushvec_studies.evaluation.attacks.targets import Sought
from hushvec_studies.evaluation.cell import Cell
from hushvec_studies.evaluation.contenders import CODEBOOK, PRIVUNIT, generators
from hushvec_studies.harness.models import embedder
from hushvec_studies.rewriting.metrics import token_f1

# A search takes a minute for each epsilon, so that the two most useful mechanisms alone are attacked in this way.
INVERTED = (PRIVUNIT, CODEBOOK)
START, FOUND, EXACT, NAMED = "inversion_start_f1", "inversion_f1", "inversion_exact", "inversion_named"


def measure_inversion(cell: Cell) -> dict[str, Any]:
    """The row of a cell of inversion, of one release of each text that is looked for."""
    data = cell.data
    assert isinstance(data, Sought)
    (generator,) = generators(cell.noise_seed, 1)
    made = made_for(cell, data, 0, generator)
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
    return {
        "task": cell.task,
        "mechanism": cell.mechanism,
        "epsilon": cell.epsilon,
        "delta": None if cell.epsilon is None else made.delta,
        "draws": 1,
        "rows": len(wanted),
        "figures": {name: figure.to_dict() for name, figure in figures.items()},
    }


def _words_in_common(cell: Cell, delta: float, outputs: Sequence[str], wanted: Sequence[str]) -> AttackFigure:
    """Token F1 of each output and its text. Chance is the same with the other texts, and the interval is that of the difference.

    F1 lies in [0, 1], so its expectation with the true text behind the release is bounded by that with another one, as a rate of true
    positives is by one of false positives; the upper end of the interval stands for the latter, so that this bound is one with the
    confidence of the interval.
    """
    f1: Callable[[str, str], float] = token_f1
    table = np.array([[f1(text, output) for text in wanted] for output in outputs])
    own = np.diagonal(table)
    others = (table.sum(axis=1) - own) / (len(wanted) - 1)
    setting: dict[str, Any] = {"confidence": cell.confidence, "resamples": cell.resamples, "seed": cell.seed}
    of = bootstrap({"gain": own - others, "others": others}, **setting)
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
