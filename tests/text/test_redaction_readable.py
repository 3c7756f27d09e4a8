"""Clinical and developer text stays readable: vital signs, laboratory values, codes of standards, hashes, stamps and logs."""

from collections import Counter

import pytest

from evidence.reference.sizes import scaled
from hushvec.text import redact
from text.readable_lines import judged, lines, templates

LINES = scaled(240, 2_000)


def test_lines_keep_what_is_not_personal_and_lose_what_is():
    right, hidden, planted, lost, leaks = judged(redact, lines(LINES))
    assert leaks == [] and right == planted > 0
    assert right / hidden >= 0.98
    kinds = Counter(kind for kind, *_ in lost)
    assert set(kinds) <= {"hashes", "logs"} and sum(kinds.values()) <= LINES / 100


def test_every_kind_has_twenty_templates_and_is_drawn_alike_for_a_seed():
    assert min(map(len, templates().values())) >= 20
    assert list(lines(30, seed=1)) == list(lines(30, seed=1)) != list(lines(30, seed=2))


def test_the_judge_notices_what_is_lost_and_what_leaks():
    drawn = [("a", "call 415-555-0188", [(5, 17)])]
    right, hidden, planted, lost, leaks = judged(redact, drawn)
    assert (right, hidden, planted, lost, leaks) == (12, 12, 12, [], [])
    assert judged(redact, [("a", "call 415-555-0188", [])])[3] == [("a", "call 415-555-0188", "call [PHONE]")]
    assert judged(redact, [("a", "Wren", [(0, 4)])])[4] == [("a", "Wren", "Wren")]


GIT, SHA = "9fceb02d0ae598e95dc970b74767f19372d61af8", "b042d7c7e6a32aaea8016b26b66899c8fb71920efe1dfee322734d6e2dc157f7"


@pytest.mark.parametrize("lead", ["", "commit ", "sha256:", "id ", "secret of commit ", "key fingerprint: ", "key=1\n"])
@pytest.mark.parametrize("value", [GIT, SHA, GIT.upper()])
def test_a_hash_stays(lead, value):
    assert redact(lead + value).text == lead + value


@pytest.mark.parametrize(
    "lead", ["token=", "API_KEY=", "secret ", "accessToken: ", "commit of the key ", "password hash ", "Bearer ", "signing key: "]
)
@pytest.mark.parametrize("value", [GIT, SHA, GIT[:32]])
def test_the_same_digits_beside_a_word_for_a_key_are_a_credential(lead, value):
    assert value not in redact(lead + value).text


def test_digits_of_the_length_of_keys_are_a_credential_without_any_word():
    assert redact(GIT[:32]).text == "[CREDENTIAL]"
    assert redact(f"md5 {GIT[:32]}").text == f"md5 {GIT[:32]}"


@pytest.mark.parametrize("text", ["BP 123, 75008 Paris", "BP 4512 Dakar", "bp 12 69001 lyon", "P.O. Box 120", "Postfach 120"])
def test_a_post_box_is_still_an_address(text):
    assert redact(text).text.startswith("[ADDRESS]")


@pytest.mark.parametrize(
    "line",
    [
        *("self.name = name; this.id", "user.name", '{"user.name": 7}', "order.items.name", "req.params.id", 'logger.info("x")'),
        *("foo.app(1)", "self.data.store", 'version = "1.2.3.4"', '"version": "1.2.3.4"', '@pytest.mark.skip("x")'),
        *('@app.get("/")', "@functools.lru_cache(maxsize=1)"),
    ],
)
def test_a_line_of_a_program_stays(line):
    assert redact(line).text == line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("visit example.info, tokopedia.co.id, www.wren.name or kompas.id/x", "visit [URL], [URL], [URL] or [URL]"),
        ("mail.example.com(10.2.3.4)", "[URL]([IP])"),
        ("Seen: @maple.rivers. (A) and @wren.", "Seen: [HANDLE]. (A) and [HANDLE]."),
    ],
)
def test_what_only_looks_like_a_program_is_found(text, shown):
    assert redact(text).text == shown
