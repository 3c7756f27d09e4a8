"""Pages in Markdown: no line is longer than 130 characters, but for rows of tables, which cannot be broken."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
LONGEST = 130
NOT_OURS = (".git", "build", "node_modules", ".venv-test", "shared")
# Tables that programs write from results stand between two comments, with lines that name machines and files.
WRITTEN = re.compile(r"<!-- figures: \w+ -->.*?<!-- end of figures -->", re.DOTALL)


def pages():
    found = ROOT.rglob("*.md")
    return sorted(path for path in found if not set(path.relative_to(ROOT).parts[:-1]) & set(NOT_OURS))


def too_long(text):
    lines = WRITTEN.sub(lambda block: "\n" * block[0].count("\n"), text).splitlines()
    return [number for number, line in enumerate(lines, 1) if len(line) > LONGEST and not line.lstrip().startswith("|")]


def test_no_line_of_a_page_is_longer_than_one_of_code():
    long = {path.relative_to(ROOT).as_posix(): too_long(path.read_text(encoding="utf-8")) for path in pages()}
    assert {page: lines for page, lines in long.items() if lines} == {}
    assert len(long) > 100


def test_a_long_line_is_named_and_a_row_of_a_table_is_not():
    long = "word " * 27
    assert too_long(f"short\n{long}\n| {long} |\n<!-- figures: speed -->\n{long}\n<!-- end of figures -->\n{long}") == [2, 7]
