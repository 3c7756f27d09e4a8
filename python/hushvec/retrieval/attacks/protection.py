"""`protection`: what an attacker reads from vectors that somebody protected, in whatever way, and what they are still good for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native.products import inner_products, product
from hushvec._util import validate
from hushvec._util.display import Sheet, at_least, at_most, confidence_of, number, plural, shown
from hushvec._util.statistics import Estimate, binom_p_value
from hushvec.audit.bootstrap import bootstrap
from hushvec.audit.results import THIS_ATTACK, as_json
from hushvec.extend import RowReceipt
from hushvec.receipts import HOLDS, LabelReceipt, Receipt, verify_receipt
from hushvec.retrieval.attacks.alignment import Reader, Rows, known_pairs, named, ridge, without_pairs
from hushvec.retrieval.attacks.bounds import attribute_bound, identification_bound, membership_auc_bound
from hushvec.retrieval.attacks.features import require_vectors, unit
from hushvec.retrieval.attacks.inversion import embedding_inversion
from hushvec.retrieval.attacks.membership import judge
from hushvec.retrieval.attacks.shadows import play
from hushvec.retrieval.measures import judgements, per_query

SAME_SPACE, KNOWN_PAIRS, NO_PAIRS, MEMBERSHIP, READING = "same space", "known pairs", "no pairs", "membership", "reading"
PAIRS = (50, 200, 1000)
FEWEST_ROWS = 100

BEYOND, ABOVE, WITHIN, CHANCE = (
    "MORE than the receipt allows", "better than chance; nothing bounds it", "better than chance, within what the receipt allows",
    "no better than chance, which proves nothing",
)  # fmt: skip

# Rows that are judged, at most, rows whose distributions are matched, candidates for membership, and indexes to learn that from.
_JUDGED, _MATCHED, _CANDIDATES, _SHADOWS = 1000, 4000, 2000, 4
_NEIGHBORS = 10
_CLASSIFIER_RIDGE = 0.1
_SHARES = (0.0, 1.0)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one attack reached.

    Args:
        attack, measures: which, and what its number is.
        value: with a bootstrap interval over rows (for membership over candidates).
        chance: what is reached without a look at the protected rows.
        bound: what the receipt allows any attacker, in expectation; None: nothing is promised.
        rows: that were judged.
        verdict: by an exact test, at the share of alpha that each finding has.
        note: how it was done; pairs: how many were known, for that attack.
    """

    attack: str
    measures: str
    value: Estimate
    chance: float
    bound: float | None
    rows: int
    verdict: str
    note: str
    pairs: int | None = None

    @property
    def allowed(self) -> str:
        """The bound in words."""
        return "no bound" if self.bound is None else at_least(self.bound)


@shown
@dataclass(frozen=True, kw_only=True)
class ProtectionResult:
    """What five attacks read from protected rows, and what the rows are good for. `print` shows the table.

    Args:
        findings: a line for each attack, for known pairs one for each number of pairs.
        half: the fewest known pairs that name half of the rows, found by bisection; None: not with those there were.
        useful: (before, after) of the first ten kept, and with labels of nDCG at 10 and of a classifier.
        no_bound: why no bound stands beside what was measured; "" with a receipt that holds.
        rows, dimension, protected_dimension: of what was given.
        confidence: of each interval; alpha: the probability that a protection which hides everything is called weak, or one that keeps
            its receipt refuted.
    """

    findings: tuple[Finding, ...]
    half: int | None
    useful: Mapping[str, tuple[float, Estimate]]
    no_bound: str
    rows: int
    dimension: int
    protected_dimension: int
    confidence: float
    alpha: float
    epsilon: float | None = None
    delta: float | None = None
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def refuted(self) -> bool:
        """Whether an attack reached more than the receipt allows."""
        return any(one.verdict == BEYOND for one in self.findings)

    @property
    def weak(self) -> bool:
        """Whether an attack reached more than the receipt allows or, where nothing bounds it, more than chance."""
        return any(one.verdict in (BEYOND, ABOVE) for one in self.findings)

    def of(self, attack: str) -> tuple[Finding, ...]:
        """The findings of one attack."""
        return tuple(one for one in self.findings if one.attack == attack)

    def _sheet(self) -> Sheet:
        header = ("attack", "measured", "value", "chance", "allowed", "rows")
        table = [(one.attack, one.measures, str(one.value), number(one.chance), one.allowed, f"{one.rows:,}") for one in self.findings]
        half = "not reached" if self.half is None else plural(self.half, "pair")
        promise = self.no_bound or f"epsilon {at_least(self.epsilon)}, delta {at_least(self.delta)}, by the receipt, which holds"
        facts = [
            *((f"{one.attack}: {one.measures}", f"{one.verdict} ({one.note})") for one in self.findings),
            ("half of the rows named with", half),
            *((name, f"{after}, {before:.3f} before") for name, (before, after) in self.useful.items()),
            ("promised", promise),
            ("sample", f"{self.rows:,} rows of {self.dimension} numbers, protected {self.protected_dimension}"),
            ("intervals", f"{confidence_of(self.confidence)}, each alone; verdicts at alpha = {self.alpha:g} together"),
        ]
        return Sheet("What protected vectors give away", tuple(facts), (THIS_ATTACK,), (header, *table))

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        return {**as_json(self), "weak": self.weak, "refuted": self.refuted}


