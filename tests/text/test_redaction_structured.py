"""JSON, CSV and e-mail: the same structure comes out, and every character outside the finds is as it was."""

import csv
import io
import json
from email import message_from_string
from email.policy import default

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushvec.text import Pseudonymizer, Redactor, redact_csv, redact_json, redact_mail, restore
from hushvec.text.pii.pseudonyms import Restorer

FIND = Redactor().detect


def rebuilt(text, result):
    parts, position = [], 0
    for span in result.spans:
        assert span.start >= position and text[span.start : span.end] == span.text
        parts += (text[position : span.start], span.placeholder)
        position = span.end
    return "".join(parts) + text[position:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"mail": "a@b.com", "n": 1.50}', '{"mail": "[EMAIL]", "n": 1.50}'),
        ('{ "a@b.com" : [ "x", "c@d.com" ] }\n', '{ "a@b.com" : [ "x", "[EMAIL]" ] }\n'),
        ('"\\u0041sk \\"a@b.com\\" \\/ \\ud83d\\ude00 c@d.com"', '"\\u0041sk \\"[EMAIL]\\" \\/ \\ud83d\\ude00 [EMAIL]"'),
        ('{"note": "\\u0061@b.com"}', '{"note": "[EMAIL]"}'),
        ('{"ssn": "457555462", "size": "457555462"}', '{"ssn": "[SSN]", "size": "457555462"}'),
        ('{"phoneNumber": ["555 0147"], "sizes": ["555 0147"]}', '{"phoneNumber": ["[PHONE]"], "sizes": ["555 0147"]}'),
        ('[{"p": {"x": "é a@b.com"}}, null, true]', '[{"p": {"x": "é [EMAIL]"}}, null, true]'),
        ("[]", "[]"),
    ],
)
def test_json(text, expected):
    result = redact_json(text, FIND)
    assert result.text == expected == rebuilt(text, result)
    json.loads(result.text)


def test_json_replacements_are_escaped():
    find = Redactor(replacements={"email": '"é"\n'}).detect
    assert redact_json('["a@b.com"]', find).text == '["\\"\\u00e9\\"\\n"]'
    assert redact_json('["é a@b.com"]', find).text == '["é \\"é\\"\\n"]'


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from(["a@b.com", 'x "a@b.com"\n', "é \U0001f600 10.0.0.1", "", "\\", "plain"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "mail", "k\n"]), inner, max_size=3),
    max_leaves=10,
)


@given(VALUES, st.booleans(), st.sampled_from([None, 2]))
@settings(max_examples=200, deadline=None)
def test_any_json(value, ascii_only, indent):
    """The same as redacting every string of the parsed value, and nothing else."""

    def redacted(part):
        if isinstance(part, str):
            return json.loads(redact_json(json.dumps(part), only_exact).text)
        if isinstance(part, list):
            return [redacted(one) for one in part]
        return {name: redacted(one) for name, one in part.items()} if isinstance(part, dict) else part

    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    result = redact_json(text, only_exact)
    assert json.loads(result.text) == redacted(value)
    assert rebuilt(text, result) == result.text


only_exact = Redactor(patterns=["email", "ip"]).detect


def test_bad_json():
    for text in ("", "{", "{'a': 1}", "[" * 100_000):
        with pytest.raises(ValueError, match="text must be JSON"):
            redact_json(text, FIND)
    with pytest.raises(ValueError, match="text must be JSON") as caught:
        redact_json('{"a": secret@b.com}', FIND)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("id,mail\n1,a@b.com\n", {}, "id,mail\n1,[EMAIL]\n"),
        ("mail,more\r\na@b.com,c@d.com\r\n", {"columns": ["more"]}, "mail,more\r\na@b.com,[EMAIL]\r\n"),
        ('note\n"say ""a@b.com"", ok\nyes"\n', {}, 'note\n"say ""[EMAIL]"", ok\nyes"\n'),
        ("a;b\n1;c@d.com", {"delimiter": ";"}, "a;b\n1;[EMAIL]"),
        ("a\tb\n\tc@d.com\t\n\n", {"delimiter": "\t"}, "a\tb\n\t[EMAIL]\t\n\n"),
        ("ssn,size\n457555462,457555462\n", {}, "ssn,size\n[SSN],457555462\n"),
        ("a@b.com\n", {}, "a@b.com\n"),
        ("", {}, ""),
        ("a\n1,x@y.com\n", {}, "a\n1,[EMAIL]\n"),
    ],
)
def test_csv(text, options, expected):
    result = redact_csv(text, FIND, **options)
    assert result.text == expected == rebuilt(text, result)


def test_csv_replacements_are_quoted():
    find = Redactor(replacements={"email": '"x", y'}).detect
    assert list(csv.reader(io.StringIO(redact_csv('a,b\nto a@b.com c@d.com,2\n"a@b.com",3\n', find).text))) == [
        ["a", "b"],
        ['to "x", y "x", y', "2"],
        ['"x", y', "3"],
    ]


