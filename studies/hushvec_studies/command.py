"""`hushvec study`: experiments on private retrieval, from a configuration to a report."""

from __future__ import annotations

import argparse
import math
import shlex
from collections.abc import Callable
from pathlib import Path

import hushvec
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import facts, print_json, table
from hushvec.cli._style import say
from hushvec_studies.clinical.command import DESCRIPTION as CLINICAL
from hushvec_studies.clinical.command import add_arguments, run_clinical
from hushvec_studies.evaluation.command import DESCRIPTION as EVALUATION
from hushvec_studies.evaluation.command import add_arguments as add_evaluation_arguments
from hushvec_studies.evaluation.command import run_evaluation
from hushvec_studies.harness.logs import logged_to, stage
from hushvec_studies.harness.tables import interval_text
from hushvec_studies.inverters.command import TrainInverter
from hushvec_studies.personalize.command import DESCRIPTION as PERSONALIZE
from hushvec_studies.personalize.command import add_arguments as add_personalize_arguments
from hushvec_studies.personalize.command import run_personalize
from hushvec_studies.protections.command import DESCRIPTION as PROTECTIONS
from hushvec_studies.protections.command import add_arguments as add_protections_arguments
from hushvec_studies.protections.command import run_protections
from hushvec_studies.retrieval.columns import Row, columns_text
from hushvec_studies.retrieval.configuration import Configuration, load_configuration, settings_text, shipped
from hushvec_studies.retrieval.findings import epsilon_of, finding
from hushvec_studies.retrieval.plan import Run, ablations, grid, planned, robustness
from hushvec_studies.retrieval.points import TPR
from hushvec_studies.retrieval.records import RESULTS, StudyFolder

_PLANS: dict[str, tuple[Callable[[Configuration], list[Run]], str]] = {
    "run": (planned, "the runs that a configuration lists"),
    "grid": (grid, "every mechanism with every noise, epsilon and k of a configuration"),
    "ablate": (ablations, "the runs again with one setting at a time changed"),
    "robustness": (robustness, "the runs again on other splits, models and seeds"),
}


def add_to(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "study",
        help="measure private retrieval: utility and attacks",
        description="Studies of private retrieval (docs/studies.md).",
    )
    commands = parser.add_subparsers(required=True, metavar="ACTION")
    for name, (plan, does) in _PLANS.items():
        _add_plan(commands, name, plan, does)
    report = add_command(
        commands,
        "report",
        _report,
        help="tables, figures and a page from the runs of a folder",
        description="Write tables (CSV, LaTeX), figures and report.html into the folder of a study, from the runs that are done.\n\n"
        + columns_text(),
    )
    report.add_argument("folder", metavar="DIR", type=Path, help="folder of a study")
    add_arguments(
        add_command(commands, "clinical", run_clinical, help="patients' vectors under local noise", description=CLINICAL)
    )
    add_evaluation_arguments(
        add_command(
            commands,
            "evaluation",
            run_evaluation,
            help="search, classification and attacks on benchmarks or your own data",
            description=EVALUATION,
        )
    )
    add_personalize_arguments(
        add_command(
            commands, "personalize", run_personalize, help="a language model that learns private notes", description=PERSONALIZE
        )
    )
    add_protections_arguments(
        add_command(
            commands, "protections", run_protections, help="what attacks read from rotated, encrypted and noisy vectors",
            description=PROTECTIONS,
        )
    )
    TrainInverter.add_to(commands, "train-inverter")


