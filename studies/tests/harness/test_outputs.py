"""What studies write: CSV and JSON as the shipped results have them."""

import csv
import json
from pathlib import Path

import pytest

import hushvec_studies
from hushvec_studies.harness.outputs import write_csv, write_study

RESULTS = Path(hushvec_studies.__file__).parent / "clinical" / "results"


@pytest.mark.parametrize("name", ["cohorts", "posts"])
def test_the_shipped_files_are_what_is_written(tmp_path, name):
    study = json.loads((RESULTS / name / "clinical.json").read_text(encoding="utf-8"))
    write_csv(tmp_path / "clinical.csv", study["rows"])
    write_study(tmp_path / "clinical.json", study)
    for file in ("clinical.csv", "clinical.json"):
        assert (tmp_path / file).read_bytes() == (RESULTS / name / file).read_bytes()


def test_rows_with_other_fields_leave_cells_empty(tmp_path):
    write_csv(tmp_path / "rows.csv", [{"a": 1, "b": 0.1}, {"a": None, "c": "x, y"}, {"b": True}])
    with (tmp_path / "rows.csv").open(newline="") as file:
        assert list(csv.reader(file)) == [["a", "b", "c"], ["1", "0.1", ""], ["", "", "x, y"], ["", "True", ""]]
