"""The tables of an evaluation: for each task what is kept, and who is recognized."""

from __future__ import annotations

from hushvec_studies.evaluation.findings import TITLES, Row, TaskResult, dominators, estimate, verdict
from hushvec_studies.harness.tables import Cell, Heading, Table, number_text


def use_table(result: TaskResult) -> Table:
    """What every mechanism keeps at every epsilon."""
    measures = [name for name in TITLES if any(name in row for row in result.rows)]
    clean = result.clean
    note = (
        f"{clean['queries']:,} queries or test rows, {clean['draws']} releases or splits. “Components or codes” is what was chosen on "
        "public rows, for each of them."
    )
    headings = (*_SETTING, Heading("chosen", "components or codes"), *(Heading(name, TITLES[name]) for name in measures))
    lines = tuple(
        (*_setting(row), _chosen(row), *(estimate(row, name) if name in row else None for name in measures))
        for row in (clean, *result.rows)
    )
    return Table(f"{_file_name(result.name)}_use", "What is kept", note, headings, lines)


def attack_table(result: TaskResult, success: float) -> Table:
    """Who is recognized at every setting, beside what the claim allows."""
    note = (
        f"The adversary has a list of {result.clean['candidates']:,} clean rows. “Dominated by” names the most useful setting "
        "whose epsilon and delta are no larger, which is no worse in use and attack, and better in one of them with intervals that "
        "do not overlap."
    )
    headings = (
        *_SETTING,
        Heading(result.main, TITLES[result.main]),
        Heading("attack", "rows recognized", 4),
        Heading("bound", "bound of the claim", 4),
        Heading("top_1_bound", "bound, independent rows", 4),
        Heading("verdict", "the attack"),
        Heading("dominated_by", "dominated by"),
    )
    lines = tuple(_attack_line(result, row, success) for row in (result.clean, *result.rows))
    return Table(f"{_file_name(result.name)}_attack", "Who is recognized", note, headings, lines)


_SETTING = (Heading("mechanism", "mechanism"), Heading("epsilon", "ε", 0))


def _setting(row: Row) -> tuple[Cell, ...]:
    return row["mechanism"], number_text(float("inf") if row["epsilon"] is None else row["epsilon"])


def _chosen(row: Row) -> str:
    return ", ".join(f"{one:,}" for one in dict.fromkeys(row["chosen"])) or "–"


def _attack_line(result: TaskResult, row: Row, success: float) -> tuple[Cell, ...]:
    better = [] if row is result.clean else dominators(result, row)
    return (
        *_setting(row),
        estimate(row, result.main),
        estimate(row, "attack"),
        row["bound"],
        row["top_1_bound"],
        verdict(row, success),
        f"{better[0]['mechanism']}, ε {better[0]['epsilon']:g}" if better else "–",
    )


def _file_name(task: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in task.replace(", ", "_"))
