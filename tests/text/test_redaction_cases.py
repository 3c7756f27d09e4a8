"""Numbers as people write them: beside letters of other scripts, with other digits and separators, and behind the word for them.

The cases are in redaction_cases.json: kind -> [text, what must not be readable]; an empty string where the text stays as it is.
"""

import json
import random
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from hushvec.text import redact
from hushvec.text.pii import numbers
from hushvec.text.pii.document import Document

CASES = json.loads(Path(__file__).with_name("redaction_cases.json").read_text(encoding="utf-8"))
needs_stdnum = pytest.mark.skipif(find_spec("stdnum") is None, reason="python-stdnum is not installed: pip install '.[redact]'")


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=needs_stdnum if "checksum" in kind else ()) for kind in CASES])
def test_each_case(kind):
    assert len(CASES[kind]) >= 20
    shown = {text: redact(text).text for text, _ in CASES[kind]}
    wrong = [text for text, hidden in CASES[kind] if (hidden in shown[text] if hidden else shown[text] != text)]
    assert wrong == []


def test_letters_around_a_number_stay():
    assert redact("卡号4111111111111111请核对").text == "卡号[CARD]请核对"
    assert redact("番号は４５７－５５－５４６２です").text == "番号は[SSN]です"


def test_a_pattern_of_the_caller_reads_the_text_as_it_is():
    """Not the copy in which letters without capitals are blank."""
    assert redact("卡号ab卡号", patterns=["email"], custom_patterns={"sign": r"[^\w ]"}).text == "卡号ab卡号"


@needs_stdnum
def test_few_random_figures_are_a_national_number():
    """1,000 of each shape. Figures alone: 2.3% pass, so 2.5% and four standard deviations (1.9%) are allowed; other shapes: 9%."""
    chance = random.Random(5)
    find = numbers.national_number_rule().find
    draw = lambda shape: "".join(
        chance.choice("0123456789") if sign == "0" else chance.choice("ABCDEFGHIJKLMNOPQRSTUVWXYZ") if sign == "A" else sign
        for sign in shape
    )
    for shape in numbers.SHAPES:
        passed = sum(any(find(Document(draw(shape)))) for _ in range(1000)) / 1000
        if numbers.SHAPES[shape] != [""]:
            assert passed < (0.044 if shape.isdigit() else 0.15), shape


def test_without_the_package_only_the_word_counts(monkeypatch):
    """None in sys.modules makes an import fail."""
    monkeypatch.setattr(numbers, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "stdnum.it.codicefiscale", None)
    rule = numbers.national_number_rule()
    assert "python-stdnum is not installed" in rule.summary
    assert list(rule.find(Document("RSSMRA85T10A562S"))) == []
