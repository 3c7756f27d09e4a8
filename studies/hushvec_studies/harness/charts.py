"""A figure as data, and how it is drawn: panels that share their axes, series with intervals, colours that a page can replace."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from hushvec_studies.harness.tables import Estimate, number_text

# Colours that people with colour-blindness tell apart (Okabe and Ito 2008), darkened where white paper asks for it; a mechanism keeps
# its colour and its marker in all figures of a study. `hushvec_studies.retrieval.report` replaces them by those of the page.
COLOURS = ("#0a66b0", "#c4500b", "#0b7f5b", "#a3438f", "#8a6d00", "#5b5bd6", "#b3261e", "#3b7a8c")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK, FAINT, GRID = "#1d2329", "#5b6570", "#e3e6ea"
# From the smallest epsilon to the largest, for lines that are told apart by epsilon.
RAMP = ("#9cc3e6", "#6aa3d5", "#3a80bd", "#145c99", "#083a66")


@dataclass(frozen=True)
class Series:
    """One line of a panel.

    Args:
        style: which colour and marker, a number; or the colour itself.
        names: beside the points; () for none.
        kind: "points", "line" (points and a line through them), "curve" (a line without points) or "theory" (a dashed one).
    """

    label: str
    x: tuple[Estimate, ...]
    y: tuple[Estimate, ...]
    style: int | str
    names: tuple[str, ...] = ()
    kind: str = "line"


@dataclass(frozen=True)
class Panel:
    """One pair of axes: series, labelled horizontal lines across them, and x of a vertical line where a guess stands."""

    title: str
    series: tuple[Series, ...]
    levels: tuple[tuple[str, Estimate], ...] = ()
    chance: float | None = None


@dataclass(frozen=True)
class Figure:
    """A figure before it is drawn: panels with the same axes.

    Args:
        name, folder: of its files.
        title, caption: one line, and how to read it.
        ticks: values and texts of the horizontal axis; () lets the axis choose.
        y_range: what the vertical axis shows; a linear one grows with the values. None: as they ask for.
        columns: panels beside each other, at most.
    """

    name: str
    folder: str
    title: str
    caption: str
    panels: tuple[Panel, ...]
    x_label: str
    y_label: str
    ticks: tuple[tuple[float, str], ...] = ()
    log_x: bool = False
    log_y: bool = False
    y_range: tuple[float, float] | None = None
    columns: int = 4


def svg_of(figure: Figure) -> str:
    return svg_text(drawn_as(figure, "svg"), figure.name, figure.title)


def svg_text(drawing: bytes, name: str, title: str) -> str:
    """matplotlib's SVG without its prolog; its ids begin with the figure's name, so that many fit into one page."""
    drawn = drawing.decode()
    drawn = drawn[drawn.index("<svg") :]
    drawn = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", drawn)
    title = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return drawn.replace("<svg ", f'<svg role="img" aria-label="{title}" ', 1)


@contextmanager
def canvas_of(name: str, size: tuple[float, float]) -> Iterator[Any]:
    """An empty figure of matplotlib in the style of the studies, in inches; to be filled and saved within the block."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Canvas

    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": name}):
        canvas = Canvas(figsize=size, dpi=72)
        FigureCanvasAgg(canvas)
        yield canvas


def saved(canvas: Any, kind: str) -> bytes:
    """The canvas as "svg" or "pdf", the same bytes for the same figure."""
    stored = io.BytesIO()
    canvas.savefig(stored, format=kind, metadata={"Date" if kind == "svg" else "CreationDate": None}, transparent=True)
    return stored.getvalue()


