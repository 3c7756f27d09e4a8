"""Processes that do runs: the same figures for any number of them, errors that say what happened."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import study_stand_ins as stand_ins
from study_stand_ins import done

from hushvec.errors import MissingExtraError
from hushvec_studies.harness.workers import _sendable, results_of
from hushvec_studies.retrieval.plan import planned
from hushvec_studies.retrieval.runs import do_runs

FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"


@pytest.mark.ranks
def test_figures_do_not_depend_on_workers(tmp_path):
    """The real run, on small data; the two workers' environment has one thread, as this process is told to have."""
    configuration = stand_ins.small(tmp_path, "privacy.noise=[pure]", "privacy.mechanisms=[doc_ldp, query_ldp]")
    runs = planned(configuration)
    here, there = (
        do_runs(configuration, runs, tmp_path / str(workers), workers=workers, embedder=stand_ins.model, progress=False)
        for workers in (0, 2)
    )
    assert stand_ins.figures(here.rows) == stand_ins.figures(there.rows)
    assert here.rows[0]["recall_at_1"] > 0.5
    assert here.rows[0]["mia_auc"] is not None


def test_a_run_that_fails_and_a_worker_that_dies(tmp_path):
    """One worker does the runs in order: the error of the first bad run comes through, with what was done before it kept."""
    configuration = stand_ins.small(tmp_path)
    with pytest.raises(ValueError, match="a run that cannot be done"):
        done(tmp_path / "study", configuration, workers=1, perform=stand_ins.perform_badly)
    others = stand_ins.small(tmp_path, "privacy.mechanisms=[none, query_ldp, score_ldp]")
    with pytest.raises(ChildProcessError, match=r"a worker died \(exit code 3\); runs that are done are kept"):
        done(tmp_path / "study", others, workers=1, perform=stand_ins.perform_badly)
    assert done(tmp_path / "study", configuration).before == 3


def test_an_error_that_cannot_be_sent_keeps_its_kind_and_message():
    """MissingExtraError takes other arguments than its message, which is all that pickle knows of it."""
    found = _sendable(MissingExtraError("a store", "faiss"))
    assert type(found) is ImportError
    assert "hushvec[faiss]" in str(found)
    error = ValueError("k must be >= 1, got 0")
    assert _sendable(error) is error


def test_no_jobs_start_no_process():
    assert list(results_of(print, [], 2)) == []


PROGRAM = """
import sys
from pathlib import Path
import study_stand_ins as stand_ins

if __name__ == "__main__":
    stand_ins.RUN_SECONDS = 0.2
    stand_ins.done(Path(sys.argv[1]) / "study", stand_ins.small(Path(sys.argv[1])), workers=2)
"""


@pytest.mark.skipif(not FULL, reason="starts processes: HUSHVEC_TEST_SCALE=full")
def test_workers_leave_when_the_study_is_killed(tmp_path):
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    path = os.pathsep.join([str(Path(__file__).parents[1]), *sys.path])
    study = subprocess.Popen([sys.executable, str(program), str(tmp_path)], env=os.environ | {"PYTHONPATH": path})
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("study/measured/[!.]*.json")):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    workers = _children(study.pid)
    os.kill(study.pid, signal.SIGKILL)
    study.wait()
    assert len(workers) >= 2
    while any(_is_there(worker) for worker in workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    configuration = stand_ins.small(tmp_path)
    resumed = done(tmp_path / "study", configuration)
    whole = done(tmp_path / "whole", configuration)
    assert stand_ins.figures(resumed.rows) == stand_ins.figures(whole.rows)


def _children(process):
    tasks = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(task) for task in tasks]


def _is_there(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