def _add_plan(commands: Subparsers, name: str, plan: Callable[[Configuration], list[Run]], does: str) -> None:
    parser = add_command(
        commands,
        name,
        lambda options: _run(options, plan),
        help=does,
        description=(
            f"Do {does}.\n\n"
            "Runs that the folder has are not done again: after an interruption the same command goes on. The noise of a study comes\n"
            "from its seed, so nothing that a study writes is a private release.\n\n"
            f"shipped configurations: {', '.join(shipped())}\n\n{settings_text()}"
        ),
        examples=(
            ("the records that ship with hushvec: no download, a few minutes", f"hushvec study {name} records --workers 2"),
            ("tables, figures and a page of what is done", "hushvec study report study-records"),
        ),
    )
    parser.add_argument("configuration", metavar="CONFIG", help="a YAML file, or the name of a shipped configuration")
    parser.add_argument("-o", "--output", metavar="DIR", type=Path, help="folder of the study (default: study-NAME)")
    parser.add_argument(
        "--set", metavar="KEY=VALUE", action="append", default=[], help="another value for a setting; may be repeated"
    )
    parser.add_argument("--workers", type=int, default=1, metavar="N", help="processes, one thread each (default 1; 0: this one)")
    parser.add_argument("--log", metavar="FILE", type=Path, help="append one line of JSON for each stage; no text of a document")


def _run(options: argparse.Namespace, plan: Callable[[Configuration], list[Run]]) -> int:
    configuration = load_configuration(options.configuration, options.set)
    runs = plan(configuration)
    from hushvec_studies.retrieval.runs import do_runs

    folder = options.output or Path(f"study-{configuration.name}")
    with logged_to(options.log), stage("study", study=configuration.name, version=hushvec.__version__):
        done = do_runs(configuration, runs, folder, workers=options.workers)
    found = finding(done.rows)
    if options.json:
        print_json(done.to_dict() | found.to_dict())
        return 0
    print(table_of(done.rows))
    print()
    say(*found.sentences, "")
    print(
        facts(
            [
                ("runs", f"{done.runs}, {done.before} of them from before"),
                ("rows", f"{len(done.rows)} in {folder / RESULTS}"),
                ("documents left out", ", ".join(f"{count:,} {reason}" for reason, count in done.left_out) or "none"),
                ("page", f"hushvec study report {shlex.quote(str(folder))}"),
            ]
        )
    )
    return 0


def _report(options: argparse.Namespace) -> int:
    StudyFolder(options.folder).configuration()
    rows = StudyFolder(options.folder).write_results()
    if not rows:
        raise ValueError(f"{options.folder}: no run of this study is done yet")
    from hushvec_studies.retrieval.report import write_report

    page = write_report(options.folder)
    found = finding(rows)
    if options.json:
        print_json({"report": str(page), "rows": len(rows)} | found.to_dict())
        return 0
    print(table_of(rows))
    say("", str(page), *found.sentences)
    return 0


def table_of(rows: list[Row]) -> str:
    """One line for each run, at its largest k: docs/studies.md shows some of them."""
    shown = [row for row in rows if row["k"] == max(other["k"] for other in rows if other["run_id"] == row["run_id"])]
    header = ("sides", "noise", "epsilon", "k", "recall at 1", "recall at k", "same category in 10", *_AREAS.values(), "TPR at 1 %")
    return table((*header, "bound"), [line(row) for row in shown])


_AREAS = {"mia_auc": "AUC logistic", "lira_auc": "AUC likelihood", "released_auc": "AUC rows"}


def line(row: Row) -> tuple[str, ...]:
    noise = {row[name] for name in ("noise_doc", "noise_query", "noise_score")} - {"none"}
    known = ", ".join(sorted(noise)) or "none"
    rates = [row[name] for name in TPR[0.01] if row[name] is not None]
    return (
        row["sides"],
        known if row["projection"] == "none" else f"{known}, {row['projection']}",
        f"{epsilon_of(row):g}",
        str(row["k"]),
        *(interval(row, name) for name in ("recall_at_1", "recall_at_k", "category_precision_at_10", *_AREAS)),
        interval(row, strongest(row)) if rates else "-",
        # what the claim allows the rate of true positives at 1 % false ones
        "-" if row["epsilon_claimed"] in (None, math.inf) else f"{row['tpr_0.01_fpr_bound']:.3g}",
    )


def strongest(row: Row) -> str:
    """The column of the largest rate of true positives at 1 % false ones."""
    return max((name for name in TPR[0.01] if row[name] is not None), key=lambda name: float(row[name]))


def interval(row: Row, name: str) -> str:
    return "-" if row[name] is None else interval_text(row[name], row[f"{name}_ci_lower"], row[f"{name}_ci_upper"])
