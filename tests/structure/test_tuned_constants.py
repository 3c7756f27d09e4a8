"""The table "Tuned constants" of bench/README.md has every constant of the core that only time decides, with its value."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "cpp/src"

# Names of what is done at a time, fetched ahead of its use, kept in a cache, or worth another way or thread.
TUNED = re.compile(
    r"\w*(?:at_?once|ahead|in_?cache|per_?thread)|k(?:Large)?Block(?:Samples|Elements)|kPiece|kFew\w+|kStage\w+|kShort(?!Word)\w+"
    r"|kFetched\w+|kLongRow|kFiniteRun|kRowsBytes|kFull|kOpenBits|kAnglesApart|needed|fewest_columns|long_row",
    re.IGNORECASE,
)
CONSTANT = re.compile(r"constexpr (?:std::\w+|bool|int|unsigned) (\w+) = ([^;,]+)[;,]")


def constants(sources):
    """(file, name) -> the values it has there, in their order. What another constant, a template or a type decides is not listed."""
    found = {}
    for path in sorted(sources.rglob("*.[hc]pp")):
        for name, value in CONSTANT.findall(path.read_text("utf-8")):
            if TUNED.fullmatch(name) and not re.search(r"\bk[A-Z]|L::|Words::|Steps<", value):
                found.setdefault((path.relative_to(sources).as_posix(), name), []).append(value)
    return found


def table():
    """The same, as the page has it."""
    section = (ROOT / "bench/README.md").read_text("utf-8").split("\n## Tuned constants\n")[1].split("\n## ")[0]
    found = {}
    for file, name, value in re.findall(r"^\| `([\w/.]+)` \| `(\w+)` \| `([^`]+)` \|", section, re.MULTILINE):
        found.setdefault((file, name), []).append(value)
    return found


def test_the_table_has_every_tuned_constant_with_its_value():
    assert table() == constants(SOURCES)


@pytest.mark.parametrize(
    ("line", "listed"),
    [
        ("inline constexpr std::size_t kRowBytesAhead = 4096;", {("a.hpp", "kRowBytesAhead"): ["4096"]}),
        ("    static constexpr bool needed = V::lanes < 16;", {("a.hpp", "needed"): ["V::lanes < 16"]}),
        ("constexpr std::size_t at_once = 64, vectors = at_once / V::lanes;", {("a.hpp", "at_once"): ["64"]}),
        ("constexpr std::size_t kPagesAhead = kStretchesAhead;", {}),
        ("constexpr double kLargest = 4;", {}),
    ],
)
def test_a_new_constant_is_seen(tmp_path, line, listed):
    (tmp_path / "a.hpp").write_text(line + "\n")
    assert constants(tmp_path) == listed
