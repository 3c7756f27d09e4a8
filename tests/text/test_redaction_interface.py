"""hushvec.text.redact as a caller sees it: categories, placeholders, lists that stay, overlaps, and what a caller can get wrong."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushvec.text import Detector, Redaction, Redactor, Span, detect, redact
from hushvec.text.pii.categories import CATEGORIES, default_placeholder
from hushvec.text.pii.custom import custom_rules
from hushvec.text.pii.spans import found_at, settled

SAMPLE = "I'm Jane Doe <jane@example.com>, call 415-555-0188, SSN 457-55-5462, from 10.0.0.1."


def test_the_examples_of_the_two_source_documents():
    assert redact("Contact Jane Doe at jane@example.com or call 415-555-0188 about the merger.").text == (
        "Contact [PERSON] at [EMAIL] or call [PHONE] about the merger."
    )
    redactor = Redactor(patterns=["email", "phone", "ssn"])
    assert redactor.redact("Patient John Doe, email john@example.com, diagnosed with...").text == (
        "Patient John Doe, email [EMAIL], diagnosed with..."
    )


def test_spans_are_the_text_they_name():
    result = redact(SAMPLE)
    assert isinstance(result, Redaction)
    assert [span.placeholder for span in result.spans] == ["[PERSON]", "[EMAIL]", "[PHONE]", "[SSN]", "[IP]"]
    for span in result.spans:
        assert isinstance(span, Span)
        assert SAMPLE[span.start : span.end] == span.text
    assert rebuilt(SAMPLE, result) == result.text
    assert detect(SAMPLE) == result.spans
    assert json.loads(json.dumps(result.to_dict()))["spans"][1]["text"] == "jane@example.com"
    assert "jane" not in f"{result!r} {result.to_dict(private=False)}"
    assert result.to_dict(private=False)["spans"][1]["start"] == result.spans[1].start


def rebuilt(text, result):
    parts, position = [], 0
    for span in result.spans:
        assert span.start >= position
        parts += [text[position : span.start], span.placeholder]
        position = span.end
    return "".join(parts) + text[position:]


@pytest.mark.parametrize(
    ("patterns", "shown"),
    [
        (["email"], "[EMAIL]"),
        (["EMAIL_ADDRESS"], "[EMAIL]"),
        (["email address"], "[EMAIL]"),
        (["phone", "ssn"], "[PHONE] [SSN]"),
        (["us_ssn"], "[SSN]"),
        (["IP"], "[IP]"),
    ],
)
def test_patterns_by_category_short_name_and_rule(patterns, shown):
    result = redact(SAMPLE, patterns=patterns)
    assert " ".join(span.placeholder for span in result.spans) == shown


def test_replacements():
    assert redact("a@b.com 10.0.0.1", replacement="X").text == "X X"
    assert redact("a@b.com 10.0.0.1", replacement="").text == " "
    assert redact("a@b.com 10.0.0.1", replacement="X", replacements={"email": "<mail>"}).text == "<mail> X"
    assert redact("a@b.com 10.0.0.1", replacements={"ip address": "ip"}).text == "[EMAIL] ip"


def test_what_stays():
    assert redact(SAMPLE, allow_categories=["full person name", "ip"]).text.startswith("I'm Jane Doe <[EMAIL]>")
    assert redact("Ask a@b.com or c@d.com", allow_list=["a@b.com"]).text == "Ask a@b.com or [EMAIL]"
    assert redact("Ask A@B.com", allow_list=["a@b.com"]).text == "Ask [EMAIL]"


@pytest.mark.parametrize(
    ("text", "options", "redacted"),
    [
        ("We visited Paris.", {"allow_categories": ["location"]}, "We visited Paris."),
        ("We visited Paris.", {"allow_list": ["Paris"]}, "We visited Paris."),
        ("at the Mary Poppins Hospital.", {"allow_list": ["Mary Poppins Hospital"]}, "at the Mary Poppins Hospital."),
        ("He lives in Paris, a@b.com.", {"allow_categories": ["location"]}, "He lives in Paris, [EMAIL]."),
        ("We visited Paris with Mary Poppins.", {"allow_categories": ["location"]}, "We visited Paris with [PERSON]."),
    ],
)
def test_what_is_allowed_does_not_become_something_else(text, options, redacted):
    assert redact(text, **options).text == redacted


def test_custom_patterns():
    import re

    result = redact(
        "Badge E-10442 and order ORD9", custom_patterns={"staff number": r"E-\d{5}", "order": re.compile("ord[0-9]", re.I)}
    )
    assert result.text == "Badge [STAFF_NUMBER] and order [ORDER]"
    assert result.spans[0].rule == "custom:staff number"
    assert redact("x E-1", custom_patterns={"email": r"E-\d"}).text == "x [EMAIL]"
    assert redact("E-1 E-2", custom_patterns={"badge": r"E-\d"}, replacements={"badge": "#"}, allow_list=["E-2"]).text == "# E-2"
    assert redact("E-1", custom_patterns={"badge": r"E-\d"}, allow_categories=["badge"]).text == "E-1"


def test_gazetteer(tmp_path):
    names = {"person": ["Blorbo", "Blorbo Fnord"], "project": ["Nightjar 2"]}
    assert redact("blorbo fnord met Blorbo; Blorbos; nightjar 2!", gazetteer=names).text == (
        "[PERSON] met [PERSON]; Blorbos; [PROJECT]!"
    )
    (tmp_path / "names.txt").write_text("# ours\nperson: Blorbo\n\nproject: Nightjar 2\n")
    (tmp_path / "names.json").write_text(json.dumps(names))
    for file in ("names.txt", "names.json"):
        assert redact("see Nightjar 2", gazetteer=tmp_path / file).text == "see [PROJECT]"
        assert redact("see Nightjar 2", gazetteer=str(tmp_path / file)).text == "see [PROJECT]"


class Fixed:
    """A detector that answers with what it was given."""

    def __init__(self, *spans):
        self.spans = spans

    def detect(self, text):
        return self.spans


def span(start, end, category="animal", score=0.5):
    return Span(start, end, "ignored", category, "ignored", "fixed", score)


def test_detectors():
    detector = Fixed(span(4, 7))
    assert isinstance(detector, Detector)
    result = redact("the cat sat", detectors=[detector])
    assert result.text == "the [ANIMAL] sat"
    assert result.spans[0].text == "cat"
    assert redact("the cat sat", detectors=[detector], allow_categories=["animal"]).text == "the cat sat"
    assert redact("the cat sat", detectors=[detector], replacements={"animal": "it"}).text == "the it sat"
    assert redact("a@b.com sat", detectors=[Fixed(span(0, 11))]).text == "[EMAIL] [ANIMAL]"


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ([span(0, 99)], ValueError, "within the 3 characters"),
        ([span(2, 1)], ValueError, "within the 3 characters"),
        ([(0, 1)], TypeError, "must return Span objects, got tuple"),
        ([span(0, 1, category="")], ValueError, "1 to 48 letters"),
        ([span(0, 1, category=None)], TypeError, "got NoneType"),
        ([span(0, 1, score=float("nan"))], ValueError, "score must be finite"),
    ],
)
def test_detectors_that_answer_nonsense(answer, error, words):
    with pytest.raises(error, match=words):
        redact("abc", detectors=[Fixed(*answer)])


def test_overlaps():
    """Sure finds first, then the longer one, then the score, then the place; what sticks out stays a find."""
    text = "abcdefghij"

    def kept(*found):
        return [(text[start:end], source) for start, end, source in settled(text, [found_at(*one) for one in found])]

    assert kept((0, 5, 0.5, 0), (5, 9, 0.5, 1)) == [("abcde", 0), ("fghi", 1)]
    assert kept((0, 5, 0.5, 0), (3, 9, 0.5, 1)) == [("abc", 0), ("defghi", 1)]
    assert kept((0, 4, 0.95, 0), (0, 9, 0.5, 1)) == [("abcd", 0), ("efghi", 1)]
    assert kept((0, 4, 0.5, 0), (0, 4, 0.6, 1)) == [("abcd", 1)]
    assert kept((0, 4, 0.5, 1), (0, 4, 0.5, 0)) == [("abcd", 0)]
    assert kept((2, 4, 0.5, 0), (0, 9, 0.5, 1)) == [("abcdefghi", 1)]
    assert kept((2, 4, 0.95, 0), (0, 9, 0.5, 1)) == [("ab", 1), ("cd", 0), ("efghi", 1)]
    assert settled(text, [found_at(0, 9, 0.5, 0)], [(2, 4)]) == [(0, 2, 0), (4, 9, 0)]


PIECES = (
    "Dr. Jane Doe", "jane@example.com", "415-555-0188", "+44 20 7946 0958", "4111 1111 1111 1111", "457-55-5462", "10.0.0.1", "::1",
    "12 Baker Street, London", "my name is", "Blorbo Inc.", "works at", "from", "1980-02-03", "12 March 1980", "31 years old",
    "MRN 12345", "password=", "hunter2", "phone", "account", "zip 12345", "[EMAIL]", "[PHONE]", "[", "]", "\n", ",", ".", " ", "and", "http://x.org/a",
    "Aa", "B", "7", "Straße 5", "said", "é", "\U0001f600", "\ud800", "İ",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=14), st.sampled_from(["", " ", ", ", "\n"]))
@settings(max_examples=400, deadline=None)
def test_redacting_twice_changes_nothing(pieces, between):
    text = between.join(pieces)
    once = redact(text)
    assert rebuilt(text, once) == once.text
    assert redact(once.text).text == once.text
    assert redact(once.text).spans == ()


@given(st.text(max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text(text):
    result = redact(text)
    assert rebuilt(text, result) == result.text
    assert redact(result.text).text == result.text
    assert all(text[span.start : span.end] == span.text for span in result.spans)


def test_a_sentence_whose_capitals_were_redacted_is_not_one_without():
    """The second reading saw no capitals, and took "write" for a name after "told"."""
    assert redact("Jane Doe was told: write to jane@example.com.").text == "[PERSON] was told: write to [EMAIL]."
    assert redact("jane doe was told: write to me").text == "[PERSON] was told: [PERSON] to me"


def test_offsets_are_characters():
    text = "\U0001f600İ é \ud800 a@b.com"
    (found,) = redact(text).spans
    assert text[found.start : found.end] == "a@b.com"
    assert redact(text).text == "\U0001f600İ é \ud800 [EMAIL]"


def test_empty_and_plain_texts():
    assert redact("") == Redaction("", ())
    assert redact(" \n\t") == Redaction(" \n\t", ())
    assert redact("[EMAIL] and [PERSON]") == Redaction("[EMAIL] and [PERSON]", ())
    plain = "The committee meets every week, and nobody knows why; the minutes are short."
    assert redact(plain) == Redaction(plain, ())


def test_placeholders_are_one_to_one():
    assert len({category.placeholder for category in CATEGORIES}) == len(CATEGORIES)
    names = [name for category in CATEGORIES for name in (category.name, *category.short_names)]
    assert len(set(names)) == len(names)
    assert default_placeholder("staff number") == "[STAFF_NUMBER]"
    assert default_placeholder("éa") == "[X__A]"


def test_many_texts():
    redactor = Redactor(patterns=["email"])
    results = redactor.redact_all(text for text in ["a@b.com", "", "x"])
    assert [result.text for result in results] == ["[EMAIL]", "", "x"]
    assert redactor.redact_all([]) == []
    for wrong in ("one text", b"bytes", None, 3, ["a", None], ["a", b"b"]):
        with pytest.raises(TypeError, match="texts must be a list of strings"):
            redactor.redact_all(wrong)


@pytest.mark.parametrize("text", [None, b"a@b.com", 3, ["a@b.com"], float("nan")])
def test_texts_that_are_none(text):
    for call in (redact, detect):
        with pytest.raises(TypeError, match="text must be a string, got"):
            call(text)


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"patterns": ["emial"]}, ValueError, "patterns must name a category or a rule, got 'emial', did you mean 'email'"),
        ({"patterns": []}, ValueError, "patterns must name at least one category"),
        ({"patterns": "email"}, TypeError, "patterns must be a list of names, got str"),
        ({"patterns": [None]}, TypeError, "NoneType in it"),
        ({"patterns": 3}, TypeError, "got int"),
        ({"allow_categories": ["organisatoin"]}, ValueError, "did you mean 'organisation'"),
        ({"allow_categories": "email"}, TypeError, "allow_categories must be a list"),
        ({"allow_list": "Jane"}, TypeError, "allow_list must be a list"),
        ({"replacement": 3}, TypeError, "replacement must be a string, got int"),
        ({"replacements": {"emial": "x"}}, ValueError, "replacements must name a category, got 'emial', did you mean 'email'"),
        ({"replacements": {"email": None}}, TypeError, "must be a string, got NoneType"),
        ({"replacements": ["email"]}, TypeError, "replacements must be a mapping"),
        ({"custom_patterns": {"x": "("}}, ValueError, "must be a regular expression"),
        ({"custom_patterns": {"x": "a*"}}, ValueError, "must not match the empty text"),
        ({"custom_patterns": {"x": 3}}, TypeError, "must be a regular expression, got int"),
        ({"custom_patterns": {"x": __import__("re").compile(b"a")}}, TypeError, "got one for bytes"),
        ({"custom_patterns": {"": "a"}}, ValueError, "1 to 48 letters"),
        ({"custom_patterns": {3: "a"}}, TypeError, "by strings, got int"),
        ({"custom_patterns": "a"}, TypeError, "must be a mapping"),
        ({"custom_patterns": {"x": "a" * 20_000}}, ValueError, "at most 10000 characters"),
        ({"gazetteer": {"person": "Jane"}}, TypeError, "must be a list of strings, got str"),
        ({"gazetteer": {"person": [3]}}, TypeError, "must be strings, got int"),
        ({"gazetteer": {"person": ["..."]}}, ValueError, "must hold a letter or a digit"),
        ({"gazetteer": 3}, TypeError, "a mapping from categories to names, or a file"),
        ({"gazetteer": "absent.txt"}, OSError, "No such file"),
        ({"detectors": [3]}, TypeError, "must have a method detect"),
        ({"detectors": Fixed()}, TypeError, "must be a list of detectors"),
    ],
)
def test_bad_settings(settings, error, words):
    with pytest.raises(error, match=words):
        redact("a@b.com", **settings)


@pytest.mark.parametrize(
    ("content", "name", "words"),
    [
        (b"person Jane", "names.txt", "line 1: must be `category: name`"),
        (b"\xff", "names.txt", "must be UTF-8"),
        (b"[1]", "names.json", "must be an object"),
        (b"{", "names.json", "not JSON"),
    ],
)
def test_bad_gazetteer_files(tmp_path, content, name, words):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=words):
        Redactor(gazetteer=tmp_path / name)


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"x(a+)+b", "inside another one"),
        (r"x(\w*\s*)*y", "inside another one"),
        (r"x(?:a|ab)*c", "begin alike"),
        (r"x(?:\w\d|b)+c", "begin alike"),
        (r"(a)x(?:\1b)+", "refer back"),
        (r"\w+@corp", "begin with a repetition"),
        (r"(\w+)@corp", "begin with a repetition"),
        (r"(?:x|\w+)@corp", "begin with a repetition"),
        (r"<?\w+@corp", "begin with a repetition"),
        (r"x(?:a{1,999})+y", "inside another one"),
    ],
)
def test_patterns_that_could_hang_are_refused(pattern, words):
    with pytest.raises(ValueError, match=words):
        custom_rules({"x": pattern})


@pytest.mark.parametrize(
    "pattern", [r"\b\w+@corp", r"E-\d{5}", r"x(?:ab|cd)+y", r"(?i)inv-[0-9]+", r"\w{1,64}@corp", r"(?:\d{4}-){3}\d"]
)
def test_patterns_that_are_taken(pattern):
    assert len(custom_rules({"x": pattern})) == 1


def test_importing_text_is_light():
    code = (
        "import sys; import hushvec.text; tops = {name.split('.')[0] for name in sys.modules}; "
        "heavy = tops & {'phonenumbers', 'torch', 'transformers', 'presidio_analyzer', 'spacy'}; "
        "assert not heavy, heavy; assert 'hushvec.text.pii.redactor' not in sys.modules; "
        "assert sorted(hushvec.text.__all__) == hushvec.text.__all__; "
        "from hushvec.text import redact; redact('nothing'); "
        "assert not {'torch', 'transformers'} & {name.split('.')[0] for name in sys.modules}"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)
