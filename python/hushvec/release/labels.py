"""`privatize_labels`: check, charge the budget, answer by randomized response, write the receipt."""

from __future__ import annotations

import itertools
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._native.kernels import require_generator
from hushvec._util import validate
from hushvec._util.display import Sheet, plural, shown
from hushvec._util.rounding import quotient_down
from hushvec.mechanisms import RandomizedResponse
from hushvec.receipts.base import NOTE_SEED, PER, release_sheet, rows_per_person
from hushvec.receipts.labels import NOTE_SOURCE, SCORES, LabelReceipt, labels_digest, receipt_of_answers
from hushvec.release.charging import Budget, entry_of_charge, require_budget, require_secret_key

NOTE_ONE_PERSON = "all answers are about one person; their number is treated as public"

_LABELS_SHOWN = 10


@shown
class LabelRelease(NamedTuple):
    """The result of `privatize_labels`. `print` shows its receipt in words.

    Args:
        values: the noisy labels: a list, or for an array an array of the same shape.
    """

    values: Any
    receipt: LabelReceipt

    def __repr__(self) -> str:
        return f"LabelRelease({plural(len(self.values), 'label')}, {self.receipt.mechanism}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        return release_sheet(plural(len(self.values), "label"), self.receipt)


def privatize_labels(
    true_labels: Any, labels: Sequence[Hashable], *, epsilon: float, budget: Budget | None = None, per: str = "record",
    generator: _core.Generator | None = None,
) -> LabelRelease:
    """Release labels by randomized response, and a receipt that states the guarantee.

    Args:
        true_labels: a list, tuple or numpy array of labels, or one label, which is as a list of one.
        labels: the k possible labels, str, int, float or bool, all different; public. `range(k)` for codes.
        epsilon: > 0; of one answer for per="record", of all of them for per="release".
        budget: a PrivacyBudget, or any object with `consume(epsilon, delta)`: charged (epsilon, 0) before anything is drawn; what it
            raises passes through.
        per: "record": every label is another person's. "release": all n labels are one person's, and each answer gets epsilon / n.
        generator: key stream; the process-wide one, keyed by the operating system, if None. A seeded one gives no privacy: the
            receipt says so, and together with a budget it is refused.

    Returns:
        LabelRelease(values, receipt). The values are objects of `labels`, never the caller's own.

    Raises:
        ValueError: a true label that is not in labels (its place is named); duplicate labels, fewer than 2 or more than 2^24; epsilon
            so small that an answer could not prefer the truth by its share of it.
        PrivacyBudgetExhaustedError: not enough of the budget is left; nothing was charged or released.
        BudgetError: the budget's store cannot be used; nothing was released.
            All arguments are checked before the budget is charged, and the budget before anything is drawn.

    Guarantees:
        (epsilon, 0)-DP under replacement of one label (per="record") or of all of them (per="release"), exact as sampled: the receipt
        holds the whole numbers of the law, from which epsilon is recomputed. An error about a true label is visible to anyone who sees
        that the call failed.

    Edge cases:
        No labels: no values, a receipt for 0 answers, and no charge, since nothing is released.

    Reference:
        Warner (1965); Kairouz, Bonawitz, Ramage (2016); docs/proofs/randomized_response.md.

    Example:
        >>> from hushvec.release.labels import privatize_labels
        >>> release = privatize_labels(["spam", "ham", "ham"], ["ham", "spam"], epsilon=2.0)
        >>> set(release.values) <= {"ham", "spam"}, release.receipt.answers, release.receipt.is_dp_claim
        (True, 3, True)
    """
    plan = plan_labels(labels, epsilon=epsilon, budget=budget, per=per, generator=generator)
    if isinstance(true_labels, np.ndarray):
        drawn, receipt = plan.release(plan.codes(true_labels.ravel().tolist(), "true_labels"))
        return LabelRelease(plan.in_numpy(drawn).reshape(true_labels.shape), receipt)
    if isinstance(true_labels, str | bool | int | float | np.generic):
        true_labels = [true_labels]
    if not isinstance(true_labels, list | tuple):
        raise TypeError(f"true_labels must be a label, or a list, tuple or numpy array of them, got {validate.kind(true_labels)}")
    drawn, receipt = plan.release(plan.codes(true_labels, "true_labels"))
    return LabelRelease(plan.named(drawn), receipt)


