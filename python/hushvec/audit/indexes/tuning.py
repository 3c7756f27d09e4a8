"""`tune_epsilon`: the largest epsilon at which an attack stays below a limit.

The answer depends on the documents that are attacked, and no noise protects it. Tuned on the documents that are then released, it
leaks something about them that no receipt counts; tuned on other people's documents it does not.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.display import Sheet, at_most, confidence_of, number, shown
from hushvec._util.statistics import Estimate, clopper_pearson_upper
from hushvec.audit.indexes.bounds import epsilon_for
from hushvec.audit.indexes.membership import ATTACKS, MembershipResult, membership_inference
from hushvec.audit.results import THIS_ATTACK

PRIVATE, PUBLIC = "private documents", "public documents"
_NOTES = {
    PRIVATE: "the epsilons and rates were measured on private documents without noise: they depend on every one of them, no receipt "
    "covers that, and releasing at this epsilon or publishing it gives it away; public_documents= tunes on other people's",
    PUBLIC: "the epsilons and rates were measured on documents that the caller calls public, and say nothing about any others",
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One epsilon that was tried.

    Args:
        epsilon: the argument of make_index.
        tpr: the attack's rate of true positives, with an interval of its share of the confidence.
        meets: whether the whole interval is at most the limit.
        utility: what the caller's measure says; None without one.
        result: the whole attack.
    """

    epsilon: float
    tpr: Estimate
    meets: bool
    utility: float | None
    result: MembershipResult

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
        target_tpr, fpr: the limit.
        tuned_on: "private documents" or "public documents". Private ones make epsilon and trials private too: see `note`.
        confidence: with at least this probability the attack's expected rate is below the limit at every epsilon that is said to
            meet it, as far as bootstrap intervals go.
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
    make_index: Callable[[float, _core.Generator], Any],
    documents: Any = None,
    queries: Any = None,
    *,
    public_documents: Any = None,
    target_tpr: float,
    fpr: float = 0.001,
    low: float = 0.1,
    high: float = 64.0,
    steps: int = 8,
    attack: str = "likelihood",
    utility: Callable[[float], float] | None = None,
    k: int = 10,
    shadow_models: int = 16,
    target_models: int = 1,
    candidates: int | None = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int | None = 2025,
    progress: Callable[[int], None] | None = None,
) -> TunedEpsilon:
    """Bisect for the largest epsilon at which an attack's rate of true positives stays below a limit.

    Args:
        make_index: takes epsilon and a hushvec.Generator, returns an empty index as for `membership_inference`.
        documents: private ones, as for `membership_inference`. The answer is then private too: do not publish it.
        public_documents: the same of other people, who are not in the index that is built in the end; instead of `documents`.
        queries, attack, k, shadow_models, target_models, candidates, resamples, seed: as for `membership_inference`.
        target_tpr: the limit, in (fpr, 1).
        fpr: rate of false positives that it goes with, in (0, 1).
        low, high: ends of the search, 0 < low < high.
        steps: epsilons that are tried, both ends included, at least 2; the logarithm of the interval is halved each time.
        utility: takes an epsilon, returns a number that is large where retrieval is good. Measured at each epsilon that meets the
            limit, on data as public as the documents. Without it, or among equals, the largest epsilon is taken.
        confidence: of all that is tried together: each of `steps` intervals gets its share of the rest.
        progress: called with 1 after each model of each trial.

    Raises:
        TypeError: none or both of documents and public_documents.
        ValueError: a limit that so few candidates cannot show to be met, even if nobody is found.

    Guarantees:
        None for documents: replacing one private document can move the answer from one end to the other, so a release at that
        epsilon is not epsilon-DP, whatever its receipt says. That this attack fails says nothing about the next one.
        `epsilon_proven` holds against all of them, and is usually far smaller.

    Edge cases:
        The limit met at `high`: that is the answer after one trial. Not met at `low`: epsilon is None. Every epsilon that is
        returned has itself met the limit, even where wide intervals make the rate not quite monotone.

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
    attacked = documents if public_documents is None else public_documents
    validate.choice("attack", attack, ATTACKS)
    rate, limit = validate.probability("fpr", fpr), validate.number("target_tpr", target_tpr)
    if not rate < limit < 1:
        raise ValueError(f"target_tpr must be > fpr = {rate!r} and < 1, got {limit!r}: guessing reaches fpr")
    inside, outside = validate.positive("low", low), validate.positive("high", high)
    if inside >= outside:
        raise ValueError(f"low must be < high = {outside!r}, got {inside!r}")
    each = 1 - (1 - validate.probability("confidence", confidence)) / validate.whole_number("steps", steps, at_least=2)
    pool = len(attacked) // 2 * 2 if candidates is None else validate.whole_number("candidates", candidates, at_least=4)
    members = pool // 2 * validate.whole_number("target_models", target_models, at_least=1)
    least = clopper_pearson_upper(0, max(1, members), (1 - each) / 2)
    if least > limit:  # it could not be seen to be met
        raise ValueError(
            f"target_tpr must be >= {least:.3g} to be shown with {members} members, got {limit!r}: "
            "ask for more documents or target_models"
        )
    trials: dict[float, Trial] = {}

    def meets(epsilon: float) -> bool:
        result = membership_inference(
            lambda generator: make_index(epsilon, generator),
            attacked,
            queries,
            attack=attack,
            k=k,
            shadow_models=shadow_models,
            target_models=target_models,
            candidates=candidates,
            fprs=(rate,),
            confidence=each,
            resamples=resamples,
            seed=seed,
            progress=progress,
        )
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
        target_tpr=limit,
        fpr=rate,
        tuned_on=PRIVATE if public_documents is None else PUBLIC,
        confidence=confidence,
        trials=ordered,
    )
