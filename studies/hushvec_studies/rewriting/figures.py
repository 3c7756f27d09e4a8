"""Figures of a study: curves over epsilon on a log axis, with infinity at its right end, and bars. Needs matplotlib."""

import io
import math
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

COLOURS = {
    "privunit": "#0b5fa5",
    "randomized_response": "#111111",
    "privunit, public map": "#3fa7f0",
    "gaussian": "#c2410c",
    "gaussian, joint": "#c2410c",
    "gaussian, basic": "#f59e0b",
    "laplacian": "#15803d",
    "l2_laplace": "#7e22ce",
}
MARKERS = {
    "privunit": "o",
    "randomized_response": "*",
    "privunit, public map": "P",
    "gaussian": "s",
    "gaussian, joint": "s",
    "gaussian, basic": "D",
    "laplacian": "^",
    "l2_laplace": "v",
}
RESOLUTION = 100
COLOURS_KEPT = 64
INFINITY_TIMES = 3.0  # where infinity stands, in units of the largest finite epsilon


@dataclass
class Line:
    label: str
    x: list[Any]
    y: list[Any]
    errors: list[Any]


@dataclass
class Level:
    """A horizontal line: what chance gives, or what is the best possible."""

    label: str
    y: float
    style: str = ":"


@dataclass
class Panel:
    title: str
    lines: list[Any]
    levels: list[Any] = field(default_factory=list)
    bounds: list[Any] = field(default_factory=list)  # Lines without markers


def line(label, rows, measure, x="epsilon"):
    """The line of one measure with its errors over rows of results."""
    return Line(label, [row[x] for row in rows], [row[measure] for row in rows], [row[f"{measure}_error"] or 0.0 for row in rows])


def curves(path, panels, *, y_label, x_label="epsilon of the document (log scale)", y_range=None, columns=2, log_x=True):
    """Panels side by side with one legend below; an x of infinity stands at the right end of a logarithmic axis."""
    pyplot = _pyplot()
    rows = math.ceil(len(panels) / columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(4.9 * columns, 3.4 * rows + 0.5), squeeze=False, sharey=bool(y_label))
    for axis, panel in zip(axes.flat, panels):
        _panel(axis, panel, log_x)
        axis.set_title(panel.title, fontsize=10)
        axis.set_xlabel(x_label, fontsize=9)
        axis.set_ylabel(y_label, fontsize=9)
        if y_range:
            axis.set_ylim(*y_range)
    for axis in axes.flat[len(panels) :]:
        axis.remove()
    _legend(figure, axes)
    _save(figure, path)


def dots(path, groups, measures):
    """One band for each (title, [(label, row)]), a line of text for each row, and a panel with dots and error bars for each measure.

    Args:
        measures: {column: axis label}.
    """
    pyplot = _pyplot()
    heights = [len(rows) + 2 for _, rows in groups]
    figure, axes = pyplot.subplots(
        len(groups),
        len(measures),
        figsize=(3.4 + 2.5 * len(measures), 0.8 + 0.22 * sum(heights)),
        squeeze=False,
        sharey="row",
        sharex="col",
        height_ratios=heights,
    )
    for (title, rows), band in zip(groups, axes):
        places = range(len(rows), 0, -1)
        for axis, (measure, label) in zip(band, measures.items()):
            for place, (_, row) in zip(places, rows):
                if row.get(measure) is not None:
                    axis.errorbar(
                        row[measure], place, xerr=row.get(f"{measure}_error") or 0, fmt="o", color="C0", markersize=4, capsize=2
                    )
            axis.set_xlabel(label, fontsize=8)
            axis.tick_params(labelsize=7, labelbottom=True)
            axis.grid(alpha=0.3)
        band[0].set_yticks(list(places), [name for name, _ in rows], fontsize=7)
        band[0].set_title(title, fontsize=9, loc="left")
    figure.tight_layout()
    _save(figure, path)


def _panel(axis, panel, log_x):
    finite = [x for line in panel.lines for x in line.x if math.isfinite(x)]
    end = max(finite) * INFINITY_TIMES
    if log_x:
        axis.set_xscale("log")
    for line in panel.lines:
        places = [x if math.isfinite(x) else end for x in line.x]
        drawn = sum(math.isfinite(x) for x in line.x)
        style = {"color": COLOURS.get(line.label), "marker": MARKERS.get(line.label, "o"), "markersize": 4, "capsize": 2}
        finite_part = axis.errorbar(
            places[:drawn], line.y[:drawn], yerr=line.errors[:drawn], label=line.label, linewidth=1.3, **style
        )
        style["color"] = finite_part[0].get_color()
        axis.errorbar(places[drawn:], line.y[drawn:], yerr=line.errors[drawn:], linestyle="none", **style)
    for bound in panel.bounds:
        axis.plot(bound.x, bound.y, color=COLOURS.get(bound.label, "0.2"), linestyle="--", linewidth=1, label=bound.label)
    for level in panel.levels:
        axis.axhline(level.y, color="0.3", linestyle=level.style, linewidth=1, label=level.label)
    ticks = sorted(set(finite))
    if any(not math.isfinite(x) for line in panel.lines for x in line.x):
        axis.set_xticks([*ticks, end], [*(f"{x:g}" for x in ticks), "∞"], fontsize=7)
    else:
        axis.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=7)
    axis.minorticks_off()
    axis.tick_params(axis="y", labelsize=8)
    axis.grid(alpha=0.3)


def _legend(figure, axes):
    shown = {}
    for axis in axes.flat:
        if axis.figure is not None:
            handles, labels = axis.get_legend_handles_labels()
            shown |= {label: handle for label, handle in zip(labels, handles) if label not in shown}
    columns = min(4, len(shown))
    height = (0.1 + 0.19 * math.ceil(len(shown) / columns)) / figure.get_figheight()
    figure.tight_layout(rect=(0, height, 1, 1))
    figure.legend(shown.values(), shown.keys(), loc="lower center", ncol=columns, fontsize=8, frameon=False)


def _save(figure, path):
    """A PNG of few colours, a third of the size of one of all."""
    from PIL import Image

    path = Path(path)
    beside = path.with_name(f".{path.name}")
    drawn = io.BytesIO()
    figure.savefig(drawn, dpi=RESOLUTION, format="png")
    Image.open(drawn).convert("RGB").quantize(COLOURS_KEPT).save(beside, format="png", optimize=True)
    os.replace(beside, path)
    _pyplot().close(figure)


def _pyplot():
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
