"""A budget in plain words: what `print`, notebooks and the command line show of it. Amounts are rounded to the safe side."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from hushvec._util.display import Sheet, at_least, at_most, plural, share
from hushvec.budget.charge import BudgetState
from hushvec.budget.rows import WARN

COLUMNS = ("key", "spent", "left", "limit", "charges", "resets", "")

_NAMES = ("epsilon", "delta", "rho")


def budget_sheet(state: BudgetState, place: str) -> Sheet:
    """What is shown of a ledger at one moment.

    Args:
        state: of the ledger.
        place: where it is, without passwords.
    """
    name = f" {state.key!r}" if state.key else ""
    cautions = []
    if state.on_exhausted == WARN:
        cautions.append("on_exhausted='warn': this ledger only counts and refuses nothing, so its limits guarantee nothing")
    if state.period > 0:
        cautions.append(f"{plural(state.period, 'reset')}: what was spent before the last one still counts, and is not shown here")
    if state.exhausted:
        cautions.append("exhausted" if state.on_exhausted == WARN else "exhausted: further charges are refused")
    facts = [
        *((used, _spent(state, used)) for used in _names(state)),
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
    return f"all releases charged in this period: at most {limits}, if each keeps to its receipt"
