"""The page of `hushvec topics`: one HTML file that loads nothing, for light and dark screens and for paper."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from hushvec._util.display import as_html, number, share
from hushvec.aggregates import PrivateTopics, TopicGrowth
from hushvec.aggregates.topics import UNLIKE
from hushvec.cli._output import receipt_sheet

_STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --faint: #5b6570; --bar: #0a66b0; --ground: #fff; --line: #d1d9e0 }
@media screen and (prefers-color-scheme: dark) {
  :root { --ink: #e6e9ec; --faint: #a3adb7; --bar: #5aa9e6; --ground: #15191d; --line: #39424b } }
body { font: 15px/1.5 -apple-system, "Segoe UI", Helvetica, Arial, sans-serif; color: var(--ink); background: var(--ground);
       max-width: 54em; margin: 2em auto; padding: 0 1em; overflow-wrap: anywhere }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em; break-after: avoid }
ol { list-style: none; padding: 0 } li { margin: 0 0 1em; break-inside: avoid } section, tr { break-inside: avoid }
.name { display: flex; gap: 1em; justify-content: space-between } .name b:last-child { white-space: nowrap }
.bar { position: relative; height: 0.8em; margin: 0.2em 0; background: var(--line); print-color-adjust: exact }
.bar i, .bar u { position: absolute; top: 0; height: 100%; background: var(--bar) }
.bar u { top: 42%; height: 16%; background: var(--ink) }
small, td + td { color: var(--faint) } table { border-collapse: collapse; max-width: 100% }
.growth td, .growth th { padding: 0.2em 1em 0.2em 0; text-align: left; vertical-align: top }
.growth td + td { white-space: nowrap }
@page { margin: 18mm } @media print { body { margin: 0; font-size: 11px; color: #000; background: #fff } }
"""


def page(found: PrivateTopics, growth: TopicGrowth | None, command: str, figures: str) -> str:
    """The page; texts in it are those of the public pool."""
    order, shares, ends = found.order(), found.shares.tolist(), found.intervals().tolist()
    widest, largest = max(high for _, high in ends), order[0]
    says = f"Of about {max(0, round(found.total)):,} rows {share(max(0.0, shares[largest]))} are about “{found.names[largest]}”, the "
    says += f"largest of {len(found.examples)} topics. {share(max(0.0, shares[-1]))} are like no text of the public pool."
    bars = [_bar(found, one, shares[one], ends[one], widest) for one in order]
    loose = f"""No text of the pool has a cosine of {number(found.threshold)} or more with these rows: a threshold that comes from the
pool alone, below which {share(UNLIKE)} of the pool's own texts are from each other. Where many more are uncovered, people write
about something that the pool lacks: add public texts about what may be missing."""
    parts = [
        f"<h1>What people write about</h1><p>{escape(says)}</p><h2>Topics</h2>",
        "<p>Each row votes for the nearest topic, and topics are named by public texts. A bar is the share; the thin line is where the"
        " share of these rows is with 95 % confidence, for each topic alone, as the noise hides it. It is not about other people.</p>",
        f"<ol>{''.join(bars)}</ol><h2>Uncovered</h2><p>{escape(loose)}</p>",
        "" if growth is None else f"<section><h2>What grew, and what fell</h2>{_grown(growth)}</section>",
        f"<section><h2>The guarantee</h2>{as_html(receipt_sheet(found.receipt))}</section>",
        f"<h2>How to repeat it</h2><p><code>{escape(command)}</code></p><p>Figures are in <code>{escape(figures)}</code>. "
        "A second run is a second release about the same people, and costs again.</p>",
    ]
    head = """<meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"><title>hushvec topics</title>"""
    body = "\n".join(parts)
    return f'<!doctype html>\n<html lang="en"><head>{head}<style>{_STYLE}</style></head>\n<body>\n{body}\n</body></html>\n'


def _bar(found: PrivateTopics, one: int, value: float, ends: Sequence[float], widest: float) -> str:
    low, middle, high = (max(0.0, 100 * end / widest) for end in (ends[0], value, ends[1]))
    others = " · ".join(found.examples[one][1:4]) if one < len(found.examples) else ""
    return (
        f"<li><div class=name><b>{escape(found.names[one])}</b><b>{share(max(0.0, value))}</b></div><div class=bar>"
        f'<i style="width:{middle:.2f}%"></i><u style="left:{low:.2f}%;width:{high - low:.2f}%"></u></div>'
        f"<small>{share(ends[0])} to {share(ends[1])}{escape(f'. {others}' if others else '')}</small></li>"
    )


def _grown(growth: TopicGrowth) -> str:
    rows = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in growth.cells(10))
    said = (
        "The most in standard errors, which have the noise of both periods and both samples of people; p by Holm over all topics."
    )
    return f"<p>{said}</p><table class=growth><tr><th>topic<th>growth<th>error<th>p</tr>{rows}</table>"