def drawn_as(figure: Figure, kind: str) -> bytes:
    columns, rows, width = _grid(len(figure.panels), figure.columns)
    entries, lines = _legend_size(figure, columns * (width + _GAP))
    top = _TOP + (lines - 1) * _LEGEND_LINE
    size = (_LEFT + columns * (width + _GAP), top + rows * (_HEIGHT + _UNDER))
    with canvas_of(figure.name, size) as canvas:
        labels: dict[str, Any] = {}
        first = None
        for number, panel in enumerate(figure.panels):
            row, column = divmod(number, columns)
            left, bottom = _LEFT + column * (width + _GAP), size[1] - top - row * (_HEIGHT + _UNDER) - _HEIGHT
            axes = canvas.add_axes(
                (left / size[0], bottom / size[1], width / size[0], _HEIGHT / size[1]), sharex=first, sharey=first
            )
            first = first or axes
            _draw_panel(axes, panel, labels)
            axes.tick_params(labelleft=column == 0, labelbottom=number + columns >= len(figure.panels))
            if column == 0:
                axes.set_ylabel(figure.y_label)
            if number + columns >= len(figure.panels):
                axes.set_xlabel(figure.x_label)
        _set_axes(first, figure)
        for axes, panel in zip(canvas.axes, figure.panels):
            _write_names(axes, panel)
        canvas.legend(
            labels.values(),
            # a label that begins with _ is none to matplotlib
            [f" {label}" if label.startswith("_") else label for label in labels],
            loc="upper left",
            bbox_to_anchor=(_LEFT / size[0], 1.0),
            borderaxespad=0,
            borderpad=0,
            ncols=entries,
            frameon=False,
            handlelength=1.8,
            columnspacing=1.6,
        )
        return saved(canvas, kind)


_LEGEND_LINE = 0.19  # inches
_LEVELS = ((0, (1, 2)), (0, (6, 2, 1, 2)))  # dots, then dashes and dots
# Inches: the page is 10.9 wide, and a panel of a figure with few of them no wider than 3.6.
_PAGE, _WIDEST, _LEFT, _GAP, _HEIGHT, _TOP, _UNDER = 10.9, 3.6, 0.68, 0.2, 2.25, 0.5, 0.58

_STYLE = {
    "font.family": "sans-serif",
    "font.size": 8.5,
    "text.parse_math": False,
    "axes.titlesize": 9,
    "axes.titlepad": 5,
    "axes.labelsize": 8.5,
    "legend.fontsize": 8.5,
    "svg.fonttype": "none",
    "pdf.fonttype": 42,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.7,
    "xtick.major.width": 0.7,
    "ytick.major.width": 0.7,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
}


def _legend_size(figure: Figure, width: float) -> tuple[int, int]:
    """Entries in a line of the legend, and lines, so that it is no wider than the panels."""
    labels = {series.label for panel in figure.panels for series in panel.series}
    labels |= {label for panel in figure.panels for label, _ in panel.levels}
    labels |= {"a guess" for panel in figure.panels if panel.chance is not None}
    widths = [0.55 + 0.06 * len(label) for label in labels]
    if sum(widths) <= width:
        return len(labels), 1
    entries = max(1, int(width / max(widths)))
    return entries, math.ceil(len(labels) / entries)


def _grid(panels: int, most: int) -> tuple[int, int, float]:
    """Columns, rows, and the width of a panel: up to so many beside each other, in rows that are as even as can be."""
    rows = math.ceil(panels / most)
    columns = math.ceil(panels / rows)
    return columns, rows, min(_WIDEST, (_PAGE - _LEFT) / columns - _GAP)


def _draw_panel(axes: Any, panel: Panel, labels: dict[str, Any]) -> None:
    axes.set_title(panel.title, loc="left", color=INK)
    axes.grid(True, axis="y")
    axes.set_axisbelow(True)
    dotted = {"color": FAINT, "linewidth": 0.9, "linestyle": _LEVELS[0]}
    if panel.chance is not None:
        labels.setdefault("a guess", axes.axvline(panel.chance, **dotted))
    for place, (label, level) in enumerate(panel.levels):
        if level.low is not None and level.high is not None:
            axes.axhspan(level.low, level.high, color=FAINT, alpha=0.16, linewidth=0)
        labels.setdefault(label, axes.axhline(level.value, **dotted | {"linestyle": _LEVELS[place % len(_LEVELS)]}))
    for series in panel.series:
        labels.setdefault(series.label, _draw_series(axes, series))


