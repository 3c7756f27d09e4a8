"""Tables of the clinical study as LaTeX, and its figure: top-1 against what the noise really costs, a panel for each public map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec.retrieval.attacks.bounds import identification_bound
from hushvec_studies.clinical.contenders import CLASSICAL, EMPIRICAL, LDP, MAPS
from hushvec_studies.clinical.findings import bought, classical, share
from hushvec_studies.harness.charts import INK, Figure, Panel, Series, svg_of
from hushvec_studies.harness.outputs import write_text
from hushvec_studies.harness.tables import Estimate, latex_table

# ---- tables ----


Row = Mapping[str, Any]


def write_latex(path: Path, rows: Sequence[Row], agreement: Sequence[Row]) -> None:
    """One file with every table."""
    made = [*(_grid(cohort, some) for cohort, some in _by_cohort(rows)), _sigmas(rows), _classical(rows), _agreement(agreement)]
    write_text(path, "\n".join(table for table in made if table))


def _by_cohort(rows: Sequence[Row]) -> list[tuple[str, list[Row]]]:
    names = dict.fromkeys((row["cohort"], row["patients"]) for row in rows)
    return [
        (f"{cohort}, {patients:,} patients", [row for row in rows if (row["cohort"], row["patients"]) == (cohort, patients)])
        for cohort, patients in names
    ]


def _grid(cohort: str, rows: Sequence[Row]) -> str:
    """Top-1 of each mechanism behind each map, epsilons across."""
    asked = [row for row in rows if row["mechanism"] in LDP]
    if not asked:
        return ""
    epsilons = sorted({row["epsilon"] for row in asked})
    lines = []
    for public_map in dict.fromkeys(row["public_map"] for row in asked):
        for mechanism in LDP:
            there = {row["epsilon"]: row for row in asked if (row["public_map"], row["mechanism"]) == (public_map, mechanism)}
            if there:
                lines.append([public_map, mechanism, *(f"{there[one]['top_1']:.3f}" if one in there else "" for one in epsilons)])
    return latex_table(
        ["map", "mechanism", *(f"ε = {one:g}" for one in epsilons)],
        lines,
        [False, False, *(True for _ in epsilons)],
        caption=f"Top-1 of {cohort}, by the epsilon that was asked for.",
        label=f"tab:clinical-{''.join(letter if letter.isalnum() else '-' for letter in cohort.lower())}",
    )


def _sigmas(rows: Sequence[Row]) -> str:
    lines = [
        [
            one["cohort"],
            one["public_map"],
            f"{one['sigma']:g}",
            f"{one['true_epsilon']:.4g}",
            f"{one['true_epsilon_at_0.001']:.4g}",
            f"{one['true_epsilon_at_1e-08']:.4g}",
            f"{one['cosine']:.4f}",
            share(one),
            "–" if one["privunit_epsilon"] is None else f"{one['privunit_epsilon']:g}",
        ]
        for one in bought(rows)
    ]
    if not lines:
        return ""
    delta = next(row["true_delta"] for row in rows if row["mechanism"] == EMPIRICAL)
    return latex_table(
        [
            "cohort",
            "map",
            "σ",
            f"ε at δ = {delta:g}",
            "ε at δ = 0.001",
            "ε at δ = 1e-08",
            "cosine",
            "top-1",
            "ε of PrivUnit, δ = 0",
        ],
        lines,
        [False, False, *(True for _ in range(7))],
        caption="What an empirical sigma really buys, and the smallest measured epsilon at which PrivUnit finds as many.",
        label="tab:clinical-sigmas",
    )


def _classical(rows: Sequence[Row]) -> str:
    lines = [
        [
            f"{one['epsilon']:g}",
            f"{one['sigma']:.4g}",
            f"{one['delta_at_epsilon']:.3g}",
            f"{one['true_epsilon']:.4g}",
            "yes" if one["enough"] else "no",
        ]
        for one in classical(rows)
    ]
    if not lines:
        return ""
    return latex_table(
        ["ε as published", "σ", "δ at that ε", "true ε", "enough"],
        lines,
        [True, True, True, True, False],
        caption="The classical formula and what its noise really costs.",
        label="tab:clinical-classical",
    )


def _agreement(rows: Sequence[Row]) -> str:
    lines = [
        [
            row["mechanism"],
            str(row["dimension"]),
            f"{row['epsilon']:g}" if row["epsilon"] is not None else f"σ = {row['sigma']:g}",
            f"{row['rows']:,}",
            f"{row['cosine_theory']:.5f}",
            f"{row['cosine']:.5f}",
            f"{row['cosine_error']:.5f}",
            f"{100 * row['difference']:+.2f} %",
        ]
        for row in rows
    ]
    if not lines:
        return ""
    return latex_table(
        ["mechanism", "dimension", "ε", "rows", "theory", "measured", "error", "difference"],
        lines,
        [False, *(True for _ in range(7))],
        caption="Mean cosine of a unit row and its release.",
        label="tab:clinical-cosine",
    )




# ---- the figure ----


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
