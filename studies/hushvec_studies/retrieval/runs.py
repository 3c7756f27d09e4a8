"""Doing the runs of a study: each is a measurement in its folder, made once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import hushvec
from hushvec._util import validate
from hushvec_studies.harness.commit import commit_of
from hushvec_studies.harness.logs import Fact, stage
from hushvec_studies.harness.measurements import Measurement, measured
from hushvec_studies.harness.models import embedder
from hushvec_studies.retrieval.columns import Row
from hushvec_studies.retrieval.inputs import InputFolder, digest_of
from hushvec_studies.retrieval.plan import Run
from hushvec_studies.retrieval.records import RESULTS, Record, StudyFolder
from hushvec_studies.retrieval.run import perform
from hushvec_studies.retrieval.schema import Configuration

EMBEDDINGS = "embeddings"


Perform = Callable[[Run, Path, str, str | None], Record]


@dataclass(frozen=True)
class RunOnInputs(Measurement):
    """What one file of the folder is of.

    Args:
        run: what to do.
        inputs: folder with its vectors.
        commit: for the column git_commit.
    """

    run: Run
    inputs: Path
    commit: str | None

    @cached_property
    def key(self) -> dict[str, Any]:
        return self.run.key(digest_of(self.inputs), hushvec.__version__)

    @cached_property
    def digest(self) -> str:
        """The config_hash."""
        return self.run.fingerprint(digest_of(self.inputs), hushvec.__version__)

    @property
    def label(self) -> str:
        return self.run.label


@dataclass(frozen=True, kw_only=True)
class Done:
    """What `do_runs` did.

    Args:
        folder: of the study.
        runs: how many the command asked for.
        before: how many of them were there already.
        rows: all rows of the study, those of other commands among them.
        left_out: why documents of the source are not in the study (`data.min_tokens`, another category, second copies), and how many
            for each reason.
    """

    folder: Path
    runs: int
    before: int
    rows: list[Row]
    left_out: tuple[tuple[str, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Ready for strict JSON."""
        return {
            "folder": str(self.folder),
            "results": str(self.folder / RESULTS),
            "runs": self.runs,
            "runs_before": self.before,
            "rows": len(self.rows),
            "left_out": dict(self.left_out),
        }


def do_runs(
    configuration: Configuration,
    runs: Sequence[Run],
    folder: Path,
    *,
    workers: int = 1,
    embedder: Callable[[str], Any] = embedder,
    perform: Perform = perform,
    progress: bool = True,
) -> Done:
    """Do runs, leave out those that the folder has, and write results.csv.

    Args:
        configuration: of the study.
        runs: of hushvec_studies.retrieval.plan, for this configuration.
        folder: of the study; new, or one that was begun with this configuration.
        workers: processes, one thread each. 0: in this process, with as many threads as its libraries use, which may change the last
            bits of figures behind a public map that is fitted.
        embedder: model name -> model; used in this process only.
        perform: does a run; a function of a module, which a new process can import.
        progress: show a bar to a person.

    Returns:
        What was done.

    Raises:
        ValueError, TypeError: bad arguments; texts that cannot be used; a folder of another study.
        OSError: a file cannot be read or written.
        ChildProcessError: a worker died.

    Guarantees:
        Every run that ends is in the folder before the next one of its worker begins. Stop the study at any moment, by whatever
        signal, and the same call does the runs that are missing and no others; the figures are those of a study that was not stopped,
        for any number of workers (all but those of the clock and the machine: `hushvec_studies.retrieval.columns.OF_THE_MOMENT`).

    Edge cases:
        Several processes may work in one folder: at worst they do a run twice, and its file is there once. Whoever ends last writes
        results.csv for all. A program that calls this with workers has to do so below `if __name__ == "__main__":`, as workers
        import it.
    """
    validate.whole_number("workers", workers, at_least=0)
    place = StudyFolder(folder)
    place.open_for(configuration)
    cache = Path(configuration.embedding.cache or folder / EMBEDDINGS)
    inputs = InputFolder(place.inputs, cache, embedder, progress)
    commit = commit_of(Path.cwd())
    with stage("inputs", model=configuration.embedding.model) as facts:
        wanted = [(RunOnInputs(run, inputs.of(run), commit), partial(row_of, perform=perform)) for run in runs]
        facts["left_out"] = sum(count for _, count in inputs.left_out)
    with stage("runs", runs=len(runs), workers=workers) as facts:
        made = measured(wanted, folder, "runs", workers=workers, progress=progress)
        facts["before"] = made.before
    with stage("results") as facts:
        rows = place.write_results()
        facts["rows"] = len(rows)
    return Done(folder=folder, runs=len(made.rows), before=made.before, rows=rows, left_out=inputs.left_out)


def row_of(one: RunOnInputs, perform: Perform) -> dict[str, Any]:
    """Do a run; its record, ready for JSON.

    Raises:
        ValueError, TypeError: settings that do not fit the texts; the message begins with the run.
    """
    try:
        with stage("run", config_hash=one.digest, **_facts_of(one.run)):
            return perform(one.run, one.inputs, one.digest, one.commit).to_dict()
    except (ValueError, TypeError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"run {one.label!r}: {error}") from error


def _facts_of(run: Run) -> dict[str, Fact]:
    return {
        "mechanism": run.mechanism,
        "sides": "+".join(run.sides) or "none",
        "noise": "none" if run.noise is None else run.noise.name,
        "epsilon": run.epsilon,
        "projection": run.projection,
        "seed": run.configuration.seed,
    }
