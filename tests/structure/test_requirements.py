"""tests/structure/requirements.txt: every row of the documents that hushvec was built from has a test, and the test is there."""

import ast
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LINES = (Path(__file__).parent / "requirements.txt").read_text("utf-8").splitlines()[1:]
DOCUMENTS = ["LocalMode", "DP-Embed-Invert", "clinical vectors", "mute-vector", "OfflineAI article"]
ROWS = [line.split(" | ") for line in LINES if not line.startswith("#")]


@cache
def functions_of(path):
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def test_every_document_has_rows_and_each_row_a_requirement_of_its_own():
    assert [line[2:] for line in LINES if line.startswith("#")] == DOCUMENTS
    assert not any(line[0] == after[0] == "#" for line, after in pairwise([*LINES, "#"]))
    assert all(len(row) == 2 for row in ROWS) and len({what for what, _ in ROWS}) == len(ROWS)


@pytest.mark.parametrize("test", sorted({test for _, test in ROWS}))
def test_the_test_that_a_row_names_exists(test):
    path, name = test.split("::")
    if path.startswith("studies/") and not (ROOT / "studies").exists():
        pytest.skip("source distributions have no studies")
    assert name.startswith("test_") and name in functions_of(path)
