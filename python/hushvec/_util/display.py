"""How results look where they are printed and in notebooks, and progress while they are made.

One sheet of facts is rendered as text and as HTML. Progress goes to standard error, on a terminal only: a bar where the work takes a
while, a line where its length is unknown.
"""

from __future__ import annotations

import math
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NamedTuple, TextIO, TypeVar

__all__ = [
    "Progress", "Sheet", "aligned", "announced", "as_html", "as_text", "at_least", "at_most", "confidence_of", "number", "plural",
    "printable", "share", "shown",
]

Class = TypeVar("Class", bound=type)

WIDTH = 110  # characters of a printed line
_SHORT = 8  # and of a figure that is printed with all its digits

# Nothing here sets a color of text or ground, so the page's own theme decides; no script, nothing that is fetched.
_TABLE = "border-collapse:collapse;text-align:left"
_CAPTION = "caption-side:top;text-align:left;font-weight:bold;padding:0.3em 0"
_CELL = "text-align:left;vertical-align:top;padding:0.15em 0.8em 0.15em 0;white-space:normal"
_LABEL = f"{_CELL};font-weight:normal;opacity:0.75;white-space:nowrap;width:1%"
_COLUMN = f"{_CELL};white-space:nowrap"
_CAUTION = f"{_CELL};font-weight:bold;border-left:0.3em solid #d55e00;padding-left:0.6em"


class Sheet(NamedTuple):
    """A title, (label, text) pairs, cautions that limit or void the rest and are shown first, and a table with a header."""

    title: str
    facts: tuple[tuple[str, str], ...]
    cautions: tuple[str, ...] = ()
    table: tuple[tuple[str, ...], ...] = ()


def shown(cls: Class) -> Class:
    """Give a class with a method `_sheet` the text of `print` and the table of notebooks."""
    changed: Any = cls
    changed.__str__ = lambda self: as_text(self._sheet())
    changed._repr_html_ = lambda self: as_html(self._sheet())
    return cls


def as_text(sheet: Sheet) -> str:
    """Lines with the labels in one column; long texts go on under themselves."""
    width = max((len(label) for label, _ in sheet.facts), default=0)
    lines = [printable(sheet.title)]
    for caution in sheet.cautions:
        lines += _wrapped("  ! ", caution)
    lines += (f"  {line}" for line in aligned(sheet.table))
    for label, text in sheet.facts:
        lines += _wrapped(f"  {label.ljust(width)}  ", text)
    return "\n".join(lines)


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of columns as wide as their widest cell, the first to the left, the others to the right. Cells are `printable`."""
    lines = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*lines)]
    return [
        "  ".join(
            cell.ljust(width) if column == 0 else cell.rjust(width) for column, (cell, width) in enumerate(zip(line, widths))
        ).rstrip()
        for line in lines
    ]


def as_html(sheet: Sheet) -> str:
    """A table whose every text is escaped."""
    cautions = (f'<tr><td colspan="2" style="{_CAUTION}">{_escaped(text)}</td></tr>' for text in sheet.cautions)
    facts = (
        f'<tr><th scope="row" style="{_LABEL}">{_escaped(label)}</th><td style="{_CELL}">{_escaped(text)}</td></tr>'
        for label, text in sheet.facts
    )
    caption = f'<caption style="{_CAPTION}">{_escaped(sheet.title)}</caption>'
    rows = "".join((*cautions, _columns(sheet.table), *facts))
    return f'<table class="hushvec" style="{_TABLE}">{caption}<tbody>{rows}</tbody></table>'


def _columns(table: tuple[tuple[str, ...], ...]) -> str:
    """A row that holds the table."""
    if not table:
        return ""
    header, *rows = table
    names = "".join(f'<th scope="col" style="{_COLUMN};font-weight:normal;opacity:0.75">{_escaped(name)}</th>' for name in header)
    cells = ("".join(f'<td style="{_COLUMN}">{_escaped(cell)}</td>' for cell in row) for row in rows)
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    inner = f'<table style="{_TABLE}"><thead><tr>{names}</tr></thead><tbody>{body}</tbody></table>'
    return f'<tr><td colspan="2" style="padding:0">{inner}</td></tr>'


def number(value: float | None) -> str:
    """A figure in six digits; a dash for none."""
    return "-" if value is None else f"{value:.6g}"


def at_least(value: float | None) -> str:
    """A cost as Python prints it, or in six digits where that is long, never smaller than it is."""
    return _six_digits(value, "ROUND_CEILING")


def at_most(value: float | None) -> str:
    """A lower bound in the same form, never larger than it is."""
    return _six_digits(value, "ROUND_FLOOR")


def _six_digits(value: float | None, rounding: str) -> str:
    if value is None or len(repr(value)) <= _SHORT or not math.isfinite(value):
        return "-" if value is None else repr(value)
    from decimal import Context, Decimal

    return f"{Context(prec=6, rounding=rounding).create_decimal(Decimal(value)):.6g}"


def array_shown(values: Any) -> str:
    """Kind, dtype and shape of an array in one phrase."""
    shape = " x ".join(map(str, getattr(values, "shape", ())))
    dtype = str(getattr(values, "dtype", "")).removeprefix("torch.")
    return f"{type(values).__module__.partition('.')[0]} {dtype} {shape}".strip()


def share(value: float) -> str:
    """A share in percent."""
    return f"{100 * value:.3g} %"


def confidence_of(value: float) -> str:
    """A confidence in percent, never more than it is."""
    percent = at_most(round(100 * value, 10))
    return f"{percent.removesuffix('.0')} %"


def plural(count: int, one: str, many: str | None = None) -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _wrapped(start: str, text: str) -> list[str]:
    from textwrap import TextWrapper

    lines = TextWrapper(WIDTH - len(start), break_long_words=False, break_on_hyphens=False).wrap(printable(text)) or [""]
    return [(start + lines[0]).rstrip(), *(" " * len(start) + line for line in lines[1:])]


def printable(text: str) -> str:
    """The text on one line, safe for a terminal: an escape sequence or a change of writing direction could misrepresent names and
    texts from files and arguments. Unprintable characters are escaped, as in \\x1b, \\n or \\u202e."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def _escaped(text: str) -> str:
    import html

    return html.escape(text, quote=True)


