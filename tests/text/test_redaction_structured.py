"""JSON, CSV and e-mail: the same structure comes out, and every character outside the finds is as it was."""

import csv
import io
import json
import time
from email import message_from_string
from email.policy import default

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evidence.reference.sizes import scaled
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
        ("a@b.com\n", {}, "[EMAIL]\n"),
        ("Jane Doe,jane@b.com,415-555-2671\nJohn Roe,j@b.com,\n", {}, "[PERSON],[EMAIL],[PHONE]\n[PERSON],[EMAIL],\n"),
        ("7,2026-01-02,zorblax\n", {}, "7,[DATE],zorblax\n"),
        ("Jane Doe,a\n1,2\n", {}, "[PERSON],a\n1,2\n"),
        ("Jane Doe,a\n1,c@d.com\n", {"columns": ["a"]}, "Jane Doe,a\n1,[EMAIL]\n"),
        ("user.email,Guardian Surname,ville\na@b.com,x,y\n", {}, "user.email,Guardian Surname,ville\n[EMAIL],[PERSON],[LOCATION]\n"),
        ("sep=;\nssn;b,c\n457555462;a@b.com\n", {}, "sep=;\nssn;b,c\n[SSN];[EMAIL]\n"),
        ("\ufeffSEP=\t\r\nssn\tb\r\n457555462\t", {"columns": ["ssn"]}, "\ufeffSEP=\t\r\nssn\tb\r\n[SSN]\t"),
        ("\ufeffssn,b\n457555462,c\n", {"columns": ["ssn"]}, "\ufeffssn,b\n[SSN],c\n"),
        ("Made by Jane Doe\n\nid,ssn,b\n1,457555462,c\n2,,d\n", {}, "Made by [PERSON]\n\nid,ssn,b\n1,[SSN],c\n2,,d\n"),
        ("For a@b.com,,\n,,\nid,ssn,b\n1,457555462,c\n2,3,d\n", {}, "For [EMAIL],,\n,,\nid,ssn,b\n1,[SSN],c\n2,3,d\n"),
        ("x,y\na@b.com,1\nssn,b\n457555462,a@b.com\n", {"columns": ["ssn"]}, "x,y\n[EMAIL],1\nssn,b\n[SSN],a@b.com\n"),
        ("Made,now\n\nid,city,b\n1,Zorblax,c\n", {}, "Made,now\n\nid,city,b\n1,[LOCATION],c\n"),
        ("Patient,Jane Doe\n\nid,city,b\n1,Zorblax,c\n2,x,d\n", {}, "Patient,[PERSON]\n\nid,city,b\n1,[LOCATION],c\n2,[LOCATION],d\n"),
        ("city,b,\nZorblax,1,2\nx,2,3\n", {}, "city,b,\n[LOCATION],1,2\n[LOCATION],2,3\n"),
        (",ssn\n0,457555462\n1,457555462\n", {}, ",ssn\n0,[SSN]\n1,[SSN]\n"),
        ("", {}, ""),
        ("a\n1,x@y.com\n", {}, "a\n1,[EMAIL]\n"),
    ],
)
def test_csv(text, options, expected):
    result = redact_csv(text, FIND, **options)
    assert result.text == expected == rebuilt(text, result)


# What a find may depend on: words far away, capitals, ends and beginnings of a text, and marks that join with what stands before.
PARTS = [
    *("call me at", "4155550188", "415-555-0188", "Dr", "Jane Doe", "jane doe", "NHS", "943 476 5919"),
    *("-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "Sincerely,", "Anna Lind", "Apt. 4", "Paris", "10115"),
    *("12 Baker Street", "by Wanda Vander", "wanda", "VANDER"),
    *("the corner of", "and Elm St", "password:", "token", "q8Z2mK9xT4vB7nL1pR6wY3cD", "born in", "1957", "lives in", "Mr."),
    *("", "\n", "@jane", "\u0301a@b.com", "\u0130stanbul", "\uff14\uff11\uff15 555 0188", "[EMAIL]", "[", "]"),
    *("\0", "\x1f", "\x1fgiven: x", "\u2013", "7"),
    *("a card", "3502000000000007", "in 2001", "she"),
    *("this is Ann", "ssn", "457555462", "single", "I am", "he was", "31", "years old", "at", "Acme Inc", ", CA 94110", "http://"),
]
TEXTS = st.lists(st.lists(st.sampled_from(PARTS), max_size=5).map(" ".join), max_size=12)


@given(TEXTS)
@settings(max_examples=scaled(150, 3_000), deadline=None)
def test_texts_read_together_have_the_finds_of_each_by_itself(texts):
    redactor = Redactor()
    assert redactor.detect_all(texts) == [redactor.detect(text) for text in texts]


@pytest.mark.parametrize("one", PARTS)
def test_a_text_does_not_reach_into_the_next(one):
    redactor = Redactor(gazetteer={"person": ["wanda vander"]}, allow_list=["Jane Doe"], allow_categories=["age"])
    texts = [text for other in PARTS for text in (one, other)]
    assert redactor.detect_all(texts) == [redactor.detect(text) for text in texts]


ROWS = st.lists(st.lists(st.lists(st.sampled_from(PARTS), max_size=3).map(" ".join), min_size=3, max_size=3), max_size=8)


@given(ROWS, st.sampled_from([["name", "note", "city"], ["ssn", "phoneNumber", "x"], ["given", "table_name", "Dr. Who"]]))
@settings(max_examples=scaled(60, 1_000), deadline=None)
def test_cells_read_together_are_redacted_as_one_by_one(rows, titles):
    redactor = Redactor()
    file = io.StringIO()
    csv.writer(file).writerows([titles, *rows])
    records = json.dumps([dict(zip(titles, row)) for row in rows])
    for change, text in ((redact_csv, file.getvalue()), (redact_json, records)):
        assert change(text, redactor.detect) == change(text, lambda part: redactor.detect(part))


@pytest.mark.alone
def test_a_table_and_its_records_take_at_most_a_few_times_what_one_text_takes():
    """Cell by cell it was 16 times; now about 2, with room for a busy machine. Of processor times in one process."""
    notes = ["Called about the invoice, will ring back.", "Nothing to report %d.", "Reads BP 120/80, %d mg.", "Order %d was sent."]
    rows = [(f"user{n}@example.com", f"Jane Doe{n % 7}", f"415-555-{n:04d}", notes[n % 4].replace("%d", str(n))) for n in range(1_500)]
    table = "mail,who,phone,note\n" + "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)
    records = json.dumps([dict(zip(("mail", "who", "phone", "note"), row)) for row in rows])
    redactor = Redactor()
    least = {}
    for _ in range(3):
        for work in (redactor.redact, redact_csv, redact_json):
            began = time.process_time()
            work(*((records if work is redact_json else table), *(() if work == redactor.redact else (redactor.detect,))))
            least[work] = min(least.get(work, float("inf")), time.process_time() - began)
    assert max(least[redact_csv], least[redact_json]) < 5 * least[redactor.redact]


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
