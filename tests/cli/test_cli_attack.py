"""hushvec attack: a report from files."""

import html.parser
import json
import sys

import numpy as np
import pytest

from cli.command import assert_one_line, hushvec_here
from hushvec.cli._attack_report import page

ROWS = np.random.default_rng(1).standard_normal((160, 8)).astype(np.float32)
ROTATION = np.linalg.qr(np.random.default_rng(2).standard_normal((8, 8)))[0].astype(np.float32)
NEGATE = "import sys, numpy; numpy.save(sys.argv[2], -numpy.load(sys.argv[1]))"


@pytest.fixture
def folder(tmp_path):
    np.save(tmp_path / "clean.npy", ROWS)
    np.save(tmp_path / "rotated.npy", ROWS @ ROTATION)
    np.save(tmp_path / "constant.npy", np.ones_like(ROWS))
    (tmp_path / "labels.txt").write_text("".join(f"{'up' if row[0] > 0 else 'down'}\n" for row in ROWS))
    return tmp_path


class Page(html.parser.HTMLParser):
    """Tags that are opened and closed, the texts, and whatever is loaded from elsewhere."""

    def __init__(self, text):
        super().__init__()
        self.open, self.loaded, self.texts = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.loaded += [value for name, value in attributes if name in ("src", "href")]
        if tag not in ("meta", "circle", "path"):
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


def test_a_report_from_two_files(folder):
    done = hushvec_here("attack", "clean.npy", "rotated.npy", "--labels", "labels.txt", "--pairs", 40, "-o", "report.html", cwd=folder)
    assert done.code == 1 and "rotated.npy: What protected vectors give away" in done.out
    (found,) = json.loads((folder / "report.json").read_text())["protections"]
    assert found["name"] == "rotated.npy" and found["weak"] is True and found["half"] <= 12
    pairs = next(one for one in found["findings"] if one["attack"] == "known pairs")
    assert (pairs["pairs"], pairs["value"]["value"], pairs["rows"], pairs["bound"]) == (40, 1.0, 40, None)
    report = Page((folder / "report.html").read_text())
    assert report.open == [] and report.loaded == []
    words = " ".join(report.texts)
    for part in (
        "An attack that fails proves nothing", "at most 100 % of the rows were named (known pairs)", "no bound: there is no receipt",
        "hushvec attack clean.npy rotated.npy --labels labels.txt --confidence 0.95 --alpha 0.001 --seed 2025 --output report.html "
        "--pairs 40", "AISVS 11.2.5", "SP 800-226", "28/2024", "LLM08",
    ):  # fmt: skip
        assert part in words


def test_what_a_receipt_allows_stands_beside_what_was_measured(folder):
    made = hushvec_here("privatize", "clean.npy", "-o", "private.npy", "--epsilon", 0.5, "--mechanism", "privunit", cwd=folder)
    assert made.code == 0
    done = hushvec_here(
        "attack", "clean.npy", "constant.npy", "private.npy", "--pairs", 40, "--alpha", 1e-12, "--json", cwd=folder
    )
    constant, private = json.loads(done.out)["protections"]
    assert done.code == 0 and not (folder / "report.html").exists()
    assert private["epsilon"] == 0.5 and private["no_bound"] == "" and constant["epsilon"] is None
    same = private["findings"][0]
    assert same["chance"] < same["bound"] < 0.02 and {one["bound"] for one in constant["findings"]} == {None}


def test_a_program_protects(folder):
    (folder / "negate.py").write_text(NEGATE)
    command = f"{sys.executable} negate.py {{in}} {{out}}"
    done = hushvec_here("attack", "clean.npy", "--command", command, "--pairs", 40, "--json", cwd=folder)
    (found,) = json.loads(done.out)["protections"]
    assert done.code == 1 and found["name"] == command and found["half"] <= 12


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["clean.npy"], "one of PROTECTED and --command must be given"),
        (["clean.npy", "--command", "cp a b"], "--command must name {in} and {out}, got 'cp a b'"),
        (["clean.npy", "--command", "false {in} {out}"], "--command must write {out} and end with exit code 0, got 1: nothing was"),
        (["clean.npy", "rotated.npy", "-o", "rotated.npy"], "rotated.npy: must be another name than those of the inputs"),
        (["clean.npy", "rotated.npy", "-o", "report.json"], "report.json: must be another name than those of the inputs"),
        (["clean.npy", "rotated.npy", "--pairs", "70"], "pairs must have a number up to 60"),
    ],
)
def test_bad_input(folder, arguments, words):
    assert_one_line(hushvec_here("attack", *arguments, cwd=folder), words)
    assert not list(folder.glob("report.*"))


def test_names_cannot_write_into_the_page():
    from hushvec.cli._attack_report import Measured
    from hushvec.retrieval import protection

    result = protection(ROWS, np.ones_like(ROWS), pairs=(40,), resamples=10)
    report = page([Measured("<script>alert(1)</script>.npy", result, 1.0)], "hushvec attack '<b>'", "report.json")
    assert "<script" not in report and "&lt;b&gt;" in report
