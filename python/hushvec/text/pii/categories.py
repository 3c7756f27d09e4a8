"""The kinds of personal data: names, placeholders, and accepted short names."""

from __future__ import annotations

import re
from typing import NamedTuple

from hushvec.text.pii.wordlists import rows


class Category(NamedTuple):
    """A kind of personal data: its placeholder, and other names for it."""

    name: str
    placeholder: str
    short_names: tuple[str, ...]


_ROWS = rows("categories").items()
CATEGORIES = tuple(Category(name, shown, tuple(filter(None, others.split(", ")))) for name, (shown, others) in _ROWS)
_BY_NAME = {name: category for category in CATEGORIES for name in (category.name, *category.short_names)}

PLACEHOLDER = re.compile(r"\[[A-Z][A-Z0-9_]{0,62}\]")
_NAME = re.compile(r"[^\W\d_][\w -]{0,47}")


def canonical(name: str) -> str:
    """The name of a category that may be written short, with underscores or in capitals; other names in lower case."""
    plain = " ".join(name.lower().split())
    written = (plain, plain.replace("_", " "), plain.replace("-", " "), plain.replace(" ", "_"))
    found = next((_BY_NAME[name] for name in written if name in _BY_NAME), None)
    return found.name if found else plain


def is_known(name: str) -> bool:
    return canonical(name) in _BY_NAME


def default_placeholder(category: str) -> str:
    """`[EMAIL]` for "email address"; `[STAFF_NUMBER]` for a category of the caller's own, "staff number"."""
    known = _BY_NAME.get(category)
    if known is not None:
        return known.placeholder
    letters = "".join(character if character.isascii() and character.isalnum() else "_" for character in category.upper())
    return f"[{letters if letters[0].isalpha() else 'X_' + letters}]"


def require_category_name(argument: str, name: object) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{argument} must name categories by strings, got {type(name).__name__}")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{argument}: a category must be 1 to 48 letters, digits, spaces, '_' or '-', got {name!r:.80}")
    return canonical(name)


def short_names() -> list[str]:
    return list(_BY_NAME)
