"""The one reader of lines and JSON lines: what ends a line, what is refused, and by which name."""

import pytest

from hushvec._util.lines import decoded, json_record, lines_with_ends, numbered_lines, require_utf8, texts_of_file

# Ends of lines to str.splitlines, which are characters of a text here: tabs and feeds, separators of files, lines and paragraphs.
NO_ENDS = "\v\f\x1c\x85\u2028\u2029"


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("", []),
        ("a", ["a"]),
        ("a\n", ["a\n"]),
        ("a\nb", ["a\n", "b"]),
        ("a\r\nb\rc\n\r\n", ["a\r\n", "b\r", "c\n", "\r\n"]),
        ("\n\n", ["\n", "\n"]),
        (f"a{NO_ENDS}b\n", [f"a{NO_ENDS}b\n"]),
    ],
)
def test_ends_of_lines(content, lines):
    assert lines_with_ends(content) == lines and "".join(lines) == content


def test_blank_lines_count_but_do_not_come():
    found = list(numbered_lines("\ufeffone\r\n \n\t\n two \n", "notes"))
    assert found == [("notes: line 1", "one"), ("notes: line 4", " two ")]


def test_a_byte_order_mark_is_no_text_only_at_the_beginning():
    assert [line for _, line in numbered_lines("\ufeffa\n\ufeffb", "n")] == ["a", "\ufeffb"]
    assert list(numbered_lines("\ufeff", "n")) == []


def test_a_json_string_may_hold_what_looks_like_the_end_of_a_line(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(f'{{"text": "a{NO_ENDS[3:]}b"}}\r\n\n{{"text": "c", "n": 1}}', encoding="utf-8")
    assert list(texts_of_file(path, "text")) == [(f"{path}: line 1", f"a{NO_ENDS[3:]}b"), (f"{path}: line 3", "c")]
    assert json_record('{"text": "c", "n": 1}', "text", "w") == ({"text": "c", "n": 1}, "c")


def test_lines_as_they_are(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\ufeff one \n\ntwo", encoding="utf-8")
    assert list(texts_of_file(path, None)) == [(f"{path}: line 1", " one "), (f"{path}: line 3", "two")]


@pytest.mark.parametrize(("content", "place"), [(b"\xff", "0xff at 0"), (b"ab\xc3", "0xc3 at 2"), (b"\xed\xa0\x80", "0xed at 0")])
def test_bytes_that_are_not_utf_8(content, place):
    with pytest.raises(ValueError, match=rf"^here: must be UTF-8 text, got byte {place}$"):
        decoded("here", content)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not JSON: "),
        ("[" * 100_000, "not JSON: "),
        ("[1]", "must be an object with the key 'text'"),
        ('{"body": "a"}', "must be an object with the key 'text'"),
        ('{"text": null}', "'text' must be a string, got NoneType"),
    ],
)
def test_lines_that_are_no_record(line, words):
    with pytest.raises(ValueError, match=r"^there: ") as refused:
        json_record(line, "text", "there")
    assert str(refused.value).startswith(f"there: {words}")


def test_half_of_a_surrogate_pair():
    assert require_utf8("\U0001f600", "here") == "\U0001f600"
    with pytest.raises(ValueError, match=r"^here: must be text that UTF-8 can hold, got half of a surrogate pair$"):
        require_utf8("a\ud800", "here")
