"""Logs of a study: one line of JSON for each stage, from every process, and nothing of any text."""

import json
import logging
import math
import os

import pytest
import study_stand_ins as stand_ins

from cli.command import hushvec_here
from hushvec_studies.harness.logs import LOGGER, current_file, logged_to, stage

FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"


def events(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_an_event_has_time_level_process_seconds_and_facts(tmp_path):
    with logged_to(tmp_path / "log.jsonl"), stage("search", queries=3, epsilon=math.inf) as facts:
        facts["loaded"] = True
    (event,) = events(tmp_path / "log.jsonl")
    assert list(event) == ["time", "level", "process", "event", "seconds", "queries", "epsilon", "loaded"]
    assert (event["level"], event["event"], event["queries"], event["epsilon"], event["loaded"]) == ("INFO", "search", 3, "inf", True)
    assert event["seconds"] >= 0 and event["time"].endswith("+00:00")
    assert (tmp_path / "log.jsonl").stat().st_mode & 0o777 == 0o600


def test_a_stage_that_fails_is_an_error_with_the_class_alone(tmp_path):
    with pytest.raises(ValueError), logged_to(tmp_path / "log.jsonl"), stage("corpus"):
        raise ValueError("line 3: 'Jane Doe has asthma' is not JSON")
    (event,) = events(tmp_path / "log.jsonl")
    assert (event["level"], event["event"], event["error"]) == ("ERROR", "corpus", "ValueError")
    assert "Jane" not in (tmp_path / "log.jsonl").read_text()


@pytest.mark.parametrize("fact", [["a", "b"], object(), "x" * 121, "two\nlines"])
def test_a_fact_that_could_be_a_text_or_a_vector_is_refused(fact):
    with pytest.raises((TypeError, ValueError), match="query must be"), stage("search", query=fact):
        pass


def test_events_are_appended_and_logging_is_left_as_it_was(tmp_path):
    before = LOGGER.level, list(LOGGER.handlers)
    for _ in range(2):
        with logged_to(tmp_path / "log.jsonl"), stage("search"):
            assert current_file() == tmp_path / "log.jsonl"
    assert len(events(tmp_path / "log.jsonl")) == 2
    assert (LOGGER.level, list(LOGGER.handlers)) == before and current_file() is None


def test_programs_can_listen_through_logging(caplog):
    with caplog.at_level(logging.INFO, logger="hushvec_studies"), stage("search", queries=1):
        pass
    (record,) = caplog.records
    assert (record.name, record.getMessage(), record.facts["queries"]) == ("hushvec_studies", "search", 1)


@pytest.mark.parametrize(
    "workers", [0, pytest.param(2, marks=pytest.mark.skipif(not FULL, reason="starts processes: HUSHVEC_TEST_SCALE=full"))]
)
def test_a_study_logs_every_stage_and_no_text(tmp_path, workers):
    sets = [*stand_ins.settings(tmp_path), "attack.attacks=[logistic]", "privacy.noise=[pure]"]
    log = tmp_path / "log.jsonl"
    said = [word for one in sets for word in ("--set", one)]
    done = hushvec_here("study", "run", "doc_ldp", "-o", tmp_path / "s", "--workers", workers, "--log", log, "--json", *said)
    assert done.code == 0, done.err
    found = events(log)
    names = [event["event"] for event in found]
    once = ["corpus", "model", "embedding", "inputs", "runs", "results", "study"]
    each = ["index", "search", "attack models", "attacks", "run"]
    assert sorted(names) == sorted(once + 2 * each)
    assert names[-1] == "study" and names.index("embedding") < names.index("index")
    runs = {event["config_hash"]: event for event in found if event["event"] == "run"}
    assert {event["epsilon"] for event in runs.values()} == {"inf", 20.0}
    assert len({event["process"] for event in found}) == (1 if workers == 0 else len({one["process"] for one in runs.values()}) + 1)
    content = log.read_text()
    for line in (tmp_path / "texts.jsonl").read_text().splitlines():
        words = json.loads(line)["text"].rstrip(".").split()
        assert not any(word in content for word in words)


def test_a_log_that_cannot_be_written_is_one_clear_error(tmp_path):
    said = [word for one in stand_ins.settings(tmp_path) for word in ("--set", one)]
    done = hushvec_here("study", "run", "doc_ldp", "-o", tmp_path / "s", "--workers", 0, "--log", tmp_path, *said)
    assert done.code == 2 and len(done.err.strip().splitlines()) == 1
    assert not (tmp_path / "s").exists()
