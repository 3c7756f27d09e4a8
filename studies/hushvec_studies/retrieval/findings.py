"""What a study shows: which side, which mechanism, at which epsilon retrieval survives and the attacks do not.

Everything here follows from rows by `Rules`; nothing is typed in. Intervals decide, not values: what is only perhaps true does
not count.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hushvec._util import validate
from hushvec_studies.retrieval.columns import ATTACKS, FALSE_POSITIVE_RATES, Row, attack_column

# What a row and the run without noise that it is compared with have in common.
_SAME_TEXTS = ("dataset_split", "embedding_model", "seed", "queries_per_document", "k")
_EPSILONS = ("epsilon_doc", "epsilon_query", "epsilon_score")


@dataclass(frozen=True, kw_only=True)
class Rules:
    """When retrieval survives and when an attack fails.

    Args:
        kept: retrieval survives where the lower end of the interval of recall_at_k is at least this share of recall_at_k without noise
            and without a public map.
        largest_auc: an attack fails where the upper end of the interval of its area is at most this (1/2 is chance),
        largest_rate: and where, at every rate f of false positives, the lower end of the interval of the rate of true ones is at most
            f times this.
    """

    kept: float = 0.8
    largest_auc: float = 0.55
    largest_rate: float = 2.0

    def __post_init__(self) -> None:
        if not 0 < validate.number("kept", self.kept) <= 1:
            raise ValueError(f"kept must be > 0 and <= 1, got {self.kept!r}")
        if not 0.5 <= validate.number("largest_auc", self.largest_auc) <= 1:
            raise ValueError(f"largest_auc must be in [0.5, 1], got {self.largest_auc!r}")
        if validate.number("largest_rate", self.largest_rate) < 1:
            raise ValueError(f"largest_rate must be >= 1, got {self.largest_rate!r}")

    def survives(self, row: Row, clean: Row) -> bool:
        """Whether retrieval at the row's k is kept, compared with the row without noise."""
        return bool(row["recall_at_k_ci_lower"] >= self.kept * clean["recall_at_k"])

    def fails(self, row: Row, attack: str) -> bool | None:
        """Whether an attack ("logistic", "likelihood") fails; None if it was not tried."""
        area = row[f"{attack_column(attack, 'auc')}_ci_upper"]
        if area is None:
            return None
        rates = ((row[f"{attack_column(attack, f'tpr_{fpr:g}_fpr')}_ci_lower"], fpr) for fpr in FALSE_POSITIVE_RATES)
        return bool(area <= self.largest_auc and all(rate <= self.largest_rate * fpr for rate, fpr in rates))

    def to_text(self) -> str:
        return (
            f"Retrieval survives where the interval of recall at k lies above {self.kept:g} times what it is without noise. "
            f"An attack fails where the interval of its area under the curve ends at or below {self.largest_auc:g} and its rates "
            f"of true positives are not shown to be above {self.largest_rate:g} times the rates of false ones. "
            "All attacks tried must fail."
        )


