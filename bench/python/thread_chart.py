"""The figure of `threads.py`: measured times and the model by number of threads, as SVG."""

from __future__ import annotations

import math
from typing import Any, Sequence

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 620, 40, 340
INK, FAINT = "#1d2329", "#9aa3ad"
# Colors that people with color blindness tell apart (Okabe and Ito 2008).
COLORS = ("#0a66b0", "#c4500b")
LAST_THREADS = 16


def svg(record: dict[str, Any]) -> str:
    """Both axes logarithmic; the model is dotted where more threads than were measured would have to copy faster.

    Args:
        record: what `threads.py` writes.
    """
    operations = list(record["operations"].values())
    copies = {int(count): ns for count, ns in operations[0]["copy_ns"].items()}
    lines = [_beyond(operation) for operation in operations]
    values = [*copies.values(), *(ns for line in lines for _, ns in line)]
    values += [ns for operation in operations for ns in operation["ns"].values()]
    low, high = min(values) / 1.5, max(values) * 1.25

    def at(threads: float, ns: float) -> tuple[float, float]:
        return (LEFT + (RIGHT - LEFT) * math.log2(threads) / math.log2(LAST_THREADS),
                BOTTOM - (BOTTOM - TOP) * math.log(ns / low) / math.log(high / low))

    parts = [*_axes(at, low, high)]
    parts += [_points([at(count, ns) for count, ns in copies.items()], FAINT),
              _line([at(count, ns) for count, ns in copies.items()], FAINT)]
    parts.append(_text(LEFT, HEIGHT - 8, "gray: a copy of the same rows by as many threads", FAINT))
    for index, (operation, beyond, color) in enumerate(zip(operations, lines, COLORS)):
        measured = {int(count): ns for count, ns in operation["ns"].items()}
        known = [at(int(count), ns) for count, ns in operation["model"]["ns"].items()]
        parts += [_points([at(count, ns) for count, ns in measured.items()], color), _line(known, color),
                  _line([known[-1], *(at(count, ns) for count, ns in beyond)], color, dotted=True),
                  _text(RIGHT, TOP + 16 * index, f"{operation['title']}; lines: the model", color, "end")]
    body = "\n".join(parts)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" font-size="12">\n'
            f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>\n{body}\n</svg>\n')


def _beyond(operation: dict[str, Any]) -> list[tuple[float, float]]:
    """Corner and end of the model, as (threads, ns), beyond the threads that were measured; straight lines on these axes."""
    compute, corner = operation["compute_ns"], operation["model"]["memory_takes_over_at"]
    measured = max(int(count) for count in operation["ns"])
    places = [count for count in (corner, LAST_THREADS) if measured < count <= LAST_THREADS]
    return [(count, max(compute / count, compute / corner)) for count in places]


def _axes(at: Any, low: float, high: float) -> list[str]:
    parts = [f'<path d="M{LEFT} {TOP}V{BOTTOM}H{RIGHT}" fill="none" stroke="{INK}"/>']
    for threads in (1, 2, 4, 8, 16):
        x, _ = at(threads, low)
        parts += [f'<path d="M{x:.1f} {BOTTOM}v5" stroke="{INK}"/>', _text(x, BOTTOM + 20, str(threads), INK, "middle")]
    for ns in (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5):
        if low <= ns <= high:
            _, y = at(1, ns)
            parts += [f'<path d="M{LEFT} {y:.1f}h-5" stroke="{INK}"/>', _text(LEFT - 8, y + 4, f"{ns:g}", INK, "end")]
    middle = (LEFT + RIGHT) / 2
    return [*parts, _text(middle, BOTTOM + 38, "threads", INK, "middle"), _text(LEFT - 50, TOP - 14, "ns per element", INK)]


def _text(x: float, y: float, text: str, color: str, anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{color}" text-anchor="{anchor}">{text}</text>'


def _points(places: Sequence[tuple[float, float]], color: str) -> str:
    return "\n".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>' for x, y in places)


def _line(places: Sequence[tuple[float, float]], color: str, dotted: bool = False) -> str:
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
    return f'<path d="{path}" fill="none" stroke="{color}"' + (' stroke-dasharray="2 4"' if dotted else "") + "/>"
