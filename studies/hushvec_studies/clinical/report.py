"""The figure of the clinical study: top-1 against what the noise really costs, a panel for each public map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec.retrieval.attacks.bounds import identification_bound
from hushvec_studies.clinical.contenders import CLASSICAL, EMPIRICAL, LDP, MAPS
from hushvec_studies.harness.charts import INK, Figure, Panel, Series, svg_of
from hushvec_studies.harness.outputs import write_text
from hushvec_studies.harness.tables import Estimate

_TICKS = (1, 5, 16, 50, 200, 1000, 5000)
_STEPS = 60

# Sigmas are written beside their points where the line is steep; on its flat ends they would cover each other.
_STEEP = (0.02, 0.97)


def write_figure(path: Path, rows: Sequence[Mapping[str, Any]], cohort: str, patients: int) -> None:
    """Draw the cohort's rows as an SVG file."""
    shown = [row for row in rows if row["cohort"] == cohort and row["patients"] == patients]
    panels = []
    for name in MAPS:
        lines = _lines([row for row in shown if row["public_map"] == name])
        if lines:
            panels.append(Panel(title=f"public map: {name}", series=(*lines, _bound(patients))))
    figure = Figure(
        name="clinical",
        folder="comparison",
        title=f"Top-1 by the epsilon that noise really costs: {cohort}, {patients:,} patients",
        caption="Gaussian kinds at the study's delta, the others with delta 0.",
        panels=tuple(panels),
        x_label="true ε",
        y_label="top-1",
        ticks=tuple((float(tick), f"{tick:,}") for tick in _TICKS),
        log_x=True,
        y_range=(0.0, 1.0),
    )
    write_text(path, svg_of(figure))


def _bound(patients: int) -> Series:
    """What no mechanism with delta = 0 exceeds."""
    epsilons = [_TICKS[0] * (_TICKS[-1] / _TICKS[0]) ** (step / _STEPS) for step in range(_STEPS + 1)]
    bounds = tuple(Estimate(identification_bound(epsilon, 0.0, patients)) for epsilon in epsilons)
    return Series(label="no mechanism exceeds", x=tuple(map(Estimate, epsilons)), y=bounds, style=INK, kind="theory")


def _lines(rows: Sequence[Mapping[str, Any]]) -> tuple[Series, ...]:
    """A line for each mechanism, and points on that of the Gaussian one for empirical sigmas, as the same noise at the same price. The
    classical formula's would be among them too."""
    series = []
    for style, name in enumerate((*(name for name in LDP if name != CLASSICAL), EMPIRICAL)):
        low, high = _STEEP
        some = sorted((row for row in rows if row["mechanism"] == name), key=lambda row: row["true_epsilon"])
        if some:
            series.append(
                Series(
                    label=name,
                    x=tuple(Estimate(row["true_epsilon"]) for row in some),
                    y=tuple(Estimate(row["top_1"], row["top_1_low"], row["top_1_high"]) for row in some),
                    style=style,
                    names=tuple(f"σ {row['sigma']:g}" if low <= row["top_1"] <= high else "" for row in some)
                    if name == EMPIRICAL
                    else (),
                    kind="points" if name == EMPIRICAL else "line",
                )
            )
    return tuple(series)
