"""Figures of attacks' curves: true positives against false positives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from hushvec_studies.harness.charts import FAINT, INK, Figure, Panel, Series
from hushvec_studies.harness.tables import Estimate
from hushvec_studies.retrieval.figure_lines import file_name, series_of, shades_of, sides_text
from hushvec_studies.retrieval.points import Conditions, main_conditions, points_of

# Rates below this have too few candidates behind them to be drawn.
_LOWEST_RATE = 1e-3
_GUESS = tuple(Estimate(10.0 ** (power / 8)) for power in range(-24, 1))


def roc_figures(runs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], main: Conditions | None = None) -> list[Figure]:
    """Curves of the likelihood-ratio attack, or of the next one that there is, one figure for each mechanism; nothing is drawn yet.

    Args:
        runs: (a row, attack -> {"k", "fpr", "tpr"}) of every run.
        main: as in `study_figures`.

    Raises:
        ValueError: no runs.
    """
    curves = {row["run_id"]: found for row, found in runs}
    points = points_of((row for row, _ in runs), main)
    here = [point for point in points if point.setting.conditions == main_conditions(points)]
    clean = [
        series
        for point in here
        if not point.setting.has_noise
        for series in _curve("no noise", curves[point.rows[0]["run_id"]], INK)
    ]
    figures = []
    for noise in dict.fromkeys(point.setting.noise for point in here if point.setting.has_noise):
        own = [point for point in here if point.setting.noise == noise]
        shades = shades_of(own)
        panels = []
        for sides in dict.fromkeys(point.setting.sides for point in own):
            group = sorted((point for point in own if point.setting.sides == sides), key=lambda point: point.setting.epsilons)
            series = [
                one
                for point in group
                for one in _curve(
                    f"ε = {point.setting.epsilon_text}", curves[point.rows[0]["run_id"]], shades[point.setting.epsilon]
                )
            ]
            guess = Series("a guess", _GUESS, _GUESS, FAINT, kind="theory")
            panels.append(Panel(f"noise on {sides_text(sides)}", (guess, *series, *clean) if series else ()))
        figures.append(
            Figure(
                f"roc_{file_name(noise)}",
                "privacy_utility",
                f"True positives against false positives, {noise}",
                "Share of members and of others whom the attack takes for members, at every threshold, both on logarithmic scales: "
                "the lower left corner is where an adversary names few and is rarely wrong. The likelihood-ratio attack if made, "
                "else the logistic one; largest k.",
                tuple(panel for panel in panels if panel.series),
                "false positive rate",
                "true positive rate",
                log_x=True,
                log_y=True,
                y_range=(_LOWEST_RATE, 1.0),
            )
        )
    return [figure for figure in figures if figure.panels]


def _curve(label: str, attacks: Mapping[str, Any], style: str) -> list[Series]:
    found = attacks.get("likelihood") or attacks.get("logistic") or attacks.get("released")
    if not found:
        return []
    whole = [(Estimate(x), Estimate(y), "") for x, y in zip(found["fpr"], found["tpr"]) if x >= _LOWEST_RATE and y > 0]
    return series_of(label, whole, style, "curve")
