"""`membership_inference`: is a document in the index? `tune_epsilon`: the largest epsilon at which that attack stays below a limit.

No noise protects the answer of `tune_epsilon`: tune on other people's documents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from hushvec.retrieval.attacks.statistics import (  # isort: skip
    EpsilonBound, audited_epsilon, epsilon_from_rates, likelihood_statistics, logistic_statistic, memberships, observe,
    pair_statistics, released_claim, released_pairs, released_statistic, strongest,
)
from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.display import Sheet, at_least, at_most, confidence_of, number, plural, shown
from hushvec._util.statistics import Estimate, clopper_pearson_upper
from hushvec.audit.results import THIS_ATTACK, as_json, bound_facts
from hushvec.retrieval.attacks.bounds import epsilon_for, membership_auc_bound, membership_bound
from hushvec.retrieval.attacks.curves import FixedThreshold, RocCurve, at_threshold
from hushvec.retrieval.attacks.shadows import RESAMPLES, Game, play, random_of

FEWEST_SHADOWS = {"logistic": 2, "likelihood": 4, "released": 2}
ATTACKS = tuple(FEWEST_SHADOWS)

Claim = tuple[float, float]

PRIVATE, PUBLIC = "private documents", "public documents"
_NOTES = {
    PRIVATE: "the epsilons and rates were measured on private documents without noise: they depend on every one of them, no receipt "
    "covers that, and releasing at this epsilon or publishing it gives it away; public_documents= tunes on other people's",
    PUBLIC: "the epsilons and rates were measured on documents that the caller calls public, and say nothing about any others",
}


@shown
@dataclass(frozen=True, kw_only=True)
class MembershipResult:
    """How well an attack tells members of an index from others, beside what the claim allows. `print` shows both.

    Args:
        statistic: what candidates were judged by, the best on the shadows.
        auc: area under the ROC curve, with a bootstrap interval over candidates.
        tpr: {fpr: rate of true positives at that rate of false ones}; the interval includes the threshold's own uncertainty.
        fixed: {fpr: both rates at the threshold that has this fpr on the shadows}, with Clopper-Pearson intervals.
        avg_membership_score: mean probability of membership that the attack gives to members.
        epsilon_claimed, delta: of what is asked about one candidate; None and 0: nothing is claimed.
        epsilon_lower: with probability at least `confidence` the true epsilon is no smaller. `epsilon` says how it was found.
        bound: {"auc": ..., fpr: ...}: what the claim allows any attack; 1 without a claim.
        confidence: of every interval and of epsilon_lower, each alone.
        candidates, queries, attack, k, shadow_models, target_models: as asked for; half of the candidates are members.
        details: mean probability for non-members; the bound on epsilon from `fixed`; the area of every statistic tried.
    """

    attack: str
    statistic: str
    auc: Estimate
    tpr: Mapping[float, Estimate]
    fixed: Mapping[float, FixedThreshold]
    avg_membership_score: float
    epsilon_claimed: float | None
    delta: float
    epsilon_lower: float
    bound: Mapping[str | float, float]
    epsilon: EpsilonBound
    confidence: float
    candidates: int
    queries: int
    k: int
    shadow_models: int
    target_models: int
    roc: RocCurve = field(repr=False)
    details: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def exposed(self) -> bool:
        """Whether the claim is refuted: the lower bound is above it."""
        return self.epsilon_claimed is not None and self.epsilon_lower > self.epsilon_claimed

    @property
    def could_expose(self) -> bool:
        """Whether so many guesses could have refuted the claim at all."""
        return self.epsilon_claimed is not None and self.epsilon.epsilon_ceiling > self.epsilon_claimed

    @property
    def exceeds_chance(self) -> bool:
        """Whether the whole interval of the area is above 1/2."""
        return self.auc.low > 0.5

    def _sheet(self) -> Sheet:
        facts = [("auc", f"{self.auc}; guessing 0.5; the claim allows {at_least(self.bound['auc'])}")]
        facts += [
            (f"found at fpr {fpr:g}", f"{rate} of the members; guessing {fpr:g}; the claim allows {at_least(self.bound[fpr])}")
            for fpr, rate in self.tpr.items()
        ]
        facts += bound_facts(self.epsilon_claimed, self.delta, self.epsilon_lower, self.epsilon.epsilon_ceiling, self.confidence)
        facts += [
            ("attack", f"{self.attack}, by {self.statistic}; {plural(self.queries, 'query', 'queries')} per candidate, k = {self.k}"),
            ("sample", f"{self.candidates:,} candidates in {plural(self.target_models, 'index', 'indexes')}"),
            ("learned from", plural(self.shadow_models, "index", "indexes")),
            ("intervals", f"{confidence_of(self.confidence)}, each alone"),
        ]
        return Sheet("Membership attack on an index", tuple(facts), (THIS_ATTACK,))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the curve, ready for JSON."""
        values = {name: value for name, value in vars(self).items() if name != "roc"}
        verdicts = {name: getattr(self, name) for name in ("exposed", "could_expose", "exceeds_chance")}
        return {**as_json(values), **verdicts}


