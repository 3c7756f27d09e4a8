"""Spans put into a text: their placeholders in their places, and the places of finds in the text that was read first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from hushvec.text.pii.shadow import Shadow
from hushvec.text.pii.spans import Span


def replaced(text: str, spans: Sequence[Span]) -> str:
    """The text with the placeholder of each span in its place."""
    parts: list[str] = []
    position = 0
    for span in spans:
        parts += (text[position : span.start], span.placeholder)
        position = span.end
    return "".join((*parts, text[position:]))


def in_original(earlier: Sequence[Span], later: Sequence[Span]) -> list[Span]:
    """Spans of the redacted text as spans of the original one; they lie between placeholders."""
    moved, shift, index = [], 0, 0
    for span in later:
        while index < len(earlier) and earlier[index].start + shift <= span.start:
            shift += len(earlier[index].placeholder) - (earlier[index].end - earlier[index].start)
            index += 1
        moved.append((span, shift))
    return [
        Span(span.start - by, span.end - by, span.text, span.category, span.placeholder, span.rule, span.score)
        for span, by in moved
    ]


def merged(text: str, earlier: Sequence[Span], later: Sequence[Span]) -> tuple[Span, ...]:
    """All of the earlier spans, and the later ones that lie outside them: a find within a replacement text is none."""
    taken = bytearray(len(text))
    for span in earlier:
        taken[span.start : span.end] = b"\1" * (span.end - span.start)
    new = [
        span
        for span in later
        if 0 <= span.start < span.end <= len(text)
        and text[span.start : span.end] == span.text
        and taken.find(1, span.start, span.end) < 0
    ]
    return tuple(sorted((*earlier, *new), key=lambda span: span.start))


def places_in_original(shadow: Shadow, found: Sequence[tuple[int, int, int]]) -> Iterable[tuple[int, int, int]]:
    """The finds with their places in the original text."""
    return found if shadow.is_original else _moved(shadow, found)


def _moved(shadow: Shadow, found: Sequence[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """Without overlaps: of two finds that share a character, such as a ligature, the first one has it."""
    taken = 0
    for start, end, source in found:
        start, end = shadow.in_original(start, end)
        start = max(start, taken)
        if start < end:
            yield start, (taken := end), source
