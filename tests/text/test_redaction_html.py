"""HTML: what is seen, attributes, comments and scripts are searched, across tags and decoded; tags stay, and so does the rest."""

import html
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hushvec.text import Pseudonymizer, redact_html
from hushvec.text.pii.pseudonyms import Restorer
from text.rebuilt import assert_rebuilt

SECRETS = ("jane.doe@example.com", "415-555-2671", "4111 1111 1111 1111", "457-55-5462", "203.0.113.7", "DE89370400440532013000")


class Reader(HTMLParser):
    """Text, attributes and tags as the standard library reads them."""

    def __init__(self, text):
        super().__init__()
        self.seen, self.values, self.tags = [], [], []
        self.feed(text)
        self.close()

    def handle_data(self, data):
        self.seen.append(data)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, [name for name, _ in attrs]))
        self.values += [value for _, value in attrs if value]

    def handle_endtag(self, tag):
        self.tags.append(tag)

    def handle_comment(self, data):
        self.values.append(data)


def assert_hidden(text, *secrets):
    result = redact_html(text)
    for span in result.spans:
        assert text[span.start : span.end] == span.text
    before, after = Reader(text), Reader(result.text)
    assert before.tags == after.tags
    for secret in secrets:
        assert secret in "".join(before.seen).replace("\xa0", " ") or any(
            secret in value.replace("\xa0", " ") for value in before.values
        )
        assert secret not in "".join(after.seen).replace("\xa0", " ")
        assert not any(secret in value.replace("\xa0", " ") for value in after.values)
    assert redact_html(result.text).text == result.text
    return result.text


WRITTEN = (
    lambda text: text,
    lambda text: "".join(f"&#{ord(one)};" for one in text),
    lambda text: "".join(f"&#x{ord(one):X};" for one in text),
    lambda text: "&nbsp;".join(text.replace("@", "&commat;").replace(".", "&period;").split(" ")),
)
PLACES = (
    "<p>{}</p>",
    "<P CLASS=x>to<br>{}, ok</P>",
    '<a href="mailto:{}">write</a>',
    "<img alt='{}' src=x.png>",
    '<input type=text value="{}">',
    '<td data-who="{}">x</td>',
    "<p title='{}'>x</p>",
    "<table><tr><td>a</td><td>{}</td></tr></table>",
    "<div><span>{}</span></div>",
    "<textarea>{}</textarea>",
)


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("write", WRITTEN)
def test_a_secret_is_found_wherever_it_stands(secret, write):
    for place in PLACES:
        assert_hidden(f"<html><body>hello {place.format(write(secret))} bye</body></html>", secret)
    for place in ("<!-- {} -->", "<script>var x = '{}';</script>", "<style>/* {} */</style>"):
        assert_hidden(f"<body>hello {place.format(secret)} bye</body>", secret)


@given(
    st.sampled_from(SECRETS),
    st.lists(
        st.tuples(st.integers(0, 30), st.sampled_from(["<b>", "</b>", "<i class='a>b'>", "<!-- x -->", "<x-y>", "</span>"])),
        max_size=4,
    ),
    st.sampled_from(["{}", "<p>{}</p>", "a <b>{}", "x<td>{}<td>y"]),
)
@settings(max_examples=100, deadline=None)
def test_tags_in_a_secret_do_not_hide_it(secret, tags, place):
    pieces = list(secret)
    for at, tag in tags:  # one tag at a place: a space may be seen between two
        if at < len(pieces) and len(pieces[at]) == 1:
            pieces[at] = tag + pieces[at]
    assert_hidden(place.format("".join(pieces)), secret)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jane<b>@</b>b.com", "[EMAIL]<b></b>"),
        ("<a>Home</a><a>Jane Doe</a>", "<a>Home</a><a>[PERSON]</a>"),
        ("<p>Jane</p><p>Doe &amp; Sons</p>", "<p>[PERSON]</p><p>Doe &amp; Sons</p>"),
        ("<p data-u='{&quot;m&quot;:&quot;a&#64;b.com&quot;}'>", "<p data-u='{&quot;m&quot;:&quot;[EMAIL]&quot;}'>"),
        ("a < b and c > d, 1<2", "a < b and c > d, 1<2"),
        ("x <b and my name is Jane Doe", "x <b and my name is [PERSON]"),
        ("Jane Doe <jane@b.com> wrote", "[PERSON] <[EMAIL]> wrote"),
        ('<a title="never closed a@b.com', '<a title="never closed [EMAIL]'),
        ("<a title='a > a@b.com'>x", "<a title='a > [EMAIL]'>x"),
        ("<!-- never closed a@b.com", "<!-- never closed [EMAIL]"),
        ("<script>never closed a@b.com", "<script>never closed [EMAIL]"),
        ("<script>if (a<b) x('a@b.com')</SCRIPT><p>a@b.com", "<script>if (a<b) x('[EMAIL]')</SCRIPT><p>[EMAIL]"),
        ("<!DOCTYPE html><?xml a@b.com?>", "<!DOCTYPE html><?xml [EMAIL]?>"),
        ("<", "<"),
        ("", ""),
    ],
)
def test_pieces(text, shown):
    assert redact_html(text).text == shown


def test_what_is_written_into_html_is_escaped():
    from hushvec.text import Redactor

    find = Redactor(replacements={"email": '<i "x">'}).detect
    assert redact_html("<p title='a@b.com'>a@b.com", find).text == "<p title='&lt;i &quot;x&quot;&gt;'>&lt;i &quot;x&quot;&gt;"


@pytest.mark.parametrize(
    "text", ["<p>Ask Jane&#32;Doe or <b>a@b.com</b></p>", "<p>my name is Jane O&#39;Neil, <i title='415-555-0188'>x</i>"]
)
def test_pseudonyms_come_back(text):
    names = Pseudonymizer(bytes(range(32)))
    hidden = redact_html(text, names.spans).text
    assert "Jane" not in hidden and "a@b.com" not in hidden and "0188" not in hidden
    assert html.unescape(redact_html(hidden, Restorer(names.known)).text) == html.unescape(text)


PIECES = (
    "<",
    ">",
    "<p ",
    "</",
    "<!--",
    "-->",
    '"',
    "'",
    "=",
    " ",
    "a",
    "jane@b.com",
    "&#64;",
    "&",
    ";",
    "<script>",
    "</script>",
    "415-555-0188",
    "\n",
)


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@settings(max_examples=200, deadline=None)
def test_any_text_is_taken(text):
    """Well formed or not: nothing that is found in plain sight stays, and all else is as it was."""
    result = redact_html(text)
    assert_rebuilt(text, result)
    assert "jane@b.com" not in result.text


@pytest.mark.parametrize(
    "pump", ["<", "<a ", "<a =", "<a \"'", "<!--", "<script>", "</script", "&#64", "<a b='", "= ", '<a b="<a ', "<b>x</b>", "&"]
)
def test_time_is_linear(pump):
    def seconds(size):
        began = time.process_time()
        redact_html(pump * (size // len(pump)), lambda text: ())
        return time.process_time() - began

    short, long = min(seconds(4_000) for _ in range(3)), min(seconds(40_000) for _ in range(3))
    assert long < max(30 * short, 0.1)
