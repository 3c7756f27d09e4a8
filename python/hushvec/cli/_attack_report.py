"""The report of `hushvec attack`: one HTML file that loads nothing and prints well."""

from __future__ import annotations

import math
import platform
from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

import numpy as np

from hushvec._native import _core
from hushvec._util.display import as_html
from hushvec.retrieval.attacks.protection import KNOWN_PAIRS, SAME_SPACE, ProtectionResult

# Okabe and Ito's colors, darkened for white paper.
_COLORS = ("#0a66b0", "#c4500b", "#0b7f5b", "#a3438f", "#8a6d00", "#5b5bd6")
_INK, _FAINT, _GRID = "#1d2329", "#5b6570", "#d1d9e0"
_WIDTH, _HEIGHT, _LEFT, _TOP, _PANEL, _TALL = 620, 330, 60, 46, 340, 220
_STYLE = """
body { font: 15px/1.5 -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: #1d2329; max-width: 60em;
       margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em; break-after: avoid }
table { font-size: 0.9em } svg { max-width: 100%; height: auto }
.pictures { display: grid; gap: 1em; grid-template-columns: repeat(auto-fit, minmax(20em, 1fr)) }
section, .pictures { break-inside: avoid }
code { overflow-wrap: anywhere } tr { break-inside: avoid }
table.annex td { vertical-align: top; padding: 0.2em 1em 0.2em 0 }
@page { margin: 18mm } @media print { body { margin: 0; font-size: 11px } .pictures { grid-template-columns: 1fr 1fr } }
"""

# What reviewers' lists ask about, by their numbers, and where the answer stands.
_ANNEX = (
    ("OWASP LLM top ten 2025, LLM08", "inversion of embeddings", "same space, known pairs, no pairs, reading"),
    ("OWASP LLM top ten 2025, LLM08", "who can reach the store, poisoning", "not measured here: a matter of access and of sources"),
    ("OWASP AISVS 11.2.4", "privacy in training", "not measured here: the receipt of a training, where a model was trained on data"),
    ("OWASP AISVS 11.2.5", "membership no better than chance", "membership: area under ROC beside 0.5"),
    ("NIST SP 800-226", "unit of privacy, epsilon, delta, adjacency", "promised; the receipt names unit and adjacency"),
    ("NIST SP 800-226", "composition over releases", "not measured here: the ledger (hushvec budget) and hushvec verify"),
    ("NIST SP 800-226", "implementation, floating point", "the receipt names the grade; hushvec audit tries the mechanism"),
    ("EDPB opinion 28/2024", "likelihood of extraction and inference", "all attacks, with who the attacker is; no list decides it"),
)


class Measured(NamedTuple):
    """A protection, what was found and how long that took."""

    name: str
    result: ProtectionResult
    seconds: float


def page(measured: Sequence[Measured], command: str, figures: str) -> str:
    """The report as HTML."""
    parts = [
        "<h1>What protected vectors give away</h1>",
        f"<p>{_answer(measured)} <b>An attack that fails proves nothing: a stronger one may succeed.</b></p>",
        "<h2>The question and the attacker</h2>",
        "<p>Vectors of texts leave a trust boundary in protected form. Somebody who gets the protected rows wants to know which text "
        "a row belongs to, whether a text is in the store, and what a row is about. One attacker has a list of clean vectors, with "
        "the right ones among them (<i>same space</i>); one also knows some pairs of clean and protected rows, say of texts of their "
        "own (<i>known pairs</i>); one has only clean vectors of other texts of the same kind (<i>no pairs</i>); one asks whether a "
        "text is in a store (<i>membership</i>); one guesses labels (<i>reading</i>).</p>",
        "<h2>Pictures</h2>",
        f'<div class="pictures">{_named_against_pairs(measured)}{_useful_against_named(measured)}</div>',
    ]
    for one in measured:
        found = f"<h2>{escape(one.name)}</h2>{as_html(one.result._sheet())}<p>It took {one.seconds:.0f} s.</p>"
        parts.append(f"<section>{found}</section>")
    parts += [
        "<h2>What it does not show</h2>",
        "<p>Other attackers, other texts, other keys: one draw of the protection was attacked on these rows, by linear maps. Rows are "
        "taken to be independent of each other. Intervals are over rows, not over keys. What is allowed by a receipt holds for any "
        "attacker, in expectation, if the receipt is about these rows; nothing here checks that.</p>",
        "<h2>How to repeat it</h2>",
        f"<p><code>{escape(command)}</code></p><p>{_versions()}. All figures are in <code>{escape(figures)}</code>.</p>",
        "<section><h2>Annex: what reviewers' lists ask, and where the answer is</h2>",
        '<table class="annex">' + "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in _ANNEX),
        "</table></section>",
    ]
    body = "\n".join(parts)
    head = '<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>hushvec attack</title>'
    head += f"<style>{_STYLE}</style>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _answer(measured: Sequence[Measured]) -> str:
    """What was found, in a sentence for each protection."""
    said = []
    for name, result, _ in measured:
        most = max((one for one in result.findings if one.measures == "rows named"), key=lambda one: one.value.value)
        limit = "chance" if result.no_bound else "its receipt allows"
        found = f"{'an' if result.weak else 'no'} attack reached more than {limit}"
        said.append(f"{name}: {found}; at most {100 * most.value.value:.3g} % of the rows were named ({most.attack}).")
    return escape(" ".join(said))


