"""Every Python block of README.md and docs runs as a reader pastes it, in a fresh namespace and an empty folder."""

import re

import pytest

from docs.blocks import ABOVE, FIRST, program_of, python_blocks, pages

BLOCKS = [block for page in pages() for block in python_blocks(page)]

# Words of a block, the only one on its page that has them, and why it cannot run here.
NOT_HERE = {}
# The same for blocks that take more than some 3 s: they run with HUSHVEC_TEST_SCALE=full.
SLOW = {}
# Packages that a block needs beside those of its imports.
NEEDS = {}


def named(block, table):
    return next((value for (page, words), value in table.items() if page == block.page and words in block.code), None)


def parameters():
    for block in BLOCKS:
        marks = []
        if reason := named(block, NOT_HERE):
            marks.append(pytest.mark.skip(reason=reason))
        if named(block, SLOW):
            marks.append(pytest.mark.full)
        yield pytest.param(block, id=str(block), marks=marks)


@pytest.mark.parametrize("block", list(parameters()))
def test_a_block_runs_when_pasted(block, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HUSHVEC_BUDGET_STORE", str(tmp_path / "budget.sqlite"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    code = program_of(block)
    names = {"__name__": "__main__"}
    exec(compile(code, str(block), "exec"), names)
    assert len(names) > 1
