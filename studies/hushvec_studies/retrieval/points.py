"""Rows of a study seen as points: one for each setting and k, its figures with their intervals, and which points no other beats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import ne
from typing import Any, NamedTuple

from hushvec_studies.harness.tables import Estimate, number_text
from hushvec_studies.retrieval.columns import ATTACKS, FALSE_POSITIVE_RATES, attack_column

SIDES_NONE = "none"
_EPSILONS = {"document": "epsilon_doc", "query": "epsilon_query", "score": "epsilon_score"}
# All attacks' columns of one figure: what protects must withstand the strongest of them.
AUC = tuple(attack_column(attack, "auc") for attack in ATTACKS)
TPR = {fpr: tuple(attack_column(attack, f"tpr_{fpr:g}_fpr") for attack in ATTACKS) for fpr in FALSE_POSITIVE_RATES}


class Conditions(NamedTuple):
    """What is held fixed along a line of a figure."""

    split: str
    model: str
    queries_per_document: int
    projection: str


class Setting(NamedTuple):
    """What a point is about."""

    conditions: Conditions
    sides: str
    noise: str
    epsilons: tuple[float, ...]
    k: int

    @property
    def has_noise(self) -> bool:
        return self.sides != SIDES_NONE

    @property
    def epsilon(self) -> float:
        """Of each side with noise if they agree, else the largest; inf without noise."""
        return max(self.epsilons, default=math.inf)

    @property
    def epsilon_text(self) -> str:
        """One number, or one for each side.

        Example:
            >>> Setting(Conditions("train", "m", 3, "none"), "document+query", "gaussian", (10.0, 2.5), 5).epsilon_text
            '10 / 2.5'
        """
        if len(set(self.epsilons)) <= 1:
            return number_text(self.epsilon)
        return " / ".join(map(number_text, self.epsilons))


@dataclass(frozen=True)
class Point:
    """All rows of one setting: one, or one for each seed."""

    setting: Setting
    rows: tuple[Mapping[str, Any], ...]

    def estimate(self, name: str) -> Estimate | None:
        """A figure: over several seeds the mean, and from the lowest to the highest end of their intervals. None if no row has it."""
        found = [row for row in self.rows if row.get(name) is not None]
        if not found:
            return None
        value = math.fsum(row[name] for row in found) / len(found)
        lows, highs = ([row.get(f"{name}_ci_{end}") for row in found] for end in ("lower", "upper"))
        return Estimate(value, _all_or_none(min, lows), _all_or_none(max, highs))

    def value(self, name: str) -> float | None:
        estimate = self.estimate(name)
        return None if estimate is None else estimate.value

    def strongest(self, names: Sequence[str]) -> Estimate | None:
        """Of the same figure of several attacks the one with the largest value."""
        found = [estimate for estimate in map(self.estimate, names) if estimate is not None]
        return max(found, key=lambda estimate: estimate.value) if found else None

    def worst(self, names: Sequence[str]) -> float | None:
        """The highest end of the intervals of all attacks: what a promise about attacks has to stand on."""
        found = [estimate for estimate in map(self.estimate, names) if estimate is not None]
        return max((estimate.value if estimate.high is None else estimate.high for estimate in found), default=None)


def points_of(rows: Iterable[Mapping[str, Any]], main: Conditions | None = None) -> list[Point]:
    """Points in the order in which their settings first come, those of the main conditions before all others.

    Args:
        main: the conditions that the study is about; where they are None, or in no row: those with the most rows, and of several the
            ones from which the most others differ in one thing only.

    Raises:
        ValueError: no rows.
    """
    found: dict[Setting, list[Mapping[str, Any]]] = {}
    for row in rows:
        found.setdefault(_setting(row), []).append(row)
    if not found:
        raise ValueError("rows must hold at least one, got none")
    sizes: Counter[Conditions] = Counter()
    for setting, group in found.items():
        sizes[setting.conditions] += len(group)
    if main not in sizes:
        steps = {one: sum(sum(map(ne, one, other)) == 1 for other in sizes) for one in sizes}
        main = max(sizes, key=lambda one: (sizes[one], steps[one]))
    points = [Point(setting, tuple(group)) for setting, group in found.items()]
    return sorted(points, key=lambda point: point.setting.conditions != main)


def main_conditions(points: Sequence[Point]) -> Conditions:
    """What the study is about, as `points_of` was told or found out."""
    return points[0].setting.conditions


def conditions_of(points: Iterable[Point]) -> list[Conditions]:
    return list(dict.fromkeys(point.setting.conditions for point in points))


def conditions_differing_in(points: Sequence[Point], place: int) -> list[Point]:
    """Points whose conditions agree with the main ones in all but one place, ordered by it; [] if none differ."""
    main = main_conditions(points)
    alike = [one for one in conditions_of(points) if all(a == b for at, (a, b) in enumerate(zip(one, main)) if at != place)]
    if len(alike) < 2:
        return []
    order = {value: number for number, value in enumerate(sorted({one[place] for one in alike}, key=_sortable))}
    return sorted(
        (point for point in points if point.setting.conditions in alike), key=lambda point: order[point.setting.conditions[place]]
    )


def depths_of(points: Iterable[Point]) -> list[int]:
    return sorted({point.setting.k for point in points})


def without_noise(points: Iterable[Point], conditions: Conditions, k: int) -> Point | None:
    return next((point for point in points if point.setting[:2] == (conditions, SIDES_NONE) and point.setting.k == k), None)


def lines_of(points: Iterable[Point], conditions: Conditions, k: int) -> dict[tuple[str, str], list[Point]]:
    """(sides, noise) -> its points, the smallest epsilon first; the run without noise is not among them."""
    found: dict[tuple[str, str], list[Point]] = {}
    for point in points:
        setting = point.setting
        if setting.has_noise and setting.conditions == conditions and setting.k == k:
            found.setdefault((setting.sides, setting.noise), []).append(point)
    return {line: sorted(group, key=lambda point: point.setting.epsilons) for line, group in found.items()}


def undominated(
    points: Sequence[Point], use: Callable[[Point], float | None], harm: Callable[[Point], float | None]
) -> list[Point]:
    """Points than which no other has at least as much use and at most as much harm, and one of the two strictly.

    The most useful first. Points that lack one of the figures are left out.
    """
    scored = [(use(point), harm(point), point) for point in points]
    whole = [(gain, cost, point) for gain, cost, point in scored if gain is not None and cost is not None]
    kept = [
        (gain, cost, point)
        for gain, cost, point in whole
        if not any(g >= gain and c <= cost and (g > gain or c < cost) for g, c, _ in whole)
    ]
    return [point for _, _, point in sorted(kept, key=lambda one: (-one[0], one[1]))]


def _setting(row: Mapping[str, Any]) -> Setting:
    sides = str(row["sides"])
    given = () if sides == SIDES_NONE else tuple(_EPSILONS[side] for side in sides.split("+"))
    epsilons = tuple(math.inf if row[name] is None else float(row[name]) for name in given)
    conditions = Conditions(
        str(row["dataset_split"]), str(row["embedding_model"]), int(row["queries_per_document"]), str(row["projection"])
    )
    return Setting(conditions, sides, str(row["noise"]), epsilons, int(row["k"]))


def _sortable(value: str | int) -> tuple[int, float, str]:
    """Numbers by size, names by letter, "none" before them."""
    return (0, value, "") if isinstance(value, int) else (1, 0 if value == "none" else 1, value)


def _all_or_none(pick: Callable[[list[float]], float], ends: Sequence[float | None]) -> float | None:
    whole = [end for end in ends if end is not None]
    return pick(whole) if len(whole) == len(ends) else None
