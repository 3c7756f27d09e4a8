"""The figures of an evaluation: use over attack, use over epsilon, attack over epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hushvec_studies.evaluation.contenders import MECHANISMS
from hushvec_studies.evaluation.findings import TITLES, Row, TaskResult, estimate
from hushvec_studies.evaluation.labels import PROBE
from hushvec_studies.evaluation.search import PRIVATE_QUERY
from hushvec_studies.evaluation.sources import titled
from hushvec_studies.harness.charts import Figure, Panel, Series
from hushvec_studies.harness.tables import Estimate, number_text

# A mechanism keeps its color in all figures.
_STYLES = {name: number for number, name in enumerate((*MECHANISMS, PRIVATE_QUERY))}
_COLUMNS = 3
_LEAST = 0.0001  # of a share on a logarithmic axis
_SHORT = {PROBE: "accuracy"}


def evaluation_figures(results: Sequence[TaskResult]) -> list[Figure]:
    """All figures, with one panel for each task."""
    return [_frontier(results), _over_epsilon(results), _attacks(results)]


def _frontier(results: Sequence[TaskResult]) -> Figure:
    panels = [_use_panel(result, _recognized, named=True) for result in results]
    return Figure(
        "frontier",
        "figures",
        "Use over attack",
        "Up is more useful, left is less recognized; numbers are epsilon. A point below and to the right of another is dominated by "
        "it if their intervals, the bars, are apart and its epsilon is no larger. Shares below 0.0001 are drawn there.",
        tuple(panels),
        "share of rows recognized",
        _use_label(results),
        ticks=((_LEAST, f"{_LEAST:g}"), (0.001, "0.001"), (0.01, "0.01"), (0.1, "0.1"), (1, "1")),
        log_x=True,
        y_range=(0, 0.5),
        columns=_COLUMNS,
    )


def _over_epsilon(results: Sequence[TaskResult]) -> Figure:
    panels = [_use_panel(result, _epsilon) for result in results]
    return Figure(
        "use",
        "figures",
        "Use over epsilon",
        "The dotted line is the same use without noise.",
        tuple(panels),
        "epsilon of a row",
        _use_label(results),
        ticks=_ticks(results),
        log_x=True,
        y_range=(0, 0.5),
        columns=_COLUMNS,
    )


def _attacks(results: Sequence[TaskResult]) -> Figure:
    panels = [
        Panel(
            titled(result.name),
            (
                *(_series(result, name, _epsilon, partial(estimate, name="attack")) for name in _mechanisms(result)),
                _bound(result),
            ),
        )
        for result in results
    ]
    return Figure(
        "attack",
        "figures",
        "Attack over epsilon",
        "The share of rows that an adversary with the clean list recognizes. The dashed line is the most that any attack can, on any "
        "list of this length, where delta is 0.",
        tuple(panels),
        "epsilon of a row",
        "share of rows recognized",
        ticks=_ticks(results),
        log_x=True,
        y_range=(0, 1),
        columns=_COLUMNS,
    )


def _use_panel(result: TaskResult, x: Callable[[Row], Estimate], named: bool = False) -> Panel:
    """The use of every mechanism, and a line for that without noise."""
    use = partial(estimate, name=result.main)
    series = tuple(_series(result, name, x, use, named) for name in _mechanisms(result))
    return Panel(titled(result.name), series, (("without noise", use(result.clean)),))


def _series(
    result: TaskResult, mechanism: str, x: Callable[[Row], Estimate], y: Callable[[Row], Estimate], named: bool = False
) -> Series:
    rows = [row for row in result.rows if row["mechanism"] == mechanism]
    names = tuple(number_text(row["epsilon"]) for row in rows) if named else ()
    return Series(mechanism, tuple(map(x, rows)), tuple(map(y, rows)), _STYLES[mechanism], names)


def _bound(result: TaskResult) -> Series:
    pure = {row["epsilon"]: row["bound"] for row in result.rows if row["delta"] == 0} or {
        row["epsilon"]: row["bound"] for row in result.rows
    }
    epsilons = sorted(pure)
    return Series(
        "bound of the claim",
        tuple(Estimate(one) for one in epsilons),
        tuple(Estimate(pure[one]) for one in epsilons),
        "#5b6570",
        kind="theory",
    )


def _mechanisms(result: TaskResult) -> list[str]:
    return list(dict.fromkeys(row["mechanism"] for row in result.rows))


def _epsilon(row: Row) -> Estimate:
    return Estimate(row["epsilon"])


def _recognized(row: Row) -> Estimate:
    """The share of rows recognized, where a logarithmic axis can show it."""
    return Estimate(*(max(one, _LEAST) for one in row["attack"]))


def _ticks(results: Sequence[TaskResult]) -> tuple[tuple[float, str], ...]:
    epsilons = sorted({row["epsilon"] for result in results for row in result.rows})
    return tuple((one, number_text(one)) for one in epsilons)


def _use_label(results: Sequence[TaskResult]) -> str:
    return " or ".join(dict.fromkeys(_SHORT.get(result.main, TITLES[result.main]) for result in results))
