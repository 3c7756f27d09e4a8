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
UNTOUCHED = -1


def found_at(start: int, end: int, score: float, source: int) -> Found:
    return start, end, score < SURE, -score, source


def settled(text: str, found: Iterable[Found], untouched: Iterable[tuple[int, int]] = ()) -> list[tuple[int, int, int]]:
    """(start, end, source) of finds that do not overlap, in the order of the text.

    Finds with a score of 0.9 or more come first, then longer ones, higher scores, earlier ones, and rules that stand earlier in
    the list. The parts of a loser outside the winner remain finds, so that nothing that any rule found stays readable. The runs of
    `untouched` belong to no find: placeholders that are there already."""
    waiting = [*found, *((start, end, False, -2.0, UNTOUCHED) for start, end in untouched)]
    waiting.sort()
    kept: list[tuple[int, int, int]] = []
    position = 0
    while position < len(waiting):
        start, reach, _, _, source = waiting[position]
        last = position + 1
        while last < len(waiting) and waiting[last][0] < reach:
            reach = max(reach, waiting[last][1])
            last += 1
        if last - position > 1:
            _settle(text, waiting[position:last], kept)
        elif source != UNTOUCHED:
            kept.append((start, reach, source))
        position = last
    return kept


def _settle(text: str, cluster: list[Found], kept: list[tuple[int, int, int]]) -> None:
    origin, reach = cluster[0][0], max(one[1] for one in cluster)
    start, end, _, _, source = min(cluster, key=_rank)
    if start == origin and end == reach:  # the winner covers all others
        if source != UNTOUCHED:
            kept.append((start, end, source))
        return
    covered = bytearray(reach - origin)
    winners = []
    for start, end, _, _, source in sorted(cluster, key=_rank):
        for first, last in _free(covered, start - origin, end - origin):
            first, last = first + origin, last + origin
            if (first, last) != (start, end):  # a part begins and ends with a letter or digit
                while first < last and not text[first].isalnum():
                    first += 1
                while first < last and not text[last - 1].isalnum():
                    last -= 1
            if first < last and source != UNTOUCHED:
                winners.append((first, last, source))
        covered[start - origin : end - origin] = b"\1" * (end - start)
    kept += sorted(winners)


def _free(covered: bytearray, start: int, end: int) -> list[tuple[int, int]]:
    free = []
    while start < end and (first := covered.find(0, start, end)) >= 0:
        last = covered.find(1, first, end)
        start = end if last < 0 else last
        free.append((first, start))
    return free


def _rank(one: Found) -> tuple[bool, bool, int, float, int, int]:
    start, end, unsure, score, source = one
    return source != UNTOUCHED, unsure, start - end, score, start, source


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


def places_in_original(shadow: Shadow, found: Iterable[tuple[int, int, int]]) -> Iterator[tuple[int, int, int]]:
    """The finds in the original text, without overlaps: of two that share a character, such as a ligature, the first has it."""
    taken = 0
    for start, end, source in found:
        start, end = shadow.in_original(start, end)
        start = max(start, taken)
        if start < end:
            yield start, (taken := end), source
