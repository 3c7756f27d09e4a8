"""Tables before they have a form, and their forms: cells as people read them, pandas frames, CSV and LaTeX."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import pandas

from hushvec_studies.harness.outputs import write_csv, write_text


class Estimate(NamedTuple):
    """A figure and its interval; an end that nobody measured is None."""

    value: float
    low: float | None = None
    high: float | None = None


Cell = str | int | float | Estimate | None


class Heading(NamedTuple):
    """A column: its name in CSV, its title for people, and digits after the point."""

    name: str
    title: str
    digits: int = 3


@dataclass(frozen=True)
class Table:
    """A table before it has a form: the name of its files, a title of one line, a note on how to read it, and cells by line."""

    name: str
    title: str
    note: str
    headings: tuple[Heading, ...]
    lines: tuple[tuple[Cell, ...], ...]

    @cached_property
    def numeric(self) -> list[bool]:
        return [not any(isinstance(line[place], str) for line in self.lines) for place in range(len(self.headings))]

    @cached_property
    def texts(self) -> list[list[tuple[str, str]]]:
        """Cells as people read them: the figure, and the interval or nothing."""
        return [[_parts(cell, heading.digits) for cell, heading in zip(line, self.headings)] for line in self.lines]

    @cached_property
    def frame(self) -> pandas.DataFrame:
        """The numbers in full, an interval as the columns NAME_ci_lower and NAME_ci_upper, None for what is not known."""
        columns: dict[str, list[Cell]] = {}
        for place, heading in enumerate(self.headings):
            cells = [line[place] for line in self.lines]
            if not any(isinstance(cell, Estimate) for cell in cells):
                columns[heading.name] = [_PLAIN.get(cell, cell) if isinstance(cell, str) else cell for cell in cells]
                continue
            for end, suffix in enumerate(("", "_ci_lower", "_ci_upper")):
                columns[heading.name + suffix] = [cell[end] if isinstance(cell, Estimate) else None for cell in cells]
        return pandas.DataFrame(columns, dtype=object)

    def write_csv(self, path: Path) -> None:
        write_csv(path, self.frame)

    def write_latex(self, path: Path) -> None:
        lines = [[f"{value} {interval}".rstrip() for value, interval in line] for line in self.texts]
        titles = [heading.title for heading in self.headings]
        made = latex_table(titles, lines, self.numeric, caption=f"{self.title}. {self.note}", label=f"tab:{self.name}")
        write_text(path, made)


# Cells that say in a table for people what a program reads otherwise.
_PLAIN: dict[str, str | None] = {"–": None, "∞": "inf"}


def cell_text(cell: Cell, digits: int) -> str:
    """A cell as people read it.

    Example:
        >>> cell_text(Estimate(0.51234, 0.5, 0.52), 3), cell_text(2.0, 1), cell_text(float("inf"), 1)
        ('0.512 [0.500, 0.520]', '2.0', '∞')
    """
    if cell is None:
        return "–"
    if isinstance(cell, Estimate):
        return " ".join(filter(None, _parts(cell, digits)))
    if isinstance(cell, float):
        if math.isinf(cell):
            return "∞" if cell > 0 else "−∞"
        if math.isnan(cell):
            return "–"
        shown = f"{cell:.{digits}f}"
        # not "-0.000"
        return shown.removeprefix("-") if float(shown) == 0 else shown.replace("-", "−")
    return str(cell)


def number_text(value: float) -> str:
    """A setting's number as people write it."""
    return "∞" if value == math.inf else f"{value:g}"


def interval_text(value: float, low: float, high: float, digits: int = 3) -> str:
    """0.512 [0.498, 0.527]"""
    return f"{value:.{digits}f} [{low:.{digits}f}, {high:.{digits}f}]"


def percent_text(value: float, low: float, high: float) -> str:
    """1.2 % [0.9 %, 1.6 %]"""
    return f"{100 * value:.3g} % [{100 * low:.3g} %, {100 * high:.3g} %]"


def markdown_table(titles: Sequence[str], lines: Iterable[Sequence[Any]]) -> str:
    head, *rows = (f"| {' | '.join(map(str, cells))} |" for cells in (titles, *lines))
    return "\n".join([head, "|" + "---|" * len(titles), *rows])


def _parts(cell: Cell, digits: int) -> tuple[str, str]:
    if not isinstance(cell, Estimate):
        return cell_text(cell, digits), ""
    known = cell.low is not None and cell.high is not None
    interval = f"[{cell_text(cell.low, digits)}, {cell_text(cell.high, digits)}]" if known else ""
    return cell_text(cell.value, digits), interval


# ---- LaTeX ----

# Lines of a table that fit on a page with its caption.
PAGE = 45

# Wide tables of figures with intervals.
_SMALL = r"\footnotesize\setlength{\tabcolsep}{3.5pt}"

_ESCAPES = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "∞": r"$\infty$",
    "−": r"$-$",
    "–": "--",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
    "σ": r"$\sigma$",
    "\n": " ",
}
_SPECIAL = re.compile("|".join(map(re.escape, _ESCAPES)))
_INTERVAL = re.compile(r"(?<=[0-9]) \[([^\[\]]*)\]")


def latex_text(text: str) -> str:
    r"""Plain text with everything escaped that means something to LaTeX.

    Example:
        >>> print(latex_text("100 % of lira_auc at ε = ∞"))
        100 \% of lira\_auc at $\varepsilon$ = $\infty$
    """
    return _SPECIAL.sub(lambda match: _ESCAPES[match.group()], text)


def latex_table(
    titles: Sequence[str], lines: Sequence[Sequence[str]], numeric: Sequence[bool], *, caption: str, label: str
) -> str:
    """A table with the rules of booktabs: a float, or a longtable where it does not fit on a page.

    Titles, cells and caption are plain text; a cell "value [low, high]" gets a small interval. `numeric` columns stand to the
    right.
    """
    columns = "".join("r" if right else "l" for right in numeric)
    head = f"{_row(map(latex_text, titles))}\n"
    body = "".join(f"{_row(map(_cell, line))}\n" for line in lines)
    said = f"\\caption{{{latex_text(caption)}}}"
    if len(lines) <= PAGE:
        return (
            "% needs \\usepackage{booktabs}\n"
            f"\\begin{{table}}\n\\centering\n{said}\n\\label{{{label}}}\n{_SMALL}\n"
            f"\\begin{{tabular}}{{{columns}}}\n\\toprule\n{head}\\midrule\n{body}\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
        )
    return (
        "% needs \\usepackage{booktabs,longtable}\n"
        f"{{{_SMALL}\n\\begin{{longtable}}{{{columns}}}\n{said}\\label{{{label}}}\\\\\n\\toprule\n{head}\\midrule\n\\endfirsthead\n"
        f"\\toprule\n{head}\\midrule\n\\endhead\n\\bottomrule\n\\endfoot\n{body}\\end{{longtable}}\n}}\n"
    )


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(text: str) -> str:
    return _INTERVAL.sub(r" {\\scriptsize [\1]}", latex_text(text))
