"""The ledger in a database: one transaction reads the end of the chain, decides, and appends; threads share transactions."""

from __future__ import annotations

import secrets
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, TypeVar

from hushvec.budget.rows import (  # isort: skip
    WARN, LedgerTerms, Row, after, charge_row, fits, open_row, raise_refusals, refusal, reset_row, terms_of, total_of,
    warn_if_over,
)
from hushvec.budget.amounts import Amounts, Spend
from hushvec.budget.chain import ChainReport, Head, Walk, check_chain, require_sealed, well_formed
from hushvec.budget.charge import BudgetState, Charge, charge_of_row, require_same, state_of
from hushvec.budget.people import SECRET, Accounts, People, key_digest, new_key
from hushvec.budget.store import Fields, Forkable, Store, StoreFailure, Transaction, watch
from hushvec.errors import BudgetError, PrivacyBudgetExhaustedError

ROWS_LOOKED_AT = 20
SECONDS_BETWEEN_LOOKS = 0.1

Answer = TypeVar("Answer")
Wanted = tuple[str, str | None, str]  # a ledger to charge: its key, its identity unless any is right, the field `purpose`


class GroupCommit:
    """Requests of any number of threads, carried out in batches, one batch at a time, by `run`, which answers all of a batch.

    The first thread that comes leads: it takes all requests that wait and carries them out. While its batch is written to disk
    the next one gathers, and one of those who wait for that leads it.
    """

    def __init__(self, run: Callable[[list[_Request]], None]) -> None:
        self._run = run
        self._waiting: deque[_Request] = deque()
        self._changed = threading.Condition()
        self._leader: int | None = None
        self.turn = threading.RLock()  # held while the database is in use, by readers too

    def submit(self, request: _Request) -> None:
        """Return when the request is settled."""
        if self._leader == threading.get_ident():  # a signal handler in the middle of a batch: an error instead of a deadlock
            self._run([request])
            return
        self._waiting.append(request)
        try:
            with self._changed:
                while self._leader is not None and not request.is_settled:
                    self._changed.wait()
                if request.is_settled:
                    return
                self._leader = threading.get_ident()
            with self.turn:
                self._run_batch()
        finally:
            if self._leader == threading.get_ident():
                with self._changed:
                    self._leader = None
                    self._changed.notify_all()

    def forget(self) -> None:
        """Drop the requests of other threads: after a fork they exist only in the parent."""
        self._waiting.clear()
        self._changed = threading.Condition()
        self._leader = None
        self.turn = threading.RLock()

    def _run_batch(self) -> None:
        batch: list[_Request] = []
        try:
            while self._waiting:
                batch.append(self._waiting.popleft())
            self._run(batch)
        finally:
            for request in batch:
                request.is_settled = True


@dataclass(eq=False)
class _Request:
    """One charge or reset on its way through a batch."""

    amounts: Amounts | None  # None for a reset
    charge_id: str
    purpose: str
    is_named: bool = False
    people: People | None = None  # None: everyone
    charge: Charge | None = None
    total: Spend | None = None
    error: BaseException | None = None
    is_settled: bool = False  # whether its thread may go on: set by the group commit, when the transaction is over

    def answer(self, charge: Charge | None, total: Spend) -> None:
        self.charge, self.total, self.error = charge, total, None

    def fail(self, error: BaseException) -> None:
        self.charge, self.total, self.error = None, None, error


