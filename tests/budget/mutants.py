"""Ledgers that are wrong on purpose. A test that does not catch them proves nothing."""

import time

from hushvec.budget import ledger as ledger_module
from hushvec.budget.amounts import Amounts, Spend, units_of
from hushvec.budget.durable import DurableLedger
from hushvec.budget.memory import MemoryLedger
from hushvec.budget.store import StoreFailure
from hushvec.errors import BudgetError


class CheckOutside(DurableLedger):
    """Decides on what it read before its transaction began."""

    def _run_batch(self, batch):
        try:
            for request in batch:
                with self._store.read(self._key) as transaction:
                    seen = self._head(transaction)
                time.sleep(0.002)  # what another process needs to come in between
                with self._store.write(self._key) as (transaction,):
                    head = self._head(transaction)
                    stale = head._replace(total_epsilon=seen.total_epsilon, total_delta=seen.total_delta)
                    self._carry_out(transaction, stale, request)
        except StoreFailure as failure:
            for request in batch:
                request.fail(BudgetError(failure.reason, request.charge_id, failure.unknown))


class AddsFloats(MemoryLedger):
    """Keeps its total as a float64."""

    _sum = 0.0

    def charge(self, amounts, charge_id, purpose, people=None):
        self._sum += amounts.epsilon
        self._main = units_of(self._sum) - amounts.main_units
        return super().charge(amounts, charge_id, purpose)


class DropsDelta(MemoryLedger):
    """Counts epsilon only."""

    def charge(self, amounts, charge_id, purpose, people=None):
        without = Amounts(**{**amounts._asdict(), "delta_units": 0})
        return super().charge(without, charge_id, purpose)


class ForgetsIds(MemoryLedger):
    """Charges a retry again."""

    def charge(self, amounts, charge_id, purpose, people=None):
        return super().charge(amounts, None, purpose)


class OneTooMany(MemoryLedger):
    """Refuses only once the limit is passed already."""

    def charge(self, amounts, charge_id, purpose, people=None):
        limit = self.terms.limit
        if self._main < limit.main:
            self._max_main = limit.main + amounts.main_units
        return super().charge(amounts, charge_id, purpose)


class CountsRefused(MemoryLedger):
    """Adds first and asks afterwards."""

    def charge(self, amounts, charge_id, purpose, people=None):
        before = Spend(self._main, self._delta)
        try:
            return super().charge(amounts, charge_id, purpose)
        except Exception:
            self._main = before.main + amounts.main_units
            raise


LEDGERS = {"check_outside": CheckOutside}


def install(name):
    """Make PrivacyBudget use the mutant."""
    ledger_module.DurableLedger = LEDGERS[name]
