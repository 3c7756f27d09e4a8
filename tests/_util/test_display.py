"""Sheets: the same facts as text and as a table, with nothing in them that a page or a terminal would run."""

import io
import math
import re
import time
from html.parser import HTMLParser

import numpy as np
import pytest

from hushvec._util.display import (
    WIDTH,
    Progress,
    Sheet,
    array_shown,
    as_html,
    as_text,
    at_least,
    at_most,
    confidence_of,
    plural,
    share,
    shown,
)


class Cells(HTMLParser):
    """The texts of a page, in order, and the names of its tags."""

    def __init__(self, page):
        super().__init__()
        self.texts, self.tags, self.attributes = [], [], set()
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes |= {name for name, _ in attrs}

    def handle_data(self, data):
        self.texts.append(data)


def test_lines():
    sheet = Sheet("Title", (("a", "one"), ("longer", "two"), ("", "three")), ("beware",))
    assert as_text(sheet) == "Title\n  ! beware\n  a       one\n  longer  two\n          three"
    assert as_text(Sheet("Title", ())) == "Title"
    assert as_text(Sheet("Title", (("a", ""),))) == "Title\n  a"


def test_long_texts_go_on_under_themselves():
    first, *others = as_text(Sheet("Title", (("label", "word " * 60), ("b", "x")), ("caution " * 40,))).split("\n")
    assert first == "Title" and len(others) > 5
    assert all(len(line) <= WIDTH for line in others)
    assert others[0].startswith("  ! caution") and others[1].startswith("    caution")
    assert sum(line.startswith("         word") for line in others) >= 2


def test_the_table_has_the_same_texts():
    sheet = Sheet("Title", (("a", "one"), ("b", "two")), ("beware", "and again"))
    cells = Cells(as_html(sheet))
    assert cells.texts == ["Title", "beware", "and again", "a", "one", "b", "two"]
    assert set(cells.tags) == {"table", "caption", "tbody", "tr", "th", "td"}


def test_every_text_is_escaped():
    bad = "<script>alert(1)</script>&\"'"
    page = as_html(Sheet(bad, ((bad, bad),), (bad,)))
    assert Cells(page).texts.count(bad) == 4 and "script" not in Cells(page).tags
    assert "<script" not in page
    assert not re.search(r"alert\(1\)[^<]*[\"']", page), "a quote would end an attribute"


def test_the_table_takes_the_colors_of_the_page():
    """No color of text or ground, nothing that is fetched, nothing that runs: it reads in light and dark themes, and offline."""
    page = as_html(Sheet("Title", (("a", "one"),), ("beware",)))
    assert not re.search(r"(?<!-)color:|background|url\(|http|src=|href|<style|<script|on\w+=", page)
    assert Cells(page).attributes == {"class", "style", "colspan", "scope"}


def test_control_characters_do_not_reach_a_terminal():
    text = as_text(Sheet("a\x1b[2Jb", (("label", "c\x1b]0;d\x07\u202ee"),), ("f\rg",)))
    assert all(character.isprintable() or character == "\n" for character in text)


@pytest.mark.parametrize(
    "value, up, down",
    [
        (8.0, "8.0", "8.0"),
        (1e-5, "1e-05", "1e-05"),
        (2 / 3, "0.666667", "0.666666"),
        (1.0000000001, "1.00001", "1.00000"),
        (123456789.5, "1.23457e+8", "1.23456e+8"),
        (0.0, "0.0", "0.0"),
        (math.inf, "inf", "inf"),
        (None, "-", "-"),
    ],
)
def test_figures_are_on_the_safe_side(value, up, down):
    assert (at_least(value), at_most(value)) == (up, down)
    if value:
        assert float(up) >= value >= float(down)


def test_small_words():
    assert (confidence_of(0.95), confidence_of(1 - 1e-3 / 3), confidence_of(0.999)) == ("95 %", "99.9666 %", "99.9 %")
    assert (share(0.5), share(1 / 3)) == ("50 %", "33.3 %")
    assert (plural(1, "row"), plural(2000, "row"), plural(2, "query", "queries")) == ("1 row", "2,000 rows", "2 queries")
    assert array_shown(np.zeros((2, 3), np.float32)) == "numpy float32 2 x 3"


def test_a_class_gets_both():
    @shown
    class Thing:
        def _sheet(self):
            return Sheet("Thing", (("size", "3"),))

    assert str(Thing()) == "Thing\n  size  3" and Cells(Thing()._repr_html_()).texts == ["Thing", "size", "3"]
    assert repr(Thing()).startswith("<")


def test_progress_that_was_not_drawn_leaves_the_terminal_alone(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    with Progress("rows", 4, terminal) as progress:
        progress.advance(4)
    assert terminal.getvalue() == ""


def test_a_note_stands_behind_the_numbers_until_the_next_one(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(time, "monotonic", iter(range(100)).__next__)
    with Progress("rows", 4, terminal) as progress:
        for note in (None, "one", None, "two"):
            progress.advance(1, note)
    ends = [drawn.split(" left")[-1].split("4/4")[-1] for drawn in terminal.getvalue().split("\033[K")]
    assert ends == ["", " one", " one", " two", "\r", ""]


def test_the_line_of_a_progress_is_gone_at_its_end(monkeypatch):
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(time, "monotonic", iter(range(100)).__next__)
    with Progress("rows", 4, terminal) as progress:
        progress.advance(1)
    assert terminal.getvalue().endswith("left\033[K\r\033[K")
