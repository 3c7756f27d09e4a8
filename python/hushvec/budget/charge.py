"""Results of a budget: one charge, the state of a ledger, and both in plain words. Amounts are rounded to the safe side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from hushvec._util.display import Sheet, at_least, at_most, plural, share
from hushvec.budget.amounts import RHO, Amounts, Spend, float_down, float_up, text_of
from hushvec.budget.chain import Head
from hushvec.budget.people import People
from hushvec.budget.rows import BLOCK, WARN, LedgerTerms, Row, implied_epsilon, is_exhausted, left


@dataclass(frozen=True)
class Charge:
    """One recorded charge.

    Args:
        ledger: identity of the ledger: the hash of its first row, which holds its limits.
        sequence: number of the row in the ledger.
        charge_id: the id that a retry uses; made up if none was given.
        epsilon, delta, rho: as charged; None for what was not given.
        entry_hash: hash of the row, which also covers all rows before it.
        repeated: True if a charge with this charge_id and these amounts already existed, and nothing was charged now.
    """

    ledger: str
    sequence: int
    charge_id: str
    epsilon: float | None
    delta: float
    rho: float | None
    entry_hash: str
    repeated: bool = False

    def __getattr__(self, name: str) -> Any:
        # Only for fields that `charge_without_row` left out.
        row_of = self.__dict__.get("_row_of")
        if row_of is None or name not in ("charge_id", "entry_hash"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        row = row_of(self.sequence)
        self.__dict__.update(charge_id=row.charge_id, entry_hash=row.entry_hash)
        return self.__dict__[name]

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple(getattr(self, field.name) for field in fields(self))


def charge_without_row(ledger: str, sequence: int, amounts: Amounts, repeated: bool, row_of: Callable[[int], Row]) -> Charge:
    """A charge whose id and hash are looked up on demand.

    This takes a third of the time of the constructor, which sets the fields of a frozen dataclass one by one.
    """
    charge = object.__new__(Charge)
    values = charge.__dict__
    values["ledger"] = ledger
    values["sequence"] = sequence
    values["epsilon"] = amounts.epsilon
    values["delta"] = amounts.delta
    values["rho"] = amounts.rho
    values["repeated"] = repeated
    values["_row_of"] = row_of
    return charge


def charge_of_row(row: Row, ledger: str, *, repeated: bool) -> Charge:
    return Charge(
        ledger=ledger, sequence=row.sequence, charge_id=row.charge_id,
        epsilon=float(row.epsilon) if row.epsilon else None,
        delta=float(row.delta),
        rho=float(row.rho) if row.rho else None,
        entry_hash=row.entry_hash,
        repeated=repeated,
    )


def require_same(row: Row, amounts: Amounts, people: People | None) -> None:
    """Check that a retry asks for what the row of its charge id has."""
    if row.policy != ("" if people is None else people.field):
        raise ValueError(f"charge_id {row.charge_id!r:.80} must keep its people: it was charged to others")
    if (row.epsilon, row.delta, row.rho) != amounts.texts:
        first = _shown(row.epsilon, row.delta, row.rho)
        raise ValueError(
            f"charge_id {row.charge_id!r:.80} must keep its amounts: it was charged ({first}), got ({_shown(*amounts.texts)})"
        )


def _shown(epsilon: str, delta: str, rho: str) -> str:
    return ", ".join(f"{name}={float(text)!r}" for name, text in (("epsilon", epsilon), ("delta", delta), ("rho", rho)) if text)


@dataclass(frozen=True, kw_only=True)
class BudgetState:
    """A ledger at one moment.

    Args:
        key, ledger: the persist_key, or "default", and the identity of the ledger, the hash of its first row.
        currency: "epsilon_delta" or "rho".
        on_exhausted: "block" or "warn".
        per_person: the ledger counts by person: what is consumed is the most that anybody has lost, what remains is what is left to
            everyone.
        period, rows: numbers of resets and of rows so far; entry_hash is that of the last row.
        limit_texts, consumed_texts: exact decimal texts by name: epsilon and delta, or rho.
        exhausted: see `PrivacyBudget.is_exhausted`.

    The floats below are those texts to float64, consumed amounts rounded up, the others down; None for amounts of the other
    currency.
    """

    key: str
    ledger: str
    currency: str
    on_exhausted: str
    period: int
    rows: int
    entry_hash: str
    max_epsilon: float | None
    max_delta: float | None
    max_rho: float | None
    consumed_epsilon: float | None
    consumed_delta: float | None
    consumed_rho: float | None
    remaining_epsilon: float | None
    remaining_delta: float | None
    remaining_rho: float | None
    limit_texts: dict[str, str]
    consumed_texts: dict[str, str]
    exhausted: bool
    per_person: bool = False

    @property
    def head(self) -> Head:
        return Head(self.rows, self.entry_hash)

    def guarantee(self, delta: float | None = None) -> tuple[float, float]:
        """The (epsilon, delta) of everything charged in the current period, for a ledger in rho at the given delta in (0, 1)."""
        return self._guarantee(self.consumed_epsilon, self.consumed_delta, self.consumed_rho, delta)

    def limit_guarantee(self, delta: float | None = None) -> tuple[float, float]:
        """The (epsilon, delta) that the limits guarantee for a whole period of a "block" ledger."""
        return self._guarantee(self.max_epsilon, self.max_delta, self.max_rho, delta)

    def _guarantee(
        self, epsilon: float | None, own_delta: float | None, rho: float | None, delta: float | None
    ) -> tuple[float, float]:
        if rho is not None:
            if delta is None:
                raise TypeError("delta must be given: the budget is in rho")
            return implied_epsilon(rho, delta), delta
        if delta is not None:
            raise TypeError("delta must be None: the budget is in (epsilon, delta)")
        assert epsilon is not None and own_delta is not None
        return epsilon, own_delta


def state_of(terms: LedgerTerms, total: Spend, *, ledger: str, period: int, head: Head) -> BudgetState:
    names = ("rho",) if terms.currency == RHO else ("epsilon", "delta")
    parts = {"max": (terms.limit, float_down), "consumed": (total, float_up), "remaining": (left(total, terms.limit), float_down)}
    floats: dict[str, Any] = {f"{part}_{name}": None for part in parts for name in _NAMES}
    for part, (spend, rounded) in parts.items():
        floats.update((f"{part}_{name}", rounded(units)) for name, units in zip(names, spend))
    return BudgetState(
        key=terms.budget_key, ledger=ledger, currency=terms.currency,
        on_exhausted=BLOCK if terms.per_person else terms.policy,
        per_person=terms.per_person, period=period, rows=head.rows, entry_hash=head.entry_hash, **floats,
        limit_texts=dict(zip(names, map(text_of, terms.limit))), consumed_texts=dict(zip(names, map(text_of, total))),
        exhausted=is_exhausted(total, terms.limit),
    )


COLUMNS = ("key", "spent", "left", "limit", "charges", "resets", "")

_NAMES = ("epsilon", "delta", "rho")


def budget_sheet(state: BudgetState, place: str) -> Sheet:
    """A ledger at one moment; `place` is where it is, without passwords."""
    name = f" {state.key!r}" if state.key else ""
    cautions = []
    if state.on_exhausted == WARN:
        cautions.append("on_exhausted='warn': this ledger only counts and refuses nothing, so its limits guarantee nothing")
    if state.period > 0:
        cautions.append(f"{plural(state.period, 'reset')}: what was spent before the last one still counts, and is not shown here")
    if state.exhausted:
        whom = " to everyone" if state.per_person else ""
        cautions.append("exhausted" if state.on_exhausted == WARN else f"exhausted: further charges{whom} are refused")
    facts = [
        *((used, _spent(state, used)) for used in _names(state)),
        *([("counted", "by person: spent is the most that anybody has lost")] if state.per_person else []),
        ("charges", f"{_charges(state):,}" + (f", in {state.period + 1} periods" if state.period else "")),
        ("guarantee", _guarantee(state)),
        ("ledger", f"{place}, {state.ledger[:16]}, {plural(state.rows, 'row')}"),
    ]
    return Sheet(f"Privacy budget{name}", tuple(facts), tuple(cautions))


def budget_row(state: BudgetState) -> tuple[str, ...]:
    """One ledger among several, in the order of `COLUMNS`."""

    def cell(part: str, text: Callable[[float | None], str]) -> str:
        return ", ".join(f"{name} {text(getattr(state, f'{part}_{name}'))}" for name in _names(state))

    remark = "only counts" if state.on_exhausted == WARN else "exhausted" if state.exhausted else ""
    amounts = (cell("consumed", at_least), cell("remaining", at_most), cell("max", _limit))
    return state.key, *amounts, f"{_charges(state):,}", f"{state.period:,}", remark


def _names(state: BudgetState) -> list[str]:
    return [name for name in _NAMES if name in state.limit_texts]


def _charges(state: BudgetState) -> int:
    return state.rows - 1 - state.period


def _limit(value: float | None) -> str:
    return at_least(value).removesuffix(".0")


def _spent(state: BudgetState, name: str) -> str:
    spent, left, limit = (getattr(state, f"{part}_{name}") for part in ("consumed", "remaining", "max"))
    whole = Fraction(state.limit_texts[name])
    part = f" ({share(float(Fraction(state.consumed_texts[name]) / whole))})" if whole else ""
    return f"{at_least(spent)} of {_limit(limit)} spent{part}, {at_most(left)} left"


def _guarantee(state: BudgetState) -> str:
    if state.on_exhausted == WARN:
        return "none from the limits; what is spent is the guarantee of what was released in this period"
    limits = ", ".join(f"{name} {_limit(float(text))}" for name, text in state.limit_texts.items())
    whose = " of each person" if state.per_person else ""
    return f"all releases{whose} charged in this period: at most {limits}, if each keeps to its receipt"
