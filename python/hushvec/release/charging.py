"""Charging a budget: what can be charged, for which keys, and the ledger row that a receipt names."""

from __future__ import annotations

from typing import Any, Protocol

from hushvec._native import _core
from hushvec._util import validate
from hushvec.receipts.base import LedgerEntry


class Budget(Protocol):
    """Anything that can be charged: a PrivacyBudget, or a custom object. `consume` raises to refuse; then nothing is released."""

    def consume(self, epsilon: float, delta: float) -> Any:
        """Spend (epsilon, delta)."""


def require_budget(value: Any) -> None:
    """Something that can be charged."""
    if not callable(getattr(value, "consume", None)):
        raise TypeError(f"budget must have a method consume(epsilon, delta), got {validate.kind(value)}")


def require_secret_key(generator: _core.Generator) -> None:
    """A key that a release can be charged with."""
    if generator.seeded:
        raise ValueError("budget must be None with a seeded generator: such a release has no privacy to account for")


def entry_of_charge(
    budget: Budget, epsilon: float, delta: float, rho: float, purpose: str, charge_id: str | None = None
) -> LedgerEntry | None:
    """Charge a budget; returns the row of its ledger, or None for a custom object, which gets only epsilon and delta."""
    from hushvec.budget import PrivacyBudget

    validate.rounding_to_nearest()
    if not isinstance(budget, PrivacyBudget):
        budget.consume(epsilon, delta)
        return None
    return LedgerEntry.of(budget.consume(epsilon, delta, rho=rho, purpose=purpose, charge_id=charge_id))
