"""Texts of a file: JSON lines, packed or not, and relevance judgments of TREC or BEIR."""

from __future__ import annotations

import gzip
import hashlib
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hushvec.extend.helpers import decoded, numbered_lines

_UNPACKERS: dict[str, Callable[[bytes], bytes]] = {".jsonl": bytes, ".jsonl.xz": lzma.decompress, ".jsonl.gz": gzip.decompress}
SUFFIXES = tuple(_UNPACKERS)


def suffix_of(path: Path) -> str | None:
    """The ending that says how a file is packed; None if it is none of `SUFFIXES`."""
    return next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), None)


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """(where, line) of every line that is not blank.

    Raises:
        ValueError: another kind of file, a damaged one, or one that is not UTF-8.
    """
    suffix = suffix_of(path)
    if suffix is None:
        raise ValueError(f"{path}: must be a .jsonl, .jsonl.xz or .jsonl.gz file")
    packed = path.read_bytes()
    try:
        content = _UNPACKERS[suffix](packed)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{path}: must be a whole {suffix.rpartition('.')[2]} file, is damaged: {error}") from None
    yield from numbered_lines(decoded(str(path), content), str(path))


def objects_of(path: Path) -> list[Any]:
    """What the lines say."""
    return [json.loads(line) for _, line in lines_of(path)]


def records_of(path: Path, *fields: str) -> list[Any]:
    """The objects of a file of JSON lines; ValueError names the first line without one of these fields."""
    records = objects_of(path)
    for number, record in enumerate(records, 1):
        missing = next((field for field in fields if not isinstance(record, dict) or field not in record), None)
        if missing is not None:
            raise ValueError(f"{path}: line {number} must have {missing!r}")
    return records


def digest_of_texts(header: str, texts: Iterable[str]) -> str:
    """SHA-256 of a header and of texts in their order, each with its length before it."""
    content = hashlib.sha256(header.encode())
    for text in texts:
        encoded = text.encode()
        content.update(len(encoded).to_bytes(8, "little") + encoded)
    return content.hexdigest()


# ---- judgments ----

_QRELS_FIELDS = {3: (0, 1, 2), 4: (0, 2, 3)}  # query, document and grade in a line of BEIR, and in one of TREC


def grades_of(path: Path) -> dict[str, dict[str, float]]:
    """Relevance judgments: query -> document -> grade.

    Raises:
        ValueError: a line that has neither three nor four columns, a grade that is no number, a judgment that is there twice.
    """
    found: dict[str, dict[str, float]] = {}
    for number, fields in _rows(path):
        if len(fields) not in _QRELS_FIELDS:
            raise ValueError(f"{path}: line {number} must have 4 columns (TREC) or 3 (BEIR), got {len(fields)}")
        query, document, said = (fields[place] for place in _QRELS_FIELDS[len(fields)])
        try:
            grade = float(said)
        except ValueError:
            if number == 1:  # the heading of BEIR's files
                continue
            raise ValueError(f"{path}: line {number} must end in a grade, got {said!r:.40}") from None
        if document in found.setdefault(query, {}):
            raise ValueError(f"{path}: line {number} must not judge {document!r} for {query!r} again")
        found[query][document] = grade
    return found


def answered(
    queries: Mapping[str, str], grades: Mapping[str, Mapping[str, float]], documents: Container[str], left_out: Counter[str]
) -> dict[str, dict[str, float]]:
    """For each query that one of the documents answers, the grade > 0 of each that does; the others are counted in `left_out`."""
    left_out["judgments of a query that is not among the queries"] += sum(
        len(judged) for one, judged in grades.items() if one not in queries
    )
    relevant: dict[str, dict[str, float]] = {}
    for one in queries:
        positive = {document: grade for document, grade in grades.get(one, {}).items() if grade > 0}
        there = {document: grade for document, grade in positive.items() if document in documents}
        left_out["relevant documents that are not among the documents"] += len(positive) - len(there)
        if there:
            relevant[one] = there
        else:
            left_out["queries whose relevant documents were left out" if positive else "queries without a relevant document"] += 1
    return relevant


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = [field.strip() for field in (line.split("\t") if "\t" in line else line.split())]
            if any(fields):
                yield number, fields


def texts_of(path: Path, what: str, left_out: Counter[str]) -> dict[str, str]:
    """Texts by `_id`, `id` or the number of the line; blank ones are counted in `left_out`.

    Raises:
        ValueError: a line without a text, an id that is there twice.
    """
    found: dict[str, str] = {}
    for number, record in enumerate(records_of(path, "text"), 1):
        name = str(record.get("_id", record.get("id", number)))
        if name in found:
            raise ValueError(f"{path}: line {number} must have an id of its own, got {name!r} again")
        text = text_of(record)
        if not isinstance(record["text"], str):
            raise ValueError(f"{path}: line {number}: 'text' must be a string, got {type(record['text']).__name__}")
        if text.strip():
            found[name] = text
        else:
            left_out[f"{what} without text"] += 1
    return found


def text_of(record: Mapping[str, Any]) -> str:
    """Title and text, as the embedding model reads them."""
    title = record.get("title")
    return f"{title}. {record['text']}" if title else str(record["text"])


def qrels_of(folder: Path) -> Path:
    """The judgments of a BEIR folder: test.tsv, or the only file; ValueError: there is none, or it is not clear which."""
    files = sorted((folder / "qrels").glob("*.tsv"))
    test = [file for file in files if file.name == "test.tsv"]
    if not files or (len(files) > 1 and not test):
        names = ", ".join(file.name for file in files) or "none"
        raise ValueError(f"{folder / 'qrels'}: must hold test.tsv or one .tsv file (else name one), got {names}")
    return (test or files)[0]
