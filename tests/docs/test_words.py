"""Prose says epsilon, delta and sigma; the letters are for formulas, plots and the cells of tables."""

import json
import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
# What is no prose: code, tables, and formulas such as e^ε / (e^ε + n - 1), ε = ln 319, 2 ln(1.25 / δ).
NO_PROSE = re.compile(r"^```.*?^```|^ {4}.*?$|`[^`\n]*`|^\|.*?$|e\^ε|[εδσ] = |/ ?[εδσ]", re.MULTILINE | re.DOTALL)


def texts():
    for path in (*DOCS.rglob("*.md"), DOCS.parent / "README.md"):
        yield path.name, path.read_text(encoding="utf-8")
    for path in DOCS.rglob("*.ipynb"):
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
        yield path.name, "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")


def prose_with_letters(text):
    return [line for line in NO_PROSE.sub("", text).splitlines() if re.search("[εδσ]", line)]


def test_prose_has_words_and_no_letters():
    assert {name: lines for name, text in texts() if (lines := prose_with_letters(text))} == {}


def test_formulas_code_and_tables_are_left_out():
    assert prose_with_letters("```python\nε\n```\n\n| ε |\n\nat most e^ε / (e^ε + n - 1), at ε = ln 319, `σ`, 2 ln(1.25/δ)\n") == []
    assert prose_with_letters("choose ε") == ["choose ε"]
