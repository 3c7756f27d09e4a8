"""Finds in a text, and how overlaps between them are resolved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from hushvec.text.pii.document import Shadow

# From this score on a find is not given up to a longer, less certain one.
SURE = 0.9


class Span(NamedTuple):
    """A find: `text` is the original text from `start` up to `end`, `placeholder` its replacement.

    Args:
        start, end: offsets in characters (code points) of the original text.
        text: what stands there.
        category: of the find, such as "email address".
        placeholder: what takes its place, such as "[EMAIL]".
        rule: name of the rule or detector that found it.
        score: 0 to 1, how sure the rule is; not a probability.
    """

    start: int
    end: int
    text: str
    category: str
    placeholder: str
    rule: str
    score: float

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


@runtime_checkable
class Detector(Protocol):
    """Anything that finds personal data in a text. Its placeholders are replaced by the ones of the redactor."""

    def detect(self, text: str) -> Sequence[Span]: ...


# A find before overlaps are settled: start, end, whether the score is below SURE, minus the score, place of its rule in the list.
# Plain tuples: a text may hold hundreds of thousands.
Found = tuple[int, int, bool, float, int]


def found_at(start: int, end: int, score: float, source: int) -> Found:
    return start, end, score < SURE, -score, source


def settled(text: str, found: Iterable[Found], untouched: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int, int]]:
    """(start, end, source) of finds that do not overlap, in the order of the text.

    Finds with a score of 0.9 or more come first, then longer ones, higher scores, earlier ones, and rules that stand earlier in
    the list. The parts of a loser outside the winner remain finds, so that nothing that any rule found stays readable. The runs of
    `untouched` belong to no find: placeholders that are there already."""
    kept: list[tuple[int, int, int]] = []
    covered = marked(len(text), untouched)
    for start, end, _, _, source in sorted(found, key=_rank):
        last = start
        while last < end and (first := covered.find(0, last, end)) >= 0:
            last = end if (taken := covered.find(1, first, end)) < 0 else taken
            kept.append((first, last, source) if (first, last) == (start, end) else (*_between_words(text, first, last), source))
        covered[start:end] = b"\1" * (end - start)
    return sorted(one for one in kept if one[0] < one[1])


def _rank(one: Found) -> tuple[bool, int, float, int, int]:
    start, end, unsure, minus_score, source = one
    return unsure, start - end, minus_score, start, source


def _between_words(text: str, start: int, end: int) -> tuple[int, int]:
    """A part of a find begins and ends with a letter or digit."""
    while start < end and not text[start].isalnum():
        start += 1
    while start < end and not text[end - 1].isalnum():
        end -= 1
    return start, end


# ---- spans put into a text ----


def shifted(spans: Iterable[Span], by: int) -> tuple[Span, ...]:
    new = tuple.__new__  # faster than `_replace`
    return tuple([new(Span, (span[0] + by, span[1] + by, *span[2:])) for span in spans])


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
    moved: list[Span] = []
    shift = index = 0
    for span in later:
        while index < len(earlier) and earlier[index].start + shift <= span.start:
            shift += len(earlier[index].placeholder) - (earlier[index].end - earlier[index].start)
            index += 1
        moved.append(span._replace(start=span.start - shift, end=span.end - shift))
    return moved


def marked(length: int, runs: Iterable[Sequence[Any]]) -> bytearray:
    """A byte for each character: 1 in the runs, which begin with (start, end), else 0."""
    taken = bytearray(length)
    for start, end, *_ in runs:
        taken[start:end] = b"\1" * (end - start)
    return taken


def merged(text: str, earlier: Sequence[Span], later: Sequence[Span]) -> tuple[Span, ...]:
    """All of the earlier spans, and the later ones that lie outside them: a find within a replacement text is none."""
    taken = marked(len(text), earlier)
    new = [
        span
        for span in later
        if 0 <= span.start < span.end <= len(text)
        and text[span.start : span.end] == span.text
        and taken.find(1, span.start, span.end) < 0
    ]
    return tuple(sorted((*earlier, *new), key=lambda span: span.start))


def places_in_original(shadow: Shadow, found: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """The finds in the original text, without overlaps: of two that share a character, such as a ligature, the first has it."""
    taken = 0
    for start, end, source in found:
        start, end = shadow.in_original(start, end)
        start = max(start, taken)
        if start < end:
            yield start, (taken := end), source