@dataclass(frozen=True, kw_only=True)
class LabelPlan:
    """Releases of labels with every argument checked. Made by `plan_labels`; one plan serves any number of releases."""

    mechanism: RandomizedResponse  # over the labels; its epsilon is the release's
    over_codes: RandomizedResponse  # the same over 0, ..., k - 1
    digest: str  # of the list of labels
    scores: str
    per: str
    budget: Budget | None  # charged for every release, or None
    generator: _core.Generator  # key stream
    notes: tuple[str, ...]

    @property
    def labels(self) -> Sequence[Hashable]:
        return self.mechanism.labels

    def codes(self, true_labels: Iterable[Any], name: str) -> NDArray[np.int32]:
        """The place of every label in the list; `name` is that of the argument, for the message."""
        given = list(true_labels)
        try:
            found = list(map(self._code_of.get, given))
        except TypeError:
            kinds = (validate.kind(label) for label in given if not isinstance(label, Hashable))
            raise TypeError(f"{name} must be hashable, got {next(kinds, 'a value that has no hash')}") from None
        self._require_known(given, found, name)
        return np.array(found, np.int32)

    def release(self, codes: NDArray[np.int32]) -> tuple[NDArray[np.int32], LabelReceipt]:
        """Charge, then answer for all codes at once. The receipt names the charge."""
        answering = self._answering(len(codes))
        receipt = self._receipt(answering, len(codes))
        if len(codes) == 0:
            return codes, receipt
        if self.budget is not None:  # everything that could still refuse the release comes before this
            purpose = f"{receipt.mechanism}, {plural(receipt.answers, 'answer')} of {receipt.label_count} labels, per {receipt.per}"
            entry = entry_of_charge(self.budget, receipt.epsilon, 0.0, receipt.rho, purpose)
            receipt = replace(receipt, charge=entry)
        return answering.respond(codes, generator=self.generator), receipt

    def named(self, codes: NDArray[np.int32]) -> list[Any]:
        labels = self.labels
        return [labels[code] for code in codes.tolist()]

    def in_numpy(self, codes: NDArray[np.int32]) -> NDArray[Any]:
        values: NDArray[Any] = self.mechanism.labels_in_numpy[codes]
        return values

    @property
    def is_dp_claim(self) -> bool:
        return self.scores != "source" and not self.generator.seeded

    @cached_property
    def _code_of(self) -> dict[Hashable, int]:
        return {label: code for code, label in enumerate(self.labels)}

    @cached_property
    def _kinds(self) -> set[type]:
        return set(map(type, self.labels))

    def _require_known(self, given: list[Any], found: list[int | None], name: str) -> None:
        """True equals 1 in Python, but a bool is not a label in a list without bools."""
        flags = set() if bool in self._kinds else {bool, np.bool_}
        if None not in found and flags.isdisjoint(map(type, given)):
            return
        shown = ", ".join(f"{label!r:.40}" for label in self.labels[:_LABELS_SHOWN])
        listed = f"{len(self.labels)} labels [{shown}{', ...' if len(self.labels) > _LABELS_SHOWN else ''}]"
        for place, (label, code) in enumerate(zip(given, found)):
            if code is None or type(label) in flags:
                raise ValueError(f"{name} must be among the {listed}, got {label!r:.80} at position {place}")

    def _answering(self, answers: int) -> RandomizedResponse:
        of_one = rows_per_person(self.per, answers)
        if of_one == 1:
            return self.over_codes
        share = quotient_down(self.mechanism.epsilon, of_one)
        try:
            return _over_codes(share, self.mechanism.k)
        except ValueError:
            raise ValueError(
                f"epsilon must be larger for {answers} answers about one person (per='release'): "
                f"a share of {share!r} cannot prefer the truth among {self.mechanism.k} labels, got {self.mechanism.epsilon!r}"
            ) from None

    def _receipt(self, answering: RandomizedResponse, answers: int) -> LabelReceipt:
        conditions = (self.scores == "source", self.generator.seeded, self.per == "release")
        notes = itertools.compress((NOTE_SOURCE, NOTE_SEED, NOTE_ONE_PERSON), conditions)
        return receipt_of_answers(
            answering, self.generator, epsilon=self.mechanism.epsilon, labels_digest=self.digest, per=self.per, answers=answers,
            scores=self.scores, is_dp_claim=self.is_dp_claim, notes=(*notes, *self.notes),
        )


def plan_labels(
    labels: Sequence[Hashable], *, epsilon: float, budget: Budget | None, per: str, generator: _core.Generator | None,
    scores: str = "none", notes: tuple[str, ...] = (),
) -> LabelPlan:
    """Check every argument of `privatize_labels` but the true labels. `scores` and `notes` are what its receipts say of them."""
    if isinstance(labels, list | tuple):  # without numpy's scalars, so that a receipt names what JSON can write
        labels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    mechanism = RandomizedResponse(epsilon=epsilon, labels=labels)
    plan = LabelPlan(
        mechanism=mechanism, over_codes=_over_codes(mechanism.epsilon, mechanism.k), digest=labels_digest(mechanism.labels),
        scores=validate.choice("scores", scores, SCORES), per=validate.choice("per", per, PER), budget=budget,
        generator=require_generator(generator), notes=notes,
    )
    if budget is not None:
        require_budget(budget)
        require_secret_key(plan.generator)
        if plan.scores == "source":
            raise ValueError(
                "budget must be None with scores='source': scores that tell which answers are true have no epsilon to charge"
            )
    return plan


def _over_codes(epsilon: float, k: int) -> RandomizedResponse:
    mechanism = RandomizedResponse(epsilon=epsilon, k=k)
    truth, other = mechanism.law
    if truth <= other:
        raise ValueError(f"epsilon must be large enough to prefer the truth among {k} labels, got {epsilon!r}")
    return mechanism