class _Chain:
    """One ledger's rows, as transactions read and append them."""

    terms: LedgerTerms
    ledger: str

    def __init__(self, name: str, key: str) -> None:
        self.name = name  # of the store
        self._key = key
        self._walk = Walk()  # of a ledger that counts by person, as far as it was read for the last charge of people
        self._look, self._looked = Walk(), float("-inf")  # through all rows, again and again

    def _begin(self, first: Fields | None) -> None:
        """Take the terms and the identity from the first row."""
        if first is None:
            raise StoreFailure(f"{self.name}: there is no budget with key {self._key!r}")
        if first[1] != 1:
            raise StoreFailure(f"{self.name}: row 1 of budget {self._key!r} is gone")
        row = self._trusted(first)
        self.terms, self.ledger = terms_of(row), row.entry_hash
        self._seen = row  # the end of the chain as it was found last

    def _head(self, transaction: Transaction) -> Row:
        """The end of the chain. Unless it is known, its own hash is checked, so an edited total stops the ledger."""
        found = transaction.last()
        if found is None:
            raise StoreFailure(f"{self.name}: the rows of budget {self._key!r} are gone")
        return self._seen if found == self._seen else self._trusted(found)

    def _trusted(self, fields: Fields) -> Row:
        try:
            row = require_sealed(well_formed(fields))
            if row.sequence == 1:
                terms_of(row)
            else:
                total_of(row, self.terms)
            return row
        except ValueError as error:
            position = fields[1]
            raise StoreFailure(f"{self.name}: row {position} of budget {self._key!r} is damaged: {error}") from None

    def _carry_out(self, transaction: Transaction, head: Row, request: _Request) -> Row:
        """Append what the request asks for, or settle it without. Returns the new end of the chain."""
        amounts = request.amounts
        given: dict[str, Any] = dict(time_us=_now(), charge_id=request.charge_id, purpose=request.purpose)
        if amounts is None:
            row = reset_row(head, self.terms, **given)
            transaction.append(row)
            request.answer(None, Spend(0, 0))
            return row
        total = total_of(head, self.terms)
        try:
            earlier = self._earlier(transaction, head, request, amounts)
            if earlier is not None:
                request.answer(charge_of_row(earlier, self.ledger, repeated=True), total)
                return head
            if request.people is not None:
                _, total = self._walk.accounts.require(self.terms, total, request.people, amounts)
                given["people"] = request.people.field
            else:
                total = after(total, amounts)
                if self.terms.policy != WARN and not fits(total, self.terms.limit):
                    raise refusal(self.terms, total_of(head, self.terms), amounts)
        except (ValueError, PrivacyBudgetExhaustedError) as error:
            request.fail(error)
            return head
        row = charge_row(head, self.terms, amounts, total, **given)
        transaction.append(row)
        request.answer(charge_of_row(row, self.ledger, repeated=False), total)
        return row

    def _earlier(self, transaction: Transaction, head: Row, request: _Request, amounts: Amounts) -> Row | None:
        """The row of the same charge id in this period. An id that was just made up has none."""
        if not request.is_named:
            return None
        if (found := transaction.find(head.period, request.charge_id)) is None:
            return None
        row = self._trusted(found)
        require_same(row, amounts, request.people)
        return row

    def _walk_to(self, transaction: Transaction, head: Row) -> None:
        """Read the rows that are new since the last time, to know what every person has lost."""
        self._walk = self._walked(self._walk, transaction, head.sequence)
        if self._walk.previous_hash != head.entry_hash:
            raise self._changed()

    def _walked(self, walk: Walk, transaction: Transaction, until: int) -> Walk:
        """The walk, which has checked the rows up to the given one."""
        try:
            for fields in transaction.rows(walk.count, max(0, until - walk.count)):
                walk.step(well_formed(fields))
        except ValueError as error:
            self._walk, self._look = Walk(), Walk()
            raise StoreFailure(f"{self.name}: row {walk.count + 1} of budget {self._key!r} is damaged: {error}") from None
        return walk

    def _look_back(self, transaction: Transaction, head: Row) -> None:
        """Check the row that this object saw last, if others have added some behind it, and, now and then, the next of all
        rows in turn: a ledger of at most ROWS_LOOKED_AT rows as a whole."""
        if head is not self._seen and [self._seen] != list(map(self._trusted, transaction.rows(self._seen.sequence - 1, 1))):
            raise self._changed()
        if (now := time.monotonic()) < self._looked + SECONDS_BETWEEN_LOOKS:
            return
        self._looked = now
        self._look = self._walked(self._look, transaction, min(head.sequence, self._look.count + ROWS_LOOKED_AT))
        if self._look.count == head.sequence:
            if self._look.previous_hash != head.entry_hash:
                raise self._changed()
            self._look = Walk()

    def _changed(self) -> StoreFailure:
        return StoreFailure(f"{self.name}: the rows of budget {self._key!r} were changed while it was open, open it again")