@given(st.lists(st.lists(st.sampled_from(["a@b.com", 'q "10.0.0.1"', "x,y", "l\nm", "", "é"]), min_size=2, max_size=2), max_size=5))
@settings(max_examples=200, deadline=None)
def test_any_csv(rows):
    file = io.StringIO()
    csv.writer(file).writerows([["one", "two"], *rows])
    result = redact_csv(file.getvalue(), only_exact, columns=["two"])
    assert list(csv.reader(io.StringIO(result.text))) == [
        ["one", "two"],
        *([first, second.replace("a@b.com", "[EMAIL]").replace("10.0.0.1", "[IP]")] for first, second in rows),
    ]


@pytest.mark.parametrize(
    ("text", "options", "error", "words"),
    [
        ("a,b\n", {"columns": ["c"]}, ValueError, "columns must name columns of the header, got 'c'"),
        ("a,b\n", {"columns": "a"}, TypeError, "columns must be a list of names, got str"),
        ("a,b\n", {"delimiter": "::"}, ValueError, "delimiter must be one character"),
        ('a\n1\n"secret\n', {}, ValueError, "text must be CSV: line 3: a quote is not closed"),
    ],
)
def test_bad_csv(text, options, error, words):
    with pytest.raises(error, match=words) as caught:
        redact_csv(text, FIND, **options)
    assert "secret" not in str(caught.value)


MAIL = (
    'From: "Xyzzy, Plugh" <plugh@b.com>\r\n'
    "To: quux@b.com (Quux Thud), Frob <frob@c.org>,\r\n"
    "\tGrault <g@d.net>\r\n"
    "Cc: =?utf-8?q?J=C3=B6rn?= <j@e.org>\r\n"
    "Received: from relay (10.0.0.1)\r\n"
    "Subject: lunch with Dr. Garply\r\n"
    "X-Count: 12\r\n"
    "\r\n"
    "Call 415-555-0188.\r\n"
)


def test_mail():
    result = redact_mail(MAIL, FIND)
    assert result.text == rebuilt(MAIL, result) == (
        'From: "[PERSON]" <[EMAIL]>\r\n'
        "To: [EMAIL] ([PERSON]), [PERSON] <[EMAIL]>,\r\n"
        "\t[PERSON] <[EMAIL]>\r\n"
        "Cc: [PERSON] <[EMAIL]>\r\n"
        "Received: from relay ([IP])\r\n"
        "Subject: lunch with [TITLE] [PERSON]\r\n"
        "X-Count: 12\r\n"
        "\r\n"
        "Call [PHONE].\r\n"
    )


def test_an_encoded_subject_is_decoded_and_encoded_again():
    text = "Subject: =?utf-8?b?R3LDvMOfZSB2b24gYUBiLmNvbQ==?=\nTo: a@b.com\n\n"
    result = redact_mail(text, FIND)
    assert "a@b.com" not in result.text and "R3LDvMOfZSB2b24gYUBiLmNvbQ" not in result.text
    assert message_from_string(result.text, policy=default)["subject"] == "Grüße von [EMAIL]"
    plain = "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\n\n"
    assert redact_mail(plain, FIND).text == plain


def test_bad_mail():
    with pytest.raises(ValueError, match="text must begin with a header"):
        redact_mail("hello secret", FIND)


@pytest.mark.parametrize("quoted", ['"', '"\\"', "(", "a,", "<", "@", "a@b ", "=?", "\n "])
def test_headers_take_linear_time(quoted):
    import time

    def seconds(size):
        began = time.process_time()
        redact_mail("From: " + quoted * size + "\n\n", lambda text: ())
        return time.process_time() - began

    short, long = min(seconds(2_000) for _ in range(3)), min(seconds(20_000) for _ in range(3))
    assert long < max(40 * short, 0.5)


def test_pseudonyms_inside_structures_come_back():
    names = Pseudonymizer(bytes(range(32)))
    for text, change in ((json.dumps({"note": 'é "a@b.com"\n'}), redact_json), ('n\n"x ""a@b.com"""\n', redact_csv)):
        hidden = change(text, names.spans).text
        assert "a@b.com" not in hidden
        assert change(hidden, Restorer(names.known)).text == text
    hidden = redact_mail(MAIL, names.spans, placeholder=names.placeholder).text
    assert not any(word in hidden for word in ("Plugh", "plugh", "Frob", "10.0.0.1"))
    assert restore(hidden, names.known) == MAIL


def test_what_a_redactor_does_not_look_for_stays_in_headers():
    redactor = Redactor(patterns=["email"], replacement="#")
    text = 'From: "Frob" <frob@c.org>\n\n'
    assert redact_mail(text, redactor.detect, placeholder=redactor.placeholder).text == 'From: "Frob" <#>\n\n'
    names = Pseudonymizer(bytes(range(32)), redactor=redactor)
    assert "Frob" in redact_mail(text, names.spans, placeholder=names.placeholder).text