def _versions() -> str:
    return f"hushvec {_core.__version__}, numpy {np.__version__}, Python {platform.python_version()}, {platform.machine()}"


# ---- pictures


def _named_against_pairs(measured: Sequence[Measured]) -> str:
    """Rows named over the number of known pairs, which is logarithmic."""
    lines = [[(one.pairs or 1, one.value) for one in found.result.of(KNOWN_PAIRS)] for found in measured]
    counts = sorted({count for line in lines for count, _ in line})
    span = math.log(counts[-1] / counts[0]) or 1.0

    def along(count: int) -> float:
        return math.log(count / counts[0]) / span

    parts = [_words(_at(along(count), 0), f"{count:,}", below=18, anchor="middle") for count in counts]
    for number, line in enumerate(lines):
        color = _COLORS[number % len(_COLORS)]
        points = [_at(along(count), value.value) for count, value in line]
        path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        parts.append(f'<path d="M{path}" fill="none" stroke="{color}" stroke-width="2"/>')
        for count, value in line:
            parts += _point(along(count), value.value, color, (value.low, value.high))
    return _picture("Rows named against known pairs", "known pairs", "share of rows named", parts, measured)


def _useful_against_named(measured: Sequence[Measured]) -> str:
    """How much of search is kept, beside the most that an attack named."""
    parts = [_words(_at(share, 0), f"{share:g}", below=18, anchor="middle") for share in (0, 0.25, 0.5, 0.75, 1)]
    for number, one in enumerate(measured):
        most = max((found.value for found in one.result.findings if found.attack in (SAME_SPACE, KNOWN_PAIRS)), key=lambda v: v.value)
        kept = one.result.useful["first ten kept"][1].value
        parts += _point(kept, most.value, _COLORS[number % len(_COLORS)], (most.low, most.high))
    return _picture("Useful against named", "first ten kept", "most rows named", parts, measured)


def _picture(title: str, across: str, up: str, parts: Sequence[str], measured: Sequence[Measured]) -> str:
    frame = [_words((_LEFT, 20), title, extra=' font-weight="600" font-size="15"', color=_INK)]
    frame.append(_words((_LEFT, 38), up))
    for share in (0, 0.25, 0.5, 0.75, 1):
        (left, y), (right, _) = _at(0, share), _at(1, share)
        frame.append(f'<path d="M{left:.1f} {y:.1f}L{right:.1f} {y:.1f}" stroke="{_GRID}"/>')
        frame.append(_words((left - 8, y + 4), f"{share:g}", anchor="end"))
    frame.append(_words(_at(0.5, 0), across, below=38, anchor="middle"))
    names = [
        _words((_LEFT + _PANEL + 24, _TOP + 12 + 18 * number), one.name[-32:], color=_COLORS[number % len(_COLORS)])
        for number, one in enumerate(measured)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}" role="img" '
        f'font-family="-apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="13">\n<title>{title}</title>\n'
        + "\n".join((*frame, *parts, *names))
        + "\n</svg>"
    )


def _at(across: float, up: float) -> tuple[float, float]:
    return _LEFT + _PANEL * across, _TOP + _TALL * (1 - up)


def _point(across: float, up: float, color: str, ends: tuple[float, float]) -> Iterator[str]:
    """A dot and its interval."""
    (x, y), (_, low), (_, high) = _at(across, up), _at(across, ends[0]), _at(across, ends[1])
    yield f'<path d="M{x:.1f} {low:.1f}L{x:.1f} {high:.1f}" stroke="{color}"/>'
    yield f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{color}"/>'


def _words(
    at: tuple[float, float], words: str, *, below: float = 0, anchor: str = "start", color: str = _FAINT, extra: str = ""
) -> str:
    return f'<text x="{at[0]:.1f}" y="{at[1] + below:.1f}" fill="{color}" text-anchor="{anchor}"{extra}>{escape(words)}</text>'