@dataclass(frozen=True, kw_only=True)
class Frontier:
    """One side and noise at one k, over its epsilons.

    Args:
        texts: split, model, seed, queries per document.
        survives_from: smallest epsilon from which on retrieval survives at every larger one tried; None: at none.
        fails_to: largest epsilon up to which the attacks fail at every smaller one tried; None: at none.
        both: epsilons at which retrieval survives and the attacks fail, the largest first.
        promise: at those: largest epsilon that documents are promised against the attacks; inf: nothing.
        most_kept: the largest share of recall_at_k that is left where the attacks fail, and the epsilon there; None: they fail
            nowhere.
        rows: of the frontier, the largest epsilon first.
    """

    sides: str
    noise: str
    projection: str
    texts: tuple[Any, ...]
    k: int
    survives_from: float | None
    fails_to: float | None
    both: tuple[float, ...]
    promise: float | None
    most_kept: tuple[float, float] | None
    rows: tuple[Row, ...]

    @property
    def protects_documents(self) -> bool:
        """Whether the noise stands between documents and their searchers; noise on queries alone is put there by the searcher."""
        return self.sides != "query"

    def to_dict(self) -> dict[str, Any]:
        promise = "inf" if self.promise == math.inf else self.promise
        texts = dict(zip(_SAME_TEXTS, self.texts))
        names = ("sides", "noise", "projection", "k", "survives_from", "fails_to")
        kept = None if self.most_kept is None else list(self.most_kept)
        return (
            texts
            | {name: getattr(self, name) for name in names}
            | {"both": list(self.both), "promise": promise, "most_kept": kept}
        )


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the rows of a study show.

    Args:
        frontiers: one for every side, noise, public map and k that was tried with noise, in the order of the rows.
        details: a sentence for every frontier; those that differ in k alone share one.
        notes: what a reader has to know beside the answer.
    """

    rules: Rules
    frontiers: tuple[Frontier, ...]
    answer: str
    details: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, ...]:
        """The finding in words, the answer first."""
        return (self.answer, *self.details, *self.notes)

    def to_dict(self) -> dict[str, Any]:
        return {
            "rules": self.rules.to_text(),
            "finding": list(self.sentences),
            "frontiers": [frontier.to_dict() for frontier in self.frontiers],
        }


def finding(rows: Sequence[Row], rules: Rules | None = None) -> Finding:
    """What rows show: those of results.csv, the runs without noise among them, by the default rules or others.

    Rows without attacks, or without a run without noise on the same texts, say nothing about both questions and are left out; a
    sentence says how many.

    Example:
        >>> finding([]).answer
        'No run with noise has a run without noise and an attack beside it: nothing can be said.'
    """
    chosen = rules or Rules()
    clean = {_texts(row): row for row in rows if row["mechanism"] == "none" and row["projection"] == "none"}
    noisy = [row for row in rows if row["mechanism"] != "none"]
    told = [row for row in noisy if _texts(row) in clean and any(chosen.fails(row, attack) is not None for attack in ATTACKS)]
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in told:
        groups.setdefault((row["sides"], row["noise"], row["projection"], *_texts(row)), []).append(row)
    frontiers = tuple(_frontier(group, clean[_texts(group[0])], chosen) for group in groups.values())
    return Finding(
        rules=chosen,
        frontiers=frontiers,
        answer=_answer(frontiers),
        details=_details(frontiers),
        notes=_notes(frontiers, len(noisy) - len(told)),
    )


def epsilon_of(row: Row) -> float:
    """The epsilon of a row's sides: the smallest one that is not infinite."""
    return min(float(row[name]) for name in _EPSILONS)


def _texts(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in _SAME_TEXTS)


def _frontier(rows: Sequence[Row], clean: Row, rules: Rules) -> Frontier:
    ordered = sorted(rows, key=epsilon_of, reverse=True)
    kept = [rules.survives(row, clean) for row in ordered]
    beaten = [all(verdict for attack in ATTACKS if (verdict := rules.fails(row, attack)) is not None) for row in ordered]
    epsilons = [epsilon_of(row) for row in ordered]
    both = [row for row, survives, fails in zip(ordered, kept, beaten) if survives and fails]
    shares = [
        (row["recall_at_k"] / (clean["recall_at_k"] or 1.0), epsilon_of(row)) for row, fails in zip(ordered, beaten) if fails
    ]
    return Frontier(
        sides=rows[0]["sides"],
        noise=rows[0]["noise"],
        projection=rows[0]["projection"],
        texts=_texts(rows[0]),
        k=rows[0]["k"],
        survives_from=_last(epsilons, kept),
        fails_to=_last(epsilons[::-1], beaten[::-1]),
        both=tuple(epsilon_of(row) for row in both),
        promise=max((row["epsilon_claimed"] for row in both), default=None),
        most_kept=max(shares, default=None),
        rows=tuple(ordered),
    )


