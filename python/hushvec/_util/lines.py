"""UTF-8 texts, one per line or one per line of JSON: the one reader of the package.

A line ends at a line feed, a carriage return, or both. `str.splitlines` knows more ends, some of which may occur unescaped in a JSON
string (U+2028, U+0085) or in old text files (form feeds), so it is not used. Refusals are ValueErrors whose message begins
with the `name` or `where` that the caller gives.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from importlib import resources
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from hushvec._util import validate

__all__ = [
    "SHIPPED_NOTES", "SHIPPED_SENTENCES", "decoded", "distinct_texts", "json_line", "json_object", "json_record",
    "lines_of_file", "numbered_lines", "require_utf8", "shipped_texts", "texts_of_file",
]

SHIPPED_SENTENCES = "public_sentences.txt"
SHIPPED_NOTES = "private_notes.txt"
SHIPPED_RECORDS = "records.jsonl"

_BYTE_ORDER_MARK = "\ufeff"
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class TextLine(NamedTuple):
    """A line of JSON: its object, and the text in it."""

    fields: dict[str, Any]
    text: str


def decoded(name: str, content: bytes, start: int = 0) -> str:
    """The text of UTF-8 bytes, as it is; `start` is the place of the first one, for errors."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name}: must be UTF-8 text, got byte {content[error.start]:#04x} at {start + error.start}") from None


def lines_with_ends(content: str) -> list[str]:
    """Every line with the characters that end it; the last one may have none."""
    return _LINE.findall(content)


def numbered_lines(content: str, name: str) -> Iterator[tuple[str, str]]:
    """(where, line) of every line that is not blank. A byte order mark at the beginning is not part of the first one."""
    return _numbered(lines_with_ends(content), name)


def lines_of_file(path: Path) -> Iterator[tuple[str, str]]:
    """`numbered_lines` of a file, which is read as lines are asked for."""
    with path.open("rb") as file:
        yield from _numbered(_lines_of(file, str(path)), str(path))


def _lines_of(file: BinaryIO, name: str) -> Iterator[str]:
    start = 0
    for part in file:  # up to a line feed; carriage returns may be in it
        yield from lines_with_ends(decoded(name, part, start))
        start += len(part)


def _numbered(lines: Iterable[str], name: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(lines, 1):
        content = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        if content.strip():
            yield f"{name}: line {number}", content.rstrip("\r\n")


def json_record(line: str, text_key: str, where: str) -> TextLine:
    """One line of JSON lines, and the text in it."""
    fields = json_object(line, where)
    return TextLine(fields, text_field(fields, text_key, where))


def json_object(line: str, where: str) -> dict[str, Any]:
    """One line of JSON lines."""
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{where}: not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ValueError(f"{where}: must be an object, got {type(fields).__name__}")
    return fields


def field(fields: dict[str, Any], key: str, where: str) -> Any:
    """The value that an object has under a key."""
    if key not in fields:
        raise ValueError(f"{where}: has no key {key!r}")
    return fields[key]


def text_field(fields: dict[str, Any], key: str, where: str) -> str:
    """The string that an object has under a key."""
    text = field(fields, key, where)
    if not isinstance(text, str):
        raise ValueError(f"{where}: {key!r} must be a string, got {type(text).__name__}")
    return text


def nested_field(fields: Any, key: str, where: str) -> Any:
    """The value under a key whose dots go into objects in objects; of a list on the way, the values of all that is in it."""
    return _inside(fields, key, f"{where}: has no key {key!r}")


def _inside(value: Any, key: str, refusal: str) -> Any:
    if isinstance(value, list):
        return [_inside(one, key, refusal) for one in value]
    first, _, rest = key.partition(".")
    if isinstance(value, dict) and key in value:
        return value[key]
    if not (isinstance(value, dict) and rest and first in value):
        raise ValueError(refusal)
    return _inside(value[first], rest, refusal)


def copied_fields(fields: dict[str, Any], keys: Iterable[str], where: str) -> dict[str, Any]:
    """The fields of an object that are copied to the output."""
    kept = {key: nested_field(fields, key, where) for key in keys}
    for key, value in kept.items():
        try:
            json_line(value)
        except ValueError as reason:
            raise ValueError(f"{where}: {key!r} cannot be copied: {reason}") from None
    return kept


def manifest(folder: Path, file: str, kind: str, version: int) -> dict[str, Any]:
    """The JSON file that says what a saved folder holds: an object whose `<first word of the file's name>_format` is `version`.

    `kind` comes with its article: "an index".

    Raises:
        ValueError: it is missing, cannot be read, or has another format.
    """
    path, key = folder / file, f"{file.partition('.')[0]}_format"
    if not path.is_file():
        raise ValueError(f"{folder} holds no {kind.partition(' ')[2]}: {file} is missing")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(content, dict) or content.get(key) != version:
        raise ValueError(f"{path} must be {kind} of format {version}")
    return content


def json_line(value: Any) -> str:
    """JSON on one line."""
    try:
        line = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise ValueError("JSON has no NaN or Infinity") from None
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not is_unicode(line):
        raise ValueError("it has half of a surrogate pair")
    return line


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can encode it: a JSON string may have half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def require_utf8(text: str, where: str) -> str:
    """The text, unless it cannot be written as UTF-8."""
    if not is_unicode(text):
        raise ValueError(f"{where}: must be text that UTF-8 can hold, got half of a surrogate pair")
    return text


def texts_of_file(path: Path, text_key: str | None) -> Iterator[tuple[str, str]]:
    """(where, text) of every line that is not blank: the line itself, or what its object has under the key."""
    for where, line in lines_of_file(path):
        yield where, require_utf8(line if text_key is None else json_record(line, text_key, where).text, where)


def shipped_texts(name: str) -> list[str]:
    """The lines of a file that comes with the package."""
    content = resources.files("hushvec").joinpath("data", name).read_text("utf-8")
    return [line.strip() for _, line in numbered_lines(content, name)]


def distinct_texts(texts: Iterable[str], name: str = "texts", kind: str = "an iterable of strings") -> list[str]:
    """Stripped texts, each once and in order; empty ones are left out. Errors call them `name`, which must be `kind`."""
    if isinstance(texts, str | bytes):
        raise TypeError(f"{name} must be {kind}, got {validate.kind(texts)}")
    found: dict[str, None] = {}
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(f"{name} must be {kind}, got {validate.kind(text)} in it")
        if stripped := require_utf8(text, f"{name}: text {number}").strip():
            found.setdefault(stripped)
    return list(found)
