"""What a budget has spent over time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from hushvec._util import validate
from hushvec.budget import PrivacyBudget, verify_export
from hushvec.plot.axes import COLORS, axes_or_new, finished

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_AMOUNTS = ("epsilon", "delta", "rho")
_MICRO = 1e-6
_RESET = "reset: earlier losses still count"


def budget_over_time(budget: PrivacyBudget | Mapping[str, Any], *, amount: str | None = None, ax: Axes | None = None) -> Axes:
    """Draw what a ledger has spent over time, a step for each charge, and its limit.

    Args:
        budget: a `PrivacyBudget`, or the export of one (`PrivacyBudget.export`, or the same read from JSON), which is checked.
        amount: "epsilon", "delta" or "rho", one that the ledger counts; epsilon or rho if None.
        ax: matplotlib axes to draw on; new ones if None.

    Returns:
        The axes. Times are in UTC, as the ledger's clock had them.

    Raises:
        TypeError: wrong kinds.
        ValueError: not an export; a ledger that does not hold; an amount that it does not count.
        MissingExtraError: matplotlib is not installed: hushvec[plot].

    Guarantees:
        Sums are those of the rows. A reset begins a new period at 0; what was spent before it still counts, and the picture says so.

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
    times = _on_time_axis(ax, rows)
    ax.plot(times, spent, drawstyle="steps-post", color=COLORS[0], marker="o", markersize=3, label=f"{name} spent")
    ax.axhline(limit, color=COLORS[1], linestyle="--", label=_limit_label(rows[0]["policy"], limit))
    for number, time in enumerate(time for row, time in zip(rows, times) if row["kind"] == "reset"):
        ax.axvline(time, color="0.5", linestyle=":", label=None if number else _RESET)
    ax.set_ylim(0, 1.08 * max(limit, *spent) or 1.0)
    charges = sum(row["kind"] == "charge" for row in rows)
    return finished(ax, x="time (UTC)", y=f"{name} spent", title=f"Budget {export['budget_key']!r}, {charges:,} charges")


def _limit_label(policy: str, limit: float) -> str:
    return f"limit {limit:g}" if policy == "block" else f"limit {limit:g}, which is not enforced (on_exhausted='warn')"


def _on_time_axis(ax: Axes, rows: list[dict[str, Any]]) -> list[float]:
    """The times of rows as matplotlib counts them, on an axis that is labeled with dates."""
    from matplotlib import dates

    locator = dates.AutoDateLocator(maxticks=7)
    ax.xaxis.set_major_locator(locator)
    ax.xaxis.set_major_formatter(dates.ConciseDateFormatter(locator))
    return [float(dates.date2num(datetime.fromtimestamp(row["time_us"] * _MICRO, timezone.utc))) for row in rows]
