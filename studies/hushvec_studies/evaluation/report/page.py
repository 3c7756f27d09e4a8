"""What the page of an evaluation shows; page.html says how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

import hushvec
from hushvec_studies.evaluation.attacks.findings import attack_choice, attack_results, attack_sentences
from hushvec_studies.evaluation.findings import choice, sentences, task_results
from hushvec_studies.evaluation.report.figures import attack_figures, evaluation_figures
from hushvec_studies.evaluation.report.tables import (
    attack_table,
    other_attack_tables,
    redaction_table,
    rewriting_table,
    use_table,
)
from hushvec_studies.evaluation.sources import SENTENCES, titled
from hushvec_studies.evaluation.text_findings import text_sentence
from hushvec_studies.harness.charts import Figure, svg_of
from hushvec_studies.harness.pages import rendered, themed

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
    attacks, use = attack_results(study["attacks"]), {result.name: result for result in results}
    return rendered(
        __package__,
        title="Evaluation of private embeddings",
        note=study["note"],
        facts=_facts(study),
        figures=[_figure(figure, study["command"]) for figure in evaluation_figures(results)],
        tasks=[
            {
                "name": f"task-{number}",
                "title": titled(result.name),
                "choice": choice(result, settings["success"]),
                "sentences": sentences(result, settings["success"]),
                "tables": [use_table(result), attack_table(result, settings["success"])],
                "command": study["commands"][result.name],
            }
            for number, result in enumerate(results)
        ],
        attack_figures=[_figure(figure, study["command"]) for figure in attack_figures(results, attacks)],
        attacks=[
            {
                "name": f"attacks-{number}",
                "title": titled(result.task),
                "choice": attack_choice(result, use[result.task], settings["success"]),
                "sentences": attack_sentences(result, use[result.task], settings["success"]),
                "tables": other_attack_tables(result),
                "command": study["commands"][result.task],
            }
            for number, result in enumerate(attacks)
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