def _draw_series(axes: Any, series: Series) -> Any:
    colour = series.style if isinstance(series.style, str) else COLOURS[series.style % len(COLOURS)]
    marker = "o" if isinstance(series.style, str) else MARKERS[series.style % len(MARKERS)]
    x, y = [one.value for one in series.x], [one.value for one in series.y]
    if series.kind in ("curve", "theory"):
        return axes.plot(x, y, color=colour, linewidth=1.1, linestyle="-" if series.kind == "curve" else (0, (4, 2)))[0]
    return axes.errorbar(
        x,
        y,
        xerr=_reaches(series.x),
        yerr=_reaches(series.y),
        color=colour,
        marker=marker,
        markersize=4.2,
        markeredgewidth=0,
        linewidth=1.3 if series.kind == "line" else 0,
        elinewidth=0.9,
        capsize=0,
    )


def _write_names(axes: Any, panel: Panel) -> None:
    """Each name beside its point, where there is room for it; names of the ends of a line come first."""
    taken = [tuple(axes.transData.transform((x.value, y.value))) for series in panel.series for x, y in zip(series.x, series.y)]
    taken = [(across - 2, up - 2, across + 2, up + 2) for across, up in taken]
    bottom = axes.bbox.y0
    for series in panel.series:
        colour = series.style if isinstance(series.style, str) else COLOURS[series.style % len(COLOURS)]
        places = list(zip(series.x, series.y, series.names))
        for x, y, name in (*places[-1:], *places[:1], *places[1:-1]):
            across, up = axes.transData.transform((x.value, y.value))
            # right below, right above, left above, left below, in points; the canvas has 72 to the inch
            for step_x, step_y, side in ((4, -9, "left"), (4, 4, "left"), (-4, 4, "right"), (-4, -9, "right")):
                width = 4.2 * len(name)
                left = across + step_x - (width if side == "right" else 0)
                box = (left, up + step_y, left + width, up + step_y + 6)
                if box[1] > bottom and all(box[2] < a or c < box[0] or box[3] < b or d < box[1] for a, b, c, d in taken):
                    taken.append(box)
                    axes.annotate(
                        name, (x.value, y.value), (step_x, step_y), textcoords="offset points", ha=side, fontsize=7, color=colour
                    )
                    break


def _reaches(estimates: Sequence[Estimate]) -> list[list[float]] | None:
    """How far intervals reach below and above their values; None where no point has an interval."""
    if all(one.low is None or one.high is None for one in estimates):
        return None
    below = [max(0.0, one.value - (one.value if one.low is None else one.low)) for one in estimates]
    above = [max(0.0, (one.value if one.high is None else one.high) - one.value) for one in estimates]
    return [below, above]


def _set_axes(axes: Any, figure: Figure) -> None:
    """Scales, limits and ticks of the axes that all panels share."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    for axis, logarithmic in ((axes.xaxis, figure.log_x), (axes.yaxis, figure.log_y)):
        if logarithmic:
            getattr(axes, f"set_{axis.axis_name}scale")("log")
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, place: number_text(value)))
        else:
            axis.set_major_locator(MaxNLocator(6, steps=[1, 2, 5, 10]))
    if figure.ticks:
        values = [value for value, _ in figure.ticks]
        axes.set_xticks(values, [text for _, text in figure.ticks])
        if figure.log_x:
            axes.set_xlim(min(values) / 1.25, max(values) * 1.25)
        else:
            axes.set_xlim(min(values) - 0.4, max(values) + 0.4)
    if figure.y_range is not None:
        axes.set_ylim(*(figure.y_range if figure.log_y else _shown_range(figure, figure.y_range)))


def _shown_range(figure: Figure, least: tuple[float, float]) -> tuple[float, float]:
    """The least range, and as much more as values and their intervals need, with a little air."""
    estimates = [one for panel in figure.panels for series in panel.series for one in series.y]
    estimates += [level for panel in figure.panels for _, level in panel.levels]
    low = min(one.value if one.low is None else one.low for one in estimates)
    high = max(one.value if one.high is None else one.high for one in estimates)
    air = 0.04 * (max(high, least[1]) - min(low, least[0]))
    return least[0] if low >= least[0] else low - air, least[1] if high <= least[1] else high + air
