"""docs/notebook.md: every block runs by itself, and what is shown as printed is what is printed."""

import re
from pathlib import Path

import pytest

GUIDE = (Path(__file__).parents[2] / "docs" / "notebook.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
(PRINTED,) = re.findall(r"```text\n(.*?)```", GUIDE, re.DOTALL)

# Identities of a ledger, and the cipher that this processor has.
_CHANGING = re.compile(r"\b[0-9a-f]{16}\b|AES-256|ChaCha20")


def without_what_changes(text):
    return _CHANGING.sub("#", text)


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.strip().splitlines()[-1][:40])
def test_blocks_run(block, capsys, monkeypatch):
    if "plot" in block:
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
    exec(compile(block, "docs/notebook.md", "exec"), {"__name__": "cell"})
    printed = capsys.readouterr().out
    if "print(" in block:
        assert without_what_changes(printed) == without_what_changes(PRINTED)
    if "plot" in block:
        import matplotlib.pyplot as plt

        assert plt.get_fignums()
        plt.close("all")


def test_there_are_blocks():
    assert len(BLOCKS) == 5 and sum("print(" in block for block in BLOCKS) == 1
