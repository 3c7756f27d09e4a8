"""A ledger that lasts as long as its process. The same rows and hashes as in a file, computed when they are asked for.

At half a million charges per second there are two microseconds for each, and a hash alone takes one. So a charge records its
amounts and its time, and rows are built from these records on demand: only this process could change them in between.
"""

from __future__ import annotations

import secrets
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from time import time_ns
from typing import Any, TypeVar

from hushvec.budget.rows import (  # isort: skip
    WARN, LedgerTerms, Row, after, charge_row, open_row, raise_refusals, refusal, reset_row, total_of, warn_if_over,
)
from hushvec.budget.amounts import ZERO, Amounts, Spend
from hushvec.budget.chain import ChainReport, Head, check_chain
from hushvec.budget.charge import BudgetState, Charge, charge_without_row, require_same, state_of
from hushvec.budget.people import Accounts, People, key_digest, new_key
from hushvec.budget.store import Fields, Forkable, watch
from hushvec.errors import BudgetError, PrivacyBudgetExhaustedError

Answer = TypeVar("Answer")


class MemoryLedger(Forkable):
    """A ledger in memory, atomic over the threads of its process. It refuses to work in a forked child, which has a copy."""

    name = "memory"

    def __init__(self, terms: LedgerTerms) -> None:
        self.terms = terms
        self._blocks = terms.policy != WARN
        self._max_main, self._max_delta = terms.limit
        self._main, self._delta = ZERO
        self._period = 0
        self._lock = threading.RLock()
        self._is_copy = False
        # One entry for every row after the first; rare fields are in a dictionary by sequence.
        self._amounts: list[Amounts | None] = []  # None for a reset
        self._times_ns = array("q")
        self._given_ids: dict[int, str] = {}
        self._purposes: dict[int, str] = {}
        self._sequence_of: dict[str, int] = {}  # of the ids given in this period
        self._first_of_period = 2
        self._id_prefix = secrets.token_hex(8) + "-"  # a generated id is this and the sequence
        self.person_key = new_key() if terms.per_person else b""
        self._accounts = Accounts()
        self._people: dict[int, tuple[str, Spend]] = {}  # of charges to people: the row's field, and the total after it
        identity = key_digest(self.person_key) if terms.per_person else secrets.token_hex(16)
        self._rows = [open_row(terms, time_us=time_ns() // 1000, charge_id=identity)]
        self.ledger = self._rows[0].entry_hash
        watch(self)

    def charge(
        self, amounts: Amounts, charge_id: str | None, purpose: str, people: People | None = None, *, warns: bool = True
    ) -> Charge:
        with self._lock:
            if self._is_copy:
                self._require_original(charge_id)
            if charge_id is not None and (earlier := self._earlier(charge_id)) is not None:
                require_same(self._written(earlier), amounts, people)
                return charge_without_row(self.ledger, earlier, amounts, True, self._row)
            if people is None:
                main, delta = self._main + amounts.main_units, self._delta + amounts.delta_units
                over = main > self._max_main or delta > self._max_delta
                if over and self._blocks:
                    raise refusal(self.terms, Spend(self._main, self._delta), amounts)
                self._main, self._delta = main, delta
                sequence = self._note(amounts, purpose)
            else:
                sequence, over = self._note_people(amounts, purpose, people), False
            if charge_id is not None:
                self._given_ids[sequence] = charge_id
                self._sequence_of[charge_id] = sequence
        if over and warns:
            warn_if_over(self.terms, Spend(main, delta))
        return charge_without_row(self.ledger, sequence, amounts, False, self._row)

    def reset(self, purpose: str) -> None:
        with self._lock:
            self._require_original()
            sequence = self._note(None, purpose)
            self._main, self._delta = ZERO
            self._accounts = Accounts()
            self._period += 1
            self._first_of_period = sequence + 1
            self._sequence_of = {}

    def total(self) -> Spend:
        with self._lock:
            self._require_original()
            return Spend(self._main, self._delta)

    def asked(self, question: Callable[[Accounts, Spend], Answer]) -> Answer:
        with self._lock:
            return question(self._accounts, self.total())

    def state(self) -> BudgetState:
        with self._lock:
            self._require_original()
            last = self._written()
            head = Head(last.sequence, last.entry_hash)
            return state_of(self.terms, Spend(self._main, self._delta), ledger=self.ledger, period=self._period, head=head)

    def check(self, heads: Iterable[Head]) -> ChainReport:
        return check_chain(self.rows(), heads)

    def rows(self) -> list[Fields]:
        with self._lock:
            self._require_original()
            self._written()
            return list(self._rows)

    def close(self) -> None:
        """Nothing to give back."""

    def after_fork_in_child(self) -> None:
        self._lock = threading.RLock()
        self._is_copy = True

    def _go_back(self, entries: int, total: Spend) -> None:
        """To how it was with so many entries in this period, while the lock has been held since."""
        for sequence in range(entries + 2, len(self._amounts) + 2):
            self._purposes.pop(sequence, None)
            self._sequence_of.pop(self._given_ids.pop(sequence, ""), None)
        del self._amounts[entries:], self._times_ns[entries:], self._rows[entries + 1 :]
        self._main, self._delta = total

    def _note(self, amounts: Amounts | None, purpose: str) -> int:
        """Add an entry. Returns its sequence."""
        self._times_ns.append(time_ns())
        self._amounts.append(amounts)
        sequence = len(self._amounts) + 1
        if purpose:
            self._purposes[sequence] = purpose
        return sequence

    def _note_people(self, amounts: Amounts, purpose: str, people: People) -> int:
        grown, total = self._accounts.require(self.terms, Spend(self._main, self._delta), people, amounts)
        self._accounts.take(grown)
        self._main, self._delta = total
        sequence = self._note(amounts, purpose)
        self._people[sequence] = people.field, total
        return sequence

    def _earlier(self, charge_id: str) -> int | None:
        """Sequence of the charge with this id in this period."""
        number = charge_id.removeprefix(self._id_prefix)
        if number != charge_id and number.isdecimal():
            sequence = int(number)
            if self._first_of_period <= sequence <= len(self._amounts) + 1 and sequence not in self._given_ids:
                return sequence
        return self._sequence_of.get(charge_id)

    def _row(self, sequence: int) -> Row:
        with self._lock:
            return self._written(sequence)

    def _written(self, wanted: int = 0) -> Row:
        """The row of this sequence, or the last, once the rows that are still missing are built."""
        row = self._rows[-1]
        total = total_of(row, self.terms)
        for sequence in range(row.sequence + 1, len(self._amounts) + 2):
            amounts, time_us = self._amounts[sequence - 2], self._times_ns[sequence - 2] // 1000
            charge_id = self._given_ids.get(sequence) or f"{self._id_prefix}{sequence}"
            purpose = self._purposes.get(sequence, "")
            if amounts is None:
                total = ZERO
                row = reset_row(row, self.terms, time_us=time_us, charge_id=charge_id, purpose=purpose)
            else:
                people, total = self._people.get(sequence) or ("", after(total, amounts))
                given: dict[str, Any] = dict(time_us=time_us, charge_id=charge_id, purpose=purpose)
                row = charge_row(row, self.terms, amounts, total, people=people, **given)
            self._rows.append(row)
        return self._rows[wanted - 1]

    def _require_original(self, charge_id: str | None = None) -> None:
        if self._is_copy:
            raise BudgetError(
                "a memory ledger cannot be used in a forked process, which has a copy of it: name a persist_key or a store", charge_id
            )


def charge_together(wanted: Sequence[tuple[MemoryLedger, Amounts, str]], charge_id: str | None) -> list[Charge]:
    """Charge several ledgers, all or none, each with its amounts and purpose."""
    charges, errors = list[Charge](), list[Exception | None]()
    with ExitStack() as locks:
        for ledger, _, _ in sorted(wanted, key=lambda each: id(each[0])):  # in one order in all threads
            locks.enter_context(ledger._lock)
        before = [(len(ledger._amounts), Spend(ledger._main, ledger._delta)) for ledger, _, _ in wanted]
        try:
            for ledger, amounts, purpose in wanted:
                try:
                    charges.append(ledger.charge(amounts, charge_id, purpose, warns=False))
                    errors.append(None)
                except (ValueError, PrivacyBudgetExhaustedError) as error:
                    errors.append(error)
            raise_refusals([ledger.terms.budget_key for ledger, _, _ in wanted], errors)
        except BaseException:
            for (ledger, _, _), (entries, total) in zip(wanted, before):
                ledger._go_back(entries, total)
            raise
    for (ledger, _, _), charge in zip(wanted, charges):
        if not charge.repeated:
            warn_if_over(ledger.terms, ledger.total())
    return charges