def _last(epsilons: Sequence[float], held: Sequence[bool]) -> float | None:
    """The epsilon of the last of the leading ones that held."""
    found = None
    for epsilon, here in zip(epsilons, held):
        if not here:
            break
        found = epsilon
    return found


# ---- in words ----

def _details(frontiers: Sequence[Frontier]) -> tuple[str, ...]:
    several = len({frontier.texts[:-1] for frontier in frontiers}) > 1
    alike: dict[tuple[Any, ...], list[Frontier]] = {}
    for frontier in frontiers:
        alike.setdefault((_name(frontier), frontier.texts[:-1], frontier.survives_from, frontier.fails_to), []).append(frontier)
    return tuple(_detail(group, several) for group in alike.values())


def _notes(frontiers: Sequence[Frontier], left_out: int) -> tuple[str, ...]:
    notes = []
    if any(not frontier.protects_documents for frontier in frontiers):
        notes.append(
            "Noise on queries alone protects the asker. It does not protect documents: an adversary who asks leaves it out, "
            "so that attacks which fail there show no protection."
        )
    if left_out:
        notes.append(f"{left_out} rows have no run without noise or no attack beside them and are left out.")
    return tuple(notes)


def _answer(frontiers: Sequence[Frontier]) -> str:
    if not frontiers:
        return "No run with noise has a run without noise and an attack beside it: nothing can be said."
    good = [frontier for frontier in frontiers if frontier.both and frontier.protects_documents]
    if good:
        named = "; ".join(f"{_name(frontier)} at epsilon {_listed(frontier.both)} with k = {frontier.k}" for frontier in good)
        return f"Retrieval survives while the attacks fail with noise on {named}."
    surviving = [
        (frontier.survives_from, frontier)
        for frontier in frontiers
        if frontier.survives_from is not None and frontier.protects_documents
    ]
    if not surviving:
        return f"At no setting tried that protects documents does retrieval survive.{_most_kept(frontiers)}"
    epsilon, smallest = min(surviving, key=lambda pair: pair[0])
    return (
        "At no setting tried does retrieval survive while the attacks fail. The smallest epsilon at which retrieval survives is "
        f"{epsilon:g}, with noise on {_name(smallest)} and k = {smallest.k}; there the attacks still succeed."
        f"{_most_kept(frontiers)}"
    )


def _most_kept(frontiers: Sequence[Frontier]) -> str:
    """What is left at best where the attacks fail; empty if they fail nowhere."""
    failing = [(frontier.most_kept, frontier) for frontier in frontiers if frontier.most_kept and frontier.protects_documents]
    if not failing:
        return ""
    (share, epsilon), frontier = max(failing, key=lambda pair: pair[0])
    return (
        f" Where the attacks fail, at most {share:.0%} of recall is left, with noise on {_name(frontier)} at epsilon {epsilon:g} "
        f"and k = {frontier.k}."
    )


def _detail(frontiers: Sequence[Frontier], several: bool) -> str:
    """Of frontiers that differ in k alone."""
    frontier = frontiers[0]
    kept = "at no epsilon tried" if frontier.survives_from is None else f"from epsilon {frontier.survives_from:g} up"
    beaten = "at no epsilon tried" if frontier.fails_to is None else f"up to epsilon {frontier.fails_to:g}"
    texts = f" ({', '.join(str(part) for part in frontier.texts[:-1])})" if several else ""
    ks = _listed(frontier.k for frontier in frontiers)
    return f"{_name(frontier)}, k = {ks}{texts}: retrieval survives {kept}, the attacks fail {beaten}."


def _name(frontier: Frontier) -> str:
    noise = {frontier.rows[0][name] for name in ("noise_doc", "noise_query", "noise_score")} - {"none"}
    beside = "" if frontier.projection == "none" else f", map {frontier.projection}"
    return f"{frontier.sides} ({' and '.join(sorted(noise))}{beside})"


def _listed(epsilons: Iterable[float]) -> str:
    return ", ".join(f"{epsilon:g}" for epsilon in epsilons)
