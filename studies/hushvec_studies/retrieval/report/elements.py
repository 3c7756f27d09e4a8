"""Pieces of HTML. Whatever comes from a study is escaped here."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from hushvec_studies.harness.charts import COLOURS, FAINT, GRID, INK, RAMP, Figure
from hushvec_studies.retrieval.points import Estimate
from hushvec_studies.retrieval.tables import Cell, Table, cell_text, interval_text

# Colours of figures as they are drawn, and the names that the style sheet has for them, for light and for dark.
_THEMED = {
    INK: "ink",
    FAINT: "faint",
    GRID: "grid",
    **{colour: f"c{number}" for number, colour in enumerate(COLOURS)},
    **{colour: f"r{number}" for number, colour in enumerate(RAMP)},
}
# Columns from which on a table is set smaller.
_MANY = 10
_COLOUR = re.compile("|".join(_THEMED))
_METADATA = re.compile(r"\s*<metadata>.*?</metadata>", re.DOTALL)


def paragraph(text: str, kind: str = "") -> str:
    return f"<p{_class(kind)}>{escape(text)}</p>"


def paragraphs(texts: Iterable[str], kind: str = "") -> str:
    return "".join(paragraph(text, kind) for text in texts)


def section(name: str, title: str, *content: str) -> str:
    return f'<section id="{escape(name)}"><h2>{escape(title)}</h2>{"".join(content)}</section>'


def folded(title: str, *content: str) -> str:
    """Content that a reader opens; print shows what is open."""
    return f"<details><summary>{escape(title)}</summary>{''.join(content)}</details>"


def facts(pairs: Iterable[tuple[str, str]]) -> str:
    return f"<dl>{''.join(f'<div><dt>{escape(name)}</dt><dd>{escape(value)}</dd></div>' for name, value in pairs)}</dl>"


def code(text: str) -> str:
    return f"<pre>{escape(text)}</pre>"


def grid(titles: Sequence[str], lines: Iterable[Sequence[str]], caption: str = "") -> str:
    """A table of plain texts, the first column a heading of its line."""
    said = f"<caption>{escape(caption)}</caption>" if caption else ""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in titles)
    body = "".join(
        f'<tr><th scope="row">{escape(line[0])}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in line[1:])}</tr>'
        for line in lines
    )
    return _scrolled(f'<table class="plain">{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>')


def table(content: Table) -> str:
    """A table of a study: figures to the right, intervals smaller beside them."""
    texts = [any(isinstance(line[place], str) for line in content.lines) for place in range(len(content.headings))]
    head = "".join(
        f'<th scope="col"{_class("" if is_text else "number")}>{escape(heading.title)}</th>'
        for heading, is_text in zip(content.headings, texts)
    )
    body = "".join(
        f"<tr>{''.join(_cell(cell, heading.digits, is_text) for cell, heading, is_text in zip(line, content.headings, texts))}</tr>"
        for line in content.lines
    )
    said = f"<caption>{escape(content.title)}<span>{escape(content.note)}</span></caption>"
    wide = _class("wide" if len(content.headings) > _MANY else "")
    return _scrolled(f"<table{wide}>{said}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def figure(content: Figure, drawn: str) -> str:
    """A figure, as `svg_of` drew it, in the colours of the page."""
    drawn = _METADATA.sub("", drawn)
    drawn = _COLOUR.sub(lambda match: f"var(--{_THEMED[match.group()]})", drawn)
    said = f"<b>{escape(content.title)}.</b> {escape(content.caption)}"
    return f'<figure><div tabindex="0">{drawn}</div><figcaption>{said}</figcaption></figure>'


def _scrolled(content: str) -> str:
    """Long and wide tables move in a frame of their own, which the keyboard can reach."""
    return f'<div class="scroll" tabindex="0">{content}</div>'


def _cell(cell: Cell, digits: int, is_text: bool) -> str:
    if isinstance(cell, Estimate):
        interval = "" if cell.low is None or cell.high is None else f" <small>{escape(interval_text(cell, digits))}</small>"
        return f'<td class="number">{escape(cell_text(cell.value, digits))}{interval}</td>'
    return f"<td{_class('' if is_text else 'number')}>{escape(cell_text(cell, digits))}</td>"


def _class(name: str) -> str:
    return f' class="{name}"' if name else ""
