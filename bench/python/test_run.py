"""Arguments of the whole run, and results that are merged into a file."""

import json

import pytest

import run


def test_merge_without_a_file_is_refused(capsys):
    with pytest.raises(SystemExit):
        run.parse(["--merge"])
    assert "--merge needs --out" in capsys.readouterr().err


def test_first_results_are_merged_into_no_file(tmp_path):
    record = {"machine": {}, "software": {}, "settings": {}, "workloads": {"fill": 1}, "claims": []}
    path = tmp_path / "results.json"
    assert run._kept(path, record) == record
    path.write_text(json.dumps({**record, "workloads": {"copy": 1}}))
    assert run._kept(path, record)["workloads"] == {"copy": 1, "fill": 1}
