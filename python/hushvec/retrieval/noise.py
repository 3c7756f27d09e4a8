"""Noise on one side of an index: arguments, checked before anything is charged, and what one use costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.rounding import float32_down, product_up, quotient_down, root_up
from hushvec.accounting import LaplaceDP, PrivacyLoss, PureDP, ZeroConcentratedDP, compose
from hushvec.extend import Budget, ReleasePlan, plan_release, require_budget
from hushvec.mechanisms import EmpiricalGaussian, Gaussian, GumbelTopK, Laplacian, Mechanism, VectorMechanism, releases_directions
from hushvec.receipts import PER

SCORE_MECHANISMS = ("laplacian", "gaussian", "gumbel")
PER_QUERY = "query"

# For scores that need no delta, one is stated only if it makes epsilon smaller by this factor.
_WORTH_A_DELTA = 0.99

NOTE_QUERIES = "every row got the noise of a single query, epsilon = {epsilon!r}, delta = {delta!r}; what is stated is for all of them"


@dataclass(frozen=True, kw_only=True)
class VectorNoise:
    """Noise on the rows of documents before they are indexed, or on queries before they are searched.

    Args:
        epsilon, delta, mechanism, sigma, clip_norm: as in `hushvec.privatize`; "privunit", or a ready mechanism with its epsilon.
        per: "record": every row is another person's; a person with two rows, or two queries, loses twice what is stated and charged.
            "release": all rows of one `add`, or of one `search`, are about one person and released together at this price. "query",
            for queries alone: all queries of one `search` are one person's, each with the noise of a single query; the search is
            charged what they cost together. None: "record" for documents, "query" for queries.
        renormalize: bring rows to unit length after the noise, so that inner products with unit rows are cosines. Post-processing.
        budget: charged by every `add` or `search` before anything is computed, as in `hushvec.privatize`.

    Guarantees:
        Those of `hushvec.privatize` for the rows; post-processing of released rows costs nothing more. On documents they hold
        against everybody who sees the index, a search or `vectors()`. On queries they hold for the client against anyone who answers,
        and only if the client adds the noise; documents are not protected by it.

    Edge cases:
        A person with rows in several `add` calls, or who searches several times, pays for each: add the costs up. Together m queries
        cost m epsilon, those of the Gaussian kinds less (the exact composition).

    Example:
        >>> from hushvec.retrieval import VectorNoise
        >>> VectorNoise(epsilon=16.0).cost(384)
        (16.0, 0.0)
        >>> round(VectorNoise(mechanism="empirical", sigma=0.2).cost(384)[0], 1)
        91.8
    """

    epsilon: float | None = None
    delta: float = 1e-5
    mechanism: str | Mechanism = "privunit"
    sigma: float | None = None
    clip_norm: float = 1.0
    per: str | None = None
    renormalize: bool = False
    budget: Budget | None = None

    def __post_init__(self) -> None:
        if self.per is not None:
            validate.choice("per", self.per, (*PER, PER_QUERY))
        validate.keep_floats(self, "epsilon", "delta", "sigma", "clip_norm")
        self.require_fit(self.mechanism.dimension if isinstance(self.mechanism, Mechanism) else 1, normalize=False)
        if self.budget is not None:
            require_budget(self.budget)

    def plan(self, *, rows: int, dimension: int, dtype: str, normalize: bool, generator: _core.Generator | None) -> ReleasePlan:
        """The release of so many rows, every argument checked."""
        per_query = self.per == PER_QUERY
        noise = {name: getattr(self, name) for name in ("epsilon", "delta", "clip_norm", "mechanism", "sigma", "renormalize")}
        plan = plan_release(
            rows=rows, dimension=dimension, dtype=dtype, normalize=normalize,
            per="record" if per_query or self.per is None else self.per,
            generator=generator,
            **noise,
        )
        if not per_query or rows < 2:
            return plan
        return replace(plan, mechanism=_of_one_person(plan.mechanism, rows), per="release")

    def notes(self, plan: ReleasePlan) -> tuple[str, ...]:
        """Notes for the receipt of such a plan, beside its own."""
        if self.per != PER_QUERY or plan.per == "record":
            return ()
        epsilon, delta = self.cost(plan.mechanism.dimension)
        return (NOTE_QUERIES.format(epsilon=epsilon, delta=delta),)

    @property
    def is_of_directions(self) -> bool:
        """Whether rows come to one length by the mechanism itself."""
        return releases_directions(self.mechanism)

    def require_fit(self, columns: int, *, normalize: bool) -> None:
        """Refuse what cannot be released: a mechanism for other rows, or a clip norm that unit rows contradict."""
        self._example(columns, 1, normalize=normalize)

    def grade(self, columns: int) -> str:
        """"exact" or "float"."""
        return self._example(columns, 1).mechanism.grade

    def cost(self, dimension: int, *, rows: int = 1) -> tuple[float, float]:
        """(epsilon, delta) of so many rows for one person; their number matters only with per="release" and per="query"."""
        return self._example(dimension, rows).mechanism.cost

    def _example(self, columns: int, rows: int, *, normalize: bool = False) -> ReleasePlan:
        ready = isinstance(self.mechanism, Mechanism) and self.per != PER_QUERY
        count = self.mechanism.rows_per_person if ready else rows  # type: ignore[union-attr]
        return self.plan(rows=count, dimension=columns, dtype="float32", normalize=normalize, generator=None)


@dataclass(frozen=True, kw_only=True)
class ScoreNoise:
    """Noise that the server of an index adds to the scores of a search before the best are named.

    Args:
        epsilon: > 0, the price of **one query**, for every document.
        delta: in (0, 1), of one query for "gaussian". For the others (0 is accepted) it is where `PrivateIndex.document_guarantee`
            may state the cost of many queries; one query of theirs has none.
        mechanism: "laplacian" or "gaussian": independent noise on every score, at a price that does not depend on k; the noisy
            scores are returned. "gumbel": one-shot Gumbel top-k, the order of k ids and no scores; its noise grows with k.
        score_range: (low, high) that computed scores are clamped to; public. A narrow one needs less noise.
        budget: charged by every search, before anything is computed, with what all its queries cost together.

    Guarantees:
        Adjacency: replace one document by any other, ids and their number being public. One score then moves, by at most
        high - low, in floating point too, because the computed score is clamped. So one query is (epsilon, delta)-DP for every
        document, against anyone who sees its answer and may have chosen the query. m queries of one search are one release of one
        row of m scores per document: with "gaussian" their exact composition, with "laplacian" and "gumbel" m epsilon. Searches
        add up, adaptively chosen ones too. Only the scores are protected: anyone who sees stored rows or texts learns more.

    Edge cases:
        A score beyond the range counts as its end; NaN as the lower one. Noisy rows that are not renormalized have inner products
        far outside (-1, 1): choose the range for them. The time of a search, and a refusal, are not covered.

    Reference:
        docs/proofs/private_scores.md; Dwork, McSherry, Nissim, Smith (2006), proposition 1; Balle and Wang (2018), theorem 8; Durfee
        and Rogers (2019), sections 4.1 and 4.2.

    Example:
        >>> from hushvec.retrieval import ScoreNoise
        >>> noise = ScoreNoise(epsilon=0.5)
        >>> noise.cost(queries=4), noise.noise_deviation(k=10)
        ((2.0, 0.0), 5.656854249492381)
    """

    epsilon: float
    delta: float = 1e-5
    mechanism: str = "laplacian"
    score_range: tuple[float, float] = (-1.0, 1.0)
    budget: Budget | None = None

    def __post_init__(self) -> None:
        validate.keep_floats(self, "epsilon", "delta")
        validate.positive("epsilon", self.epsilon)
        validate.choice("mechanism", self.mechanism, SCORE_MECHANISMS)
        validate.delta(self.delta, zero_allowed=self.mechanism != "gaussian")
        object.__setattr__(self, "score_range", _range(self.score_range))
        if self.budget is not None:
            require_budget(self.budget)
        self.for_queries(1, k=1)  # refuses noise that the core cannot make

    @property
    def low(self) -> float:
        return self.score_range[0]

    @property
    def high(self) -> float:
        return self.score_range[1]

    @property
    def releases_scores(self) -> bool:
        """Whether noisy scores come out, and not the order alone."""
        return self.mechanism != "gumbel"

    @property
    def middle(self) -> np.float32:
        """Scores are shifted by it, so that the clamped ones lie within `reach` of 0."""
        return np.float32(self.low / 2 + self.high / 2)

    @property
    def reach(self) -> np.float32:
        """(high - low) / 2 as a float32 that is not above it: shifted scores are clamped to [-reach, reach]."""
        return float32_down((Fraction(self.high) - Fraction(self.low)) / 2)

    @cached_property
    def half_range(self) -> float:
        """(high - low) / 2 as a double that is at least it: half of what one score can move."""
        return product_up((Fraction(self.high) - Fraction(self.low)) / 2)

    def for_queries(self, queries: int, *, k: int) -> VectorMechanism | GumbelTopK:
        """The mechanism of m queries of one search: for rows of m scores, each with one query's noise, or a selection of k."""
        if self.mechanism == "gumbel":
            return _selection(float(self.epsilon), self.half_range, k)
        return noise_on_scores(self.mechanism, float(self.epsilon), float(self.delta), self.half_range, queries)

    def cost(self, queries: int = 1) -> tuple[float, float]:
        """(epsilon, delta) that a search of so many queries costs every document."""
        count = validate.whole_number("queries", queries, at_least=1)
        if self.mechanism == "gumbel":
            return product_up(count, float(self.epsilon)), 0.0
        return self.for_queries(count, k=1).cost

    @property
    def losses(self) -> tuple[PrivacyLoss, ...]:
        """Statements that each hold for one query, for `hushvec.accounting`: what follows from any one of them holds."""
        if self.mechanism == "gaussian":
            return (noise_on_scores("gaussian", float(self.epsilon), float(self.delta), self.half_range, 1).loss,)
        pure = PureDP(epsilon=self.epsilon)
        if self.mechanism == "gumbel":
            # k picks of epsilon / k each have rho = epsilon^2 / (8 k): that of k = 1 holds for every k.
            return pure, ZeroConcentratedDP(rho=product_up(Fraction(self.epsilon) ** 2, Fraction(1, 8)))
        single = noise_on_scores("laplacian", float(self.epsilon), float(self.delta), self.half_range, 1)
        return pure, LaplaceDP(noise_multiplier=quotient_down(single.noise_parameter, 2 * self.half_range))

    def noise_deviation(self, k: int = 1) -> float:
        """Standard deviation of the noise of one score, in units of a score."""
        mechanism = self.for_queries(1, k=validate.whole_number("k", k, at_least=1))
        return mechanism.noise_norm if isinstance(mechanism, VectorMechanism) else mechanism.noise_deviation


