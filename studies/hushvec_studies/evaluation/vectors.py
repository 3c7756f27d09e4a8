"""The benchmarks as vectors: rows of documents and queries, public and private parts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from hushvec_studies.evaluation.collection import BANKING, NEWSGROUPS, Collection, paths_of
from hushvec_studies.harness.rows import bytes_of
from hushvec_studies.harness.texts import records_of
from hushvec_studies.retrieval.corpora import load_corpus

Rows = NDArray[np.float32]
Embed = Callable[[Sequence[str]], Rows]
LeftOut = tuple[tuple[str, int], ...]
Texts = tuple[list[str], ...]

_SEED = 2026  # of the splits; no secret


class Hashed:
    """Data that a measurement's key names by their content."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 of every array and list, and of other data in it; not of `texts`, whose rows are there."""
        content = hashlib.sha256()
        for name, value in vars(self).items():
            if isinstance(value, np.ndarray):
                content.update(bytes_of(value))
            elif isinstance(value, tuple) and value and all(isinstance(one, Hashed) for one in value):
                content.update("\n".join(one.digest for one in value).encode())
            elif name != "texts":
                content.update(repr(value).encode())
        return content.hexdigest()


@dataclass(frozen=True)
class Searched(Hashed):
    """Documents, queries, and for each query the grades of the documents that answer it, by place; `texts` of the documents."""

    name: str
    documents: Rows
    queries: Rows
    relevant: list[dict[int, float]]
    left_out: LeftOut = ()
    texts: Texts = ()


@dataclass(frozen=True)
class Posts(Hashed):
    """Public posts and private ones with the number of the group of each: a post's own group answers it; `texts` of both."""

    name: str
    public: Rows
    private: Rows
    groups: NDArray[np.int64]
    left_out: LeftOut = ()
    texts: Texts = ()


@dataclass(frozen=True)
class Labelled(Hashed):
    """Public rows, and training and test rows with the number of the class of each; `texts` of public and training rows."""

    name: str
    public: Rows
    training: Rows
    training_classes: NDArray[np.int64]
    test: Rows
    test_classes: NDArray[np.int64]
    left_out: LeftOut = ()
    texts: Texts = ()


def searched(collection: Collection, embed: Embed) -> Searched:
    place = {document: number for number, document in enumerate(collection.documents)}
    relevant = [{place[one]: grade for one, grade in collection.grades[query].items()} for query in collection.queries]
    texts = list(collection.documents.values())
    documents, queries = embed(texts), embed(list(collection.queries.values()))
    return Searched(collection.name, documents, queries, relevant, collection.left_out, (texts,))


def halves(count: int, relevant: Sequence[Mapping[int, float]], splits: int) -> Iterator[tuple[Any, Any, Any, list[Any]]]:
    """For each split: places of the public half of so many documents and of the private one, the queries that a private document
    answers, and the grades of those documents by their place in the private half."""
    for split in range(splits):
        order = np.random.default_rng(split).permutation(count)
        public, private = order[: count // 2], order[count // 2 :]
        place = {int(document): number for number, document in enumerate(private)}
        here = [{place[one]: grade for one, grade in wanted.items() if one in place} for wanted in relevant]
        asking = np.flatnonzero([bool(wanted) for wanted in here])
        yield public, private, asking, [here[query] for query in asking]


def newsgroups(folder: Path, embed: Embed, min_tokens: int) -> Posts:
    """20 Newsgroups by date: train posts are public, test posts private. A text that is there twice is left out, so no private post is
    a public one."""
    (path,) = paths_of(NEWSGROUPS, folder)
    corpus = load_corpus(path, min_tokens=min_tokens, splits="given")
    parts, numbers = np.array(corpus.splits), np.unique(corpus.categories, return_inverse=True)[1]
    # in random order, as equal releases come in order of arrival
    order = np.random.default_rng(_SEED).permutation(len(corpus))
    public, private = (order[parts[order] == part] for part in ("train", "test"))
    texts = [corpus.texts[place] for place in (*public, *private)]
    rows, first = embed(texts), len(public)
    return Posts(NEWSGROUPS.name, rows[:first], rows[first:], numbers[private], corpus.left_out, (texts[:first], texts[first:]))


def questions(folder: Path) -> tuple[list[Any], int]:
    """Banking77 without questions that were there before, and how many those are."""
    (path,) = paths_of(BANKING, folder)
    records = records_of(path, "split", "text", "label")
    first: dict[str, Any] = {}
    for record in records:
        first.setdefault(" ".join(record["text"].lower().split()), record)
    return list(first.values()), len(records) - len(first)


def banking(folder: Path, embed: Embed) -> Labelled:
    """Banking77: half of the train questions, the same share of every class, is public; the other half trains classifiers, and the
    test questions test them. The three parts have no text in common."""
    kept, repeated = questions(folder)
    texts = [one["text"] for one in kept]
    rows, classes = embed(texts), np.unique([one["label"] for one in kept], return_inverse=True)[1]
    test = np.array([one["split"] == "test" for one in kept])
    public, training = train_test_split(np.flatnonzero(~test), test_size=0.5, random_state=_SEED, stratify=classes[~test])
    left_out = (("questions that were there before", repeated),) if repeated else ()
    of_parts = tuple([texts[place] for place in part] for part in (public, training))
    return Labelled(BANKING.name, rows[public], rows[training], classes[training], rows[test], classes[test], left_out, of_parts)
