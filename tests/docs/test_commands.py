"""Every line of README.md and docs that runs hushvec exits with 0, page by page, in a folder with the files that a reader brings."""

import json
import re
import shlex

import numpy as np
import pytest

import hushvec as hv
from cli.command import hushvec_here
from docs.blocks import command_blocks, pages

PAGES = [page for page in pages() if command_blocks(page)]
THINGS, STATES = ("invoice", "scan", "train", "garden", "meeting"), ("late", "clear", "new")
SENTENCES = [f"The {thing} is {state}." for thing in THINGS for state in STATES]

# Words of a line, and why it cannot run here.
NOT_HERE = {
    "hushvec serve": "it runs until it is stopped, or needs a policy; tests/serve runs it",
    "hushvec ui": "it runs until it is stopped; tests/serve runs it",
    "hushvec attack": "its exit code says what it found; tests/cli/test_cli_attack.py runs it",
    "hushvec study": "it takes minutes to hours; studies/tests runs the studies on little data",
    "spacy=en_core_web_sm": "the pipeline is a package of its own; tests/integrations/test_detectors.py has one of rules",
    "jxm/gtr__nq__32": "it downloads checkpoints",
}


@pytest.fixture
def files(monkeypatch, tmp_path):
    """What the pages take for granted: vectors, texts, and three ledgers."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUSHVEC_BUDGET_STORE", str(tmp_path / "budget.sqlite"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    rng = np.random.default_rng(0)
    for name, rows in (("vectors", 200), ("rows", 200), ("public", 300), ("queries", 3)):
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((rows, 384), np.float32))
    (tmp_path / "ids.txt").write_text("".join(f"row {number}\n" for number in range(200)))
    (tmp_path / "letter.txt").write_text("Dear Jane Doe, the scan is clear. Write to jane@example.com.\n")
    for name in ("notes.txt", "public.txt"):
        (tmp_path / name).write_text("\n".join(SENTENCES) + "\n")
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "jane.txt").write_text("The scan of Jane Doe is clear.\n")
    tickets = [{"id": number, "body": sentence} for number, sentence in enumerate(SENTENCES[:3])]
    (tmp_path / "tickets.jsonl").write_text("".join(json.dumps(ticket) + "\n" for ticket in tickets))
    notes = [{"text": sentence, "topic": ("billing", "travel", "health")[n % 3]} for n, sentence in enumerate(SENTENCES)]
    for name in ("notes.jsonl", "new_notes.jsonl"):
        (tmp_path / name).write_text("".join(json.dumps(note) + "\n" for note in notes))
    rows = "".join(f"{ticket['id']},{ticket['body']}\n" for ticket in tickets)
    (tmp_path / "tickets.csv").write_text("id,body\n" + rows)
    (tmp_path / "answer.txt").write_text("It was settled.\n")
    for key in ("medical-notes", "notes", "patients"):
        with hv.PrivacyBudget(max_epsilon=1000.0, persist_key=key) as budget:
            budget.consume(1.0)
    return tmp_path


def lines_here(page):
    lines = [line for block in command_blocks(page) for line in block.code.splitlines()]
    return [line for line in lines if not any(words in line for words in NOT_HERE)]


@pytest.mark.parametrize("page", list(filter(lines_here, PAGES)))
def test_the_commands_of_a_page_run(page, files):
    for line in lines_here(page):
        piped = re.match(r"cat (\S+) \| (.*)", line)
        stdin, command = ((files / piped[1]).read_bytes(), piped[2]) if piped else (b"", line)
        finished = hushvec_here(*shlex.split(command, comments=True)[1:], stdin=stdin)
        assert finished.code == 0, (line, finished.err)


@pytest.mark.parametrize("words", NOT_HERE)
def test_a_line_that_is_left_out_is_on_a_page(words):
    assert any(words in block.code for page in PAGES for block in command_blocks(page))
