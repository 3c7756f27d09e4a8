"""The figures of an evaluation: use over attack, use over epsilon, attack over epsilon."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from hushvec_studies.evaluation.attacks.findings import AttackResult, estimate_of, main_figures
from hushvec_studies.evaluation.attacks.measure import AREA, PAIR, WORDS, rate_name
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
_SHORT_ATTACKS = {
    PAIR: "one of two told apart",
    rate_name(PAIR, 0.01): "confirmed at 1 % false alarms",
    AREA: "membership, AUC",
    WORDS: "words, AUC",
}


def evaluation_figures(results: Sequence[TaskResult]) -> list[Figure]:
    """All figures, with one panel for each task; none without a task."""
    if not results:
        return []
    return [_frontier(results), _over_epsilon(results), _attacks(results)]


def attack_figures(results: Sequence[TaskResult], attacks: Sequence[AttackResult]) -> list[Figure]:
    """The attacks beside re-identification: use over attack, and attack over epsilon, a panel for each attack and task."""
    drawn = [(name, result) for name in _drawn(attacks) for result in attacks]
    if not drawn:
        return []
    use = {result.name: result for result in results}
    columns = len(attacks) if len(attacks) > 1 else _COLUMNS
    return [
        Figure(
            "frontier_attacks",
            "figures",
            "Use over each attack",
            "As above, for the other attacks. Chance is the dotted vertical line.",
            tuple(_attack_use_panel(use[result.task], result, name) for name, result in drawn),
            "share or area under the curve that the attack reaches",
            _use_label([use[result.task] for result in attacks]),
            y_range=(0, 0.5),
            columns=columns,
        ),
        Figure(
            "attacks",
            "figures",
            "Each attack over epsilon",
            "The dashed line is the bound of the claim where delta is 0; the dotted one is the attack without noise.",
            tuple(_attack_panel(result, name) for name, result in drawn),
            "epsilon of a row",
            "share or area under the curve",
            ticks=_ticks(results),
            log_x=True,
            y_range=(0, 1),
            columns=columns,
        ),
    ]


def _drawn(attacks: Sequence[AttackResult]) -> list[str]:
    """The attacks that have panels: those that all tasks have."""
    names = list(dict.fromkeys(name for result in attacks for name in result.names))
    return [name for name in main_figures(names) if all(name in result.clean for result in attacks)]


def _panel_title(result: AttackResult, name: str) -> str:
    short = _SHORT_ATTACKS.get(name) or "{1}, {2} pairs".format(*name.split(" "))
    return f"{titled(result.task).partition(',')[0]}: {short}"


def _attack_use_panel(use: TaskResult, result: AttackResult, name: str) -> Panel:
    kept = {(row["mechanism"], row["epsilon"]): estimate(row, use.main) for row in use.rows}
    series = tuple(
        _attack_series(
            result, name, mechanism, lambda row: estimate_of(row["figures"][name]), lambda row: kept[_setting(row)], True
        )
        for mechanism in _attacked(result, name)
    )
    level = (("without noise", estimate(use.clean, use.main)),)
    return Panel(_panel_title(result, name), series, level, result.clean[name]["chance"])


def _attack_panel(result: AttackResult, name: str) -> Panel:
    series = [
        _attack_series(result, name, mechanism, _epsilon, lambda row: estimate_of(row["figures"][name]))
        for mechanism in _attacked(result, name)
    ]
    bounded = [{**row, "bound": row["figures"][name]["bound"]} for row in result.having(name)]
    return Panel(_panel_title(result, name), (*series, _bound(bounded)), (("without noise", estimate_of(result.clean[name])),))


def _attack_series(
    result: AttackResult,
    name: str,
    mechanism: str,
    x: Callable[[Row], Estimate],
    y: Callable[[Row], Estimate],
    named: bool = False,
) -> Series:
    rows = [row for row in result.having(name) if row["mechanism"] == mechanism]
    names = tuple(number_text(row["epsilon"]) for row in rows) if named else ()
    return Series(mechanism, tuple(map(x, rows)), tuple(map(y, rows)), _STYLES[mechanism], names)


def _attacked(result: AttackResult, name: str) -> list[str]:
    return list(dict.fromkeys(row["mechanism"] for row in result.having(name)))


def _setting(row: Row) -> tuple[str, float]:
    return row["mechanism"], row["epsilon"]


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
                _bound(result.rows),
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


def _bound(rows: Sequence[Row]) -> Series:
    pure = {row["epsilon"]: row["bound"] for row in rows if row["delta"] == 0} or {row["epsilon"]: row["bound"] for row in rows}
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
