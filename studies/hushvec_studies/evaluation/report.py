"""The page of an evaluation: its tables, its figures, and what stands around them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from markupsafe import Markup

import hushvec
from hushvec_studies.evaluation.attacks.measure import AREA, FPRS, PAIR, WORDS, rate_name
from hushvec_studies.evaluation.cells import PRIVATE_QUERY, PROBE
from hushvec_studies.evaluation.collection import SENTENCES, SOURCES, titled
from hushvec_studies.evaluation.contenders import MECHANISMS, NONE
from hushvec_studies.evaluation.findings import (
    TITLES,
    AttackResult,
    Row,
    TaskResult,
    attack_results,
    dominators,
    estimate,
    estimate_of,
    main_figures,
    task_results,
    title,
    verdict,
)
from hushvec_studies.evaluation.texts import REWRITING_TITLES, TEXT_TITLES, text_sentence
from hushvec_studies.harness.charts import FAINT, Figure, Panel, Series, svg_of
from hushvec_studies.harness.pages import rendered, themed
from hushvec_studies.harness.tables import Cell, Estimate, Heading, Table, number_text

# ---- tables ----


def use_table(result: TaskResult) -> Table:
    def chosen(row: Row) -> str:
        return ", ".join(f"{one:,}" for one in dict.fromkeys(row["chosen"])) or "–"

    measures = [name for name in TITLES if any(name in row for row in result.rows)]
    clean = result.clean
    note = (
        f"{clean['queries']:,} queries or test rows, {clean['draws']} releases or splits. “Components or codes” is what was chosen on "
        "public rows, for each of them."
    )
    headings = (*_SETTING, Heading("chosen", "components or codes"), *(Heading(name, TITLES[name]) for name in measures))
    lines = tuple(
        (*_setting(row), chosen(row), *(estimate(row, name) if name in row else None for name in measures))
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


# ---- figures ----


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
    shares = (_LEAST, 0.001, 0.01, 0.1, 1)
    over_epsilon: dict[str, Any] = {"ticks": _ticks(results), "log_x": True, "columns": _COLUMNS}
    return [
        Figure(
            "frontier",
            "figures",
            "Use over attack",
            "Up is more useful, left is less recognized; numbers are epsilon. A point below and to the right of another is dominated "
            "by it if their intervals, the bars, are apart and its epsilon is no larger. Shares below 0.0001 are drawn there.",
            tuple(_use_panel(result, _recognized, named=True) for result in results),
            "share of rows recognized",
            _use_label(results),
            y_range=(0, 0.5),
            **over_epsilon | {"ticks": tuple((one, f"{one:g}") for one in shares)},
        ),
        Figure(
            "use",
            "figures",
            "Use over epsilon",
            "The dotted line is the same use without noise.",
            tuple(_use_panel(result, _epsilon) for result in results),
            "epsilon of a row",
            _use_label(results),
            y_range=(0, 0.5),
            **over_epsilon,
        ),
        Figure(
            "attack",
            "figures",
            "Attack over epsilon",
            "The share of rows that an adversary with the clean list recognizes. The dashed line is the most that any attack can, on "
            "any list of this length, where delta is 0.",
            tuple(
                Panel(titled(one.name), (*_series(one.rows, _epsilon, partial(estimate, name="attack")), _bound(one.rows)))
                for one in results
            ),
            "epsilon of a row",
            "share of rows recognized",
            y_range=(0, 1),
            **over_epsilon,
        ),
    ]


def attack_figures(results: Sequence[TaskResult], attacks: Sequence[AttackResult]) -> list[Figure]:
    """The attacks beside re-identification: use over attack, and attack over epsilon, a panel for each attack and task; those that all
    tasks have."""
    names = list(dict.fromkeys(name for result in attacks for name in result.names))
    common = [name for name in main_figures(names) if all(name in result.clean for result in attacks)]
    drawn = [(name, result) for name in common for result in attacks]
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


def _panel_title(result: AttackResult, name: str) -> str:
    short = _SHORT_ATTACKS.get(name) or "{1}, {2} pairs".format(*name.split(" "))
    return f"{titled(result.task).partition(',')[0]}: {short}"


def _attack_use_panel(use: TaskResult, result: AttackResult, name: str) -> Panel:
    kept = {(row["mechanism"], row["epsilon"]): estimate(row, use.main) for row in use.rows}
    reached, level = partial(_reached, name=name), (("without noise", estimate(use.clean, use.main)),)
    series = _series(result.having(name), reached, lambda row: kept[row["mechanism"], row["epsilon"]], named=True)
    return Panel(_panel_title(result, name), series, level, result.clean[name]["chance"])


def _attack_panel(result: AttackResult, name: str) -> Panel:
    rows, level = result.having(name), (("without noise", estimate_of(result.clean[name])),)
    bound = _bound([{**row, "bound": row["figures"][name]["bound"]} for row in rows])
    return Panel(_panel_title(result, name), (*_series(rows, _epsilon, partial(_reached, name=name)), bound), level)


def _use_panel(result: TaskResult, x: Callable[[Row], Estimate], named: bool = False) -> Panel:
    """The use of every mechanism, and a line for that without noise."""
    use = partial(estimate, name=result.main)
    return Panel(titled(result.name), _series(result.rows, x, use, named), (("without noise", use(result.clean)),))


def _series(
    rows: Sequence[Row], x: Callable[[Row], Estimate], y: Callable[[Row], Estimate], named: bool = False
) -> tuple[Series, ...]:
    """A line for each mechanism."""
    lines = []
    for mechanism in dict.fromkeys(row["mechanism"] for row in rows):
        own = [row for row in rows if row["mechanism"] == mechanism]
        names = tuple(number_text(row["epsilon"]) for row in own) if named else ()
        lines.append(Series(mechanism, tuple(map(x, own)), tuple(map(y, own)), _STYLES[mechanism], names))
    return tuple(lines)


def _bound(rows: Sequence[Row]) -> Series:
    pure = {row["epsilon"]: row["bound"] for row in rows if row["delta"] == 0} or {row["epsilon"]: row["bound"] for row in rows}
    x, y = (tuple(map(Estimate, values)) for values in zip(*sorted(pure.items())))
    return Series("bound of the claim", x, y, FAINT, kind="theory")


def _epsilon(row: Row) -> Estimate:
    return Estimate(row["epsilon"])


def _reached(row: Row, name: str) -> Estimate:
    return estimate_of(row["figures"][name])


def _recognized(row: Row) -> Estimate:
    """The share of rows recognized, where a logarithmic axis can show it."""
    return Estimate(*(max(one, _LEAST) for one in row["attack"]))


def _ticks(results: Sequence[TaskResult]) -> tuple[tuple[float, str], ...]:
    epsilons = sorted({row["epsilon"] for result in results for row in result.rows})
    return tuple((one, number_text(one)) for one in epsilons)


def _use_label(results: Sequence[TaskResult]) -> str:
    return " or ".join(dict.fromkeys(_SHORT.get(result.main, TITLES[result.main]) for result in results))


# ---- the page ----


# What the mechanisms and the attack are, for a reader who meets them here.
_MECHANISMS = (
    ("privunit", "the direction of a row by PrivUnitG, delta 0; no public data"),
    ("gaussian", "Gaussian noise; no public data"),
    ("laplacian, l2 laplace", "Laplace noise on each element, or of the Euclidean length; delta 0, no public data"),
    ("whitened privunit, whitened gaussian", "the same behind a whitening map that was fitted on public rows"),
    ("public codebook", "one of the codes of a k-means of public rows, by randomized response, delta 0"),
    (
        "private query",
        "the question is released by a codebook or PrivUnit; the asker ranks 50 documents with the clean question",
    ),
)


def page_of(study: Mapping[str, Any]) -> str:
    """The whole HTML document, from what evaluation.json holds."""
    results, settings = task_results(study["rows"]), study["settings"]
    attacks = attack_results(study["attacks"])
    return rendered(
        "evaluation.html",
        title="Evaluation of private embeddings",
        note=study["note"],
        facts=_facts(study),
        figures=[_figure(figure, study["command"]) for figure in evaluation_figures(results)],
        tasks=[
            {
                "name": f"task-{number}",
                "title": titled(result.name),
                **said,
                "tables": [use_table(result), attack_table(result, settings["success"])],
                "command": study["commands"][result.name],
            }
            for number, (result, said) in enumerate(zip(results, study["findings"]))
        ],
        attack_figures=[_figure(figure, study["command"]) for figure in attack_figures(results, attacks)],
        attacks=[
            {
                "name": f"attacks-{number}",
                "title": titled(result.task),
                **said,
                "tables": other_attack_tables(result),
                "command": study["commands"][result.task],
            }
            for number, (result, said) in enumerate(zip(attacks, study["attack_findings"]))
        ],
        texts=[
            {"sentence": text_sentence(row), "table": redaction_table(row), "command": study["commands"][row["data"]]}
            for row in study["texts"]
        ],
        rewriting=rewriting_table(study["rewriting"]) if study["rewriting"] else None,
        rewriting_command=study["commands"].get(SENTENCES.name),
        mechanisms=_MECHANISMS,
        sources=[
            (source["title"], source["files"], source["origin"], source["license"], source["reference"], source["left_out"])
            for source in study["sources"]
        ],
        success=f"{100 * settings['success']:g} %",
        confidence=f"{100 * settings['confidence']:g} %",
        version=hushvec.__version__,
    )


def _figure(figure: Figure, command: str) -> dict[str, Any]:
    """A figure with the command that measures it again in its caption."""
    caption = Markup("{} Reproduce: <code>{}</code>").format(figure.caption, command)
    return {"title": figure.title, "caption": caption, "svg": themed(svg_of(figure))}


def _facts(study: Mapping[str, Any]) -> list[tuple[str, str]]:
    settings, around = study["settings"], study["surroundings"]
    rows: Sequence[Mapping[str, Any]] = [*study["rows"], *study["attacks"]]
    return [
        ("measurements", f"{len(rows):,}"),
        ("processor time", f"{sum(row['seconds'] for row in rows) / 60:.0f} minutes, without embedding the data"),
        ("machine", f"{around['processor']}, {around['cores']} cores"),
        ("embedding model", settings["model"]),
        ("delta of Gaussian noise", f"{settings['delta']:g}"),
        ("seed", str(settings["seed"])),
        ("hushvec", around["hushvec"]),
        ("Python", around["python"]),
    ]
