"""The study `protections` on rows that are made here: no package, data or model is needed."""

import numpy as np
import pytest

import hushvec as hv
from hushvec_studies.harness.rows import unit
from hushvec_studies.protections import command, measure, protections

BOUNDED = ("privunit-16", "privunit-8", "codebook-8")
NAMING = "known pairs: rows named"


def toy(rows=400, columns=16):
    rng = np.random.default_rng(0)
    labels = np.arange(rows) % 4
    vectors = unit(rng.standard_normal((rows + 40, columns)) + rng.standard_normal((4, columns))[np.arange(rows + 40) % 4])
    return measure.Collection("toy", vectors[:rows], labels, vectors[rows:])


def attacked(tmp_path, *names, **settings):
    given = {"pairs": (40,), "resamples": 20, "only": names, **settings}
    return measure.study(measure.Settings(**given), [toy()], tmp_path)


def value(found, name, what, pairs=None):
    return command.figure(found, "toy", name, what, pairs)["value"][0]


@pytest.fixture
def nothing_installed(monkeypatch):
    monkeypatch.setattr(protections, "versions", lambda name: {name: "0.1.0" if name == "hushvec" else None})


def test_pairs_name_the_rows_of_a_rotation_and_not_those_of_privunit(tmp_path, nothing_installed):
    found = attacked(tmp_path, "rotation", "privunit-8")
    rotation, privunit = found["protections"]
    assert (rotation["made_by"], rotation["weak"], rotation["epsilon"]) == (protections.OWN, True, None)
    assert (privunit["weak"], privunit["refuted"], privunit["epsilon"]) == (False, False, 8.0)
    assert value(found, "rotation", NAMING, 40) == 1.0 > 0.2 > value(found, "privunit-8", NAMING, 40)
    assert value(found, "rotation", measure.KEPT) == 1.0
    assert rotation["half"] < 20 and privunit["half"] is None
    said = command.table(found, "toy")
    assert "| rotation | 1.000 | - |" in said and " no bound |" in said and "| *chance* |" in said
    assert attacked(tmp_path, "rotation", "privunit-8")["lines"] == found["lines"]  # what is there is not measured again


def test_what_is_not_installed_is_left_out_with_a_message(tmp_path, nothing_installed, capsys):
    found = attacked(tmp_path, "hadamard", "bounded-noise", "dcpe-1", "int8")
    assert [one["protection"] for one in found["protections"]] == ["int8"]
    assert "hadamard: left out, needs hadamask, which is not installed\n" in capsys.readouterr().err
    with pytest.raises(ValueError, match=r"^only must name a protection that can be made here, got none$"):
        attacked(tmp_path, "hadamard")


@pytest.mark.parametrize("name", protections.PROTECTIONS)
def test_each_protection_has_a_row_for_each_row(name):
    data, chosen = toy(), protections.PROTECTIONS[name]
    if chosen.made_by is None:
        pytest.skip(f"needs {chosen.package}")
    values, receipt = chosen.of(data.rows, data.public, 7)
    assert len(values) == len(data.rows) and (receipt is not None) == (name in BOUNDED)
    if receipt is None:
        np.testing.assert_array_equal(chosen.of(data.rows, data.public, 7)[0], values)
    else:
        assert hv.verify_receipt(receipt).status == "holds"


def test_clean_questions_find_what_is_kept():
    data = toy()
    assert measure.kept(data.rows, data.rows).mean() == 1.0
    assert measure.kept(data.rows, np.random.default_rng(1).standard_normal(data.rows.shape)).mean() < 0.2


def test_rows_and_public_rows_are_other_texts(tmp_path, monkeypatch):
    texts = [f"text {number}" for number in range(200)]
    monkeypatch.setitem(measure.COLLECTIONS, "banking77", lambda folder: (texts, [text[-1] for text in texts]))
    asked = []

    def embed(given):
        asked.extend(given)
        return np.eye(len(given))

    made = measure.collection("banking77", tmp_path, embed, measure.Settings(rows=100, public=20))
    assert len(set(asked)) == 120 and (len(made.rows), len(made.public), len(made.labels)) == (100, 20, 100)
    assert made.labels.tolist() == [int(text[-1]) for text in asked[:100]]
