"""Text in escapes: what a rule finds in plain text it finds percent-encoded, in HTML entities, in JSON's escapes, and in two of them.

What is left is decoded by the standard library, over and over, and the secret must not be in it.
"""

import html
import itertools
import json
import re
from urllib.parse import quote, unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushvec.text import Pseudonymizer, Span, redact, restore
from hushvec.text.pii.document import Document, Shadow
from text.rebuilt import assert_rebuilt

SECRETS = {
    "mail": "jane.doe@example.com",
    "phone": "+1 415-555-2671",
    "card": "4111 1111 1111 1111",
    "iban": "DE89 3704 0044 0532 0130 00",
    "ssn": "457-55-5462",
    "address": "203.0.113.7",
    "url": "https://example.com/u/jane",
    "name": "my name is José García",
    "token": "AKIAIOSFODNN7EXAMPLE",
}
SIGNS = re.compile(r"[^A-Za-z0-9]")
WRITTEN = {
    "percent": lambda text: quote(text, safe=""),
    "percent small": lambda text: re.sub("%..", lambda one: one[0].lower(), quote(text, safe="")),
    "percent all": lambda text: "".join(f"%{byte:02X}" for byte in text.encode()),
    "percent u": lambda text: SIGNS.sub(lambda one: f"%u{ord(one[0]):04X}", text),
    "decimal": lambda text: SIGNS.sub(lambda one: f"&#{ord(one[0])};", text),
    "decimal all": lambda text: "".join(f"&#{ord(one):06d};" for one in text),
    "hexadecimal": lambda text: "".join(f"&#x{ord(one):x};" for one in text),
    "named": lambda text: "".join({"@": "&commat;", "+": "&plus;", ".": "&period;", " ": "&nbsp;"}.get(one, one) for one in text),
    "json": lambda text: "".join(f"\\u{ord(one):04x}" for one in text),
    "json string": lambda text: json.dumps(text)[1:-1].replace("/", "\\/"),
    "json of signs": lambda text: SIGNS.sub(lambda one: f"\\u{ord(one[0]):04X}", text),
    "program": lambda text: "".join(f"\\x{ord(one):02x}" if ord(one) < 256 else one for one in text),
    "braces": lambda text: SIGNS.sub(lambda one: f"\\u{{{ord(one[0]):x}}}", text),
    "markdown": lambda text: re.sub(r"[.@+/-]", lambda one: "\\" + one[0], text),
}
AROUND = ("{}", "the value is {} now", "a=1&q={}&b=2", '{{"text": "{}"}}', "<p>{}</p>", "{}, ok?\nbye")


BACKSLASHED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]+)\}|([^\w\s]))")


def plain(text):
    """Decoded until nothing changes, by other means than the rules use."""
    for _ in range(8):
        before = text
        text = BACKSLASHED.sub(lambda one: one[4] or chr(int(one[1] or one[2] or one[3], 16)), text)
        text = re.sub(r"%u([0-9a-fA-F]{4})", lambda one: chr(int(one[1], 16)), text)
        text = html.unescape(unquote(text)).replace("\u00a0", " ")
        if text == before:
            break
    return text


def lines_that_show(secret, lines):
    """Lines of which the secret can be decoded after redaction; it can be before."""
    name = secret.removeprefix("my name is ")
    assert all(name in plain(line) for line in lines)
    shown = redact("\n\n".join(lines)).text.split("\n\n")
    assert len(shown) == len(lines)
    return [line for line, left in zip(lines, shown) if name in plain(left)]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_in_escapes_is_found(secret):
    """Wherever it is found as it is."""
    found = [around for around in AROUND if not lines_that_show(secret, [around.format(secret)])]
    assert len(found) >= len(AROUND) - 1
    assert lines_that_show(secret, [around.format(write(secret)) for write in WRITTEN.values() for around in found]) == []


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_secret_in_escapes_of_escapes_is_found(secret):
    pairs = itertools.product(WRITTEN.values(), WRITTEN.values())
    assert lines_that_show(secret, [f"the value is {again(write(secret))} now" for write, again in pairs]) == []


def test_the_check_notices_what_is_not_decoded(monkeypatch):
    monkeypatch.setattr(Document, "readings", property(lambda document: (document,)))
    assert lines_that_show(SECRETS["mail"], [WRITTEN["decimal all"](SECRETS["mail"])])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("email=jane.doe%40example.com&x=1", "[EMAIL]&x=1"),
        ("callback?phone=%2B14155552671", "callback?phone=[PHONE]"),
        ("see jane.doe&#64example.com", "see [EMAIL]"),
        (r"Hi,\nJane Doe called", r"Hi,\n[PERSON] called"),
        ("Jane%20Doe said so", "[PERSON] said so"),
        ("R&amp;D is 10%20 of it", "R&amp;D is 10%20 of it"),
        (r"C:\Users\public\new", r"C:\Users\public\new"),
        (r"\U99999999 and \u{999999} and &bogus; %ZZ %", r"\U99999999 and \u{999999} and &bogus; %ZZ %"),
        ("caf%E9 and caf%C3%A9", "caf%E9 and caf%C3%A9"),
        ("%5BEMAIL%5D stays", "%5BEMAIL%5D stays"),
        ("https://example.com/a%20b/c is it", "[URL] is it"),
        (r"\ud83d\ude00 a@b.com", r"\ud83d\ude00 [EMAIL]"),
    ],
)
def test_what_is_around_stays(text, shown):
    result = redact(text)
    assert result.text == shown
    assert [text[span.start : span.end] for span in result.spans] == [span.text for span in result.spans]
    assert redact(shown).text == shown


