"""What a file, a name or a ledger holds is printed, never obeyed: no escape sequence, change of direction or line break of theirs."""

import dataclasses
import json

import numpy as np
import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec, hushvec_here
from hushvec.cli._style import printable

NASTY = "\x1b[1A\x1b[2K\u202eholds\u2028\r\nholds\x9b2J\ud800\U000e0041"
SPELLED = r"\x1b[1A\x1b[2K\u202eholds\u2028\r\nholds\x9b2J\ud800\U000e0041"
STORABLE = NASTY.replace("\ud800", "").replace("\r\n", "")


def assert_harmless(text):
    assert all(letter.isprintable() or letter == "\n" for letter in text)


def test_the_spelling():
    assert printable(NASTY) == SPELLED
    assert printable("café, ü, 語") == "café, ü, 語"


@pytest.fixture
def forged(tmp_path):
    """A receipt that does not hold, and says otherwise in its notes."""
    receipt = hv.privatize(np.ones((2, 8), np.float32), epsilon=8.0).receipt
    path = tmp_path / "receipt.json"
    path.write_text(dataclasses.replace(receipt, epsilon=0.1, notes=(STORABLE,), library_version=STORABLE).to_json())
    return path


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_notes_of_a_receipt(forged, arguments):
    finished = hushvec_here("verify", forged, forged, *arguments)
    assert finished.code == 1
    assert_harmless(finished.out)
    if not arguments:
        assert finished.out.startswith("does not hold\n")
        spelled = SPELLED.replace(r"\ud800", "").replace(r"\r\n", "")
        assert "".join(spelled.split()) in "".join(finished.out.split())   # long notes go on in the next line
    else:
        assert json.loads(finished.out)["receipts"][0]["receipt"]["notes"] == [STORABLE]


def test_errors_name_files_and_fields(tmp_path):
    path = tmp_path / f"{STORABLE}.json"
    path.write_text(json.dumps({STORABLE: 1}))
    finished = hushvec("verify", path)
    assert finished.code == 2 and finished.out == ""
    assert_one_line(finished)
    assert_harmless(finished.err)


def test_rows_of_a_forged_ledger(tmp_path):
    budget = hv.PrivacyBudget(1.0)
    budget.consume(0.5, charge_id="a")
    for name, value in [("kind", STORABLE), ("charge_id", STORABLE), ("epsilon", STORABLE), (STORABLE, "")]:
        export = budget.export()
        export["rows"][1][name] = value
        path = tmp_path / "export.json"
        path.write_text(json.dumps(export))
        for arguments in ((), ("--json",)):
            finished = hushvec_here("budget", "verify", "--export", path, *arguments)
            assert finished.code in (1, 2)
            assert_harmless(finished.out + finished.err)


def test_texts_and_ids_of_an_index(tmp_path):
    folder, rows, queries, texts = (tmp_path / name for name in ("index", "rows.npy", "queries.npy", "texts.jsonl"))
    np.save(rows, np.eye(2, 8, dtype=np.float32))
    np.save(queries, np.eye(1, 8, dtype=np.float32))
    ids = tmp_path / "ids.txt"
    ids.write_text("\x1b[2Ja\nb\n")
    texts.write_text("".join(json.dumps({"id": one, "text": "\x1b[2J"}) + "\n" for one in ("\x1b[2Ja", "b")))
    built = hushvec_here("retrieve", "build", rows, "-o", folder, "--ids", ids, "--epsilon", "8", "--store", "numpy")
    assert built.code == 0, built.err
    found = hushvec_here("retrieve", "search", folder, queries, "-k", "2", "--show-text", texts)
    assert found.code == 0, found.err
    assert r"\x1b[2J" in found.out
    assert_harmless(found.out + built.out)
