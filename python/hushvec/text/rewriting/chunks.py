"""Splitting a text into parts to rewrite and placeholders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hushvec.text.pii.spans import Span

Pieces = Callable[[str], Sequence[str]]


@dataclass(frozen=True)
class Part:
    """A part of the text; the parts in order are the whole text.

    Args:
        text: as it stands.
        span: what the redactor found here; None for plain text.
        chunk: number of the chunk that it is, or is joined into, from 0; None where there is nothing to rewrite.
    """

    text: str
    span: Span | None
    chunk: int | None


def has_words(text: str) -> bool:
    """Whether it has a letter or a digit; parts without any are dropped."""
    return any(character.isalnum() for character in text)


def cut(text: str, spans: Sequence[Span], pieces: Pieces) -> tuple[Part, ...]:
    """The parts of a text: finds, and the text between them in pieces short enough for the embedder."""
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


def joined(parts: Sequence[Part], most: int) -> tuple[Part, ...]:
    """The parts with neighboring chunks joined until there are at most `most`, of as many parts as each other, or one less."""
    count = sum(part.chunk is not None for part in parts)
    if count <= most:
        return tuple(parts)
    return tuple(part if part.chunk is None else replace(part, chunk=part.chunk * most // count) for part in parts)
