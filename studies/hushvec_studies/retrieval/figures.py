"""Figures of a study from its rows: which there are, what each shows, and the folder that they are drawn into."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hushvec._util.publish import SHARED, published_bytes, published_text
from hushvec_studies.harness.charts import FAINT, INK, RAMP, Figure, Panel, Series, drawn_as, svg_of
from hushvec_studies.harness.tables import Estimate, number_text
from hushvec_studies.retrieval.points import (
    AUC,
    TPR,
    Conditions,
    Point,
    conditions_differing_in,
    depths_of,
    lines_of,
    main_conditions,
    points_of,
    without_noise,
)

FOLDERS = ("privacy_utility", "ablations", "comparison")


def study_figures(rows: Iterable[Mapping[str, Any]], main: Conditions | None = None) -> list[Figure]:
    """Every figure that the rows are enough for, not drawn yet; `main` as for `points_of`, which needs rows."""
    points = points_of(rows, main)
    conditions = main_conditions(points)
    depths = sorted(depths_of(points), reverse=True)
    figures: list[Figure | None] = []
    for k in depths:
        figures += [_frontier(points, conditions, k, *measure) for measure in _MEASURES]
        figures += [_recall(points, conditions, k)]
        figures += [_attack(points, conditions, k, *measure) for measure in _MEASURES]
    figures += _by_depth(points, conditions)
    figures += _by_conditions(points, 2, "queries", "key phrases per document")
    figures += _by_conditions(points, 3, "projection", "public map before the noise")
    figures.append(_comparison(points, conditions, depths[0]))
    return [figure for figure in figures if figure is not None and any(panel.series for panel in figure.panels)]


def draw_figures(rows: Iterable[Mapping[str, Any]], folder: str | os.PathLike[str], main: Conditions | None = None) -> list[Path]:
    """Draw every figure as SVG and PDF into `privacy_utility`, `ablations` and `comparison` of the folder; the files.

    The same rows give the same bytes with the same version of matplotlib.
    """
    return save_figures(study_figures(rows, main), folder)


def save_figures(figures: Iterable[Figure], folder: str | os.PathLike[str]) -> list[Path]:
    """Draw these figures, as `draw_figures` does with those of rows."""
    written = []
    for figure in figures:
        for kind in ("svg", "pdf"):
            path = Path(folder) / figure.folder / f"{figure.name}.{kind}"
            path.parent.mkdir(parents=True, exist_ok=True)
            if kind == "svg":
                with published_text(path, mode=SHARED) as text:
                    text.write(svg_of(figure))
            else:
                with published_bytes(path, mode=SHARED) as file:
                    file.write(drawn_as(figure, "pdf"))
            written.append(path)
    return written


# ---- which figures ----


_MEASURES: tuple[tuple[str, tuple[str, ...], str, str, float], ...] = (
    ("auc", AUC, "auc_bound", "attack AUC", 0.5),
    ("tpr", TPR[0.01], "tpr_0.01_fpr_bound", "attack TPR at 1 % FPR", 0.01),
)


def _frontier(
    points: Sequence[Point], conditions: Conditions, k: int, short: str, names: Sequence[str], _: str, label: str, chance: float
) -> Figure | None:
    lines = lines_of(points, conditions, k)
    clean = without_noise(points, conditions, k)
    styles = styles_of(lines)
    panels = []
    for sides in dict.fromkeys(sides for sides, _ in lines):
        series = []
        for (line_sides, noise), group in lines.items():
            if line_sides != sides:
                continue
            whole = [(point.strongest(names), point.estimate("recall_at_k"), point.setting.epsilon_text) for point in group]
            series += series_of(noise, whole, styles[noise])
        if clean is not None:
            series += series_of("no noise", [(clean.strongest(names), clean.estimate("recall_at_k"), "")], INK, "points")
        panels.append(Panel(f"noise on {sides_text(sides)}", tuple(series), chance=chance))
    return with_lines(
        Figure(
            f"frontier_{short}_k{k}",
            "privacy_utility",
            f"Recall@{k} against {label}",
            "Each point is one ε, written beside it where there is room; bars are intervals. Further up finds more, further left "
            "tells less: the dotted line is where a guess stands. The attack is the strongest one at that point; those "
            f"that search see the first {k} results.",
            tuple(panels),
            label,
            f"recall@{k}",
            log_x=short == "tpr",
            y_range=(0.0, 0.0),
        )
    )


def _recall(points: Sequence[Point], conditions: Conditions, k: int) -> Figure | None:
    return _over_epsilon(
        points,
        conditions,
        k,
        name=f"recall_k{k}",
        title=f"Recall@{k} against ε",
        caption="The dotted line and its band are the same search without noise; bars are intervals.",
        y_label=f"recall@{k}",
        y_range=(0.0, 0.0),
        measure=lambda point: point.estimate("recall_at_k"),
    )


def _attack(
    points: Sequence[Point],
    conditions: Conditions,
    k: int,
    short: str,
    names: Sequence[str],
    bound: str,
    label: str,
    chance: float,
) -> Figure | None:
    return _over_epsilon(
        points,
        conditions,
        k,
        name=f"attack_{short}_k{k}",
        title=f"{label[0].upper()}{label[1:]} beside its bound, k = {k}",
        caption="Solid: the strongest of the attacks, with its interval. Dashed: the most that any attack can reach under the "
        "claim for documents. The dotted line and its band are the attack on the index without noise. Noise on queries alone promises "
        f"documents nothing: the bound is 1. A guess reaches {chance:g}.",
        y_label=label,
        y_range=(0.45, 1.02) if short == "auc" else None,
        log_y=short == "tpr",
        measure=lambda point: point.strongest(names),
        bound=lambda point: point.estimate(bound),
    )


def _over_epsilon(
    points: Sequence[Point],
    conditions: Conditions,
    k: int,
    *,
    name: str,
    title: str,
    caption: str,
    y_label: str,
    measure: Callable[[Point], Estimate | None],
    bound: Callable[[Point], Estimate | None] | None = None,
    y_range: tuple[float, float] | None = None,
    log_y: bool = False,
) -> Figure | None:
    lines = lines_of(points, conditions, k)
    clean = without_noise(points, conditions, k)
    level = None if clean is None else measure(clean)
    styles = styles_of(lines)
    panels = []
    for sides in dict.fromkeys(sides for sides, _ in lines):
        series = []
        for (line_sides, noise), group in lines.items():
            if line_sides == sides and all(point.setting.epsilon < math.inf for point in group):
                series += series_of(
                    noise, [(Estimate(point.setting.epsilon), measure(point), "") for point in group], styles[noise]
                )
                if bound is not None:
                    claims = [(Estimate(point.setting.epsilon), bound(point), "") for point in group]
                    series += series_of(f"{noise}, bound", claims, styles[noise], "theory")
        panels.append(Panel(f"noise on {sides_text(sides)}", tuple(series), () if level is None else (("no noise", level),)))
    ticks = sorted({point.setting.epsilon for group in lines.values() for point in group if point.setting.epsilon < math.inf})
    return with_lines(
        Figure(
            name,
            "privacy_utility",
            title,
            caption,
            tuple(panels),
            "ε of each side with noise",
            y_label,
            tuple((value, number_text(value)) for value in ticks),
            log_x=True,
            log_y=log_y,
            y_range=y_range,
        )
    )


def _by_depth(points: Sequence[Point], conditions: Conditions) -> list[Figure | None]:
    depths = depths_of(points)
    kept = [point for point in points if point.setting.conditions == conditions]
    places = {k: float(place) for place, k in enumerate(depths)}
    return (
        []
        if len(depths) < 2
        else _ablation(
            kept,
            "k",
            "k, results of a search",
            "k",
            lambda point: places[point.setting.k],
            tuple((place, str(k)) for k, place in places.items()),
        )
    )


def _by_conditions(points: Sequence[Point], place: int, name: str, label: str) -> list[Figure | None]:
    k = depths_of(points)[-1]
    kept = [point for point in conditions_differing_in(points, place) if point.setting.k == k]
    values = list(dict.fromkeys(point.setting.conditions[place] for point in kept))
    places = {value: float(at) for at, value in enumerate(values)}
    return _ablation(
        kept,
        name,
        label,
        f"{label}, k = {k}",
        lambda point: places[point.setting.conditions[place]],
        tuple((at, str(value)) for value, at in places.items()),
    )


def _ablation(
    points: Sequence[Point],
    name: str,
    x_label: str,
    title: str,
    x_of: Callable[[Point], float],
    ticks: tuple[tuple[float, str], ...],
) -> list[Figure | None]:
    """Two figures for each mechanism, recall and the strongest attack: a panel for each side, a line for each epsilon."""
    figures: list[Figure | None] = []
    measures: tuple[tuple[str, str, Callable[[Point], Estimate | None], tuple[float, float]], ...] = (
        ("recall", "recall@k", lambda point: point.estimate("recall_at_k"), (0.0, 0.0)),
        ("attack", "attack AUC", lambda point: point.strongest(AUC), (0.45, 1.02)),
    )
    noises = dict.fromkeys(point.setting.noise for point in points if point.setting.has_noise)
    for noise in noises:
        for short, y_label, measure, y_range in measures:
            panels = []
            own = [point for point in points if point.setting.noise == noise]
            shades = shades_of(own)
            for sides in dict.fromkeys(point.setting.sides for point in own):
                here = [point for point in own if point.setting.sides == sides]
                epsilons = sorted({point.setting.epsilons for point in here})
                series = []
                for epsilon in epsilons:
                    group = sorted((point for point in here if point.setting.epsilons == epsilon), key=x_of)
                    whole = [(Estimate(x_of(point)), measure(point), "") for point in group]
                    series += series_of(f"ε = {group[0].setting.epsilon_text}", whole, shades[max(epsilon)])
                clean = sorted((point for point in points if not point.setting.has_noise), key=x_of)
                series += series_of("no noise", [(Estimate(x_of(point)), measure(point), "") for point in clean], INK)
                panels.append(Panel(f"noise on {sides_text(sides)}", tuple(series)))
            figures.append(
                with_lines(
                    Figure(
                        f"ablation_{name}_{short}_{file_name(noise)}",
                        "ablations",
                        f"{y_label[0].upper()}{y_label[1:]} by {title}, {noise}",
                        "The stronger the colour, the larger ε; bars are intervals. "
                        + ("The attack is the strongest one." if short == "attack" else "Everything else stays as configured."),
                        tuple(panels),
                        x_label,
                        y_label,
                        ticks,
                        y_range=y_range,
                    )
                )
            )
    return figures


def _comparison(points: Sequence[Point], conditions: Conditions, k: int) -> Figure | None:
    lines = lines_of(points, conditions, k)
    styles = styles_of(lines)
    settings = sorted(
        {point.setting.epsilons for group in lines.values() for point in group}, key=lambda epsilons: (max(epsilons), epsilons)
    )
    sides_found = list(dict.fromkeys(sides for sides, _ in lines))
    panels = []
    for sides in sides_found:
        series = []
        own = {noise: group for (line_sides, noise), group in lines.items() if line_sides == sides}
        for number, (noise, group) in enumerate(own.items()):
            # mechanisms beside each other around the place of their epsilon
            offset = 0.16 * (number - (len(own) - 1) / 2)
            places = _places(settings, sides)
            whole = [
                (Estimate(places[point.setting.epsilons] + offset), point.estimate("recall_at_1_difference"), "")
                for point in group
            ]
            series += series_of(noise, whole, styles[noise], "points")
        panels.append(Panel(f"noise on {sides_text(sides)}", tuple(series), (("no difference", Estimate(0.0)),)))
    labels = sorted({epsilons[0] for epsilons in settings if len(set(epsilons)) == 1})
    return with_lines(
        Figure(
            "recall_difference",
            "comparison",
            "Recall@1 less that of the same search without noise",
            "Differences are paired by query; bars are their intervals. The table of the same comparison has the tests.",
            tuple(panels),
            "ε of each side with noise",
            "difference of recall@1",
            tuple((float(place), number_text(value)) for place, value in enumerate(labels)),
        )
    )


def _places(settings: Sequence[tuple[float, ...]], sides: str) -> dict[tuple[float, ...], float]:
    """Where each choice of epsilons stands on an axis of equal steps: that of its largest one."""
    steps = sorted({max(epsilons) for epsilons in settings})
    return {epsilons: float(steps.index(max(epsilons))) for epsilons in settings if len(epsilons) == len(sides.split("+"))}


# ---- curves of attacks ----


# Rates below this have too few candidates behind them to be drawn.
_LOWEST_RATE = 1e-3
_GUESS = tuple(Estimate(10.0 ** (power / 8)) for power in range(-24, 1))


def roc_figures(runs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], main: Conditions | None = None) -> list[Figure]:
    """Curves of the likelihood-ratio attack, or of the next one that there is, one figure for each mechanism; not drawn yet.

    Args:
        runs: (a row, attack -> {"k", "fpr", "tpr"}) of every run; at least one.
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


# ---- lines ----


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
