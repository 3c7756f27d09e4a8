"""Text and tables as LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

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

    Args:
        titles: over the columns.
        lines: as many cells each; "value [low, high]" gets a small interval.
        numeric: which columns stand to the right.
        caption: plain text.
        label: as it is.
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
