"""The tables line up, and a results file is whole or not there."""

import json
from pathlib import Path

import pytest

import report
from contestant import Contestant
from rounds import Outcome, Series
from workloads import standard_workloads


def test_columns_line_up():
    table = report.align([["name", "value"], ["a", "10.00"], ["longer name", "9.5"]])
    assert table.splitlines() == [
        "name         value",
        "-----------  -----",
        "a            10.00",
        "longer name    9.5",
    ]


@pytest.mark.parametrize(("slow_turns", "busy"), [(0, False), (2, True)])
def test_busy_machine_is_told_from_an_idle_one(slow_turns, busy):
    turns = [100] * (4 - slow_turns) + [150] * slow_turns
    outcome = Outcome(standard_workloads()[0])
    outcome.series["one"] = Series(Contestant(), 1, 4, turns_ns=turns)
    assert report.is_busy(outcome) is busy
    assert ("busy machine" in report.workload_table(outcome)) is busy


def test_results_file_holds_the_record(tmp_path):
    path = tmp_path / "new folder" / "result.json"
    report.write_json({"ratio": 1.5}, path)
    assert json.loads(path.read_text()) == {"ratio": 1.5}
    assert [entry.name for entry in path.parent.iterdir()] == ["result.json"]


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "result.json"
    report.write_json({"ratio": 1.5}, path)

    circular = {}
    circular["self"] = circular
    with pytest.raises(ValueError, match="Circular"):
        report.write_json(circular, path)
    assert json.loads(path.read_text()) == {"ratio": 1.5}
    assert [Path(entry).name for entry in tmp_path.iterdir()] == ["result.json"]


def record(workloads, **machine):
    claims = [{"text": f"{name} {figure}", "workload": name} for name, figure in workloads.items()]
    return {"machine": {"cpu": "one", "load_average": 0.1, **machine}, "software": {}, "settings": {"rounds": 15},
            "workloads": workloads, "claims": claims}


def test_merged_results_keep_other_tables_and_replace_those_that_ran_again():
    together = report.merged(record({"fill": 1, "copy": 1}), record({"fill": 2}, load_average=0.7))
    assert together["workloads"] == {"fill": 2, "copy": 1}
    assert [claim["text"] for claim in together["claims"]] == ["copy 1", "fill 2"]


def test_results_of_two_machines_are_not_merged():
    reason = report.disagreement(record({"fill": 1}), record({"fill": 2}, cpu="two"))
    assert reason == "results to merge must agree in machine, they differ in cpu"
    assert report.disagreement(record({"fill": 1}), record({"copy": 2}, load_average=0.7)) == ""
