"""Shared by all pictures: the axes they draw on, colors, markers, points with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec._util.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito (2008): told apart with every kind of color blindness. Markers and dashes tell the series apart without colors.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))


class Look(NamedTuple):
    """How a series is drawn."""

    color: str
    marker: str
    dashes: Any


def look(number: int) -> Look:
    """Of the series with this number; they repeat after six."""
    return Look(COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)], DASHES[number % len(DASHES)])


def axes_or_new(ax: Any) -> Axes:
    """The axes to draw on: those given, or new ones.

    Raises:
        TypeError: not axes.
        MissingExtraError: matplotlib is not installed.
    """
    with needs_extra("hushvec.plot", "plot"):
        import matplotlib.axes
        import matplotlib.pyplot as plt
    if ax is None:
        new: Axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")[1]
        return new
    if not isinstance(ax, matplotlib.axes.Axes):
        raise TypeError(f"ax must be a matplotlib Axes or None, got {validate.kind(ax)}")
    return ax


def finished(ax: Axes, *, x: str, y: str, title: str) -> Axes:
    """The axes with their labels, a title and a grid."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(title, fontsize="medium", loc="left")
    ax.grid(alpha=0.25, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize="small")
    return ax


def points(ax: Axes, x: Sequence[Any], y: Sequence[Any], *, number: int, label: str | None = None, joined: bool = False) -> None:
    """Points with the intervals of those that are estimates."""
    style = look(number)
    ax.errorbar(
        [float(_value(one)) for one in x],
        [float(_value(one)) for one in y],
        xerr=_reach(x),
        yerr=_reach(y),
        color=style.color,
        marker=style.marker,
        linestyle=style.dashes if joined else "none",
        linewidth=1,
        elinewidth=0.8,
        capsize=2,
        label=label,
    )


def _value(one: Any) -> float:
    return one.value if isinstance(one, Estimate) else one


def _reach(values: Sequence[Any]) -> Any:
    """How far intervals reach below and above, as errorbar takes it; None if nothing has one."""
    ends = [(one.value - one.low, one.high - one.value) if isinstance(one, Estimate) else (0.0, 0.0) for one in values]
    return [[max(0.0, end) for end in side] for side in zip(*ends)] if any(map(any, ends)) else None
