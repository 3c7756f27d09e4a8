"""Arguments of a budget: the name of its ledger, its limits and texts, checked."""

from __future__ import annotations

from typing import Any

from hushvec._util import validate
from hushvec._util.rounding import at_most
from hushvec.budget.amounts import EPSILON_DELTA, RHO, Spend, units_of
from hushvec.budget.filter import default_max_delta
from hushvec.budget.location import DEFAULT_KEY
from hushvec.budget.rows import MOST_TEXT, POLICIES, Terms

UNIT_SEPARATOR = "\x1f"  # between who charges and what for, in the field `purpose` of a row: printable text cannot hold it
MOST_CHARGED_BY = 100


def key_of(persist_key: str | None) -> str:
    """The name of the ledger that an argument means."""
    return DEFAULT_KEY if persist_key is None else require_text("persist_key", persist_key)


def terms_of_limits(key: str, max_epsilon: Any, max_delta: Any, max_rho: Any, on_exhausted: Any) -> Terms:
    """Limits in one currency, as whole units."""
    policy = validate.choice("on_exhausted", on_exhausted, POLICIES)
    if max_rho is not None:
        if max_epsilon is not None or max_delta is not None:
            raise TypeError("max_rho must be the only limit, got max_epsilon or max_delta with it")
        return Terms(key, RHO, Spend(_limit("max_rho", max_rho), 0), policy)
    if max_epsilon is None:
        raise TypeError("max_epsilon or max_rho must be given (PrivacyBudget.reopen opens a ledger with its own limits)")
    epsilon = _limit("max_epsilon", max_epsilon)
    if max_delta is None:
        return Terms(key, EPSILON_DELTA, Spend(epsilon, default_max_delta(epsilon)), policy)
    delta = at_most(validate.not_negative("max_delta", max_delta), max_delta)
    if delta >= 1:
        raise ValueError(f"max_delta must be < 1, got {delta!r}")
    return Terms(key, EPSILON_DELTA, Spend(epsilon, units_of(delta)), policy)


def _limit(name: str, value: Any) -> int:
    return units_of(at_most(validate.positive(name, value), value))


def require_charged_by(value: str | None) -> str | None:
    if value is not None and len(require_text("charged_by", value)) > MOST_CHARGED_BY:
        raise ValueError(f"charged_by must be at most {MOST_CHARGED_BY} characters, got {value!r:.120}")
    return value


def purpose_field(charged_by: str | None, purpose: str | None) -> str:
    """The field `purpose` of a row: who charges, if a name was given, apart from what for."""
    shown = "" if purpose is None else require_text("purpose", purpose)
    return shown if charged_by is None else f"{charged_by}{UNIT_SEPARATOR}{shown}"


def charged_by_and_purpose(field: str) -> tuple[str, str]:
    """What `purpose_field` joined; the name is empty if none was given."""
    name, _, purpose = field.rpartition(UNIT_SEPARATOR)
    return name, purpose


def require_text(name: str, value: Any) -> str:
    """Printable text on one line: what a row's canonical text can hold."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {validate.kind(value)}")
    if not value or len(value) > MOST_TEXT or not value.isprintable():
        raise ValueError(f"{name} must be 1 to {MOST_TEXT} printable characters, got {value!r:.80}")
    return value
