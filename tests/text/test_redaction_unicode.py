"""Text beyond ASCII: what looks like a letter, a digit, a space or a hyphen is read as one, and spans are those of the original."""

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushvec.text import Redactor, detect, redact
from hushvec.text.pii.document import Shadow
from text.rebuilt import assert_rebuilt

ARABIC = str.maketrans("0123456789", "٠١٢٣٤٥٦٧٨٩")
WIDE = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("call 415-555-0188 now".translate({code: WIDE[code] for code in range(0x30, 0x3A)}), "call [PHONE] now"),
        ("call 415-555-0188 now".translate(ARABIC), "call [PHONE] now"),
        ("card " + "4111 1111 1111 1111".translate(WIDE | {0x20: 0x3000}), "card [CARD]"),
        ("mail " + "jane@example.org".translate(WIDE), "mail [EMAIL]"),
        ("mail jane\u200b@exam\u00adple.org now", "mail [EMAIL] now"),
        ("call 415\u202f555\u202f0188 now", "call [PHONE] now"),
        ("call 415\u00a0555\u00a00188 now", "call [PHONE] now"),
        ("SSN 457\u201155\u20115462", "SSN [SSN]"),
        ("SSN 457\u201355\u20135462", "SSN [SSN]"),
        ("the form has 457\u221255\u22125462", "the form has [SSN]"),
        ("host 10.\u206010.0.1 is up", "host [IP] is up"),
        ("ask Mr \U0001d409\U0001d428\U0001d421\U0001d427 today", "ask [TITLE] [PERSON] today"),
        ("ﬁona@ﬁrm.com wrote", "[EMAIL] wrote"),
        ("I'm \u200fJane Doe\u200e.", "I'm \u200f[PERSON]\u200e."),
    ],
    ids=ascii,
)
def test_found_as_if_plain(text, shown):
    assert redact(text).text == shown


@pytest.mark.parametrize("name", ["José García", "Zoë Ångström", "François Lefèvre", "Nguyễn Văn Thắng"])
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_neither_a_surname_nor_an_accent_stays(name, form):
    written = unicodedata.normalize(form, name)
    result = redact(f"My name is {written}, since you ask.")
    assert result.text == "My name is [PERSON], since you ask."
    assert result.spans[0].text == written


def test_marks_that_join_with_nothing_go_too():
    assert redact("My name is Garci\u0301a\u0308\u0323.").text == "My name is [PERSON]."
    assert redact("My name is Garcia\u200b\u0301.").text == "My name is [PERSON]."


def test_lists_and_detectors_speak_of_the_original():
    from hushvec.text import Span

    text = "see Bjo\u0308rn\u200b O\u0308st in Nightjar"

    class Whole:
        def detect(self, seen):
            if "Bjo" not in seen:
                return []
            return [Span(seen.index("Bjo"), seen.index(" in "), "", "person", "", "whole", 0.9)]

    result = redact(text, detectors=[Whole()], patterns=["email"])
    assert result.text == "see [PERSON] in Nightjar"
    assert redact(text, gazetteer={"person": ["Björn Öst"]}, patterns=["email"]).text == "see [PERSON] in Nightjar"
    wide = "mail ａ@b.com or c@d.com"
    assert redact(wide, allow_list=["ａ@b.com"]).text == "mail ａ@b.com or [EMAIL]"
    assert redact("E-１２", custom_patterns={"badge": r"E-\d\d"}).text == "[BADGE]"


def test_two_finds_may_share_a_ligature():
    """ﬁ is two letters to the rules and one character of the text: the first find has it, and nothing is replaced twice."""
    found = redact("xﬁy", custom_patterns={"one": "xf", "two": "iy"})
    assert [span.text for span in found.spans] == ["xﬁ", "y"]
    assert found.text == "[ONE][TWO]"


@pytest.mark.parametrize("text", ["", "plain", "Zoë – “quoted”… №½", "日本語 テキスト", "Привет, мир", "\ud800 é", "´¨ªº™²"])
def test_what_is_left_as_it_is_keeps_its_places(text):
    shadow = Shadow(text)
    assert len(shadow.text) == len(text)
    assert shadow.in_original(0, len(text)) == shadow.from_original(0, len(text)) == (0, len(text))


CHARACTERS = "aé1 ﬁ２\u0301\u0308\u200b\u00ad\u202f\u2011\u0940\u093fßİ\U0001d409\ud800[EMAIL]@.com"


@given(st.text(alphabet=CHARACTERS, max_size=30))
@settings(max_examples=500, deadline=None)
def test_places_there_and_back(text):
    """Every part of the shadow leads to a part of the original with the same shadow, marks included, and back to at least itself."""
    shadow = Shadow(text)
    for start in range(len(shadow.text)):
        for end in range(start + 1, len(shadow.text) + 1):
            first, last = shadow.in_original(start, end)
            assert 0 <= first < last <= len(text)
            assert shadow.text[start:end] in Shadow(text[first:last]).text
            assert last == len(text) or unicodedata.category(text[last])[0] != "M"
            back = shadow.from_original(first, last)
            assert back[0] <= start and back[1] >= end


@given(st.text(alphabet=CHARACTERS, max_size=60))
@settings(max_examples=300, deadline=None)
def test_redacting_such_texts(text):
    result = redact(text)
    assert_rebuilt(text, result)
    assert redact(result.text).text == result.text


def test_an_ascii_text_is_its_own_shadow():
    text = "Call John Smith on 415-555-0188. " * 10
    assert Shadow(text).text is text
    assert Shadow(text).is_original


@pytest.mark.alone
def test_ascii_takes_no_time():
    """The shadow of a megabyte of ASCII against the redaction of a fiftieth of it: the best of five each."""
    text = "Call John Smith on 415-555-0188. " * 30_000
    redactor = Redactor()

    def best(work):
        times = []
        for _ in range(5):
            began = time.process_time()
            work()
            times.append(time.process_time() - began)
        return min(times)

    assert best(lambda: Shadow(text)) < 0.1 * best(lambda: redactor.redact(text[: len(text) // 50]))


@pytest.mark.parametrize(
    ("before", "address", "after"),
    [
        *(("我的邮箱是", "jane@example.com", "请尽快回复"), ("メールは", "jane.doe+x@b.co.jp", "まで")),
        ("이메일", "j_d@b.com", "입니다"),
        *(("मेल ", "jane@b.com", "पर"), ("", "用户@例子.公司", ""), ("", "jane@例子.公司", ""), ("писать на ", "иван@почта.рф", "")),
        *(("บัตร", "a" * 64 + "@b.com", "ค่ะ"), ("", "Müller@bücher.de", "")),
    ],
)
def test_an_address_ends_where_letters_without_capitals_begin(before, address, after):
    assert [span.text for span in detect(before + address + after)] == [address]