class DurableLedger(_Chain, Forkable):
    """One ledger of a store.

    A new ledger gets `terms` and an existing one must have them; None: an existing one, as it is. With `keeps_own_delta` an
    existing one may have another limit on delta.
    """

    def __init__(self, store: Store, key: str, terms: LedgerTerms | None, *, keeps_own_delta: bool = False) -> None:
        super().__init__(store.name, key)
        self._store, self.address = store, store.address
        self._new_ids()
        run_batch = weakref.WeakMethod(self._run_batch)  # no circle, so that the connection ends with the last reference
        self._group = GroupCommit(lambda batch: run_batch()(batch))  # type: ignore[misc]
        weakref.finalize(self, store.close)  # a budget that is never closed leaves no connection behind
        watch(self)
        with self._group.turn, self._failures():  # a fork waits until it is open
            self._open(terms, keeps_own_delta)
            self.person_key = self._secret() if self.terms.per_person else b""

    def charge(self, amounts: Amounts, charge_id: str | None, purpose: str, people: People | None = None) -> Charge:
        request = _Request(amounts, charge_id or self._next_id(), purpose, charge_id is not None, people)
        total = self._carried_out(request)
        assert request.charge is not None
        if not request.charge.repeated:
            warn_if_over(self.terms, total)
        return request.charge

    def charge_with(self, wanted: Sequence[Wanted], asked: Callable[[str], Amounts], charge_id: str | None) -> list[Charge]:
        """Charge ledgers of this one's store in one transaction, all or none, each what is `asked` of its currency."""
        is_named, charge_id = charge_id is not None, charge_id or self._next_id()
        chains, requests = [_Chain(self.name, key) for key, _, _ in wanted], list[_Request]()
        try:
            with self._group.turn, self._store.write(*(key for key, _, _ in wanted)) as transactions:
                for (_, ledger, purpose), chain, transaction in zip(wanted, chains, transactions):
                    chain._begin(transaction.first())
                    if ledger not in (None, chain.ledger):
                        raise StoreFailure(f"{self.name}: budget {chain._key!r} is another one now, open it again")
                    requests.append(_Request(asked(chain.terms.currency), charge_id, purpose, is_named))
                    chain._carry_out(transaction, chain._head(transaction), requests[-1])
                raise_refusals([chain._key for chain in chains], [request.error for request in requests])
        except StoreFailure as failure:
            raise BudgetError(failure.reason, charge_id, failure.unknown) from failure
        charges = []
        for chain, request in zip(chains, requests):
            assert request.charge is not None and request.total is not None
            if not request.charge.repeated:
                warn_if_over(chain.terms, request.total)
            charges.append(request.charge)
        return charges

    def reset(self, purpose: str) -> None:
        self._carried_out(_Request(None, self._next_id(), purpose))

    def total(self) -> Spend:
        return total_of(self._last(), self.terms)

    def state(self) -> BudgetState:
        last = self._last()
        head = Head(last.sequence, last.entry_hash)
        return state_of(self.terms, total_of(last, self.terms), ledger=self.ledger, period=last.period, head=head)

    def asked(self, question: Callable[[Accounts, Spend], Answer]) -> Answer:
        """What is answered by the accounts of people and the total."""
        with self._group.turn, self._failures(), self._store.read(self._key) as transaction:
            head = self._head(transaction)
            self._walk_to(transaction, head)
            return question(self._walk.accounts, total_of(head, self.terms))

    def check(self, heads: Iterable[Head]) -> ChainReport:
        with self._group.turn, self._failures(), self._store.read(self._key) as transaction:
            return check_chain(transaction.rows(), heads)

    def rows(self) -> list[Fields]:
        with self._group.turn, self._failures(), self._store.read(self._key) as transaction:
            return list(transaction.rows())

    def close(self) -> None:
        with self._group.turn:
            self._store.close()

    def before_fork(self) -> None:
        self._group.turn.acquire()
        self._store.close()

    def after_fork_in_parent(self) -> None:
        self._group.turn.release()

    def after_fork_in_child(self) -> None:
        self._group.forget()
        self._new_ids()

    def _carried_out(self, request: _Request) -> Spend:
        """Wait for the batch with the request. Returns the total after it, and raises what it was answered with."""
        self._group.submit(request)
        if request.error is not None:
            raise request.error
        if request.total is None:
            raise BudgetError(f"{self.name}: interrupted", request.charge_id, True)
        return request.total

    def _new_ids(self) -> None:
        self._id_prefix = secrets.token_hex(8)
        self._id_count = count(1)

    def _next_id(self) -> str:
        return f"{self._id_prefix}-{next(self._id_count)}"

    def _open(self, terms: LedgerTerms | None, keeps_own_delta: bool) -> None:
        """Read the first row, which is written now if the ledger is new."""
        if terms is None:
            with self._store.read(self._key) as transaction:
                found = transaction.first()
            self._begin(found)
            return
        with self._store.write(self._key) as (transaction,):
            found = transaction.first()
            if found is None:
                identity = secrets.token_hex(16)
                if terms.per_person:
                    transaction.keep_secret((key := new_key()).hex())
                    identity = key_digest(key)
                found = open_row(terms, time_us=_now(), charge_id=identity)
                transaction.append(found)
        self._begin(found)
        own = self.terms
        if keeps_own_delta and own.currency == terms.currency:
            terms = terms._replace(limit=Spend(terms.limit.main, own.limit.delta))
        if own != terms:
            raise ValueError(f"budget {self._key!r} in {self.name} must keep what it was opened with ({own}), got ({terms})")

    def _secret(self) -> bytes:
        """The key that hides the ids of people. Another one would not know them again."""
        with self._store.read(self._key) as transaction:
            first, secret = transaction.first(), transaction.secret()
        key = bytes.fromhex(secret) if secret is not None and SECRET.fullmatch(secret) else b""
        if first is None or Row(*first).charge_id != key_digest(key):
            raise StoreFailure(f"{self.name}: the key of the people of budget {self._key!r} is missing, or is that of another ledger")
        return key

    def _last(self) -> Row:
        with self._group.turn, self._failures(), self._store.read(self._key) as transaction:
            return self._head(transaction)

    def _run_batch(self, batch: list[_Request]) -> None:
        walks = False
        try:
            with self._store.write(self._key) as (transaction,):
                head = self._head(transaction)
                self._look_back(transaction, head)
                if walks := any(request.people is not None for request in batch):
                    self._walk_to(transaction, head)
                for request in batch:
                    before, head = head, self._carry_out(transaction, head, request)
                    if walks and head is not before:
                        self._walk.step(head)
            self._seen = head
        except StoreFailure as failure:
            self._walk = Walk() if walks else self._walk  # its last rows may not be there
            for request in batch:
                request.fail(BudgetError(failure.reason, request.charge_id, failure.unknown))
        except BaseException:
            self._walk = Walk() if walks else self._walk
            reason = f"{self.name}: interrupted"
            for request in batch:
                request.fail(BudgetError(reason, request.charge_id, True))
            raise

    @contextmanager
    def _failures(self) -> Iterator[None]:
        try:
            yield
        except StoreFailure as failure:
            raise BudgetError(failure.reason) from failure


def _now() -> int:
    return time.time_ns() // 1000