def membership_inference(
    make_index: Callable[[_core.Generator], Any],
    documents: Any,
    queries: Any = None,
    *,
    attack: str = "logistic",
    shadow_models: int = 16,
    fprs: Sequence[float] = (0.001, 0.01),
    claim: str | Claim | Callable[[int], Claim | None] | None = "index",
    confidence: float = 0.95,
    resamples: int = 1000,
    **game: Any,
) -> MembershipResult:
    """Attack an index: which documents of a pool are in it?

    Args:
        make_index, documents, queries, and in `game` k, target_models, candidates, seed, progress: as for `play`.
        attack: "logistic": regression on seven features. "likelihood": likelihood ratios (LiRA) of several statistics, the
            strongest on the shadows. "released": exact likelihoods of the rows of `vectors()`; needs no queries and 2 shadows, and
            an attribute `codebook` of an index of your own that answers with codes.
        shadow_models: even; at least 2, for "likelihood" 4. Each costs one search of all n q queries.
        fprs: rates of false positives in (0, 1) at which rates of true positives are reported.
        claim: "index": what its `document_guarantee(queries=q)`, or for "released" its receipts, say, if anything. (epsilon,
            delta) of all that is asked about one candidate, or a function of the number of queries. None: no claim.
        confidence: of each interval and of epsilon_lower.
        resamples: of the bootstrap.

    Guarantees:
        `bound` holds for expected rates of any attack if the claim does (replace-one adjacency; docs/proofs/membership_bound.md).
        If the claim holds, `exposed` is True with probability at most 1 - confidence; where the claim grows with the number of
        queries (noise on scores), candidates are taken to be independent of each other. An attack that exposes nothing proves nothing.

    Edge cases:
        Noise on queries does not protect documents: the asker is the adversary.

    Reference:
        Shokri, Stronati, Song, Shmatikov (2017), shadow models; Carlini et al. (2022), likelihood ratios; Steinke, Nasr, Jagielski
        (2023), the bound from one run.

    Example:
        >>> import numpy as np
        >>> from hushvec.retrieval import PrivateIndex, membership_inference
        >>> pool = np.random.default_rng(1).standard_normal((200, 16)).astype(np.float32)
        >>> result = membership_inference(PrivateIndex(16, store="numpy").fresh, pool, shadow_models=4)
        >>> result.exceeds_chance, result.epsilon_claimed
        (True, None)
    """
    _rates(attack, fprs, confidence, resamples)
    if validate.whole_number("shadow_models", shadow_models, at_least=0) < FEWEST_SHADOWS[attack]:
        raise ValueError(f"shadow_models must be >= {FEWEST_SHADOWS[attack]} for {attack!r}, got {shadow_models}")
    _require_claim(claim)
    played = play(make_index, documents, queries, shadow_models=shadow_models, **game)
    return judge(played, attack=attack, fprs=fprs, claim=claim, confidence=confidence, resamples=resamples)


