"""The ledgers of tenants: one for each period of their budget, opened when they are first charged."""

from __future__ import annotations

import threading
from pathlib import Path

from hushvec.budget import PrivacyBudget
from hushvec.budget.location import default_file
from hushvec.serve.policy import BudgetTerms

_PREFIX = "serve"


class Ledgers:
    """The ledgers of one store.

    Args:
        store: as for `PrivacyBudget`; None for its default file.
    """

    def __init__(self, store: str | None) -> None:
        self.store = store if store is not None else default_file()
        self._open: dict[str, PrivacyBudget] = {}
        self._lock = threading.Lock()

    def open(self, tenant: str, terms: BudgetTerms, period: str) -> PrivacyBudget:
        """The ledger that pays in a period. One that exists keeps its limits until the next period.

        Raises:
            BudgetError: the store cannot be used.
        """
        key = ledger_key(tenant, period)
        with self._lock:
            budget = self._open.get(key)
            if budget is None:
                budget = self._open[key] = self._opened(key, terms)
                self._close_older(tenant, period)
            return budget

    def _opened(self, key: str, terms: BudgetTerms) -> PrivacyBudget:
        try:
            return PrivacyBudget(terms.epsilon, terms.delta, persist_key=key, store=self.store, charged_by="hushvec serve")
        except ValueError:  # it exists, with the limits of an earlier policy
            return PrivacyBudget.reopen(key, store=self.store, charged_by="hushvec serve")

    def _close_older(self, tenant: str, period: str) -> None:
        """Yesterday's ledger may still be asked for by a repeated request; the ones before it are not."""
        mine = sorted(key for key in self._open if key.rpartition("/")[0] == f"{_PREFIX}/{tenant}")
        for key in mine[:-2]:
            self._open.pop(key).close()

    def close(self) -> None:
        with self._lock:
            for budget in self._open.values():
                budget.close()
            self._open.clear()


def ledger_key(tenant: str, period: str) -> str:
    return f"{_PREFIX}/{tenant}/{period}" if period else f"{_PREFIX}/{tenant}"


def answers_url(store: str | None) -> str:
    """Where answers are kept: in the ledgers' database, or in a file beside theirs."""
    place = store if store is not None else default_file()
    if place.startswith("postgresql"):
        scheme, _, rest = place.partition("://")
        return f"postgresql+psycopg://{rest}"
    path = Path(place.removeprefix("sqlite:///"))
    path.parent.mkdir(parents=True, exist_ok=True)
    return f"sqlite:///{path.with_name('answers.sqlite')}"
