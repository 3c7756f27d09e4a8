"""The one reader of lines and JSON lines: what ends a line, what is refused, and by which name."""

import pytest

from hushvec._util.lines import (
    SHIPPED_NOTES,
    SHIPPED_SENTENCES,
    copied_fields,
    decoded,
    distinct_texts,
    json_record,
    lines_of_file,
    lines_with_ends,
    manifest,
    numbered_lines,
    require_utf8,
    shipped_texts,
    texts_of_file,
)

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
        ("[1]", "must be an object, got list"),
        ('{"body": "a"}', "has no key 'text'"),
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


@pytest.mark.parametrize("content", ["", "\ufeffa\nb", "a\r\n\rb\nc\rd", f"a{NO_ENDS}b\n\n \nö\n"])
def test_a_file_gives_the_lines_of_its_content(tmp_path, content):
    path = tmp_path / "a.txt"
    path.write_bytes(content.encode())
    assert list(lines_of_file(path)) == list(numbered_lines(content, str(path)))


def test_the_byte_that_is_not_utf_8_is_counted_in_the_file(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"ab\nc\xff\n")
    lines = lines_of_file(path)
    assert next(lines) == (f"{path}: line 1", "ab")
    with pytest.raises(ValueError, match=r"a\.txt: must be UTF-8 text, got byte 0xff at 4$"):
        next(lines)


def test_copied_fields():
    assert copied_fields({"a": 1, "b": [None]}, ["b"], "w") == {"b": [None]}
    with pytest.raises(ValueError, match=r"^w: has no key 'c'$"):
        copied_fields({"a": 1}, ["c"], "w")
    with pytest.raises(ValueError, match=r"^w: 'a' cannot be copied: JSON has no NaN or Infinity$"):
        copied_fields({"a": float("nan")}, ["a"], "w")


def test_shipped_texts_are_clean():
    for name, count in ((SHIPPED_SENTENCES, 320), (SHIPPED_NOTES, 80)):
        texts = shipped_texts(name)
        assert len(texts) == count and distinct_texts(texts) == texts


@pytest.mark.parametrize(
    ("texts", "kind", "words"),
    [
        ("one", TypeError, "^corpus must be texts, got str$"),
        (["a", 3], TypeError, "^corpus must be texts, got int in it$"),
        (["a", "\ud800"], ValueError, "^corpus: text 1: must be text that UTF-8 can hold, got half of a surrogate pair$"),
    ],
)
def test_texts_that_are_none(texts, kind, words):
    with pytest.raises(kind, match=words):
        distinct_texts(texts, "corpus", "texts")


def test_distinct_texts_keep_their_order():
    assert distinct_texts([" b", "", "a", "b\n", "  "]) == ["b", "a"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[]", "{path} must be an index of format 2"),
        ("null", "{path} must be an index of format 2"),
        ('{"index_format": 1}', "{path} must be an index of format 2"),
        ("{}", "{path} must be an index of format 2"),
        ("{", "{path} cannot be read as JSON: "),
        (None, "{folder} holds no index: index.json is missing"),
    ],
)
def test_a_folder_without_a_manifest_of_its_format_is_refused(tmp_path, content, reason):
    path = tmp_path / "index.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ValueError) as error:
        manifest(tmp_path, path.name, "an index", 2)
    assert str(error.value).startswith(reason.format(path=path, folder=tmp_path))
    path.write_text('{"index_format": 2, "rows": 3}')
    assert manifest(tmp_path, path.name, "an index", 2) == {"index_format": 2, "rows": 3}
