"""Documents, queries and relevance judgments of a search, from SciFact or the user's files, and what was left out of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushvec_studies.evaluation.sources import SCIFACT, Source, paths_of, records_of
from hushvec_studies.retrieval.key_phrases import word_count

_QRELS_FIELDS = {3: (0, 1, 2), 4: (0, 2, 3)}  # query, document and grade in a line of BEIR, and in one of TREC


@dataclass(frozen=True)
class Collection:
    """Texts of a search and which documents answer which query.

    Args:
        name: of the collection.
        documents: text of each document, by id.
        queries: text of each query, by id. Every one has a relevant document.
        grades: for each query, the grade > 0 of each relevant document.
        left_out: (what and why, how many) of everything that the files hold and the collection does not.
    """

    name: str
    documents: dict[str, str]
    queries: dict[str, str]
    grades: dict[str, dict[str, float]]
    left_out: tuple[tuple[str, int], ...] = ()


def scifact(folder: Path, min_tokens: int = 1, *, validation: bool) -> Collection:
    """SciFact: the abstracts, and the claims that cite one of them; those of the validation split alone, which benchmarks report, or
    all of them."""
    corpus, claims = paths_of(SCIFACT, folder)
    documents = {str(one["id"]): _joined(one) for one in records_of(corpus, "id", "title", "text")}
    asked = {str(one["id"]): one for one in records_of(claims, "id", "split", "claim", "relevant")}
    kept = {name: one for name, one in asked.items() if not validation or one["split"] != "train"}
    left_out = Counter({"claims of the train split": len(asked) - len(kept)})
    grades = {name: {str(document): 1.0 for document in one["relevant"]} for name, one in kept.items()}
    return judged(SCIFACT.name, documents, {name: one["claim"] for name, one in kept.items()}, grades, min_tokens, left_out)


def own(corpus: Path, queries: Path | None, qrels: Path | None, min_tokens: int = 1) -> tuple[Source, Collection]:
    """A collection of the user's own, and where it lies.

    Args:
        corpus: a BEIR folder (corpus.jsonl, queries.jsonl, qrels/*.tsv), or a file of JSON lines with `_id` or `id`, `text`, and
            `title` if there is one; packed as .gz or .xz if need be.
        queries: JSON lines with `_id` or `id` and `text`; None: those of the folder.
        qrels: TREC's four columns (query, 0, document, grade) or BEIR's three (query-id, corpus-id, score); None: test.tsv of the
            folder, or its only file.
        min_tokens: documents of fewer words are left out, and counted.

    Raises:
        ValueError: a file that is missing, damaged or of another kind; nothing that can be searched.
    """
    if corpus.is_dir():
        folder = corpus
        corpus, queries, qrels = folder / "corpus.jsonl", queries or folder / "queries.jsonl", qrels or _qrels_of(folder)
        name = folder.resolve().name
    else:
        name = corpus.name.partition(".")[0]
    if queries is None or qrels is None:
        raise ValueError(f"--corpus {corpus} must come with --queries and --qrels, or be a BEIR folder")
    for path in (corpus, queries, qrels):
        if not path.is_file():
            raise ValueError(f"{path}: must be a file, is not there")
    left_out: Counter[str] = Counter()
    documents = _texts(corpus, "documents", left_out)
    made = judged(name, documents, _texts(queries, "queries", left_out), grades_of(qrels), min_tokens, left_out)
    source = Source(name, name, (corpus.name, queries.name, qrels.name), "files of the user", "the user's", "")
    return source, made


def judged(
    name: str,
    documents: Mapping[str, str],
    queries: Mapping[str, str],
    grades: Mapping[str, Mapping[str, float]],
    min_tokens: int,
    left_out: Counter[str],
) -> Collection:
    """The documents that are long enough and the queries that one of them answers; everything else is counted in `left_out`."""
    kept = {one: text for one, text in documents.items() if word_count(text) >= min_tokens}
    left_out[f"documents of fewer than {min_tokens} words"] += len(documents) - len(kept)
    left_out["judgments of a query that is not among the queries"] += sum(
        len(judged) for one, judged in grades.items() if one not in queries
    )
    relevant: dict[str, dict[str, float]] = {}
    for one in queries:
        positive = {document: grade for document, grade in grades.get(one, {}).items() if grade > 0}
        there = {document: grade for document, grade in positive.items() if document in kept}
        left_out["relevant documents that are not among the documents"] += len(positive) - len(there)
        if there:
            relevant[one] = there
        else:
            left_out["queries whose relevant documents were left out" if positive else "queries without a relevant document"] += 1
    if not relevant:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
        raise ValueError(f"{name}: must have a query with a relevant document, got none (left out: {reasons or 'nothing'})")
    asked = {one: queries[one] for one in relevant}
    return Collection(name, kept, asked, relevant, tuple((reason, count) for reason, count in left_out.items() if count))


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


def _rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            fields = [field.strip() for field in (line.split("\t") if "\t" in line else line.split())]
            if any(fields):
                yield number, fields


def _texts(path: Path, what: str, left_out: Counter[str]) -> dict[str, str]:
    """Texts by id; blank ones are counted."""
    found: dict[str, str] = {}
    for number, record in enumerate(records_of(path, "text"), 1):
        name = str(record.get("_id", record.get("id", number)))
        if name in found:
            raise ValueError(f"{path}: line {number} must have an id of its own, got {name!r} again")
        text = _joined(record)
        if not isinstance(record["text"], str):
            raise ValueError(f"{path}: line {number}: 'text' must be a string, got {type(record['text']).__name__}")
        if text.strip():
            found[name] = text
        else:
            left_out[f"{what} without text"] += 1
    return found


def _joined(record: Mapping[str, Any]) -> str:
    """Title and text, as the embedding model reads them."""
    title = record.get("title")
    return f"{title}. {record['text']}" if title else str(record["text"])


def _qrels_of(folder: Path) -> Path:
    files = sorted((folder / "qrels").glob("*.tsv"))
    test = [file for file in files if file.name == "test.tsv"]
    if not files or (len(files) > 1 and not test):
        names = ", ".join(file.name for file in files) or "none"
        raise ValueError(f"{folder / 'qrels'}: must hold test.tsv or one .tsv file (else give --qrels), got {names}")
    return (test or files)[0]
