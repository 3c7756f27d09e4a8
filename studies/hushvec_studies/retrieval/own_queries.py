"""The user's own queries of a study, and the documents of the searched part that answer them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushvec_studies.harness.judgments import answered, grades_of, qrels_of, texts_of
from hushvec_studies.retrieval.corpora import Corpus
from hushvec_studies.retrieval.schema import Queries


@dataclass(frozen=True)
class OwnQueries:
    """Queries that a document of the part answers.

    Args:
        texts: those of one document beside each other.
        documents: int64 [m], the row of the document that answers each query best, ascending.
        judged: float64 [j, 3]: number of a query, row of a document, grade > 0.
        left_out: why queries and judgments are not here, and how many for each reason.
    """

    texts: list[str]
    documents: NDArray[np.int64]
    judged: NDArray[np.float64]
    left_out: tuple[tuple[str, int], ...]


def own_queries(asked: Queries, part: Corpus) -> OwnQueries:
    """The queries of `queries.file` with their judgments.

    Raises:
        ValueError: a file that is missing or damaged; no query that a document of the part answers.
    """
    queries, qrels = _files(asked)
    left_out: Counter[str] = Counter()
    texts = texts_of(queries, "queries", left_out)
    place = {name: row for row, name in enumerate(part.ids)}
    relevant = answered(texts, grades_of(qrels), place, left_out)
    counted = tuple((reason, count) for reason, count in left_out.items() if count)
    if not relevant:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in counted)
        raise ValueError(
            f"queries.file must have a query that a searched document answers, got none (left out: {reasons or 'nothing'})"
        )
    best = {query: place[max(grades, key=lambda one: grades[one])] for query, grades in relevant.items()}
    order = sorted(relevant, key=lambda query: best[query])
    judged = [(number, place[one], grade) for number, query in enumerate(order) for one, grade in relevant[query].items()]
    return OwnQueries(
        [texts[query] for query in order],
        np.array([best[query] for query in order], np.int64),
        np.array(judged, np.float64),
        counted,
    )


def _files(asked: Queries) -> tuple[Path, Path]:
    """The files of queries and of judgments."""
    assert asked.file is not None
    given = Path(asked.file)
    queries = given / "queries.jsonl" if given.is_dir() else given
    if asked.judgments is not None:
        qrels = Path(asked.judgments)
    elif given.is_dir():
        qrels = qrels_of(given)
    else:
        raise ValueError(f"queries.judgments must be given, as queries.file is no BEIR folder: {asked.file}")
    for name, path in (("queries.file", queries), ("queries.judgments", qrels)):
        if not path.is_file():
            raise ValueError(f"{name} must be a file, {path} is not there")
    return queries, qrels