def protection(
    clean: Any, protected: Any, *, labels: Any = None, receipt: RowReceipt | None = None, pairs: Sequence[int] = PAIRS,
    confidence: float = 0.95, alpha: float = 1e-3, resamples: int = 1000, seed: int = 2025,
) -> ProtectionResult:
    """Attack protected vectors in five ways, and measure what they are good for. Use texts that are public or invented.

    Args:
        clean: float array [n, d], n >= 100, of different texts; compared as directions.
        protected: array [n, m] of numbers or bits, row i for row i of `clean`; or a function that makes it of `clean` in one call.
        labels: [n] whole numbers or strings, what a reader would like to know of each row; None: topics and labels are not judged.
        receipt: of the rows, if they have one: its law is used, and what it allows stands beside what was measured.
        pairs: numbers of known pairs. More than half of the rows are left out.
        confidence: of the intervals. alpha: of all verdicts together. resamples: of the bootstrap.
        seed: of who is judged, of members and resampling.

    Returns:
        A ProtectionResult. "same space": the nearest clean row. "known pairs": a linear map learned from pairs, chosen on pairs.
        "no pairs": two distributions laid on each other. "membership": `membership_inference` on a store of the rows.
        "reading": labels by a classifier fitted on clean rows, and the nearest clean row of another text.

    Guarantees:
        An attack that finds nothing proves nothing. If protected rows are independent of the clean ones, `weak` is True with
        probability at most alpha; if the receipt's claim holds, `refuted` is (docs/protection.md says what is assumed).

    Edge cases:
        Equal clean rows count as ordered at random. Packed bits have to be unpacked first (numpy.unpackbits).

    Reference:
        Schonemann, "A generalized solution of the orthogonal Procrustes problem" (1966); Song and Raghunathan, "Information leakage
        in embedding models" (2020), for attributes; and those of the attacks that it uses.

    Example:
        >>> import numpy as np
        >>> from hushvec.audit import protection
        >>> random = np.random.default_rng(1)
        >>> clean = random.standard_normal((600, 16)).astype(np.float32)
        >>> rotation = np.linalg.qr(random.standard_normal((16, 16)))[0]
        >>> result = protection(clean, clean @ rotation, pairs=(40,), resamples=100)
        >>> result.of("known pairs")[0].value.value, result.weak, result.half < 20
        (1.0, True, True)
    """
    rows = require_vectors("clean", clean, 2)
    if len(rows) < FEWEST_ROWS:
        raise ValueError(f"clean must have at least {FEWEST_ROWS} rows, got {len(rows)}")
    values = np.asarray(protected(clean) if callable(protected) else protected)
    hidden = require_vectors("protected", values.astype(np.float32) if values.dtype.kind in "biu" else values, 2)
    if len(hidden) != len(rows) or hidden.shape[1] == 0:
        raise ValueError(f"protected must have {len(rows)} rows, one for each of clean, and a column, got shape {hidden.shape}")
    level, alpha = validate.probability("confidence", confidence), validate.probability("alpha", alpha)
    order = np.random.default_rng(validate.whole_number("seed", seed, at_least=0)).permutation(len(rows))
    judged, public = np.split(order, [min(_JUDGED, len(rows) // 4)])
    counts = _pairs(pairs, len(public) // 2)
    if receipt is not None and not isinstance(receipt, (Receipt, LabelReceipt)):
        raise TypeError(f"receipt must be one of released rows or None, got {validate.kind(receipt)}")
    no_bound = "no bound: there is no receipt" if receipt is None else ""
    if receipt is not None and (found := verify_receipt(receipt)).status != HOLDS:
        no_bound = f"no bound: the receipt is no claim that holds: {'; '.join(found.reasons)}"
    attacks = _Attacks(
        clean=unit(rows),
        protected=hidden,
        labels=None if labels is None else _label_numbers(labels, len(rows)),
        receipt=None if no_bound else receipt,
        judged=judged, public=public, settings={"confidence": level, "resamples": resamples, "seed": seed},
        # Findings: each number of pairs, rows without pairs and membership; the same space; topics and labels.
        share=alpha / (len(counts) + 2 + (hidden.shape[1] == rows.shape[1]) + 2 * (labels is not None)),
    )
    reader = attacks.reader(counts[-1], as_it_is=attacks.is_same_space)
    labelled, cosines = attacks.reading(reader)
    findings = (
        *([attacks.same_space()] if attacks.is_same_space else []),
        *map(attacks.known_pairs, counts),
        *attacks.no_pairs(),
        attacks.membership(reader, counts[-1]),
        *labelled,
    )
    return ProtectionResult(
        findings=findings, half=attacks.half(len(public) // 2), useful=attacks.useful(), no_bound=no_bound,
        epsilon=None if attacks.receipt is None else attacks.receipt.epsilon,
        delta=None if attacks.receipt is None else attacks.receipt.delta,
        rows=len(rows), dimension=rows.shape[1], protected_dimension=hidden.shape[1], confidence=level, alpha=alpha,
        details={"reader": reader.name, "cosine of the nearest clean row of another text": cosines, "seed": seed},
    )


@dataclass(frozen=True, eq=False)
class _Attacks:
    """The five attacks. `judged` rows are attacked; of `public` ones the attacker may know the clean and the protected form."""

    clean: Rows
    protected: Rows
    labels: NDArray[np.intp] | None
    receipt: RowReceipt | None  # of a claim that holds
    judged: NDArray[np.intp]
    public: NDArray[np.intp]
    settings: dict[str, Any]  # of the bootstrap
    share: float  # of alpha, for each finding

    @property
    def is_same_space(self) -> bool:
        return bool(self.clean.shape[1] == self.protected.shape[1])

    def same_space(self) -> Finding:
        law = self.receipt if isinstance(self.receipt, Receipt) else None
        note = f"the nearest clean row, by {'likelihoods of the law of the receipt' if law else 'inner products'}"
        return self._names(SAME_SPACE, self.protected[self.judged], note, law=law)

    def reader(self, count: int, *, as_it_is: bool = False) -> Reader:
        pairs, others = self.public[:count], self.public[count : count + _CANDIDATES]
        return known_pairs(self.protected[pairs], self.clean[pairs], self.clean[others], as_it_is=as_it_is)

    def known_pairs(self, count: int) -> Finding:
        reader = self.reader(count)
        return self._names(KNOWN_PAIRS, reader.read(self.protected[self.judged]), f"{count:,} pairs, {reader.name}", pairs=count)

    def half(self, most: int) -> int | None:
        """The fewest pairs, by bisection from 2 to `most`, that name half of the judged rows."""
        listed = self.clean[np.concatenate([self.judged, self.public])]

        def names_half(count: int) -> bool:
            return named(self.reader(count).read(self.protected[self.judged]), listed) >= 0.5

        if not names_half(most):
            return None
        few, many = 1, most
        while many - few > max(1, few // 50):
            middle = (few + many) // 2
            few, many = (few, middle) if names_half(middle) else (middle, many)
        return many

    def no_pairs(self) -> list[Finding]:
        middle = len(self.public) // 2
        own, others = self.public[:middle][:_MATCHED], np.concatenate([self.judged, self.public[middle:]])[:_MATCHED]
        read = without_pairs(self.protected[others], self.clean[own]).read(self.protected[self.judged])
        note = f"{len(own):,} clean rows of other texts laid on {len(others):,} protected ones"
        found = [self._names(NO_PAIRS, read, note)]
        return found if self.labels is None else [*found, self._guesses(NO_PAIRS, "topics right", read, own, note)]

    def membership(self, reader: Reader, pairs: int) -> Finding:
        """Who is in a store of half of the candidates, which the attacker reads by the map and asks for each of them."""
        pool = np.concatenate([self.judged, self.public[pairs:]])[:_CANDIDATES]
        read = unit(reader.read(self.protected[pool]))
        places = {row.tobytes(): place for place, row in enumerate(self.clean[pool])}
        game = play(
            lambda generator: _Store(places, read),
            self.clean[pool],
            shadow_models=_SHADOWS,
            k=min(_NEIGHBORS, len(pool) // 2),
            seed=self.settings["seed"],
        )
        result = judge(game, claim=None, confidence=self.settings["confidence"], resamples=self.settings["resamples"])
        proved = judge(game, claim=None, confidence=1 - self.share, resamples=1).epsilon_lower
        beyond = self.receipt is not None and proved > self.receipt.epsilon
        return Finding(
            attack=MEMBERSHIP, measures="area under ROC", value=result.auc, chance=0.5,
            bound=None if self.receipt is None else membership_auc_bound(self.receipt.epsilon, self.receipt.delta),
            rows=result.candidates, verdict=self._verdict(proved > 0, beyond),
            note=f"{reader.name}, {pairs:,} pairs; guesses of who is in the store prove epsilon >= {at_most(proved)}",
        )

    def reading(self, reader: Reader) -> tuple[list[Finding], dict[str, Any]]:
        """Labels by a classifier, and how near the nearest clean row of another text comes."""
        read, truth, others = reader.read(self.protected[self.judged]), self.clean[self.judged], self.clean[self.public]
        cosines = {
            "after protection": embedding_inversion(read, truth, others, **self.settings).cosines["best candidate"],
            "before": float(inner_products(truth, others).max(axis=1).mean()),
            "by chance": float(product(truth, others.mean(axis=0)).mean()),
        }
        note = f"{reader.name}, then a classifier of clean rows"
        return ([] if self.labels is None else [self._guesses(READING, "labels right", read, self.public, note)]), cosines

    def useful(self) -> dict[str, tuple[float, Estimate]]:
        """What rows are good for, (before, after): judged rows ask, in the space of the rows; all others answer."""
        spaces, judged, public, labels = (self.clean, unit(self.protected)), self.judged, self.public, self.labels
        before, after = (_first(rows[judged], rows[public]) for rows in spaces)
        kept = np.array([len(np.intersect1d(*both)) / _NEIGHBORS for both in zip(before, after)])
        columns = {"first ten kept": (np.ones(len(judged)), kept)}
        if labels is not None:
            same = [np.flatnonzero(labels[public] == one) for one in range(int(labels.max()) + 1)]
            asks = np.array([len(same[one]) > 0 for one in labels[judged]])
            relevant = [same[one] for one in labels[judged][asks]]
            gains = [per_query(judgements(ids[asks], relevant), (_NEIGHBORS,))[f"ndcg_at_{_NEIGHBORS}"] for ids in (before, after)]
            right = [_classified(rows[public], labels[public], rows[judged]) == labels[judged] for rows in spaces]
            columns |= {"nDCG at 10, of the same label": (gains[0], gains[1]), "classifier, labels right": (right[0], right[1])}
        return {
            name: (float(first.mean()), bootstrap({name: second}, **self.settings, limits=_SHARES)[name])
            for name, (first, second) in columns.items()
        }

    def _names(self, attack: str, read: Rows, note: str, *, law: Receipt | None = None, pairs: int | None = None) -> Finding:
        """How many of the judged rows are named among all clean ones."""
        truth, listed = self.clean[self.judged], self.clean
        found = embedding_inversion(read, truth, listed, places=self.judged, receipt=law, **self.settings).identified[1]
        bound = None if self.receipt is None else identification_bound(self.receipt.epsilon, self.receipt.delta, len(listed))
        return self._finding(attack, "rows named", found, 1 / len(listed), bound, note, pairs)

    def _guesses(self, attack: str, measures: str, read: Rows, fitted_on: NDArray[np.intp], note: str) -> Finding:
        """Attribute inference: labels of the judged rows by a classifier of clean rows."""
        assert self.labels is not None
        right = _classified(self.clean[fitted_on], self.labels[fitted_on], unit(read)) == self.labels[self.judged]
        value = bootstrap({"right": right}, **self.settings, limits=_SHARES)["right"]
        chance = float(np.bincount(self.labels).max() / len(self.labels))
        bound = None if self.receipt is None else attribute_bound(self.receipt.epsilon, self.receipt.delta, chance)
        return self._finding(attack, measures, value, chance, bound, note)

    def _finding(
        self, attack: str, measures: str, value: Estimate, chance: float, bound: float | None, note: str, pairs: int | None = None
    ) -> Finding:
        """With exact binomial tests of so many successes, at chance and at the bound."""
        rows = len(self.judged)
        successes = int(value.value * rows + 1e-6)
        above = binom_p_value(successes, rows, chance) <= self.share
        beyond = bound is not None and bound < 1 and binom_p_value(successes, rows, bound) <= self.share
        words = {"attack": attack, "measures": measures, "note": note, "verdict": self._verdict(above, beyond)}
        return Finding(value=value, chance=chance, bound=bound, rows=rows, pairs=pairs, **words)

    def _verdict(self, above: bool, beyond: bool) -> str:
        if beyond:
            return BEYOND
        return CHANCE if not above else ABOVE if self.receipt is None else WITHIN


class _Answer(NamedTuple):
    ids: NDArray[np.int64]
    scores: Rows


class _Store:
    """The rows of a store as the attacker reads them, searched by inner product; rows are added by their clean vectors."""

    def __init__(self, places: Mapping[bytes, int], read: Rows) -> None:
        self._places, self._read = places, read

    def add(self, vectors: Rows, ids: NDArray[np.int64]) -> None:
        self._rows = self._read[[self._places[row.tobytes()] for row in vectors]]

    def search(self, queries: Rows, k: int) -> _Answer:
        scores = inner_products(queries, self._rows)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return _Answer(best, np.take_along_axis(scores, best, axis=1))


def _classified(rows: Rows, labels: NDArray[np.intp], asked: Rows) -> NDArray[np.intp]:
    """Labels by ridge regression on indicators."""
    wanted = np.eye(int(labels.max()) + 1)[labels]
    return np.asarray(ridge(rows, wanted, _CLASSIFIER_RIDGE).read(asked).argmax(axis=1))


def _first(asked: Rows, answering: Rows) -> NDArray[np.intp]:
    return np.argsort(-inner_products(asked, answering), axis=1, kind="stable")[:, :_NEIGHBORS]


def _pairs(pairs: Any, most: int) -> list[int]:
    """The numbers of pairs that there are, ascending."""
    asked = sorted({validate.whole_number("pairs", count, at_least=2) for count in pairs})
    there = [count for count in asked if count <= most]
    if not there:
        raise ValueError(f"pairs must have a number up to {most}, half of the rows that are not judged, got {asked}")
    return there


def _label_numbers(labels: Any, rows: int) -> NDArray[np.intp]:
    array = np.asarray(labels)
    if array.dtype.kind not in "iuU":
        raise TypeError(f"labels must be whole numbers or strings, got {array.dtype}")
    if array.shape != (rows,):
        raise ValueError(f"labels must be one for each of {rows} rows, got shape {array.shape}")
    values, places = np.unique(array, return_inverse=True)
    if len(values) < 2:
        raise ValueError(f"labels must have at least two values, got {values.tolist()}")
    return np.asarray(places, np.intp)
