"""The tables of an evaluation: for each task what is kept, and who is recognized."""

from __future__ import annotations

from collections.abc import Sequence

from hushvec_studies.evaluation.attacks.findings import AttackResult, estimate_of, title
from hushvec_studies.evaluation.attacks.measure import AREA, FPRS, PAIR, WORDS, rate_name
from hushvec_studies.evaluation.contenders import NONE
from hushvec_studies.evaluation.findings import TITLES, Row, TaskResult, dominators, estimate, verdict
from hushvec_studies.evaluation.sources import SOURCES
from hushvec_studies.evaluation.text_findings import REWRITING_TITLES, TEXT_TITLES
from hushvec_studies.harness.tables import Cell, Estimate, Heading, Table, number_text


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


def redaction_table(row: Row) -> Table:
    """What redaction protects in one data set."""
    lines = tuple((TEXT_TITLES[name], Estimate(*figure)) for name, figure in row["figures"].items())
    note = f"By the rules of hushvec.text alone, on {row['documents']:,} documents."
    return Table(
        f"{row['data']}_redaction",
        SOURCES[row["data"]].title,
        note,
        (Heading("figure", "figure"), Heading("share", "share")),
        lines,
    )


def rewriting_table(rows: Sequence[Row]) -> Table:
    """What rewritten sentences keep and give away."""
    note = (
        f"{rows[0]['documents']:,} private sentences. “Words, metric” replaces each word by the public word nearest to its noisy "
        "vector, so that a name that no public text has cannot come out; its epsilon is of a word and a unit of distance. “Text, "
        "PrivUnit” is hushvec's Rewriter on whole texts. Epsilon of a text: the most for two texts of the mean number of words. "
        "Unrelated sentences have a cosine above 0 too: an output keeps of the meaning what it has in common with its own text beyond "
        "what it has with another one."
    )
    headings = (
        Heading("method", "method"),
        Heading("epsilon", "ε", 0),
        Heading("epsilon_of_text", "ε of a text", 0),
        *(Heading(name, title) for name, title in REWRITING_TITLES.items()),
    )
    lines = tuple(
        (
            row["method"],
            number_text(float("inf") if row["epsilon"] is None else row["epsilon"]),
            row["epsilon_of_text"],
            *(Estimate(*row["figures"][name]) for name in REWRITING_TITLES),
        )
        for row in rows
    )
    return Table("rewriting", "Rewriting beside word-level metric privacy", note, headings, lines)


def other_attack_tables(result: AttackResult) -> list[Table]:
    """The attacks beside re-identification, each figure before its bound: membership, what is decoded, and inversion."""
    return [
        table for name, (heading, note) in _GROUPS.items() if (table := _group_table(result, name, heading, note)) is not None
    ]


_GROUPS = {
    "membership": (
        "Membership",
        "By likelihood ratio. Left: the adversary knows whose release it is, and asks which of two rows is behind it, or whether a "
        "guessed one is. Right (“membership”, “members”): one of every two rows of the list was released, in no order, and the "
        "adversary asks of each whether it was. “False alarms” are rows that were not released.",
    ),
    "decoded": (
        "What is decoded",
        "A linear decoder that was trained on public texts with the same noise reads which of up to 100 frequent words a text has. A "
        "stranger without the embedding model learns a linear map into its own embedding space from pairs of a public text and its "
        "release, and names the text there, out of the list.",
    ),
    "inversion": (
        "Inversion",
        "A search over texts that the embedding guides, from the public text that explains the release best. In noise the search "
        "follows the noise, and may end farther away than it began. Chance of F1 is that of the other texts, and its interval is that "
        "of the difference. The bound of F1 follows from that chance.",
    ),
}
_MEMBERSHIP = (
    *(PAIR, *(rate_name(PAIR, fpr) for fpr in FPRS)),
    *(AREA, *(rate_name("membership", fpr) for fpr in FPRS)),
)


def _group_of(name: str) -> str:
    if name in _MEMBERSHIP:
        return "membership"
    return "decoded" if name == WORDS or name.startswith("alignment") else "inversion"


def _group_table(result: AttackResult, group: str, heading: str, note: str) -> Table | None:
    names = [name for name in result.names if _group_of(name) == group]
    rows = [row for row in result.rows if any(name in row["figures"] for name in names)]
    if not rows:
        return None
    columns = [column for name in names for column in _figure_columns(result, rows, name, names)]
    headings = (*_SETTING, *(one for one, _ in columns))
    lines = tuple(
        (*setting, *(cells[place] for _, cells in columns))
        for place, setting in enumerate([(NONE, "∞"), *(_setting(row) for row in rows)])
    )
    return Table(f"{_file_name(result.task)}_{group}", heading, note, headings, lines)


def _figure_columns(
    result: AttackResult, rows: Sequence[Row], name: str, names: Sequence[str]
) -> list[tuple[Heading, list[Cell]]]:
    """A figure's column, and that of its bound unless the next figure has the same one."""
    values: list[Cell] = [estimate_of(result.clean[name]), *(estimate_of(row["figures"][name]) for row in rows)]
    bounds: list[Cell] = [None, *(row["figures"][name]["bound"] for row in rows)]
    after = names[names.index(name) + 1] if name != names[-1] else None
    shown = [(Heading(name, title(name)), values)]
    if after is None or bounds[1:] != [row["figures"][after]["bound"] for row in rows]:
        shown.append((Heading(f"{name}_bound", "bound", 4), bounds))
    return shown


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
