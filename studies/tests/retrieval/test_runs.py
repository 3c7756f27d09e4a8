"""Runs on disk: what is done is done once, whatever happens to the process."""

import json
import os
import random
import signal
import time
from collections import Counter

import pytest
import study_stand_ins as stand_ins
from study_stand_ins import done

from evidence.reference.sizes import scaled
from hushvec_studies.harness.measurements import Measurements
from hushvec_studies.retrieval import records as records_module
from hushvec_studies.retrieval.columns import read_rows
from hushvec_studies.retrieval.plan import planned
from hushvec_studies.retrieval.records import RESULTS, StudyFolder


@pytest.fixture
def log(tmp_path, monkeypatch):
    path = tmp_path / "log"
    path.touch()
    monkeypatch.setenv(stand_ins.LOG, str(path))
    return path


def assert_once(rows, configuration):
    """As many rows as the plan has, none twice."""
    assert Counter((row["config_hash"], row["k"]) for row in rows) == Counter({(row["config_hash"], row["k"]): 1 for row in rows})
    assert len(rows) == sum(len(run.ks) for run in planned(configuration))


def test_runs_that_are_there_are_not_done_again(tmp_path, log):
    configuration = stand_ins.small(tmp_path)
    first = done(tmp_path / "study", configuration)
    again = done(tmp_path / "study", configuration)
    assert (first.runs, first.before, again.before) == (9, 0, 9)
    assert again.rows == first.rows == read_rows(tmp_path / "study" / RESULTS)
    assert_once(first.rows, configuration)
    assert len(log.read_text().split()) == 9


def test_a_study_can_be_extended(tmp_path, log):
    done(tmp_path / "study", stand_ins.small(tmp_path, "privacy.mechanisms=[none]", "privacy.epsilons=[inf]"))
    wider = stand_ins.small(tmp_path)
    done_now = done(tmp_path / "study", wider)
    assert done_now.before == 1
    assert_once(done_now.rows, wider)


def test_a_folder_without_a_run_can_be_begun_anew(tmp_path):
    StudyFolder(tmp_path / "study").open_for(stand_ins.small(tmp_path))
    configuration = stand_ins.small(tmp_path, "seed=1")
    assert {row["seed"] for row in done(tmp_path / "study", configuration).rows} == {1}


@pytest.mark.parametrize(
    "override, named",
    [("seed=1", "seed is 2025 there and 1 here"), ("attack.shadow_models=6", "attack.shadow_models is 4 there")],
)
def test_a_folder_of_another_study_is_refused(tmp_path, override, named):
    done(tmp_path / "study", stand_ins.small(tmp_path))
    with pytest.raises(ValueError, match=named):
        done(tmp_path / "study", stand_ins.small(tmp_path, override))


def test_a_folder_of_another_version_is_refused(tmp_path, monkeypatch):
    done(tmp_path / "study", stand_ins.small(tmp_path))
    monkeypatch.setattr(records_module.hushvec, "__version__", "99")
    with pytest.raises(ValueError, match="must be a study by hushvec 99"):
        done(tmp_path / "study", stand_ins.small(tmp_path))


def test_other_texts_are_other_runs(tmp_path, log):
    configuration = stand_ins.small(tmp_path)
    done(tmp_path / "study", configuration)
    with (tmp_path / "texts.jsonl").open("a") as file:
        file.write(json.dumps({"id": "new", "text": "one two three four five six seven.", "category": "north"}) + "\n")
    assert done(tmp_path / "study", configuration).before == 0


def test_a_damaged_file_is_named(tmp_path):
    configuration = stand_ins.small(tmp_path)
    done(tmp_path / "study", configuration)
    files = sorted((tmp_path / "study" / "measured").glob("*.json"))
    whole = files[0].read_text()
    for damaged in (whole[:100], "{}", "[]", whole.replace('"k"', '"kk"')):
        files[0].write_text(damaged)
        with pytest.raises(ValueError, match=f"{files[0].name}: must be a run"):
            StudyFolder(tmp_path / "study").records()
    files[0].write_text(files[1].read_text())
    with pytest.raises(ValueError, match=f"must have the name that its key asks for, {files[1].stem}"):
        StudyFolder(tmp_path / "study").records()


