"""A budget in plain words: what `print` and notebooks show of it."""

from __future__ import annotations

from fractions import Fraction

from hushvec._util.display import Sheet, at_least, at_most, number, plural, share
from hushvec.budget.charge import BudgetState
from hushvec.budget.rows import WARN

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
    charges = state.rows - 1 - state.period
    facts = [
        *((used, _spent(state, used)) for used in _NAMES if used in state.limit_texts),
        ("charges", f"{charges:,}" + (f", in {state.period + 1} periods" if state.period else "")),
        ("guarantee", _guarantee(state)),
        ("ledger", f"{place}, {state.ledger[:16]}, {plural(state.rows, 'row')}"),
    ]
    return Sheet(f"Privacy budget{name}", tuple(facts), tuple(cautions))


def _spent(state: BudgetState, name: str) -> str:
    spent, left, limit = (getattr(state, f"{part}_{name}") for part in ("consumed", "remaining", "max"))
    whole = Fraction(state.limit_texts[name])
    part = f" ({share(float(Fraction(state.consumed_texts[name]) / whole))})" if whole else ""
    return f"{at_least(spent)} of {number(limit)} spent{part}, {at_most(left)} left"


def _guarantee(state: BudgetState) -> str:
    if state.on_exhausted == WARN:
        return "none from the limits; what is spent is the guarantee of what was released in this period"
    limits = ", ".join(f"{name} {number(float(text))}" for name, text in state.limit_texts.items())
    return f"all releases charged in this period: at most {limits}, if each keeps to its receipt"
