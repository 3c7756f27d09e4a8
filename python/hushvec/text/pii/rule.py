"""A rule: a name, the category of what it finds, and a function that finds it in linear time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from hushvec.text.pii.document import Document

Finder = Callable[[Document], Iterable[tuple[int, int]]]


@dataclass(frozen=True)
class Rule:
    """One way to find one kind of personal data.

    Args:
        name: unique.
        category: of everything that it finds.
        score: how sure a find is, 0 to 1; breaks ties between spans of one length.
        summary: what it finds, and what it checks.
        find: (start, end) of each find; the time must be linear in the length of any text.
    """

    name: str
    category: str
    score: float
    summary: str
    find: Finder