def judge(
    game: Game, *, attack: str = "logistic", fprs: Sequence[float] = (0.001, 0.01),
    claim: str | Claim | Callable[[int], Claim | None] | None = "index", confidence: float = 0.95, resamples: int = 1000,
) -> MembershipResult:
    """`membership_inference` from where the models have been searched, a game of `play` or `game.at(k)`: same arguments and result."""
    rates_of_false = _rates(attack, fprs, confidence, resamples)
    if len(game.shadows) < FEWEST_SHADOWS[attack]:
        raise ValueError(f"game must have at least {FEWEST_SHADOWS[attack]} shadow models for {attack!r}, got {len(game.shadows)}")
    promised, both = _promised(game, attack, claim)
    if attack == "released":
        statistics, pairs = [released_statistic(game)], released_pairs(game)
    else:
        seen = observe(game)
        statistics = [logistic_statistic(seen)] if attack == "logistic" else likelihood_statistics(seen)
        pairs = pair_statistics(game, statistics, both=both)
    chosen = strongest(statistics, game, rates_of_false)
    inside, learned = memberships(game.targets), memberships(game.shadows[: len(chosen.shadows)])
    members, others = chosen.targets[inside], chosen.targets[~inside]
    curve = RocCurve.of(members, others)
    shadow_curve = RocCurve.of(chosen.shadows[learned], chosen.shadows[~learned])
    thresholds = {fpr: shadow_curve.threshold_at(fpr) for fpr in rates_of_false}
    random = random_of(game.root, RESAMPLES)
    area, rates = curve.intervals(rates_of_false, confidence=confidence, resamples=resamples, random=random)
    claimed, delta = promised or (None, 0.0)
    asked = game.queries.shape[1]
    lower = audited_epsilon(game, pairs, delta=delta, confidence=confidence, queries=2 * asked if both else asked)
    bounds: dict[str | float, float] = {"auc": 1.0, **dict.fromkeys(rates_of_false, 1.0)}
    if promised is not None:
        bounds = {"auc": membership_auc_bound(*promised), **{fpr: membership_bound(*promised, fpr) for fpr in rates_of_false}}
    return MembershipResult(
        attack=attack, statistic=chosen.name, auc=area, tpr=rates,
        fixed={fpr: at_threshold(members, others, threshold, confidence) for fpr, threshold in thresholds.items()},
        avg_membership_score=float(chosen.chances[inside].mean()), epsilon_claimed=claimed, delta=delta,
        epsilon_lower=lower.epsilon_lower, bound=bounds, epsilon=lower, confidence=confidence, candidates=len(game.documents),
        queries=asked, k=game.k, shadow_models=len(game.shadows), target_models=len(game.targets), roc=curve,
        details={
            "avg_nonmember_score": float(chosen.chances[~inside].mean()),
            "epsilon_from_rates": epsilon_from_rates(members, others, [*thresholds.values()], delta=delta, confidence=confidence),
            "statistics": {
                one.name: {
                    "auc": RocCurve.of(one.targets[inside], one.targets[~inside]).auc,
                    "auc_shadows": RocCurve.of(one.shadows[learned], one.shadows[~learned]).auc,
                }
                for one in statistics
            },
        },
    )


def _rates(attack: Any, fprs: Any, confidence: Any, resamples: Any) -> tuple[float, ...]:
    validate.choice("attack", attack, ATTACKS)
    checked = tuple(validate.probability("fprs", fpr) for fpr in fprs)
    if not checked or len(set(checked)) < len(checked):
        raise ValueError(f"fprs must be different rates, at least one, got {tuple(fprs)!r}")
    validate.probability("confidence", confidence)
    validate.whole_number("resamples", resamples, at_least=1)
    return checked


def _require_claim(claim: Any) -> None:
    if claim is None or callable(claim) or claim == "index":
        return
    if isinstance(claim, str):
        raise ValueError(f"claim must be 'index', (epsilon, delta), a function or None, got {claim!r}")
    if not isinstance(claim, tuple) or len(claim) != 2:
        raise TypeError(f"claim must be 'index', (epsilon, delta), a function or None, got {validate.kind(claim)}")
    validate.not_negative("epsilon", claim[0])
    validate.delta(claim[1], zero_allowed=True)


