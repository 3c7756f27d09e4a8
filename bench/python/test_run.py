"""Arguments of the whole run, and results that it may be merged with."""

import json

import pytest

import run

KNOWN = {"machine": {"cpu": "one"}, "software": {}, "settings": {}}


def test_merge_without_a_file_is_refused(capsys):
    with pytest.raises(SystemExit):
        run.parse(["--merge"])
    assert "--merge needs --out" in capsys.readouterr().err


def test_results_are_kept_only_where_asked_for(tmp_path):
    path = tmp_path / "results.json"
    assert run.kept_results(run.parse(["--out", str(path), "--merge"]), KNOWN) is None
    path.write_text(json.dumps(KNOWN))
    assert run.kept_results(run.parse(["--out", str(path), "--merge"]), KNOWN) == KNOWN
    assert run.kept_results(run.parse(["--out", str(path)]), KNOWN) is None


def test_results_of_another_machine_end_the_run_before_it_begins(tmp_path, capsys):
    path = tmp_path / "results.json"
    path.write_text(json.dumps({**KNOWN, "machine": {"cpu": "two"}}))
    with pytest.raises(SystemExit, match="^2$"):
        run.main(["--out", str(path), "--merge"])
    assert "results to merge must agree in machine, they differ in" in capsys.readouterr().err
