"""Measured utility over a measured attack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from hushvec._util import validate
from hushvec._util.statistics import Estimate
from hushvec.audit.indexes.inversion import InversionResult
from hushvec.audit.indexes.membership import MembershipResult, TunedEpsilon
from hushvec.plot.curves import axes_or_new, finished, number_of, points
from hushvec.retrieval.evaluation import Evaluation

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NAMES = 24
_NEAR, _LINE = 0.1, 11  # of a name: a share of the axis, and points
_ENDS = ("_ci_lower", "_ci_upper")


class _Point(NamedTuple):
    name: str
    utility: Estimate | float
    attack: Estimate | float
    series: str


def utility_over_attack(
    results: TunedEpsilon | Iterable[Any],
    *,
    utility: str = "recall_at_10",
    attack: str | float = "auc",
    label: str = "epsilon",
    by: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw measured utility over a measured attack, with the intervals of both where there are any: up and to the left is better.

    Args:
        results: what `tune_epsilon(..., utility=...)` returned; or triples (name, utility, attack) of an `Evaluation` and a
            `MembershipResult` or `InversionResult`, or of `Estimate` or numbers in place of either; or rows of a study: mappings
            that have a number in the columns `utility` and `attack`, and its interval in those named NAME_ci_lower and NAME_ci_upper.
        utility: metric of an evaluation, or column of a row.
        attack: of a `MembershipResult`: "auc", or a rate of false positives that it was measured at. Of an `InversionResult`
            "identified": the share of rows found in the list. Else the column of a row.
        label: column of a row that names its point.
        by: column of rows that splits them into series, such as "noise"; None for one.
        ax: matplotlib axes to draw on; new ones if None.

    Guarantees:
        None: that these attacks fail says nothing about the next one, and the figures are as private as what they were measured on.
        Rows without one of the two numbers are left out.

    Example:
        >>> import hushvec as hv
        >>> ax = hv.plot.utility_over_attack([("4", 0.21, 0.53), ("16", 0.62, 0.71)], utility="recall", attack="area")
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('attack: area', 'utility: recall')
    """
    if isinstance(results, TunedEpsilon):
        found = [_Point(f"epsilon {one.epsilon:.3g}", one.utility, one.tpr, "") for one in results.trials if one.utility is not None]
    else:
        found = [point for one in results if (point := _point(one, utility, attack, label, by)) is not None]
    if not found:
        raise ValueError("results must have at least one point with a utility and an attack, got none")
    ax = axes_or_new(ax)
    for number, series in enumerate(dict.fromkeys(point.series for point in found)):
        part = [point for point in found if point.series == series]
        points(ax, [p.attack for p in part], [p.utility for p in part], number=number, label=series or None)
    if len(found) <= _MOST_NAMES:
        _name_points(ax, found)
    if isinstance(results, TunedEpsilon):
        ax.axvline(results.target_tpr, color="0.5", linestyle=":", label=f"limit {results.target_tpr:g}")
        attack, utility = results.fpr, "as the caller measured it"
    chance = float(attack) if isinstance(attack, float | int) else 0.5 if attack.endswith("auc") else None
    if chance is not None:  # where it is known what guessing gives
        ax.axvline(chance, color="0.5", linewidth=0.8, label=f"guessing: {chance:g}")
    return finished(ax, x=_attack_label(attack), y=f"utility: {utility}", title="What a search is worth, and what an attack gains")


def _name_points(ax: Axes, found: list[_Point]) -> None:
    places = [(number_of(point.attack), number_of(point.utility)) for point in found]
    near = [_NEAR * (max(axis) - min(axis)) for axis in zip(*places)]
    for number, (point, place) in enumerate(zip(found, places)):
        below = sum(all(abs(a - b) <= far for a, b, far in zip(place, other, near)) for other in places[:number])
        ax.annotate(point.name, place, xytext=(5, 5 + _LINE * below), textcoords="offset points", fontsize="small")


def _point(one: Any, utility: str, attack: str | float, label: str, by: str | None) -> _Point | None:
    if isinstance(one, Mapping):
        first, second = _cell(one, utility), _cell(one, str(attack))
        named = f"{label} {one[label]}" if label in one else ""
        series = "" if by is None else str(_column(one, by))
        return None if first is None or second is None else _Point(named, first, second, series)
    if not isinstance(one, tuple) or len(one) != 3:
        raise TypeError(f"results must be a TunedEpsilon, rows, or triples (name, utility, attack), got {validate.kind(one)} in them")
    name, useful, found = one
    return _Point(str(name), _utility(useful, utility), _attack(found, attack), "")


def _utility(value: Any, metric: str) -> Estimate | float:
    if not isinstance(value, Evaluation):
        return value if isinstance(value, Estimate) else validate.number("utility", value)
    if metric not in value.metrics:
        raise ValueError(f"utility must be one of {', '.join(map(repr, value.metrics))}, got {metric!r}")
    return value.metrics[metric]


def _attack(value: Any, measure: str | float) -> Estimate | float:
    if isinstance(value, MembershipResult):
        if measure != "auc" and measure not in value.tpr:
            known = ", ".join(map(repr, ("auc", *value.tpr)))
            raise ValueError(f"attack must be one of {known} for a membership attack, got {measure!r}")
        return value.auc if measure == "auc" else value.tpr[measure]  # type: ignore[index]
    if isinstance(value, InversionResult):
        if measure != "identified" or 1 not in value.identified:
            raise ValueError(f"attack must be 'identified' for an inversion attack whose list has the true vectors, got {measure!r}")
        return value.identified[1]
    return value if isinstance(value, Estimate) else validate.number("attack", value)


def _column(row: Mapping[str, Any], name: str) -> Any:
    if name not in row:
        raise ValueError(f"results must have the column {name!r}, got a row without it")
    return row[name]


def _cell(row: Mapping[str, Any], name: str) -> Estimate | float | None:
    """A number of a row, also as the text of a CSV file, with its interval if the row has one. None for an empty cell."""
    value = _column(row, name)
    if value in (None, ""):
        return None
    ends = [row.get(f"{name}{end}") for end in _ENDS]
    if any(end in (None, "") for end in ends):
        return _read(name, value)
    low, high = (_read(name, end) for end in ends)
    return Estimate(_read(name, value), low, high, 0.95)


def _read(name: str, value: Any) -> float:
    try:
        return validate.number(name, float(value) if isinstance(value, str) else value)
    except ValueError:
        raise ValueError(f"{name} must be a finite number in every row, got {value!r:.40}") from None


def _attack_label(attack: str | float) -> str:
    if isinstance(attack, float | int):
        return f"attack: share of members found at {100 * attack:g} % false positives"
    if attack == "identified":
        return "attack: share of rows found in the list"
    return "attack: area under the ROC curve" if attack == "auc" else f"attack: {attack}"
