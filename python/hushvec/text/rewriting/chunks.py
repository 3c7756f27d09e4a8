"""Cutting a text into the parts that are rewritten and the parts that became placeholders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hushvec.text.pii.spans import Span

Pieces = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Part:
    """A stretch of the text, whole and in order with the others.

    Args:
        text: as it stands.
        span: what the redactor found here; None for plain text.
        chunk: number of the chunk that it is, from 0; None where there is nothing to rewrite.
    """

    text: str
    span: Span | None
    chunk: int | None


def has_words(text: str) -> bool:
    """Whether there is a letter or a digit in it: what has none is dropped, not rewritten and not copied."""
    return any(character.isalnum() for character in text)


def cut(text: str, spans: Sequence[Span], pieces: Pieces) -> tuple[Part, ...]:
    """The parts of a text: finds as they are, and what lies between them in pieces short enough for the embedder."""
    parts: list[Part] = []
    chunk = 0

    def add_plain(stretch: str) -> None:
        nonlocal chunk
        for piece in pieces(stretch) if has_words(stretch) else [stretch]:
            if piece:
                worth = has_words(piece)
                parts.append(Part(piece, None, chunk if worth else None))
                chunk += worth

    end = 0
    for span in spans:
        add_plain(text[end : span.start])
        parts.append(Part(text[span.start : span.end], span, None))
        end = span.end
    add_plain(text[end:])
    return tuple(parts)
