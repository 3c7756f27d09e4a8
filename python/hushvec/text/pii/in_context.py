"""Finds in a value beside the name that it has in its file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hushvec.text.pii.spans import Span

Find = Callable[[str], Sequence[Span]]

_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
LONGEST_NAME = 64


def found_in(value: str, name: str | None, find: Find) -> list[Span]:
    """Spans of a value, found after `name: ` where that changes nothing else, in the places of the value alone."""
    if not name or len(name) > LONGEST_NAME:
        return list(find(value))
    context = " ".join(_CAMEL.sub(" ", name).replace("_", " ").replace("-", " ").lower().split()) + ": "
    shift = len(context)
    found = find(context + value)
    # A find that reaches into the name is none of the value.
    if any(span.start < shift < span.end for span in found):
        return list(find(value))
    return [span._replace(start=span.start - shift, end=span.end - shift) for span in found if span.start >= shift]
