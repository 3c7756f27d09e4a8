"""`PrivacyBudget`: what users charge."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from os import PathLike
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from hushvec._util import validate
from hushvec._util.display import Sheet, shown
from hushvec._util.keywords import explained
from hushvec.budget import arguments
from hushvec.budget.amounts import Spend, amounts, float_down, float_up
from hushvec.budget.chain import ChainReport, Head, check_chain, export_of
from hushvec.budget.charge import BudgetState, Charge, budget_sheet
from hushvec.budget.durable import DurableLedger
from hushvec.budget.memory import MemoryLedger, charge_together
from hushvec.budget.people import people_of
from hushvec.budget.rows import BLOCK, is_exhausted, left
from hushvec.budget.store import Store, StoreFailure
from hushvec.errors import BudgetError

Arguments = ParamSpec("Arguments")
Answer = TypeVar("Answer")


def _asynchronous(
    method: Callable[Concatenate[PrivacyBudget, Arguments], Answer],
) -> Callable[Concatenate[PrivacyBudget, Arguments], Coroutine[Any, Any, Answer]]:
    """The method for asyncio: a ledger that waits for a disk or a network works in a thread. A canceled call may still be charged."""

    @wraps(method)
    async def call(self: PrivacyBudget, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Answer:
        bound: Callable[Arguments, Answer] = getattr(self, method.__name__)
        if isinstance(self._ledger, MemoryLedger | _Closed):
            return bound(*args, **kwargs)
        import asyncio

        return await asyncio.to_thread(bound, *args, **kwargs)

    call.__name__ = f"a{method.__name__}"
    call.__qualname__ = f"PrivacyBudget.{call.__name__}"
    call.__doc__ = f"`{method.__name__}` for asyncio. A canceled call may still be charged."
    return call  # type: ignore[return-value]  # mypy takes `self` for a name that callers may use


@shown
class PrivacyBudget:
    """A limit on total privacy loss, kept in a ledger that is charged before anything is released.

    Args:
        max_epsilon: limit on the sum of epsilon, > 0. None for a budget in rho.
        max_delta: limit on the sum of delta, >= 0 and < 1. None: a ten-thousandth of max_epsilon, but at least 1e-3 and at most
            1e-2, which is room for 100 to 1000 releases at the delta that `privatize` has by default (1e-5). 0: only mechanisms
            without delta.
        max_rho: limit on the sum of rho (zero-concentrated differential privacy), > 0, in place of the two above.
        persist_key: name of the ledger in its store, printable text in Unicode form NFKC, without invisible characters,
            without blanks at its ends and without words of two alphabets that look alike. With a name and no store the ledger is in
            an SQLite file: $HUSHVEC_BUDGET_STORE, or else $XDG_STATE_HOME/hushvec/budget.sqlite, or else
            ~/.local/state/hushvec/budget.sqlite.
        store: a path or sqlite:///path; postgresql://user@host/database; "memory". None with no persist_key either is memory:
            the ledger lasts as long as this process. One store holds any number of ledgers. Or a store of your own, an object for
            this budget alone: docs/extend.md.
        on_exhausted: "block": a charge that does not fit raises and is not recorded. "warn": it is recorded, with a
            PrivacyBudgetWarning; such a ledger only counts.
        charged_by: name of the service or person that charges through this object, at most 100 printable characters. Every row
            has it apart from its purpose, and `hushvec budget charges` adds up by it. It is what the program says, unchecked.
        per_person: True: the limits are those of each person, and charges may name the `people` whose rows they are about. A charge
            without people is one to everyone. Only with on_exhausted="block". A ledger keeps it for good.

    Raises:
        TypeError: no limit, or limits in both currencies.
        ValueError: an existing ledger was opened with other limits or another policy; a new one has a key that looks like that of a
            ledger in the store.
        BudgetError: the store cannot be used. MissingExtraError: postgresql:// without the extra "postgresql".

    Guarantees:
        Whatever is released under charges that were accepted by a "block" ledger in one period is, all together,
        (max_epsilon, max_delta)-DP, or max_rho-zCDP, for any number of releases whose parameters depend on the results of
        earlier ones, for the unit that all charges are about: of several, the smallest (one row, not one person). `reset` starts a new
        period: earlier losses still count. With per_person=True it holds for each person, whose rows may have any other values; ids,
        how many rows each person has, and refusals are taken to be public (docs/proofs/per_person.md).
        Amounts are added exactly, as the decimal numbers that Python prints for them: ten charges of 0.1 are 1.
        A charge is decided and recorded in one transaction, over threads, processes and (PostgreSQL) machines. When `consume`
        returns, it is on stable storage; even if the program fails before the release, it stays spent.

    Edge cases:
        Spending exactly what is left is accepted. An existing ledger keeps its limits: opening it with others raises;
        leaving max_delta out accepts the ledger's own. A memory ledger refuses to work in a forked process.

    Reference:
        Rogers, Roth, Ullman and Vadhan (2016); Feldman and Zrnic (2021); docs/proofs/budget_filter.md.

    Example:
        >>> from hushvec.budget import PrivacyBudget
        >>> with PrivacyBudget(max_epsilon=10.0) as budget:
        ...     charge = budget.consume(1.0, 1e-5)
        ...     budget.remaining(), budget.consumed(), budget.is_exhausted()
        (9.0, 1.0, False)
    """

    @explained
    def __init__(
        self, max_epsilon: float | None = None, max_delta: float | None = None, *, max_rho: float | None = None,
        persist_key: str | None = None, store: str | PathLike[str] | Store | None = None, on_exhausted: str = BLOCK,
        charged_by: str | None = None, per_person: bool = False,
    ) -> None:
        self._charged_by = arguments.require_charged_by(charged_by)
        key = arguments.require_plain(arguments.key_of(persist_key))
        terms = arguments.terms_of_limits(key, max_epsilon, max_delta, max_rho, on_exhausted, per_person)
        if arguments.is_memory(persist_key, store):
            self._ledger: MemoryLedger | DurableLedger | _Closed = MemoryLedger(terms)
        else:
            keeps_own_delta = max_rho is None and max_delta is None
            self._ledger = DurableLedger(arguments.open_store(store, create=True), key, terms, keeps_own_delta=keeps_own_delta)
        self._remember()

    @classmethod
    def reopen(
        cls, persist_key: str | None = None, *, store: str | PathLike[str] | Store | None = None, charged_by: str | None = None
    ) -> PrivacyBudget:
        """Open an existing ledger with the limits and the policy that it has. BudgetError if there is none."""
        budget = cls.__new__(cls)
        budget._charged_by = arguments.require_charged_by(charged_by)
        budget._ledger = DurableLedger(arguments.open_store(store, create=False), arguments.key_of(persist_key), None)
        budget._remember()
        return budget

    def consume(
        self, epsilon: float | None = None, delta: float = 0.0, *, rho: float | None = None, charge_id: str | None = None,
        purpose: str | None = None, people: Iterable[Any] | None = None,
    ) -> Charge:
        """Charge the ledger. Call it before the release is computed, and release nothing if it raises.

        Args:
            epsilon: > 0. May be None for a budget in rho if rho is given.
            delta: >= 0 and < 1.
            rho: > 0. What a budget in rho counts; without it a charge with delta = 0 counts as epsilon^2 / 2. A budget in
                (epsilon, delta) records it and does not count it.
            charge_id: name of this release, printable text. Repeating a charge with the same id and amounts in the same
                period charges nothing and returns the first entry with `repeated=True`: a retry after a lost answer. It is
                not a way to release twice: a second draw of noise is a second release, and needs a second id.
            purpose: what for, printable text; recorded.
            people: with per_person=True, ids of those whom the release is about, texts or whole numbers; one who is named k times is
                charged k times. An id and one that prints alike are one person. None: everyone is charged.

        Returns:
            Charge: the entry, on stable storage.

        Raises:
            PrivacyBudgetExhaustedError: it does not fit into what is left; the totals are unchanged. Its `people` are those whom it
                does not fit, its `refused` their places; nobody was charged.
            ValueError: a charge_id that was used with other amounts or people. Nothing charged.
            BudgetError: the store failed. Its may_be_charged says whether the charge may still have been recorded.

        Example:
            >>> from hushvec.budget import PrivacyBudget
            >>> budget = PrivacyBudget(1.0)
            >>> budget.consume(0.5, 1e-6, charge_id="monday").sequence
            2
            >>> budget.consume(0.5, 1e-6, charge_id="monday").repeated, budget.consumed()
            (True, 0.5)
        """
        asked = amounts(self._currency, epsilon, delta, rho)
        if charge_id is not None:
            arguments.require_text("charge_id", charge_id)
        if people is None:
            return self._ledger.charge(asked, charge_id, arguments.purpose_field(self._charged_by, purpose))
        named = people_of(people, self._ledger.person_key)
        return self._ledger.charge(asked, charge_id, arguments.purpose_field(self._charged_by, purpose), named)

    def affordable(
        self, people: Iterable[Any], epsilon: float | None = None, delta: float = 0.0, *, rho: float | None = None
    ) -> list[bool]:
        """Which people of a call could be charged now: for each place True or False.

        Those of the True places fit together: `consume` takes them, unless somebody else charges them first. Of one who is named
        several times, the first places that fit are True. Arguments are those of `consume`; nothing is charged.

        Example:
            >>> from itertools import compress
            >>> from hushvec.budget import PrivacyBudget
            >>> budget = PrivacyBudget(1.0, per_person=True)
            >>> charge = budget.consume(0.75, people=["anna"])
            >>> fits = budget.affordable(["anna", "ben", "cleo"], 0.5)
            >>> fits, list(compress(["anna", "ben", "cleo"], fits))
            ([False, True, True], ['ben', 'cleo'])
        """
        hashes = people_of(people, self._ledger.person_key).hashes
        asked = amounts(self._currency, epsilon, delta, rho)
        return self._ledger.asked(lambda accounts, total: accounts.affordable(total, hashes, asked, self._limit))

    @staticmethod
    def charge_many(
        budgets: Iterable[str | PrivacyBudget], epsilon: float | None = None, delta: float = 0.0, *, rho: float | None = None,
        charge_id: str | None = None, purpose: str | None = None, store: str | PathLike[str] | Store | None = None,
        charged_by: str | None = None,
    ) -> list[Charge]:
        """Charge several budgets at once, all or none, for a release about several people who have a budget each.

        Args:
            budgets: keys of existing ledgers in `store`, or open budgets, all in memory or all in one store. None of them twice.
            epsilon, delta, rho, charge_id, purpose: as for `consume`, and the same for each.
            store, charged_by: as for `reopen`, with keys only.

        Returns:
            list: the Charge of each, in the order of `budgets`. A charge that is `repeated` was made by an earlier call.

        Raises:
            PrivacyBudgetExhaustedError: at least one refuses; its `refused` has the places of all that do in `budgets`.
            ValueError: no budgets, one of them twice, or several stores; a charge_id that was used with other amounts.
            BudgetError: there is no ledger with one of the keys, or the store failed. After the latter, with may_be_charged, either
                all or none are charged: repeat the call with the charge_id of the error.

        Guarantees:
            In a store this is one transaction: either every budget has the charge on stable storage, or none has, whatever
            becomes of the process, and no other charge comes in between. Budgets in memory are charged under all of their locks.
            What a budget promises holds for each of them, for data that differ in what its person contributed.

        Reference:
            Claim 8 of docs/proofs/budget_filter.md.

        Example:
            >>> from hushvec.budget import PrivacyBudget
            >>> anna, ben = PrivacyBudget(1.0, persist_key="anna", store="memory"), PrivacyBudget(3.0, store="memory")
            >>> [charge.epsilon for charge in PrivacyBudget.charge_many([anna, ben], 0.75)]
            [0.75, 0.75]
        """
        if charge_id is not None:
            arguments.require_text("charge_id", charge_id)
        wanted = _together(budgets, has_own_place=store is not None or charged_by is not None)
        asked = partial(amounts, epsilon=epsilon, delta=delta, rho=rho)
        keys = [each for each in wanted if isinstance(each, str)]
        if keys:
            field = arguments.purpose_field(arguments.require_charged_by(charged_by), purpose)
            leader = DurableLedger(arguments.open_store(store, create=False), keys[0], None)
            try:
                return leader.charge_with([(key, None, field) for key in keys], asked, charge_id)
            finally:
                leader.close()
        ledgers = [(budget._ledger, arguments.purpose_field(budget._charged_by, purpose)) for budget in wanted]
        if isinstance(first := ledgers[0][0], DurableLedger):
            named = [(ledger.terms.budget_key, ledger.ledger, field) for ledger, field in ledgers]
            return first.charge_with(named, asked, charge_id)
        return charge_together([(ledger, asked(ledger.terms.currency), field) for ledger, field in ledgers], charge_id)

    def remaining(self, person: str | int | None = None) -> float:
        """Epsilon that is left, or rho; 0.0 where a "warn" ledger is over its limit. Charging exactly this fits. With
        per_person=True: that is left to this person, or to everyone."""
        return float_down(left(self._spent(person), self._limit).main)

    def consumed(self, person: str | int | None = None) -> float:
        """Epsilon spent in this period, or rho. With per_person=True: by this person, or the most that anybody has spent."""
        return float_up(self._spent(person).main)

    def remaining_delta(self) -> float:
        """Delta that is left; 0.0 for a budget in rho."""
        return float_down(left(self._ledger.total(), self._limit).delta)

    def consumed_delta(self) -> float:
        """Delta spent in this period; 0.0 for a budget in rho."""
        return float_up(self._ledger.total().delta)

    def is_exhausted(self) -> bool:
        """Whether epsilon (or rho) is used up, or delta, if there was any."""
        return is_exhausted(self._ledger.total(), self._limit)

    def state(self) -> BudgetState:
        """Limits, totals and the end of the chain, at one moment."""
        return self._ledger.state()

    def head(self) -> Head:
        """The end of the chain. Keep it elsewhere, and `verify` with it later."""
        return self._ledger.state().head

    def reset(self, *, purpose: str | None = None) -> None:
        """Start a new period with nothing spent. The old rows stay and still count: losses of periods add up."""
        self._ledger.reset(arguments.purpose_field(self._charged_by, purpose))

    def verify(self, heads: Iterable[Head | tuple[int, str]] = ()) -> ChainReport:
        """Recompute the whole ledger from its first row on; see `hushvec.budget.verify_export`.

        Args:
            heads: ends of the chain that were kept earlier, each (rows, entry_hash): from `head`, from an export, or the
                sequence and entry_hash of a charge in a receipt. Each must still be part of the chain.
        """
        return self._ledger.check([Head(*head) for head in heads])

    def export(self) -> dict[str, Any]:
        """All rows as plain values for JSON, for `verify_export` or an independent checker."""
        return export_of(self._key, self._ledger.rows())

    def close(self) -> None:
        """Close the store. Closing twice is fine; any other call afterwards raises ValueError."""
        self._ledger.close()
        self._ledger = _CLOSED

    aconsume = _asynchronous(consume)
    aaffordable = _asynchronous(affordable)
    aremaining = _asynchronous(remaining)
    aconsumed = _asynchronous(consumed)
    ais_exhausted = _asynchronous(is_exhausted)
    astate = _asynchronous(state)
    areset = _asynchronous(reset)
    averify = _asynchronous(verify)
    aexport = _asynchronous(export)
    aclose = _asynchronous(close)

    def __enter__(self) -> PrivacyBudget:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> PrivacyBudget:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    def __reduce__(self) -> tuple[Any, ...]:
        if isinstance(self._ledger, DurableLedger):
            return partial(PrivacyBudget.reopen, self._key, store=self._ledger.address, charged_by=self._charged_by), ()
        raise TypeError("a budget in memory, or a closed one, cannot be sent to another process: name a persist_key or a store")

    def __repr__(self) -> str:
        if isinstance(self._ledger, _Closed):
            return f"PrivacyBudget({self._key!r}, closed)"
        return f"PrivacyBudget({self._key!r} in {self._ledger.name}, {self._ledger.terms})"

    def _sheet(self) -> Sheet:
        if isinstance(self._ledger, _Closed):
            return Sheet(f"Privacy budget {self._key!r}: closed", ())
        return budget_sheet(self.state(), self._ledger.name)

    def _spent(self, person: str | int | None) -> Spend:
        if person is None:
            return self._ledger.total()
        (hashed,) = people_of([person], self._ledger.person_key).hashes
        return self._ledger.asked(lambda accounts, total: accounts.spent(total, hashed))

    def _remember(self) -> None:
        """Constants of the ledger, cached for charges."""
        assert not isinstance(self._ledger, _Closed)
        terms = self._ledger.terms
        self._key, self._currency, self._limit = terms.budget_key, terms.currency, terms.limit


def _together(budgets: Any, *, has_own_place: bool) -> list[Any]:
    """Keys, or open budgets, that one call may charge."""
    if isinstance(budgets, str) or not isinstance(budgets, Iterable):
        raise TypeError(f"budgets must be a list of keys or of open budgets, got {validate.kind(budgets)}")
    wanted = list(budgets)
    if not wanted:
        raise ValueError("budgets must not be empty")
    if all(isinstance(each, str) for each in wanted):
        names = [arguments.require_text("persist_key", key) for key in wanted]
    elif all(isinstance(each, PrivacyBudget) for each in wanted):
        if has_own_place:
            raise TypeError("store and charged_by must be None with open budgets, which have their own")
        names = [budget._ledger.ledger for budget in wanted]
        places = sorted({budget._ledger.name for budget in wanted})
        if len(places) > 1:
            raise ValueError(f"budgets must be in one store, got some in {places[0]} and some in {places[1]}")
    else:
        got = " and ".join(sorted({validate.kind(each) for each in wanted}))
        raise TypeError(f"budgets must be all keys or all open budgets, got {got}")
    if len(set(names)) < len(names):
        twice = next(each for place, each in enumerate(wanted) if names[place] in names[:place])
        raise ValueError(f"budgets must be different ones, got {twice if isinstance(twice, str) else twice._key!a:.80} twice")
    return wanted


class _Closed:
    """The ledger of a budget after `close`: every use but closing again raises ValueError."""

    name = "closed"

    def __getattr__(self, name: str) -> Any:
        raise ValueError("the budget is closed")

    def close(self) -> None:
        """It is closed already."""


_CLOSED = _Closed()


@contextmanager
def _opened(store: str | PathLike[str] | Store | None) -> Iterator[Store]:
    opened = arguments.open_store(store, create=False)
    try:
        yield opened
    except StoreFailure as failure:
        raise BudgetError(failure.reason) from failure
    finally:
        opened.close()


def budget_keys(store: str | PathLike[str] | Store | None = None) -> list[str]:
    """The names of all ledgers in a store, as for `PrivacyBudget`; None is the default file. BudgetError if it cannot be used."""
    with _opened(store) as opened, opened.read("") as transaction:
        return transaction.keys()


def verify_ledger(
    persist_key: str | None = None, *, store: str | PathLike[str] | Store | None = None, heads: Iterable[Head | tuple[int, str]] = ()
) -> ChainReport:
    """`PrivacyBudget.verify` for a ledger that may be too damaged to be opened. BudgetError if there is none, or no store."""
    key = arguments.key_of(persist_key)
    with _opened(store) as opened, opened.read(key) as transaction:
        report = check_chain(transaction.rows(), [Head(*head) for head in heads])
    if report.rows == 0:
        raise BudgetError(f"{opened.name}: there is no budget with key {key!r}")
    return report
