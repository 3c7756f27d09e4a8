"""What figures of a study share: series through points, and how sides and mechanisms are drawn and called."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from hushvec_studies.harness.charts import RAMP, Figure, Series
from hushvec_studies.harness.tables import Estimate
from hushvec_studies.retrieval.points import Point


def series_of(
    label: str, whole: Sequence[tuple[Estimate | None, Estimate | None, str]], style: int | str, kind: str = "line"
) -> list[Series]:
    """The line through the points that have both figures; none if there is no such point."""
    kept = [(x, y, name) for x, y, name in whole if x is not None and y is not None]
    if not kept:
        return []
    x, y, names = zip(*kept)
    return [Series(label, x, y, style, names if any(names) else (), kind)]


def with_lines(figure: Figure) -> Figure | None:
    return figure if any(panel.series for panel in figure.panels) else None


def styles_of(lines: Iterable[tuple[str, str]]) -> dict[str, int]:
    return {noise: number for number, noise in enumerate(dict.fromkeys(noise for _, noise in lines))}


def shades_of(points: Iterable[Point]) -> dict[float, str]:
    """A colour for each epsilon, the same in all panels of a figure."""
    epsilons = sorted({point.setting.epsilon for point in points})
    return {epsilon: RAMP[round(number * (len(RAMP) - 1) / max(1, len(epsilons) - 1))] for number, epsilon in enumerate(epsilons)}


def sides_text(sides: str) -> str:
    return " + ".join(
        {"document": "documents", "query": "queries", "score": "scores"}.get(side, side) for side in sides.split("+")
    )


def file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "noise"
