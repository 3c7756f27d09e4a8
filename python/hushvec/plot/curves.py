"""Curves: the expected cosine over epsilon, what a budget has spent over time; and what all pictures share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

import numpy as np

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec._util.statistics import Estimate
from hushvec.budget import PrivacyBudget, verify_export
from hushvec.mechanisms import MECHANISMS, Mechanism, PublicCodebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito (2008): told apart with every kind of color blindness. Markers and dashes tell the series apart without colors.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "s", "^", "D", "v", "P")
DASHES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))


def look(number: int) -> tuple[str, str, Any]:
    return COLORS[number % len(COLORS)], MARKERS[number % len(MARKERS)], DASHES[number % len(DASHES)]


def axes_or_new(ax: Any) -> Axes:
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
    ax.set(xlabel=x, ylabel=y)
    ax.set_title(title, fontsize="medium", loc="left")
    ax.grid(alpha=0.25, linewidth=0.6)
    ax.spines[["top", "right"]].set_visible(False)
    if ax.get_legend_handles_labels()[1]:
        ax.legend(frameon=False, fontsize="small")
    return ax


def points(ax: Axes, x: Sequence[Any], y: Sequence[Any], *, number: int, label: str | None = None) -> None:
    color, marker, _ = look(number)
    across, up = ([float(number_of(one)) for one in axis] for axis in (x, y))
    style: dict[str, Any] = {"color": color, "marker": marker, "linestyle": "none", "elinewidth": 0.8, "capsize": 2, "label": label}
    ax.errorbar(across, up, xerr=_reach(x), yerr=_reach(y), **style)


def number_of(one: Any) -> Any:
    return one.value if isinstance(one, Estimate) else one


def _reach(values: Sequence[Any]) -> Any:
    ends = [(one.value - one.low, one.high - one.value) if isinstance(one, Estimate) else (0.0, 0.0) for one in values]
    return [[max(0.0, end) for end in side] for side in zip(*ends)] if any(map(any, ends)) else None


# ---- the expected cosine over epsilon, by mechanism ----


NAMED = ("gaussian", "laplacian", "l2_laplace", "privunit")
_LOW, _HIGH, _COUNT = 1.0, 128.0, 57

def cosine(
    dimension: int,
    epsilons: Iterable[float] | None = None,
    *,
    mechanisms: Sequence[str | PublicCodebook] = NAMED,
    delta: float = 1e-5,
    clip_norm: float = 1.0,
    rows_per_person: int = 1,
    measured: Iterable[tuple[float, Any]] = (),
    ax: Axes | None = None,
) -> Axes:
    """Draw what noise leaves of a row: the expected cosine of a row with its release, over epsilon, by mechanism.

    Args:
        dimension: d, elements in a row.
        epsilons: each > 0; 57 from 1 to 128 if None.
        mechanisms: "gaussian", "laplacian", "l2_laplace", "privunit", and codebooks (`PublicCodebook`) for rows of this dimension.
        delta: of "gaussian", in (0, 1).
        clip_norm: C, which is also the length of the row.
        rows_per_person: r, how many rows share the epsilon of one person.
        measured: pairs (epsilon, what was measured there): an `Evaluation` with mean_cosine, an `Estimate`, or a number.
        ax: matplotlib axes to draw on; new ones if None.

    Guarantees:
        Curves are `Mechanism.expected_cosine` of mechanisms that cost at most (epsilon, delta); nothing is drawn or charged. The curve
        of a codebook is for rows like those that it was fitted on. A mechanism of the float grade is labeled: it makes no claim.

    Example:
        >>> import hushvec as hv
        >>> ax = hv.plot.cosine(384, [1, 8, 64], mechanisms=["gaussian", "privunit"])
        >>> [line.get_label() for line in ax.lines]
        ['gaussian, delta = 1e-05', 'privunit']
    """
    setting = {
        "dimension": validate.whole_number("dimension", dimension, at_least=1),
        "clip_norm": validate.clip_norm(clip_norm),
        "rows_per_person": validate.whole_number("rows_per_person", rows_per_person, at_least=1),
    }
    grid = sorted(validate.positive("epsilon", one) for one in (np.geomspace(_LOW, _HIGH, _COUNT) if epsilons is None else epsilons))
    series = [_series(one, validate.delta(delta), setting) for one in mechanisms]
    found = [(validate.positive("epsilon", epsilon), _measured(value)) for epsilon, value in measured]
    curves = [(label, [at(epsilon).expected_cosine() for epsilon in grid]) for label, at in series]
    ax = axes_or_new(ax)
    for number, (label, curve) in enumerate(curves):
        color, _, dashes = look(number)
        ax.plot(grid, curve, color=color, linestyle=dashes, label=label)
    if found:
        points(ax, [epsilon for epsilon, _ in found], [value for _, value in found], number=len(curves), label="measured")
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_ylim(0, 1.02)
    unit = "one row" if rows_per_person == 1 else f"{rows_per_person:,} rows of one person"
    title = f"What the noise leaves of a row, {dimension:,} dimensions"
    return finished(ax, x=f"epsilon for {unit}", y="expected cosine with the clean row", title=title)


def _series(given: Any, delta: float, setting: dict[str, Any]) -> tuple[str, Callable[[float], Mechanism]]:
    if isinstance(given, PublicCodebook):
        if given.dimension != setting["dimension"]:
            raise ValueError(f"mechanisms must be for {setting['dimension']} elements, got a codebook for {given.dimension}")
        rows = setting["rows_per_person"]
        return f"public codebook of {len(given):,}", lambda epsilon: given.mechanism(epsilon=epsilon, rows_per_person=rows)
    name = validate.choice("mechanisms", given, NAMED)
    kind: Any = MECHANISMS[name]
    price = {"delta": delta} if name == "gaussian" else {}
    told = f", delta = {delta:g}" if price else " (float: no claim)" if kind.grade == "float" else ""
    return f"{name}{told}", lambda epsilon: kind(epsilon=epsilon, **price, **setting)


def _measured(value: Any) -> Estimate | float:
    metrics = getattr(value, "metrics", None)
    if metrics is not None:
        if "mean_cosine" not in metrics:
            raise ValueError("measured must have mean_cosine, got an evaluation without it (evaluate(..., clean=rows) measures it)")
        value = metrics["mean_cosine"]
    return value if isinstance(value, Estimate) else validate.number("measured", value)


# ---- what a budget has spent over time ----


_AMOUNTS = ("epsilon", "delta", "rho")


def budget_over_time(budget: PrivacyBudget | Mapping[str, Any], *, amount: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw what a ledger has spent over time (UTC), a step for each charge, and its limit.

    Args:
        budget: a `PrivacyBudget`, or the export of one (`PrivacyBudget.export`, or the same read from JSON), which is checked.
        amount: "epsilon", "delta" or "rho", one that the ledger counts; epsilon or rho if None.
        ax: matplotlib axes to draw on; new ones if None.

    Guarantees:
        Sums are those of the rows, times in UTC as the ledger's clock had them. A ledger that does not hold is refused. A reset
        begins a new period at 0; what was spent before it still counts, and the picture says so.

    Example:
        >>> import hushvec as hv
        >>> budget = hv.PrivacyBudget(max_epsilon=10.0)
        >>> for _ in range(3):
        ...     charge = budget.consume(1.0, 1e-5)
        >>> hv.plot.budget_over_time(budget).get_ylabel()
        'epsilon spent'
    """
    if not isinstance(budget, PrivacyBudget | Mapping):
        raise TypeError(f"budget must be a PrivacyBudget or its export, got {validate.kind(budget)}")
    export = budget.export() if isinstance(budget, PrivacyBudget) else budget
    report = verify_export(export)
    if not report.holds:
        raise ValueError(f"budget must hold, got row {report.first_wrong} of the ledger: {report.reason}")
    rows = export["rows"]
    counted = [name for name in _AMOUNTS if rows[0][name]]
    name = counted[0] if amount is None else validate.choice("amount", amount, counted)
    spent = [float(row[f"total_{name}"]) for row in rows]
    limit = float(rows[0][name])
    ax = axes_or_new(ax)
    from matplotlib import dates

    locator = dates.AutoDateLocator(maxticks=7)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    times = [float(dates.date2num(datetime.fromtimestamp(row["time_us"] * 1e-6, timezone.utc))) for row in rows]
    ax.plot(times, spent, drawstyle="steps-post", color=COLORS[0], marker="o", markersize=3, label=f"{name} spent")
    unless = "" if rows[0]["policy"] == "block" else ", which is not enforced (on_exhausted='warn')"
    ax.axhline(limit, color=COLORS[1], linestyle="--", label=f"limit {limit:g}{unless}")
    for number, time in enumerate(time for row, time in zip(rows, times) if row["kind"] == "reset"):
        ax.axvline(time, color="0.5", linestyle=":", label=None if number else "reset: earlier losses still count")
    ax.set_ylim(0, 1.08 * max(limit, *spent) or 1.0)
    charges = sum(row["kind"] == "charge" for row in rows)
    return finished(ax, x="time (UTC)", y=f"{name} spent", title=f"Budget {export['budget_key']!r}, {charges:,} charges")
