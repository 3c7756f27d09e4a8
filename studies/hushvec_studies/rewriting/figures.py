"""Figures of the rewriting studies: curves over epsilon with infinity at the right end of a log axis, and dots. Needs matplotlib."""

import math
from dataclasses import replace

from hushvec_studies.harness.charts import COLOURS, INK, Figure, Series, canvas_of, saved, svg_of, svg_text
from hushvec_studies.harness.outputs import write_text
from hushvec_studies.harness.tables import Estimate

# The same colour and marker for a mechanism in every figure.
STYLES = {
    "privunit": 0,
    "gaussian": 1,
    "gaussian, joint": 1,
    "laplacian": 2,
    "l2_laplace": 3,
    "randomized_response": 4,
    "privunit, public map": 5,
    "gaussian, basic": 6,
}
INFINITY_TIMES = 3.0  # where infinity stands, in units of the largest finite epsilon


def line(label, rows, measure, x="epsilon", style=None):
    """The line of one measure with its errors over the rows of results that have it; a place may be infinite, the last one."""
    known = [row for row in rows if row[measure] is not None]
    ends = [(row[measure], row[f"{measure}_error"] or 0.0) for row in known]
    return Series(
        label,
        tuple(Estimate(row[x]) for row in known),
        tuple(Estimate(value, value - error, value + error) for value, error in ends),
        STYLES.get(label, 0) if style is None else style,
    )


def curves(
    path, panels, *, title, y_label, x_label="epsilon of the document (log scale)", y_range=(0.0, 0.1), log_x=True, columns=4
):
    """Panels that share their axes as an SVG file; an x of infinity stands at the right end, apart from its line."""
    finite = sorted({x.value for panel in panels for one in panel.series for x in _finite(one) if one.kind == "line"})
    end = max(finite) * INFINITY_TIMES
    ticks = _ticks(finite) if log_x else [(x, f"{x:g}") for x in finite]
    if any(x.value == math.inf for panel in panels for one in panel.series for x in one.x):
        ticks.append((end, "∞"))
    shown = tuple(replace(panel, series=tuple(part for one in panel.series for part in _parted(one, end))) for panel in panels)
    figure = Figure(
        path.stem, "", title, "", shown, x_label, y_label, tuple(ticks), log_x=log_x, y_range=y_range, columns=columns
    )
    write_text(path, svg_of(figure))


def _ticks(places):
    """All of them; a text only where the next one to the right is twice as far."""
    ticks, last = [], math.inf
    for x in reversed(places):
        last = x if 2 * x <= last else last
        ticks.append((x, f"{x:g}" if x == last else ""))
    return ticks[::-1]


def _finite(series):
    return [x for x in series.x if x.value < math.inf]


def _parted(series, end):
    """The finite part, and the point at infinity on its own."""
    drawn = len(_finite(series))
    yield replace(series, x=series.x[:drawn], y=series.y[:drawn])
    if drawn < len(series.x):
        yield replace(series, x=(Estimate(end),), y=series.y[drawn:], kind="points")


def dots(path, groups, measures, *, title):
    """One band for each (title, [(label, row)]), a line of text for each row, and a panel with dots and error bars for each measure.

    Args:
        measures: {column: axis label}.
    """
    heights = [len(rows) + 2 for _, rows in groups]
    with canvas_of(path.stem, (3.4 + 2.0 * len(measures), 0.8 + 0.2 * sum(heights))) as canvas:
        axes = canvas.subplots(
            len(groups), len(measures), squeeze=False, sharey="row", sharex="col", gridspec_kw={"height_ratios": heights}
        )
        for (name, rows), band in zip(groups, axes):
            places = range(len(rows), 0, -1)
            for axis, (measure, label) in zip(band, measures.items()):
                known = [(place, row) for place, (_, row) in zip(places, rows) if row.get(measure) is not None]
                axis.errorbar(
                    [row[measure] for _, row in known],
                    [place for place, _ in known],
                    xerr=[row.get(f"{measure}_error") or 0 for _, row in known],
                    fmt="o",
                    color=COLOURS[0],
                    markersize=4,
                )
                axis.set_xlabel(label)
                axis.tick_params(labelbottom=True)
                axis.grid(True)
            band[0].set_yticks(list(places), [label for label, _ in rows])
            band[0].set_title(name, loc="left", color=INK)
        canvas.tight_layout()
        write_text(path, svg_text(saved(canvas, "svg"), path.stem, title))
