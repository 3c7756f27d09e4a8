"""What the tests of the npm package compare with (js/test/vectors) is what this package makes."""

import csv
import importlib.util
import json
from pathlib import Path

import pytest

import hushvec as hv

FOLDER = Path(__file__).resolve().parents[2] / "js/test"


@pytest.fixture(scope="module")
def make_vectors():
    spec = importlib.util.spec_from_file_location("make_vectors", FOLDER / "make_vectors.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_seeded_releases_are_those_in_the_file(make_vectors):
    lines = (FOLDER / "vectors/releases.csv").read_text().splitlines()[1:]
    assert len(lines) == make_vectors.COUNT
    for seed in range(0, make_vectors.COUNT, 20):
        *expected, split = lines[seed].split(",")
        *made, made_split = make_vectors.line_of(seed).split(",")
        assert made == expected
        assert float(made_split or 0) == pytest.approx(float(split or 0), rel=1e-13)


def test_what_is_refused_has_the_texts_in_the_file(make_vectors):
    stored = json.loads((FOLDER / "vectors/errors.json").read_text())
    assert [(one["python"], one["javascript"]) for one in stored] == make_vectors.CALLS
    assert [make_vectors.refusal(one["python"]) for one in stored] == [one["text"] for one in stored]


def test_receipts_are_judged_as_in_the_file():
    stored = json.loads((FOLDER / "vectors/receipts.json").read_text())
    for one in stored:
        found = hv.verify_receipt(json.loads(one["json"]))
        assert [found.status, list(found.reasons)] == [one["status"], one["reasons"]]
    assert {one["status"] for one in stored} == {"holds", "does not hold", "not a DP claim"}


def test_settings_cover_what_they_are_drawn_from():
    rows = list(csv.DictReader((FOLDER / "vectors/releases.csv").read_text().splitlines()))
    for name, count in dict(mechanism=3, per=2, cipher=3, format_version=2, normalize=2, renormalize=2, rows=6).items():
        assert len({row[name] for row in rows}) == count
