"""Arguments of a budget, checked: the name of its ledger, where the ledger is kept, its limits and texts."""

from __future__ import annotations

import os
import re
import unicodedata
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec._util.rounding import at_most
from hushvec.budget.amounts import EPSILON_DELTA, RHO, Spend, units_of
from hushvec.budget.rows import BLOCK, MOST_TEXT, PER_PERSON, POLICIES, LedgerTerms, default_max_delta
from hushvec.budget.store import Store

# Zero-width characters that `str.isprintable` accepts: Unicode's default ignorable ones, and the blank Braille pattern.
_INVISIBLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")

_WORD = re.compile(r"[^\W\d_]+")
# Alphabets with letters that look like those of another one here, by the first word of their letters' names.
_ALPHABETS = frozenset({"LATIN", "GREEK", "CYRILLIC", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU"})


def plain_form(key: str) -> str:
    """The common form of keys that look alike: Unicode's form NFKC, in which wide letters, ligatures and the like are plain ones, no
    invisible characters, no blanks at the ends."""
    return unicodedata.normalize("NFKC", _INVISIBLE.sub("", key)).strip()


def require_plain(key: str) -> str:
    """A key that a new ledger may have."""
    rest = f"got {key!a:.80}; a ledger that has this key already is opened by PrivacyBudget.reopen"
    if key != plain_form(key):
        raise ValueError(
            f"persist_key must be in Unicode form NFKC, without invisible characters and without blanks at its ends, {rest}"
        )
    for word in _WORD.findall(key):
        mixed = sorted(_ALPHABETS.intersection(unicodedata.name(letter, "").partition(" ")[0] for letter in word))
        if len(mixed) > 1:
            raise ValueError(f"persist_key must not mix the letters of {' and '.join(mixed).lower()} in one word, {rest}")
    return key


# libpq's keywords, or an address with a mistake, as a path: its password would be the name of a file.
_OTHER_FORM = re.compile(r"(?i)(?:^|\s)(?:host|hostaddr|user|dbname|password)\s*=|^(?:postgres|postgresql|sqlite)(?:\+\w+)?:")

MEMORY = "memory"
DEFAULT_KEY = "default"
FILE_NAME = "budget.sqlite"


def is_memory(persist_key: str | None, store: Any) -> bool:
    """Whether the ledger is in memory: asked for, or neither a key nor a store is named."""
    return store == MEMORY or (store is None and persist_key is None)


def open_store(store: Any, *, create: bool) -> Store:
    """The database of an argument `store`.

    Args:
        store: a path, sqlite:///path, postgresql://..., None for the default file, or a `Store` of your own.
        create: make what is missing.
    """
    if store is None:
        store = default_store()
    if isinstance(store, os.PathLike):
        store = os.fspath(store)
    if not isinstance(store, str):
        if isinstance(store, Store):
            return store
        raise TypeError(f"store must be a path, an address or a hushvec.extend.Store, got {validate.kind(store)}")
    path = file_of(store)
    if path is None:
        from hushvec.budget.postgresql import PostgreSQLStore

        return PostgreSQLStore(store, create=create)
    from hushvec.budget.sqlite import SQLiteStore

    return SQLiteStore(path, create=create)


def file_of(store: str) -> Path | None:
    """The SQLite file that a path or an address means; None for an address of PostgreSQL."""
    scheme, separator, rest = store.partition("://")
    if not separator and _OTHER_FORM.search(store):
        raise ValueError("store must be a path, sqlite:///path or postgresql://..., got another form of an address")
    if not separator:
        path = store
    elif scheme == "sqlite":
        if not rest.startswith("/") or "?" in rest:
            got = "a question mark" if "?" in rest else "a host"
            raise ValueError(f"store must be sqlite:///relative/path or sqlite:////absolute/path, got {got} in it")
        from urllib.parse import unquote

        path = unquote(rest[1:])
    elif scheme in ("postgresql", "postgres", "postgresql+psycopg"):
        return None
    else:
        got = repr(scheme) if scheme.isalnum() else "another scheme"  # which may be a mistaken part with a password
        raise ValueError(f"store must be a path, sqlite:///path or postgresql://..., got an address with {got}")
    if not path or "\0" in path:
        raise ValueError(f"store must be the path of a file, got {path!r}")
    return Path(path)


def default_store() -> str:
    """$HUSHVEC_BUDGET_STORE, or else the default file."""
    return os.environ.get("HUSHVEC_BUDGET_STORE") or default_file()


def default_file() -> str:
    """$XDG_STATE_HOME/hushvec/budget.sqlite, below ~/.local/state if that is not set."""
    state = os.environ.get("XDG_STATE_HOME", "")
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return str(folder / "hushvec" / FILE_NAME)


UNIT_SEPARATOR = "\x1f"  # between who charges and what for, in the field `purpose` of a row: printable text cannot hold it
MOST_CHARGED_BY = 100


def key_of(persist_key: str | None) -> str:
    """The name of the ledger that an argument means."""
    return DEFAULT_KEY if persist_key is None else require_text("persist_key", persist_key)


def terms_of_limits(
    key: str, max_epsilon: Any, max_delta: Any, max_rho: Any, on_exhausted: Any, per_person: Any = False
) -> LedgerTerms:
    """Limits in one currency, as whole units."""
    policy = validate.choice("on_exhausted", on_exhausted, POLICIES)
    if validate.flag("per_person", per_person):
        if policy != BLOCK:
            raise ValueError(f"on_exhausted must be 'block' with per_person=True, got {policy!r}")
        policy = PER_PERSON
    if max_rho is not None:
        if max_epsilon is not None or max_delta is not None:
            raise TypeError("max_rho must be the only limit, got max_epsilon or max_delta with it")
        return LedgerTerms(key, RHO, Spend(_limit("max_rho", max_rho), 0), policy)
    if max_epsilon is None:
        raise TypeError("max_epsilon or max_rho must be given (PrivacyBudget.reopen opens a ledger with its own limits)")
    epsilon = _limit("max_epsilon", max_epsilon)
    if max_delta is None:
        return LedgerTerms(key, EPSILON_DELTA, Spend(epsilon, default_max_delta(epsilon)), policy)
    delta = at_most(validate.not_negative("max_delta", max_delta), max_delta)
    if delta >= 1:
        raise ValueError(f"max_delta must be < 1, got {delta!r}")
    return LedgerTerms(key, EPSILON_DELTA, Spend(epsilon, units_of(delta)), policy)


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
    """The inverse of `purpose_field`; the name is empty if none was given."""
    name, _, purpose = field.rpartition(UNIT_SEPARATOR)
    return name, purpose


def require_text(name: str, value: Any) -> str:
    """Printable text on one line: what a row's canonical text can hold."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, got {validate.kind(value)}")
    if not value or len(value) > MOST_TEXT or not value.isprintable():
        raise ValueError(f"{name} must be 1 to {MOST_TEXT} printable characters, got {value!r:.80}")
    return value