def cost_of_queries(noise: ScoreNoise, queries: int) -> tuple[float, float]:
    """(epsilon, delta) of so many adaptively chosen queries for every document, at the noise's delta; without a delta the sum."""
    count = validate.whole_number("queries", queries, at_least=1)
    if count == 1:
        return noise.cost()
    pure = noise.mechanism != "gaussian"
    together = (product_up(count, float(noise.epsilon)), 0.0) if pure else (math.inf, noise.delta)
    if noise.delta == 0:
        return together
    best = min(compose([(loss, count)], delta=noise.delta).epsilon for loss in noise.losses)
    return (best, noise.delta) if best < _WORTH_A_DELTA * together[0] else together


@lru_cache(maxsize=256)
def _of_one_person(single: Mechanism, rows: int) -> Mechanism:
    """As many rows of one person, each with the noise of a single row: as one mechanism, which knows what they cost together."""
    return single.repeated(rows)


@lru_cache(maxsize=256)  # every search asks; exact arithmetic and calibration take longer than the noise of 100,000 scores
def noise_on_scores(mechanism: str, epsilon: float, delta: float, half_range: float, queries: int) -> VectorMechanism:
    """For rows of m scores: noise of the size that one query alone needs."""
    clip_norm = root_up(queries * Fraction(half_range) ** 2)
    if validate.choice("mechanism", mechanism, (Laplacian.name, Gaussian.name)) == Laplacian.name:
        return Laplacian(epsilon=product_up(queries, epsilon), dimension=queries, clip_norm=clip_norm)
    single = Gaussian(epsilon=epsilon, delta=delta, dimension=1, clip_norm=half_range)
    if queries == 1:
        return single
    return EmpiricalGaussian(chosen_sigma=single.sigma, delta=delta, dimension=queries, clip_norm=clip_norm)


@lru_cache(maxsize=256)
def _selection(epsilon: float, half_range: float, k: int) -> GumbelTopK:
    """One score moves, so differences vary by half of what GumbelTopK allows for (docs/proofs/private_scores.md, claim 4)."""
    return GumbelTopK(k=k, sensitivity=half_range, epsilon=epsilon)


def _range(value: Any) -> tuple[float, float]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise TypeError(f"score_range must be a pair (low, high), got {validate.kind(value)}")
    low, high = (validate.number("score_range", end) for end in value)
    if not low < high:
        raise ValueError(f"score_range must be (low, high) with low < high, got ({low!r}, {high!r})")
    validate.clip_norm((high - low) / 2)
    return low, high
