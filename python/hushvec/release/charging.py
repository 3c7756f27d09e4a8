"""Charging a budget: what can be charged, for which keys, and the ledger row that a receipt names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from hushvec._native import _core
from hushvec._util import validate
from hushvec.budget import Charge, PrivacyBudget
from hushvec.errors import AlreadyChargedError
from hushvec.receipts.base import LedgerEntry

if TYPE_CHECKING:
    from typing_extensions import Self


class Budget(Protocol):
    """Anything that can be charged: a PrivacyBudget, or a custom object. `consume` raises to refuse; then nothing is released."""

    def consume(self, epsilon: float, delta: float) -> Any:
        """Spend (epsilon, delta)."""


class NotCopied:
    """Base of what counts its own releases: a copy, or a fork, would count anew, and release more than its charge has paid for."""

    _made_in: int

    def __new__(cls, *arguments: Any, **settings: Any) -> Self:
        made = super().__new__(cls)
        made._made_in = os.getpid()
        return made

    def require_own_process(self) -> None:
        """Raises RuntimeError in a child of the process that made it."""
        if os.getpid() != self._made_in:
            name = type(self).__name__
            raise RuntimeError(f"{name} must be used in the process that made it: a fork would release more for one charge")

    def __reduce_ex__(self, protocol: Any) -> Any:  # of copy.copy, copy.deepcopy and pickle
        raise TypeError(f"{type(self).__name__} must not be copied or pickled: a copy would release more for one charge")


class ChargeOnce:
    """A budget for one call that may be repeated, such as a request that a client sends again: every charge of the call has an id made
    of `charge_id`, and one that was made before is refused, because a second draw of noise would be a second release."""

    def __init__(self, budget: PrivacyBudget, charge_id: str) -> None:
        self._budget = budget
        self._charge_id = charge_id
        self._charges = 0

    def consume(self, epsilon: float, delta: float = 0.0, *, rho: float | None = None, purpose: str | None = None) -> Charge:
        """`PrivacyBudget.consume` with the next id; AlreadyChargedError if an earlier call made this charge."""
        number = self._charges + 1
        own = self._charge_id if number == 1 else f"{self._charge_id}/{number}"
        charge = self._budget.consume(epsilon, delta, rho=rho, purpose=purpose, charge_id=own)
        if charge.repeated:  # and again with every further try
            raise AlreadyChargedError(f"charge {own!r} was made before: its release was lost, or is still being made")
        self._charges = number
        return charge


def require_budget(value: Any) -> None:
    """Something that can be charged."""
    if not callable(getattr(value, "consume", None)):
        raise TypeError(f"budget must have a method consume(epsilon, delta), got {validate.kind(value)}")


def require_people(people: Any, budget: Any, rows: int, per: str) -> list[Any] | None:
    """The people whom rows are about: one for each, or one for all if they are about one."""
    if people is None:
        return None
    if not isinstance(budget, PrivacyBudget):
        got = "no budget" if budget is None else validate.kind(budget)
        raise ValueError(f"people must be None without a PrivacyBudget that counts by person, got {got}")
    ids = validate.listed("people", people)
    if len(ids) != (1 if per == "release" else rows):
        wanted = "1, whom all rows are about" if per == "release" else f"{rows}, one for each row"
        raise ValueError(f"people must be {wanted}, got {len(ids)}")
    return ids


def require_secret_key(generator: _core.Generator) -> None:
    """A key that a release can be charged with."""
    if generator.seeded:
        raise ValueError("budget must be None with a seeded generator: such a release has no privacy to account for")


def entry_of_charge(
    budget: Budget, epsilon: float, delta: float, rho: float, purpose: str, charge_id: str | None = None,
    people: Sequence[Any] | None = None,
) -> LedgerEntry | None:
    """Charge a budget; returns the row of its ledger, or None for a custom object, which gets only epsilon and delta."""
    validate.rounding_to_nearest()
    if isinstance(budget, ChargeOnce):
        return LedgerEntry.of(budget.consume(epsilon, delta, rho=rho, purpose=purpose))
    if not isinstance(budget, PrivacyBudget):
        budget.consume(epsilon, delta)
        return None
    return LedgerEntry.of(budget.consume(epsilon, delta, rho=rho, purpose=purpose, charge_id=charge_id, people=people))
