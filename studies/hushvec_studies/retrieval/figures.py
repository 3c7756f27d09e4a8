"""Figures of a study from its rows: which there are, what each shows, and the folder that they are drawn into."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec_studies.harness.charts import INK, RAMP, Figure, Panel, Series, drawn_as, svg_of
from hushvec_studies.harness.outputs import write_bytes
from hushvec_studies.harness.tables import Estimate, number_text
from hushvec_studies.retrieval.points import (
    AUC,
    Conditions,
    Point,
    conditions_differing_in,
    depths_of,
    lines_of,
    main_conditions,
    points_of,
    without_noise,
)

Measure = Callable[[Point], Estimate | None]


def study_figures(rows: Iterable[Mapping[str, Any]], main: Conditions | None = None) -> list[Figure]:
    """Every figure that the rows are enough for, not drawn yet; `main` as for `points_of`, which needs rows."""
    points = points_of(rows, main)
    depths = sorted(depths_of(points), reverse=True)
    figures: list[Figure] = []
    for k in depths:
        shown = _Shown(points, k)
        figures.append(_frontier(shown))
    figures += _by_depth(points)
    figures += _by_conditions(points, 2, "queries", "key phrases per document")
    figures += _by_conditions(points, 3, "projection", "public map before the noise")
    figures.append(_comparison(_Shown(points, depths[0])))
    return [figure for figure in figures if any(panel.series for panel in figure.panels)]


def save_figures(figures: Iterable[Figure], folder: str | os.PathLike[str]) -> list[Path]:
    """Draw every figure as SVG and PDF into `privacy_utility`, `ablations` and `comparison` of the folder; the files.

    The same rows give the same bytes with the same version of matplotlib.
    """
    written = []
    for figure in figures:
        for kind in ("svg", "pdf"):
            path = Path(folder) / figure.folder / f"{figure.name}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, svg_of(figure).encode() if kind == "svg" else drawn_as(figure, kind))
            written.append(path)
    return written


# ---- what figures share ----

class _Shown:
    """The points of the main conditions at one k: those with noise line by line, and the one without."""

    def __init__(self, points: Sequence[Point], k: int) -> None:
        self.k, conditions = k, main_conditions(points)
        self.noisy = [point for group in lines_of(points, conditions, k).values() for point in group]
        self.clean = without_noise(points, conditions, k)
        self.styles = {noise: number for number, noise in enumerate(_by_noise(self.noisy))}


def _by_noise(points: Iterable[Point]) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for point in points:
        found.setdefault(point.setting.noise, []).append(point)
    return found


def _panels(points: Sequence[Point], series: Callable[[list[Point]], Iterable[Series]], **others: Any) -> tuple[Panel, ...]:
    """A panel for each choice of sides, with the series of its points."""
    words = {"document": "documents", "query": "queries", "score": "scores"}
    panels = []
    for sides in dict.fromkeys(point.setting.sides for point in points):
        title = " + ".join(words.get(side, side) for side in sides.split("+"))
        own = [point for point in points if point.setting.sides == sides]
        panels.append(Panel(f"noise on {title}", tuple(series(own)), **others))
    return tuple(panels)


def _series(
    label: str, points: Iterable[Point], x: Measure, y: Measure, style: int | str, kind: str = "line", named: bool = False
) -> Iterator[Series]:
    """The line through the points that have both figures, with their epsilons if asked for; none if there is no such point."""
    kept = [
        (across, up, point.setting.epsilon_text)
        for point in points
        if (across := x(point)) is not None and (up := y(point)) is not None
    ]
    if kept:
        xs, ys, names = zip(*kept)
        yield Series(label, xs, ys, style, names if named else (), kind)


def _recall_at_k(point: Point) -> Estimate | None:
    return point.estimate("recall_at_k")


def _auc(point: Point) -> Estimate | None:
    return point.strongest(AUC)


def _shades(points: Iterable[Point]) -> dict[float, str]:
    """A colour for each epsilon, the same in all panels of a figure."""
    epsilons = sorted({point.setting.epsilon for point in points})
    return {epsilon: RAMP[round(number * (len(RAMP) - 1) / max(1, len(epsilons) - 1))] for number, epsilon in enumerate(epsilons)}


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9]+", "_", text).strip("_") or "noise"


# ---- which figures ----

def _frontier(shown: _Shown) -> Figure:
    def series(own: list[Point]) -> Iterator[Series]:
        for noise, group in _by_noise(own).items():
            yield from _series(noise, group, _auc, _recall_at_k, shown.styles[noise], named=True)
        if shown.clean is not None:
            yield from _series("no noise", [shown.clean], _auc, _recall_at_k, INK, "points")

    return Figure(
        f"frontier_auc_k{shown.k}",
        "privacy_utility",
        f"Recall@{shown.k} against attack AUC",
        "Each point is one ε, written beside it where there is room; bars are intervals. Further up finds more, further left "
        "tells less: the dotted line is where a guess stands. The attack is the strongest one at that point; those "
        f"that search see the first {shown.k} results.",
        _panels(shown.noisy, series, chance=0.5),
        "attack AUC",
        f"recall@{shown.k}",
        y_range=(0.0, 0.0),
    )


def _by_depth(points: Sequence[Point]) -> list[Figure]:
    depths = depths_of(points)
    if len(depths) < 2:
        return []
    kept = [point for point in points if point.setting.conditions == main_conditions(points)]
    return _ablation(kept, "k", "k, results of a search", "k", {k: str(k) for k in depths}, lambda point: point.setting.k)


def _by_conditions(points: Sequence[Point], place: int, name: str, label: str) -> list[Figure]:
    k = depths_of(points)[-1]
    kept = [point for point in conditions_differing_in(points, place) if point.setting.k == k]
    values = {point.setting.conditions[place]: str(point.setting.conditions[place]) for point in kept}
    return _ablation(kept, name, label, f"{label}, k = {k}", values, lambda point: point.setting.conditions[place])


def _ablation(
    points: Sequence[Point], name: str, x_label: str, title: str, values: Mapping[Any, str], value_of: Callable[[Point], Any]
) -> list[Figure]:
    """Two figures for each mechanism, recall and the strongest attack: a panel for each side, a line for each epsilon."""
    places = {value: float(place) for place, value in enumerate(values)}

    def x(point: Point) -> Estimate:
        return Estimate(places[value_of(point)])

    figures = []
    clean = sorted((point for point in points if not point.setting.has_noise), key=x)
    for noise, own in _by_noise(point for point in points if point.setting.has_noise).items():
        shades = _shades(own)
        for short, y_label, y, y_range, said in (
            ("recall", "recall@k", _recall_at_k, (0.0, 0.0), "Everything else stays as configured."),
            ("attack", "attack AUC", _auc, (0.45, 1.02), "The attack is the strongest one."),
        ):

            def series(here: list[Point]) -> Iterator[Series]:
                for epsilons in sorted({point.setting.epsilons for point in here}):
                    group = sorted((point for point in here if point.setting.epsilons == epsilons), key=x)
                    yield from _series(f"ε = {group[0].setting.epsilon_text}", group, x, y, shades[max(epsilons)])
                yield from _series("no noise", clean, x, y, INK)

            figures.append(
                Figure(
                    f"ablation_{name}_{short}_{_file_name(noise)}",
                    "ablations",
                    f"{y_label[0].upper()}{y_label[1:]} by {title}, {noise}",
                    f"The stronger the colour, the larger ε; bars are intervals. {said}",
                    _panels(own, series),
                    x_label,
                    y_label,
                    tuple((places[value], text) for value, text in values.items()),
                    y_range=y_range,
                )
            )
    return figures


def _comparison(shown: _Shown) -> Figure:
    steps = sorted({point.setting.epsilon for point in shown.noisy})

    def series(own: list[Point]) -> Iterator[Series]:
        groups = _by_noise(own)
        for number, (noise, group) in enumerate(groups.items()):
            # mechanisms beside each other around the place of their epsilon
            offset = 0.16 * (number - (len(groups) - 1) / 2)
            yield from _series(
                noise,
                group,
                lambda point: Estimate(float(steps.index(point.setting.epsilon)) + offset),
                lambda point: point.estimate("recall_at_1_difference"),
                shown.styles[noise],
                "points",
            )

    labels = sorted({point.setting.epsilon for point in shown.noisy if len(set(point.setting.epsilons)) == 1})
    return Figure(
        "recall_difference",
        "comparison",
        "Recall@1 less that of the same search without noise",
        "Differences are paired by query; bars are their intervals. The table of the same comparison has the tests.",
        _panels(shown.noisy, series, levels=(("no difference", Estimate(0.0)),)),
        "ε of each side with noise",
        "difference of recall@1",
        tuple((float(place), number_text(value)) for place, value in enumerate(labels)),
    )

