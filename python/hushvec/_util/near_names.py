"""The valid name that was probably meant, for the end of an error message."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, choices: Iterable[str]) -> str | None:
    """The choice that is most like the name, if one is near."""
    near = get_close_matches(name.lower(), list(choices), n=1, cutoff=0.5)
    return near[0] if near else None


def nearest_of(name: str, choices: Iterable[str]) -> str:
    """`, did you mean 'email'?`, or nothing where no choice is near."""
    near = nearest(name, choices)
    return f", did you mean {near!r}?" if near else ""
