"""The page of an evaluation: its tables, its figure, and what stands around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import hushvec
from hushvec_studies.evaluation.attacks.measure import AREA, FPRS, PAIR, WORDS, rate_name
from hushvec_studies.evaluation.cells import PRIVATE_QUERY, PROBE
from hushvec_studies.evaluation.collection import titled
from hushvec_studies.evaluation.contenders import MECHANISMS, NONE
from hushvec_studies.evaluation.findings import (
    TITLES,
    AttackResult,
    Row,
    TaskResult,
    attack_results,
    estimate,
    estimate_of,
    task_results,
    title,
    verdict,
)
from hushvec_studies.evaluation.texts import REWRITING_TITLES
from hushvec_studies.harness.charts import Figure, Panel, Series, svg_of
from hushvec_studies.harness.pages import rendered, themed
from hushvec_studies.harness.tables import Cell, Estimate, Heading, Table, number_text

# ---- tables ----

def use_table(result: TaskResult) -> Table:
    measures = [name for name in TITLES if any(name in row for row in result.rows)]
    clean = result.clean
    note = f"{clean['queries']:,} queries or test rows, {clean['draws']} releases or splits."
    headings = (*_SETTING, *(Heading(name, TITLES[name]) for name in measures))
    lines = tuple(
        (*_setting(row), *(estimate(row, name) if name in row else None for name in measures)) for row in (clean, *result.rows)
    )
    return Table(f"{_file_name(result.name)}_use", "What is kept", note, headings, lines)


def attack_table(result: TaskResult, success: float) -> Table:
    """Who is recognized at every setting, beside what the claim allows."""
    note = f"The adversary has a list of {result.clean['candidates']:,} clean rows."
    headings = (
        *_SETTING,
        Heading(result.main, TITLES[result.main]),
        Heading("attack", "rows recognized", 4),
        Heading("bound", "bound of the claim", 4),
        Heading("top_1_bound", "bound, independent rows", 4),
        Heading("verdict", "the attack"),
    )
    lines = tuple(
        (*_setting(row), estimate(row, result.main), estimate(row, "attack"), row["bound"], row["top_1_bound"], verdict(row, success))
        for row in (result.clean, *result.rows)
    )
    return Table(f"{_file_name(result.name)}_attack", "Who is recognized", note, headings, lines)


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
    headings = (*_SETTING, *(one for name in names for one in (Heading(name, title(name)), Heading(f"{name}_bound", "bound", 4))))
    every = [{"mechanism": NONE, "epsilon": None, "figures": result.clean}, *rows]
    lines = tuple(
        (*_setting(row), *(cell for name in names for cell in (estimate_of(row["figures"][name]), row["figures"][name]["bound"])))
        for row in every
    )
    return Table(f"{_file_name(result.task)}_{group}", heading, note, headings, lines)


_SETTING = (Heading("mechanism", "mechanism"), Heading("epsilon", "ε", 0))


def _setting(row: Row) -> tuple[Cell, ...]:
    return row["mechanism"], number_text(float("inf") if row["epsilon"] is None else row["epsilon"])


def _file_name(task: str) -> str:
    return "".join(letter if letter.isalnum() else "_" for letter in task.replace(", ", "_"))


# ---- the figure ----

_LEAST = 0.0001  # of a share on a logarithmic axis


def frontier(results: Sequence[TaskResult]) -> Figure:
    """Use over attack, a panel for each task."""
    measures = dict.fromkeys("accuracy" if result.main == PROBE else TITLES[result.main] for result in results)
    return Figure(
        "frontier",
        "figures",
        "Use over attack",
        "Up is more useful, left is less recognized; numbers are epsilon, bars are intervals, and the dotted line is the use without "
        "noise. Shares below 0.0001 are drawn there.",
        tuple(Panel(titled(one.name), _series(one), (("without noise", estimate(one.clean, one.main)),)) for one in results),
        "share of rows recognized",
        " or ".join(measures),
        ticks=tuple((one, f"{one:g}") for one in (_LEAST, 0.001, 0.01, 0.1, 1)),
        log_x=True,
        y_range=(0, 0.5),
        columns=3,
    )


def _series(result: TaskResult) -> tuple[Series, ...]:
    """A line for each mechanism."""
    lines = []
    for style, mechanism in enumerate((*MECHANISMS, PRIVATE_QUERY)):
        own = [row for row in result.rows if row["mechanism"] == mechanism]
        if own:
            recognized = tuple(Estimate(*(max(one, _LEAST) for one in row["attack"])) for row in own)
            names = tuple(number_text(row["epsilon"]) for row in own)
            lines.append(Series(mechanism, recognized, tuple(estimate(row, result.main) for row in own), style, names))
    return tuple(lines)


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
    results, attacks, settings = task_results(study["rows"]), attack_results(study["attacks"]), study["settings"]
    return rendered(
        "evaluation.html",
        title="Evaluation of private embeddings",
        note=study["note"],
        facts=_facts(study),
        figures=[
            {"title": one.title, "caption": one.caption, "svg": themed(svg_of(one))}
            for one in ([frontier(results)] if results else [])
        ],
        tasks=[
            {
                "name": f"task-{number}",
                "title": titled(result.name),
                **said,
                "tables": [use_table(result), attack_table(result, settings["success"])],
            }
            for number, (result, said) in enumerate(zip(results, study["findings"]))
        ],
        attacks=[
            {
                "name": f"attacks-{number}",
                "title": titled(result.task),
                **said,
                "tables": other_attack_tables(result),
            }
            for number, (result, said) in enumerate(zip(attacks, study["attack_findings"]))
        ],
        rewriting=rewriting_table(study["rewriting"]) if study["rewriting"] else None,
        mechanisms=_MECHANISMS,
        sources=[
            (source["title"], source["files"], source["origin"], source["license"], source["reference"], source["left_out"])
            for source in study["sources"]
        ],
        success=f"{100 * settings['success']:g} %",
        confidence=f"{100 * settings['confidence']:g} %",
        version=hushvec.__version__,
    )


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
        ("command", study["command"]),
    ]