BAR_WIDTH = 30
SHOW_AFTER_SECONDS = 0.5
REDRAW_SECONDS = 0.1

_CLEARED = "\r\033[K"

_announcing: list[TextIO] = []  # streams with a line of `announced`

_in_progress: list[TextIO] = []


class Progress:
    """`with Progress("embedding", total) as progress: progress.advance(n)`. Within another one, nothing."""

    def __init__(self, label: str, total: int, stream: TextIO | None = None) -> None:
        self._label, self._total = label, total
        self._stream = sys.stderr if stream is None else stream
        self._visible = self._stream.isatty()
        self._done = 0
        self._note = ""
        self._drawn = False
        self._begin = time.monotonic()
        self._next_draw = self._begin + SHOW_AFTER_SECONDS

    def __enter__(self) -> Progress:
        self._visible = self._visible and self._stream not in _in_progress
        if self._visible:
            _in_progress.append(self._stream)
        return self

    def advance(self, count: int, note: str | None = None) -> None:
        """`count` more are done; the note, if one is given, stands behind the numbers until the next one."""
        self._done += count
        self._note = self._note if note is None else f" {note}"
        if self._visible and time.monotonic() >= self._next_draw:
            self._draw()
            self._next_draw = time.monotonic() + REDRAW_SECONDS

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._visible:
            _in_progress.remove(self._stream)
        if self._drawn:
            self._stream.write(_CLEARED)
            self._stream.flush()

    def _draw(self) -> None:
        filled = min(BAR_WIDTH, BAR_WIDTH * self._done // max(1, self._total))
        text = f"{self._label} [{'#' * filled}{'.' * (BAR_WIDTH - filled)}] {self._done}/{self._total}{self._left()}{self._note}"
        self._stream.write(f"\r{text[: shutil.get_terminal_size().columns - 1]}\033[K")
        self._stream.flush()
        self._drawn = True

    def _left(self) -> str:
        """How long the rest takes if it goes on like this."""
        if not 0 < self._done < self._total:
            return ""
        seconds = (time.monotonic() - self._begin) * (self._total - self._done) / self._done
        return f" {seconds:.0f} s left" if seconds < 120 else f" {seconds / 60:.0f} min left"


@contextmanager
def announced(what: str, stream: TextIO | None = None) -> Iterator[None]:
    """Say what is done while it is done: `with announced("loading the model"): ...`. Within another announcement, nothing."""
    terminal = sys.stderr if stream is None else stream
    if not terminal.isatty() or terminal in _announcing:
        yield
        return
    _announcing.append(terminal)
    terminal.write(f"\r{what} ...\033[K")
    terminal.flush()
    try:
        yield
    finally:
        _announcing.remove(terminal)
        terminal.write(_CLEARED)
        terminal.flush()
