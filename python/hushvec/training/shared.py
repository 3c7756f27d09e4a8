"""Refuses what runs of one process must not share: an accountant, a budget, parameters.

Every step is accounted for as a separate Poisson sample. Two optimizers that step on one batch release two vectors of norm
clip_norm from one sample, which costs more than two steps on two samples (docs/proofs/dp_sgd.md, "One sample, two releases").
Nothing in the gradients shows it, so runs that are accounted for together must declare that their batches are independent.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakSet

from hushvec.errors import BudgetError
from hushvec.training.by_identity import ByIdentity

_WHY = (
    "{name} must be of one optimizer, got {what}: two that step on one batch cost more than two steps on two batches. One optimizer "
    "with all parameters clips and accounts for them together; if the other one draws batches of its own, pass "
    "independent_batches=True"
)

_accountants: ByIdentity[bool] = ByIdentity()  # those that a run has had
_charging: WeakSet[Any] = WeakSet()  # runs that have asked a budget


def require_accountant_alone(run: Any, *, holds_sampled: bool = False) -> None:
    """Refuse a second run with one accountant, unless its batches are said to be independent.

    Args:
        run: with `accountant` and `independent_batches`: a RunAccount, or an engine of Opacus.
        holds_sampled: whether the accountant holds the loss of sampled steps already, such as a receipt's.
    """
    if (holds_sampled or _accountants.get(run.accountant)) and not run.independent_batches:
        raise ValueError(_WHY.format(name="accountant", what="that of another DPOptimizer"))
    _accountants[run.accountant] = True


def require_budget_alone(run: Any) -> None:
    """Refuse a second run on one budget while the first has steps left, unless they share a journal or batches are independent.

    A custom budget may charge the ledger of another one. Two runs that sample are refused then, too.
    """
    if run.budget is None or run.record.charged:
        return
    ledger = ledger_of(run.budget)
    for other in () if run.independent_batches else tuple(_charging):
        ledgers = {ledger, ledger_of(other.budget)}
        hidden = None in ledgers and max(run.settings.sampling_probability, other.settings.sampling_probability) < 1
        same = other.budget is run.budget or hidden or (None not in ledgers and len(ledgers) == 1)
        if same and other.record.charged and other.record.run_id != run.record.run_id and other.record.steps < other.settings.steps:
            raise ValueError(_WHY.format(name="budget", what="one that pays, or may pay, for another DPOptimizer with steps left"))
    _charging.add(run)


def ledger_of(budget: Any) -> str | None:
    """Which ledger a PrivacyBudget charges; None for a custom budget, or one that cannot be read."""
    from hushvec.budget import PrivacyBudget

    try:
        return budget.state().ledger if isinstance(budget, PrivacyBudget) else None
    except (BudgetError, ValueError):
        return None
