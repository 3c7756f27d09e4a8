"""`hushvec study evaluation`: its arguments, and the study from data to the files of its folder."""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.extend.helpers import Progress
from hushvec_studies.evaluation.attacks.decoders import require_strangers
from hushvec_studies.evaluation.collection import SOURCES, Source, own, titled
from hushvec_studies.evaluation.findings import attack_choice, attack_results, choice, task_results
from hushvec_studies.evaluation.plan import Settings, Task, Wanted, benchmark_tasks, rewritings, search_tasks
from hushvec_studies.evaluation.report import page_of
from hushvec_studies.harness.embeddings import EmbeddingCache, embedder
from hushvec_studies.harness.measurements import measured
from hushvec_studies.harness.outputs import processor, show, surroundings, write_study, write_text
from hushvec_studies.harness.settings import add_options, checked, given

NOTE = "Noise comes from a seed here, so that every figure can be reproduced: these are measurements, and no private releases."

DESCRIPTION = """\
Search and classification on public benchmarks or on your own data, over epsilon and mechanisms, beside attacks and their bounds.

Writes evaluation.html and evaluation.json into the folder, from one file for each measurement in its folder "measured": what
is there is not measured again. The benchmarks are SciFact, 20 Newsgroups and Banking77, and for rewriting Presidio's sentences; --data
names the folder of their files.
Your own data: --corpus with a BEIR folder, or with --queries and --qrels (TREC or BEIR)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the study. `--json` is the caller's."""
    parser.add_argument("-o", "--output", type=Path, required=True, metavar="DIR", help="folder of the study")
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="folder with the files of the benchmarks")
    parser.add_argument("--corpus", type=Path, metavar="PATH", help="your own documents: a BEIR folder, or a file of JSON lines")
    parser.add_argument(
        "--queries", type=Path, metavar="FILE", help="your own queries: JSON lines (default: those of the folder)"
    )
    parser.add_argument(
        "--qrels", type=Path, metavar="FILE", help="relevance judgments, TREC or BEIR (default: those of the folder)"
    )
    parser.add_argument("--embeddings", type=Path, metavar="DIR", help="folder that keeps embeddings (default: in the study's)")
    parser.add_argument("--workers", type=int, default=0, metavar="N", help="processes, one thread each (default 0: this one)")
    add_options(parser, Settings)


def run_evaluation(options: argparse.Namespace) -> int:
    """Run the study that the options ask for, write its files, and print what is found, in short, or, with options.json, all."""
    settings = checked(Settings, given(options, Settings))
    require_strangers(settings.strangers)
    if (options.data is None) == (options.corpus is None):
        raise ValueError("--data or --corpus must be given, and not both: benchmarks, or data of your own")
    if options.corpus is None and (options.queries is not None or options.qrels is not None):
        raise ValueError("--queries and --qrels must go with --corpus")
    rewriting: list[Wanted] = []
    cache = EmbeddingCache(options.embeddings or options.output / "embeddings", embedder(settings.model))
    if options.corpus is not None:
        source, collection = own(options.corpus, options.queries, options.qrels, settings.min_tokens)
        sources, tasks = [source], search_tasks(settings, _embed(cache), collection)
    else:
        sources = [SOURCES[name] for name in settings.benchmarks]
        rewriting = rewritings(settings, options.data, _embed(cache))
        tasks = benchmark_tasks(settings, options.data, _embed(cache))
    study = evaluation(settings, sources, tasks, options.output, rewriting, workers=options.workers)
    write_study(options.output / "evaluation.json", study)
    write_text(options.output / "evaluation.html", page_of(study))
    return show(options, study, list(_in_short(study, options.output / "evaluation.html")))


def _in_short(study: Mapping[str, Any], page: Path) -> Iterator[str]:
    """What a reader who chooses epsilon wants to know first."""
    attacks = {told["task"]: told["choice"] for told in study["attack_findings"]}
    for told in study["findings"]:
        yield titled(told["task"])
        yield told["choice"]
        if told["task"] in attacks:
            yield attacks[told["task"]]
        yield ""
    yield f"Every figure with its interval, and what it says: {page}"


def evaluation(
    settings: Settings,
    sources: Sequence[Source],
    tasks: Sequence[Task],
    folder: Path,
    rewriting: Sequence[Wanted] = (),
    *,
    workers: int = 0,
) -> dict[str, Any]:
    """What evaluation.json holds, after everything that is missing was measured."""
    wanted = [pair for task in tasks for pair in task.cells(settings)]
    attacking = [pair for task in tasks for pair in task.attack_cells(settings)]
    made = measured([*wanted, *attacking, *rewriting], folder, "measuring", workers=workers).rows
    rows, attacks, rewritten = ([made[one.digest] for one, _ in part] for part in (wanted, attacking, rewriting))
    results = task_results(rows)
    use = {result.name: result for result in results}
    return {
        "note": NOTE,
        "command": command_for(settings, sources),
        "settings": settings.model_dump(mode="json"),
        "surroundings": {**surroundings(), "processor": processor(), "cores": len(os.sched_getaffinity(0))},
        "sources": [_described(source, tasks) for source in sources],
        "findings": [{"task": result.name, "choice": choice(result, settings.success)} for result in results],
        "attack_findings": [
            {"task": one.task, "choice": attack_choice(one, use[one.task], settings.success)} for one in attack_results(attacks)
        ],
        "rows": rows,
        "attacks": attacks,
        "rewriting": rewritten,
    }


def command_for(settings: Settings, sources: Sequence[Source]) -> str:
    """The command that measures these sources again; DATA, DIR and the files of the user stand for the reader's own."""
    known = [source for source in sources if source.name in SOURCES]
    own = [word for pair in zip(("--corpus", "--queries", "--qrels"), sources[0].files) for word in pair]
    words = ["hushvec", "study", "evaluation", "-o", "DIR", *(["--data", "DATA"] if known else own)]
    values = {**settings.model_dump(), "benchmarks": tuple(source.name for source in known) or settings.benchmarks}
    for name, field in Settings.model_fields.items():
        if values[name] != field.default:
            listed = values[name] if isinstance(values[name], tuple) else (values[name],)
            words += [f"--{name.replace('_', '-')}", *(f"{one:g}" if isinstance(one, float) else str(one) for one in listed)]
    return shlex.join(words)


def _described(source: Source, tasks: Sequence[Task]) -> dict[str, str]:
    """A source for people, with what was left out of it."""
    left_out = dict.fromkeys(
        f"{count:,} {reason}" for task in tasks if task.data.name == source.name for reason, count in task.data.left_out
    )
    return {**source._asdict(), "files": ", ".join(source.files), "left_out": "; ".join(left_out) or "nothing"}


def _embed(cache: EmbeddingCache) -> Any:
    """A function of texts that shows how far it is."""

    def embed(texts: Sequence[str]) -> NDArray[np.float32]:
        with Progress("embedding", len(texts)) as progress:
            return cache.embed(texts, progress.advance)

    return embed