def test_a_full_disk_leaves_nothing_half_written(tmp_path, monkeypatch):
    configuration = stand_ins.small(tmp_path)

    def fails(*names):
        raise OSError("no space left")

    StudyFolder(tmp_path / "study").open_for(configuration)
    with monkeypatch.context() as patched:
        patched.setattr("hushvec._util.publish.os.replace", fails)
        with pytest.raises(OSError, match="no space left"):
            done(tmp_path / "study", configuration)
    assert not list((tmp_path / "study").glob("measured/*"))
    assert_once(done(tmp_path / "study", configuration).rows, configuration)


# ---- killed ----

KILLS = scaled(3, 200)


def killed_after(seconds, folder, configuration, **others):
    """Whether a process that does the runs was still at it after so long; it is killed then."""
    child = os.fork()
    if child == 0:
        try:
            done(folder, configuration, **others)
        finally:
            os._exit(0)
    time.sleep(seconds)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_killed_at_random_moments_nothing_is_lost_or_there_twice(tmp_path, log):
    configuration = stand_ins.small(tmp_path, "privacy.epsilons=[.inf, 20, 10, 5, 2.5]")
    begun = time.perf_counter()
    whole = done(tmp_path / "whole", configuration)
    seconds = time.perf_counter() - begun
    log.write_text("")
    rng = random.Random(11)
    kills, rounds, left = 0, 0, []
    while kills < KILLS:
        folder = tmp_path / f"study {rounds}"
        while killed_after(rng.uniform(0, seconds / 3), folder, configuration):
            kills += 1
            left.append(len(list((folder / "measured").glob("[!.]*.json"))))
        rounds += 1
        resumed = done(folder, configuration)
        assert resumed.before == resumed.runs
        assert_once(resumed.rows, configuration)
        assert stand_ins.figures(resumed.rows) == stand_ins.figures(whole.rows)
        assert not [*folder.glob(".*"), *(folder / "measured").glob(".*")]
    # the kills hit studies that were under way
    assert any(0 < runs < resumed.runs for runs in left)
    # a run was done again only where a kill took it before it was in place
    assert len(log.read_text().split()) <= rounds * resumed.runs + kills


def test_a_file_written_in_place_would_be_caught(tmp_path, log, monkeypatch):
    """The mutant: a run's file that grows under its own name. A kill in the middle of it leaves a part, which does not count."""
    configuration = stand_ins.small(tmp_path)

    def save(self, one, row):
        said = json.dumps({"key": one.key, "row": row})
        self._files.mkdir()
        self._path(one.digest).write_text(said[: len(said) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Measurements, "save", save)
        with pytest.raises(KeyboardInterrupt):
            done(tmp_path / "study", configuration)
    with pytest.raises(ValueError, match="must be a run"):
        StudyFolder(tmp_path / "study").records()
    again = done(tmp_path / "study", configuration)
    assert again.before == 0
    assert_once(again.rows, configuration)


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"key": {}, "row": {}}', "\xff"])
def test_a_damaged_run_is_done_again(tmp_path, damage):
    configuration = stand_ins.small(tmp_path)
    whole = done(tmp_path / "study", configuration)
    path = sorted((tmp_path / "study" / "measured").iterdir())[0]
    path.write_bytes(damage.encode("latin-1"))
    again = done(tmp_path / "study", configuration)
    assert again.before == 8
    assert stand_ins.figures(again.rows) == stand_ins.figures(whole.rows)


def test_a_folder_of_the_first_format_is_refused(tmp_path):
    configuration = stand_ins.small(tmp_path)
    StudyFolder(tmp_path / "study").open_for(configuration)
    path = tmp_path / "study" / "study.json"
    path.write_text(path.read_text().replace('"format": 2', '"format": 1'))
    with pytest.raises(ValueError, match=r"study\.json: is not the beginning of a study of this version of hushvec"):
        done(tmp_path / "study", configuration)
