"""A check of what a store of your own promises, of ledgers or of an index's rows: docs/extend.md is the guide."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.budget.ledger import PrivacyBudget
from hushvec.budget.rows import Row
from hushvec.budget.store import Store, StoreFailure
from hushvec.errors import BudgetError, PrivacyBudgetExhaustedError
from hushvec.extend.checking import require, tried

_COLUMNS = 8
_ROUNDING = 2.0**-7  # what a store may round of unit rows, such as to float16
_SECONDS = 20.0  # that a writer may wait
_WRITERS, _CHARGES, _LIMIT = 4, 10, 20


def check_store(make: Callable[[], Any]) -> tuple[str, ...]:
    """Try a store against what its interface promises: that of ledgers, or that of an index's rows.

    Args:
        make: opens it. For a budget, the same database each time, one for tests: ledgers whose rows mean nothing stay in it. For an
            index, a new and empty store for rows of 8 elements.

    Returns:
        The sentences that were tried, all of which held.

    Raises:
        AssertionError: some do not hold; the message has a line for each.

    Guarantees:
        A store that passes may still lose rows: power failures, full disks and lost connections are not tried.

    Example:
        >>> from hushvec.extend import check_store
        >>> from hushvec.retrieval.stores.numpy_flat import NumpyStore
        >>> check_store(lambda: NumpyStore(8))[0]
        'rows come back in their order, and by place, in arrays of their own'
    """
    store = make()
    return tried(type(store).__name__, _OF_LEDGERS if isinstance(store, Store) else _OF_ROWS, make)


# ---- an index's rows; a docstring is the sentence that must hold ----


def _rows_come_back(make: Callable[[], Any]) -> None:
    """rows come back in their order, and by place, in arrays of their own"""
    store, given = make(), _unit_rows()
    for part in (given[:12], given[12:], given[:0]):
        store.add(part)
        part[:] = 0
    for array in (store.vectors(), store.rows(np.arange(len(given)))):
        array[:] = 0
    _require_rows(store, _unit_rows())


def _deleted_rows_are_gone(make: Callable[[], Any]) -> None:
    """deleted rows are gone, and the others keep their order"""
    store, rows = make(), _unit_rows()
    store.add(rows.copy())
    for places in ([0, 3, 19], [], [4]):
        store.delete(np.array(places, np.int64))
        rows = np.delete(rows, np.array(places, np.int64), axis=0)
        _require_rows(store, rows)
    store.add(-rows[:2])
    _require_rows(store, np.concatenate([rows, -rows[:2]]))


def _search_finds_the_best(make: Callable[[], Any]) -> None:
    """a search gives places and inner products of the best rows, largest first"""
    store, asked = make(), _unit_rows()
    store.add(asked.copy())
    store.delete(np.array([2, 11]))
    rows = store.vectors()
    for k in (1, 5, len(rows)):
        places, scores = store.search(asked, k)
        forms = (places.shape, scores.shape, places.dtype.name, scores.dtype.name)
        require(forms == ((20, k), (20, k), "int64", "float32"), f"it must give int64 and float32 [m, k], got {forms}")
        require(all(len(set(row)) == k and set(row) <= set(range(len(rows))) for row in places.tolist()), "places must be distinct")
        require(_off(scores, np.einsum("md,mkd->mk", asked, rows[places])) <= _ROUNDING, "scores must be inner products")
        require(_off(scores, -np.sort(-asked @ rows.T)[:, :k]) <= _ROUNDING, "scores must be the largest, largest first")
    require(_off(asked, _unit_rows()) == 0, "queries must not be changed")


def _files_bring_rows_back(make: Callable[[], Any]) -> None:
    """what `write` wrote, `read` brings back"""
    store, other = make(), make()
    store.add(_unit_rows())
    if not store.outlives:  # else they stay where they are
        with tempfile.TemporaryDirectory() as folder:
            store.write(path := Path(folder, f"rows{store.suffix}"))
            other.read(path)
        _require_rows(other, _unit_rows())
    _require_rows(store, _unit_rows())


_OF_ROWS = (_rows_come_back, _deleted_rows_are_gone, _search_finds_the_best, _files_bring_rows_back)


def _unit_rows() -> NDArray[np.float32]:
    rows = np.random.default_rng(1).standard_normal((20, _COLUMNS))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


def _off(found: NDArray[Any], wanted: NDArray[Any]) -> float:
    return float(np.abs(found - wanted).max(initial=0))


def _require_rows(store: Any, rows: NDArray[np.float32]) -> None:
    places = np.array([5, 0, 5, len(rows) - 1])
    for found, wanted in ((store.vectors(), rows), (store.rows(places), rows[places]), (store.rows(places[:0]), rows[:0])):
        form = (len(store), found.shape, found.dtype.name)
        require(form == (len(rows), wanted.shape, "float32"), f"it must have {len(rows)} rows, float32 {wanted.shape}, got {form}")
        require(_off(found, wanted) <= _ROUNDING, f"rows must be those that were added, got {_off(found, wanted):.3g} beside them")


# ---- ledgers ----


def _ledgers_come_back(make: Callable[[], Any]) -> None:
    """another connection reads the rows of a ledger as they were written"""
    wrote = _written(make, 5)
    key = wrote[0][0]
    with make().read(key) as found:
        require(found.first() == wrote[0] and found.last() == wrote[-1], "first and last must be the rows at the ends, as tuples")
        for behind, most in ((0, 9), (2, 2), (5, 1)):
            require(list(found.rows(behind, most)) == wrote[behind : behind + most], f"rows({behind}, {most}) gave other rows")
        require((found.find(0, "charge 3"), found.find(1, "charge 3")) == (wrote[2], None), "find gave another row")
        keys = found.keys()
        require(key in keys and keys == sorted(set(keys)), "keys must be those of all ledgers, sorted")
    with make().read(_new_key()) as found:
        nothing = (found.first(), found.last(), found.find(0, "charge 3"), *found.rows())
        require(nothing == (None, None, None), f"a ledger that is not there must have no rows, got {nothing}")


def _failed_writes_leave_nothing(make: Callable[[], Any]) -> None:
    """a write that fails, or is not kept, leaves nothing in any of its ledgers"""
    keys = _new_key(), _new_key()
    for keep in (True, False):
        with suppress(RuntimeError), make().write(*keys, keep=keep) as (one, two):
            one.append(_row(keys[0], 1))
            two.append(_row(keys[1], 1))
            require(one.last() == _row(keys[0], 1), "a transaction must see its own rows")
            if keep:
                raise RuntimeError
        require([_rows_of(make, key) for key in keys] == [[], []], f"rows were kept with keep={keep}")


def _rows_are_written_once(make: Callable[[], Any]) -> None:
    """no row takes the place or the charge id of another"""
    wrote = _written(make, 2)
    for changes in ({"charge_id": "another"}, {"sequence": 3}):
        try:
            with make().write(wrote[0][0]) as (transaction,):
                transaction.append(tuple(Row(*wrote[1])._replace(**changes)))
        except StoreFailure:
            continue
        raise AssertionError(f"the last row with {changes} must be refused by StoreFailure")
    require(_rows_of(make, wrote[0][0]) == wrote, "the rows before must stay")


def _readers_see_one_moment(make: Callable[[], Any]) -> None:
    """a reader sees one moment, and keeps no writer waiting"""
    wrote = _written(make, 1)
    with ThreadPoolExecutor(1) as threads, make().read(wrote[0][0]) as found:
        found.last()
        threads.submit(_written, make, 1, wrote[0][0], 2).result(_SECONDS)
        require(list(found.rows()) == wrote, "a reader must not see rows that were written since")
    require(len(_rows_of(make, wrote[0][0])) == 2, "the next reader must see them")


def _writers_take_turns(make: Callable[[], Any]) -> None:
    """charges of several connections at once never spend more than the limit"""
    key = _new_key()
    PrivacyBudget(_LIMIT, persist_key=key, store=make()).close()

    def spend(_: int) -> None:
        with PrivacyBudget.reopen(key, store=make()) as budget:
            for _ in range(_CHARGES):
                with suppress(PrivacyBudgetExhaustedError):
                    budget.consume(1.0)

    with ThreadPoolExecutor(_WRITERS) as threads:
        list(threads.map(spend, range(_WRITERS)))
    with PrivacyBudget.reopen(key, store=make()) as budget:
        charges, report = len(budget.export()["rows"]) - 1, budget.verify()
    require(charges == _LIMIT, f"{_WRITERS * _CHARGES} charges of 1 to a limit of {_LIMIT} must leave {_LIMIT}, got {charges}")
    require(report.holds, f"the rows must follow from each other: {report.reason}")


def _budgets_go_on(make: Callable[[], Any]) -> None:
    """a budget goes on with its charges and people: after `close`, opened anew, and by its address"""
    key, store = _new_key(), make()
    require(isinstance(store.name, str) and bool(store.name), f"name must be a text for errors, got {store.name!r}")
    budget = PrivacyBudget(3.0, persist_key=key, store=store, per_person=True)
    budget.consume(2.0, people=["anna"])
    store.close()
    for again in (budget, *(PrivacyBudget.reopen(key, store=place) for place in (make(), store.address))):
        spent = again.consumed("anna"), again.consumed("ben")
        require(spent == (2.0, 0.0), f"anna must have spent 2 and ben 0, got {spent}")
    with suppress(BudgetError):
        PrivacyBudget.reopen(_new_key(), store=make())
        require(False, "a ledger that is not there must not be opened")


_OF_LEDGERS = (
    _ledgers_come_back, _failed_writes_leave_nothing, _rows_are_written_once, _readers_see_one_moment, _writers_take_turns,
    _budgets_go_on,
)


def _new_key() -> str:
    return f"check {secrets.token_hex(8)}"


def _row(key: str, sequence: int) -> tuple[Any, ...]:
    """A row with other values in every field. A store does not ask whether rows follow from each other."""
    texts: dict[str, Any] = {name: f"{name} ä \x1f 漢" for name in Row._fields}
    numbers = {"sequence": sequence, "period": 0, "time_us": 2**60 + sequence}
    return tuple(Row(**{**texts, **numbers, "budget_key": key, "charge_id": f"charge {sequence}"}))


def _written(make: Callable[[], Any], count: int, key: str = "", first: int = 1) -> list[tuple[Any, ...]]:
    key = key or _new_key()
    rows = [_row(key, sequence) for sequence in range(first, first + count)]
    with make().write(key) as (transaction,):
        for row in rows:
            transaction.append(row)
    return rows


def _rows_of(make: Callable[[], Any], key: str) -> list[tuple[Any, ...]]:
    with make().read(key) as transaction:
        return list(transaction.rows())