def _promised(game: Game, attack: str, claim: Any) -> tuple[Claim | None, bool]:
    """The claim for what is asked about one candidate, and whether it stays the same if a pair's other document is asked about too."""
    _require_claim(claim)
    if isinstance(claim, tuple):
        return (float(claim[0]), float(claim[1])), False
    if claim == "index" and attack == "released":
        return released_claim(game), True
    of = getattr(game.targets[0].index, "document_guarantee", None) if claim == "index" else claim
    if of is None:
        return None, False
    asked = game.queries.shape[1]
    once, twice = of(asked), of(2 * asked)
    if once is None or math.isinf(once[0]):
        return None, False
    return (float(once[0]), float(once[1])), tuple(once) == tuple(twice or ())


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One epsilon that was tried."""

    epsilon: float  # the argument of make_index
    tpr: Estimate  # the attack's rate of true positives, with an interval of its share of the confidence
    meets: bool  # whether the whole interval is at most the limit
    utility: float | None  # what the caller's measure says; None without one
    result: MembershipResult  # the whole attack

    @property
    def words(self) -> str:
        utility = "" if self.utility is None else f"; utility {number(self.utility)}"
        return f"rate {self.tpr}: {'meets' if self.meets else 'does not meet'} the limit{utility}"


@shown
@dataclass(frozen=True, kw_only=True)
class TunedEpsilon:
    """The result of the search. `print` shows every trial.

    Args:
        epsilon: of those tried the most useful one that meets the limit; None if none does.
        epsilon_proven: the largest epsilon of a document, for all queries about it, at which no attack at all can exceed the limit.
        tuned_on: "private documents" or "public documents". Private ones make epsilon and trials private too: see `note`.
        confidence: that the attack's expected rate is below the limit at every epsilon said to meet it, by bootstrap intervals.
        trials: in the order of epsilon.
    """

    epsilon: float | None
    epsilon_proven: float
    target_tpr: float
    fpr: float
    tuned_on: str
    confidence: float
    trials: tuple[Trial, ...]

    @property
    def note(self) -> str:
        """How private the answer is, by the documents that it was tuned on."""
        return _NOTES[self.tuned_on]

    def _sheet(self) -> Sheet:
        found = "no epsilon meets" if self.epsilon is None else f"epsilon {number(self.epsilon)} meets"
        facts = [
            ("limit", f"a rate of {self.target_tpr:g} at {self.fpr:g} false positives"),
            ("proven", f"no attack at all can exceed it up to epsilon {at_most(self.epsilon_proven)}"),
            *((f"epsilon {number(trial.epsilon)}", trial.words) for trial in self.trials),
            ("confidence", f"{confidence_of(self.confidence)} for all trials together"),
        ]
        return Sheet(f"Tuned epsilon: {found} the limit", tuple(facts), (THIS_ATTACK, self.note))

    def to_dict(self) -> dict[str, Any]:
        """Everything but the curves, ready for JSON."""
        return {
            **vars(self),
            "note": self.note,
            "trials": [{**vars(trial), "tpr": asdict(trial.tpr), "result": trial.result.to_dict()} for trial in self.trials],
        }


def tune_epsilon(
    make_index: Callable[[float, _core.Generator], Any], documents: Any = None, queries: Any = None, *,
    public_documents: Any = None, target_tpr: float, fpr: float = 0.001, low: float = 0.1, high: float = 64.0, steps: int = 8,
    utility: Callable[[float], float] | None = None, confidence: float = 0.95, **attacked: Any,
) -> TunedEpsilon:
    """Bisect for the largest epsilon at which an attack's rate of true positives stays below a limit.

    Args:
        make_index: takes epsilon and a hushvec.Generator, returns an empty index as for `membership_inference`.
        documents: private ones, as for `membership_inference`. The answer is then private too: do not publish it.
        public_documents: the same of other people, who are not in the index that is built in the end; instead of `documents`.
        queries: as for `membership_inference`.
        attacked: attack ("likelihood" if left out), shadow_models, resamples, k, target_models, candidates, seed and progress, as for
            `membership_inference`; progress is called after each model of each trial.
        target_tpr: the limit, in (fpr, 1).
        fpr: rate of false positives that it goes with, in (0, 1).
        low, high: ends of the search, 0 < low < high.
        steps: epsilons that are tried, both ends included, at least 2; the logarithm of the interval is halved each time.
        utility: takes an epsilon, returns a number that is large where retrieval is good, on data as public as the documents.
        confidence: of all that is tried together: each of `steps` intervals gets its share of the rest.

    Guarantees:
        None for documents: a release at that epsilon is not epsilon-DP, whatever its receipt says. The next attack may succeed;
        `epsilon_proven` holds against all of them, and is usually far smaller.

    Edge cases:
        The limit met at `high`: the answer after one trial. Not met at `low`: epsilon is None.

    Reference:
        docs/proofs/membership_bound.md, for epsilon_proven.

    Example:
        >>> import numpy as np
        >>> from hushvec.retrieval import PrivateIndex, VectorNoise, tune_epsilon
        >>> pool = np.random.default_rng(1).standard_normal((2000, 8)).astype(np.float32)
        >>> def make_index(epsilon, generator):
        ...     return PrivateIndex(8, documents=VectorNoise(epsilon=epsilon), generator=generator)
        >>> tuned = tune_epsilon(
        ...     make_index, public_documents=pool, target_tpr=0.1, fpr=0.01, steps=4, shadow_models=4, k=1, resamples=200
        ... )
        >>> tuned.epsilon_proven < tuned.epsilon < 64, tuned.tuned_on
        (True, 'public documents')
    """
    if (documents is None) == (public_documents is None):
        given = "neither" if documents is None else "both"
        raise TypeError(f"one of documents (private) and public_documents must be given, got {given}")
    rows = documents if public_documents is None else public_documents
    validate.choice("attack", attacked.setdefault("attack", "likelihood"), ATTACKS)
    rate, limit = validate.probability("fpr", fpr), validate.number("target_tpr", target_tpr)
    if not rate < limit < 1:
        raise ValueError(f"target_tpr must be > fpr = {rate!r} and < 1, got {limit!r}: guessing reaches fpr")
    inside, outside = validate.positive("low", low), validate.positive("high", high)
    if inside >= outside:
        raise ValueError(f"low must be < high = {outside!r}, got {inside!r}")
    each = 1 - (1 - validate.probability("confidence", confidence)) / validate.whole_number("steps", steps, at_least=2)
    asked_about = attacked.get("candidates")
    pool = len(rows) // 2 * 2 if asked_about is None else validate.whole_number("candidates", asked_about, at_least=4)
    members = pool // 2 * validate.whole_number("target_models", attacked.get("target_models", 1), at_least=1)
    least = clopper_pearson_upper(0, max(1, members), (1 - each) / 2)
    if least > limit:  # it could not be seen to be met
        raise ValueError(
            f"target_tpr must be >= {least:.3g} to be shown with {members} members, got {limit!r}: "
            "ask for more documents or target_models"
        )
    trials: dict[float, Trial] = {}

    def meets(epsilon: float) -> bool:
        of_epsilon = lambda generator: make_index(epsilon, generator)
        result = membership_inference(of_epsilon, rows, queries, fprs=(rate,), confidence=each, **attacked)
        found = result.tpr[rate]
        met = found.high <= limit
        value = float(utility(epsilon)) if utility is not None and met else None
        trials[epsilon] = Trial(epsilon=epsilon, tpr=found, meets=met, utility=value, result=result)
        return met

    if not meets(outside) and meets(inside):
        for _ in range(steps - 2):
            middle = math.sqrt(inside * outside)
            inside, outside = (middle, outside) if meets(middle) else (inside, middle)

    ordered = tuple(trials[epsilon] for epsilon in sorted(trials))
    useful = max((trial for trial in ordered if trial.meets), key=lambda trial: (trial.utility or 0.0, trial.epsilon), default=None)
    return TunedEpsilon(
        epsilon=None if useful is None else useful.epsilon,
        epsilon_proven=epsilon_for(limit, rate, max(trial.result.delta for trial in ordered)),
        target_tpr=limit, fpr=rate,
        tuned_on=PRIVATE if public_documents is None else PUBLIC,
        confidence=confidence, trials=ordered,
    )
