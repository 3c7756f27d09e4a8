"""The study's table as CSV and LaTeX, and its figure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec_studies.harness.charts import Figure, Panel, Series, svg_of
from hushvec_studies.harness.latex import latex_table
from hushvec_studies.harness.outputs import write_text
from hushvec_studies.harness.tables import Estimate

Row = Mapping[str, Any]

_MEASURES = (("perplexity", "perplexity"), ("f1", "F1 of entities"), ("accuracy", "next token right"))


def write_latex(path: Path, lines: Sequence[Row], audits: Sequence[Row]) -> None:
    """The tables of a paper.

    Args:
        path: of the file.
        lines: of `findings.summary`.
        audits: rows of audits; none if there are none.
    """
    made = [_worth(lines)] + ([_audits(audits)] if audits else [])
    write_text(path, "\n".join(made))


def write_figure(path: Path, lines: Sequence[Row], name: str) -> None:
    """What each epsilon is worth, as an SVG file: lines over epsilon, ordinary training and the base as levels."""
    shown = [(measure, title) for measure, title in _MEASURES[:2] if lines[0][f"{measure}_after"] is not None]
    shown = shown if len(shown) == 2 else [_MEASURES[0], _MEASURES[2]]
    for measure, title in shown:
        write_text(path.with_name(f"{path.stem}_{measure}{path.suffix}"), svg_of(_figure(lines, measure, title, name)))


def _figure(lines: Sequence[Row], measure: str, title: str, name: str) -> Figure:
    private = sorted((line for line in lines if line["epsilon"] is not None), key=lambda line: line["epsilon"])
    ordinary = next((line for line in lines if line["epsilon"] is None), None)
    across = [line["epsilon"] for line in private] or [1.0]
    ends = (Estimate(min(across) / 1.2), Estimate(max(across) * 1.2))
    before = Estimate(lines[0][f"{measure}_before"])
    series = [Series("before", ends, (before, before), "#5b6570", kind="theory")]
    if ordinary is not None:
        level = Estimate(ordinary[f"{measure}_after"])
        series.append(Series("adapter without DP", ends, (level, level), 1, kind="curve"))
    if private:
        series.append(
            Series(
                "adapter with DP",
                tuple(Estimate(line["epsilon"]) for line in private),
                tuple(
                    Estimate(line[f"{measure}_after"], line[f"{measure}_after_low"], line[f"{measure}_after_high"])
                    for line in private
                ),
                0,
            )
        )
    return Figure(
        name=f"personalize-{measure}",
        folder="personalize",
        title=f"{title} by epsilon: {name}",
        caption="Mean over seeds; bars from the least to the largest.",
        panels=(Panel(title=f"{title}, {name}", series=tuple(series)),),
        x_label=f"ε at δ = {lines[0]['delta']:g}",
        y_label=title,
        ticks=tuple((line["epsilon"], f"{line['epsilon']:.3g}") for line in private) or ((1.0, "1"),),
        log_x=True,
        y_range=(0.0, 1.0),
    )


def _worth(lines: Sequence[Row]) -> str:
    first = lines[0]
    return latex_table(
        ["ε", "noise multiplier", "perplexity before", "after", "next token before", "after", "F1 before", "after", "seconds"],
        [
            [
                "no DP" if line["epsilon"] is None else f"{line['epsilon']:.3g}",
                "–" if line["epsilon"] is None else f"{line['noise_multiplier']:.3f}",
                f"{line['perplexity_before']:.2f}",
                _range(line, "perplexity_after", 2),
                f"{line['accuracy_before']:.3f}",
                _range(line, "accuracy_after", 3),
                "–" if line["f1_before"] is None else f"{line['f1_before']:.3f}",
                "–" if line["f1_after"] is None else _range(line, "f1_after", 3),
                f"{line['seconds']:.0f}",
            ]
            for line in lines
        ],
        [True] * 9,
        caption=(
            f"An adapter of rank {first['rank']} on {first['train_notes']:,} notes: {first['steps']} steps, sampling probability "
            f"{first['sampling_probability']:.4g}, δ = {first['delta']:g}, {first['adjacency']} adjacency; "
            + ("one run each." if first["seeds"] == 1 else f"mean of {first['seeds']} runs and their range.")
        ),
        label="tab:personalize",
    )


def _audits(rows: Sequence[Row]) -> str:
    return latex_table(
        ["ε", "claimed at δ of the audit", "right guesses", "ε at least", "refuted"],
        [
            [
                "no DP" if row["epsilon"] is None else f"{row['epsilon']:.3g}",
                "∞" if row["audit_epsilon_claimed"] is None else f"{row['audit_epsilon_claimed']:.3g}",
                f"{row['right']} of {row['guesses']}",
                f"{row['audit_epsilon_lower']:.3f}",
                "yes" if row["audit_flagged"] else "no",
            ]
            for row in rows
        ],
        [True, True, True, True, False],
        caption=(
            f"One-run audits with {rows[0]['canaries']} canaries at δ = {rows[0]['audit_delta']:g}, confidence "
            f"{rows[0]['audit_confidence']:g}."
        ),
        label="tab:personalize-audit",
    )


def _range(line: Row, name: str, digits: int) -> str:
    value = f"{line[name]:.{digits}f}"
    return value if line["seeds"] == 1 else f"{value} [{line[f'{name}_low']:.{digits}f}, {line[f'{name}_high']:.{digits}f}]"
