"""The page of the site about the command line: every command and option of the parsers, made where hushvec is not compiled too."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli.command import hushvec_here
from hushvec.cli import add_own
from hushvec.cli._map import COMMANDS
from hushvec.cli._parser import CommandParser

ROOT = Path(__file__).parents[2]
PROGRAM = ROOT / "scripts" / "site" / "command_line.py"
PAGE = ROOT / "docs" / "reference" / "command_line.md"


def printed(*arguments, sources=ROOT / "python"):
    environment = {"PYTHONPATH": str(sources), "COLUMNS": "80", "NO_COLOR": "1"}
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def page():
    return printed(PROGRAM)


def leaves(parser, words=()):
    below = parser.commands()
    if not below:
        yield words
    for name, one in below.items():
        yield from leaves(one, (*words, name))


def commands():
    parser = CommandParser(prog="hushvec")
    subparsers = parser.add_subparsers()
    for name in COMMANDS:
        add_own(subparsers, name)
    return list(leaves(parser))


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_command_and_all_that_its_help_says_is_on_the_page(words, page):
    heading = re.search(rf"^#+ hushvec {' '.join(words)}$", page, re.MULTILINE)
    assert heading, words
    section = re.split(r"^##+ ", page[heading.end() :], maxsplit=1, flags=re.MULTILINE)[0]
    said = hushvec_here(*words, "--help").out
    options = set(re.findall(r"(?m)^ {2,}(?:-\w(?: \S+)?, )?(--[a-z][\w-]*)", said)) - {"--help"}
    assert options == set(re.findall(r"(?m)^\| (?:`-\w`, )?`(--[a-z][\w-]*)", section))
    if "\nexamples:\n" in said:
        for line in said.partition("\nexamples:\n")[2].splitlines():
            assert line.strip() in section


def test_every_argument_has_a_meaning(page):
    assert re.findall(r"(?m)^\|.*\|  \|$", page) == []


def test_the_page_is_the_same_where_hushvec_is_not_compiled(page, tmp_path):
    """The sources alone, and a Python without site-packages: neither a core nor numpy."""
    shutil.copytree(ROOT / "python" / "hushvec", tmp_path / "hushvec", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    assert printed("-S", PROGRAM, sources=tmp_path) == page
    assert "Mock" not in page


def test_the_page_has_a_place_for_the_commands_and_repeats_none():
    text = PAGE.read_text(encoding="utf-8")
    assert text.count("<!-- commands -->") == 1
    assert "--epsilon" not in text


def test_sources_that_cannot_be_read_stop_the_build(tmp_path):
    """Without site-packages, where an editable installation would find its own sources first."""
    (tmp_path / "hushvec").mkdir()
    (tmp_path / "hushvec" / "__init__.py").write_text("raise ValueError('a broken source')\n")
    with pytest.raises(AssertionError, match="a broken source"):
        printed("-S", PROGRAM, sources=tmp_path)
