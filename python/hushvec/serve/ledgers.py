"""The ledgers of tenants: one for each period of their budget, opened when they are first charged."""

from __future__ import annotations

import threading
from collections import OrderedDict

from hushvec.budget import PrivacyBudget
from hushvec.budget.arguments import default_store, open_store
from hushvec.budget.store import StoreFailure
from hushvec.errors import BudgetError
from hushvec.serve.policy import BudgetTerms

_PREFIX = "serve"

# Of one tenant. A repeated request may still ask for the ledger of the period before.
_MOST_OPEN = 2


class Ledgers:
    """The ledgers of one store.

    Args:
        store: as for `PrivacyBudget`; None for $HUSHVEC_BUDGET_STORE or the default file.
    """

    def __init__(self, store: str | None) -> None:
        self.store = store if store is not None else default_store()
        self._open: dict[str, OrderedDict[str, PrivacyBudget]] = {}
        self._lock = threading.Lock()

    def require_store(self) -> None:
        """Open the store once, and make it if there is none.

        Raises:
            ValueError, BudgetError: it is no store, or cannot be used.
        """
        store = open_store(self.store, create=True)
        try:
            store.keys()
        except StoreFailure as failure:
            raise BudgetError(failure.reason) from None
        finally:
            store.close()

    def open(self, tenant: str, terms: BudgetTerms, period: str) -> PrivacyBudget:
        """The ledger that pays in a period. One that exists keeps its limits until the next period.

        Raises:
            BudgetError: the store cannot be used.
        """
        with self._lock:
            mine = self._open.setdefault(tenant, OrderedDict())
            budget = mine.get(period)
            if budget is None:
                budget = mine[period] = self._opened(ledger_key(tenant, period), terms)
            mine.move_to_end(period)
            if len(mine) > _MOST_OPEN:
                mine.popitem(last=False)  # not closed: another request may hold it, and its connection ends with the last of them
            return budget

    def _opened(self, key: str, terms: BudgetTerms) -> PrivacyBudget:
        try:
            return PrivacyBudget(terms.epsilon, terms.delta, persist_key=key, store=self.store, charged_by="hushvec serve")
        except ValueError:  # it exists, with the limits of an earlier policy
            return PrivacyBudget.reopen(key, store=self.store, charged_by="hushvec serve")

    def close(self) -> None:
        with self._lock:
            for mine in self._open.values():
                for budget in mine.values():
                    budget.close()
            self._open.clear()


def ledger_key(tenant: str, period: str) -> str:
    return f"{_PREFIX}/{tenant}/{period}" if period else f"{_PREFIX}/{tenant}"