def test_lists_and_detectors_read_the_decoded_text_too():
    class Vander:
        def detect(self, text):
            at = text.find("Wanda V")
            return [Span(at, at + 12, "", "person", "", "vander", 0.9)] if at >= 0 else []

    text = "see W%61nda%20V%61nder at noon"
    assert redact(text, detectors=[Vander()], patterns=["email"]).text == "see [PERSON] at noon"
    assert redact(text, gazetteer={"person": ["Wanda Vander"]}, patterns=["email"]).text == "see [PERSON] at noon"
    assert redact("E%2D12 x", custom_patterns={"badge": r"E-\d\d"}).text == "[BADGE] x"
    assert redact("tell jane%40b.com", allow_categories=["email"]).text == "tell jane%40b.com"


CHARACTERS = (
    "a",
    "é",
    "%40",
    "%25",
    "&#64;",
    "&amp;",
    "\\u0040",
    "\\\\",
    "\\",
    "%",
    "&",
    ";",
    "u0040",
    "ﬁ",
    "\u0301",
    "[EMAIL]",
    "b.com",
    " ",
)


@given(st.lists(st.sampled_from(CHARACTERS), max_size=12).map("".join))
@settings(max_examples=100, deadline=None)
def test_places_of_decoded_text(text):
    """Every part of the decoded text leads to a part of the original whose own decoded text holds it, and back to at least itself."""
    shadow = Shadow(text, decoded=True)
    for start in range(len(shadow.text)):
        for end in range(start + 1, len(shadow.text) + 1):
            first, last = shadow.in_original(start, end)
            assert 0 <= first < last <= len(text)
            assert shadow.text[start:end] in Shadow(text[first:last], decoded=True).text
            back = shadow.from_original(first, last)
            assert back[0] <= start and back[1] >= end
    assert len(Document(text).readings) == (2 if shadow.is_decoded else 1)


@given(st.lists(st.sampled_from((*CHARACTERS, "a@", "jane", "415-555-0188")), max_size=12).map("".join))
@settings(max_examples=100, deadline=None)
def test_redacting_such_texts(text):
    result = redact(text)
    assert_rebuilt(text, result)
    assert redact(result.text).text == result.text


NAMES = Pseudonymizer(bytes(range(32)))
SHOWN = NAMES.pseudonymize("Jane Doe called.").text.split(" ")[0]
INSIDE = SHOWN[1:-1]
CHANGED = [
    SHOWN,
    SHOWN.lower(),
    SHOWN.title(),
    SHOWN.replace("_", r"\_"),
    SHOWN.replace("_", r"\_").replace("[", r"\[").replace("]", r"\]"),
    SHOWN.lower().replace("_", r"\_"),
    f"[**{INSIDE}**]",
    f"[`{INSIDE}`]",
    f"[_{INSIDE}_]",
    f"[ {INSIDE} ]",
    f"&#91;{INSIDE}&#93;",
    f"%5B{INSIDE}%5D",
    f"%5b{INSIDE.lower()}%5d",
    f"\\u005b{INSIDE}\\u005d",
    "".join(chr(ord(one) + 0xFEE0) for one in SHOWN),
    SHOWN[:5] + "\u200b" + SHOWN[5:],
]
BESIDE = (
    "{}",
    "**{}**",
    "__{}__",
    "*{}*",
    "`{}`",
    "ask {}, please",
    "[write](mailto:{})",
    "[{}](https://example.com)",
    "> {}",
    "{}'s",
)


@pytest.mark.parametrize("changed", CHANGED, ids=ascii)
def test_pseudonyms_come_back_as_models_change_them(changed):
    for beside in BESIDE:
        assert restore(beside.format(changed), NAMES.known) == beside.format("Jane Doe")


@pytest.mark.parametrize("changed", CHANGED, ids=ascii)
def test_a_changed_pseudonym_in_a_text_gets_one_of_its_own(changed):
    names = Pseudonymizer(bytes(range(32)), known=NAMES.known)
    text = f"Ask {changed} or a@b.com."
    shown = names.pseudonymize(text, document="b").text
    assert "[PLACEHOLDER_" in shown and changed not in shown
    assert restore(shown, names.known) == restore(shown, names.known, document="b") == text


@pytest.mark.parametrize("text", ["[organization]", "[user_organization]", "person_k3m9qxa7r2tw", "[x](y)", "[1]", "[EMAIL]"])
def test_other_brackets_stay(text):
    assert restore(text, NAMES.known) == text
