"""Documents, queries and relevance judgments of a search, from SciFact or the user's files, and what was left out of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from hushvec_studies.harness.texts import answered, grades_of, qrels_of, records_of, text_of, texts_of
from hushvec_studies.retrieval.key_phrases import word_count


class Source(NamedTuple):
    """Where data come from: its name in the command and for people, files in the folder of the benchmarks, and who made them."""

    name: str
    title: str
    files: tuple[str, ...]
    origin: str
    license: str
    reference: str


SCIFACT = Source(
    "scifact",
    "SciFact",
    ("scifact_corpus.jsonl.xz", "scifact_claims.jsonl.xz"),
    "https://github.com/allenai/scifact, also a BEIR dataset",
    "claims CC BY 4.0, abstracts ODC-By",
    "Wadden et al., Fact or fiction: verifying scientific claims (2020)",
)
NEWSGROUPS = Source(
    "newsgroups",
    "20 Newsgroups",
    ("20newsgroups_8.jsonl.xz",),
    "scikit-learn's fetch_20newsgroups (http://qwone.com/~jason/20Newsgroups), eight groups, by-date split",
    "no license stated; posts hold real names, so no text of them is shown or kept with the results",
    "Lang, NewsWeeder: learning to filter netnews (1995)",
)
BANKING = Source(
    "banking77",
    "Banking77",
    ("banking77.jsonl.xz",),
    "https://github.com/PolyAI-LDN/task-specific-datasets",
    "CC BY 4.0",
    "Casanueva et al., Efficient intent detection with dual sentence encoders (2020)",
)
SENTENCES = Source(
    "sentences",
    "Presidio's sentences",
    ("pii_synth.json",),
    "https://github.com/microsoft/presidio-research, data/synth_dataset_v2.json",
    "MIT; synthetic",
    "presidio-research, synthetic sentences with known spans",
)
SOURCES = {source.name: source for source in (SCIFACT, NEWSGROUPS, BANKING, SENTENCES)}


def titled(task: str) -> str:
    """A task as people read it: newsgroups, private documents -> 20 Newsgroups, private documents."""
    name, comma, rest = task.partition(",")
    return (SOURCES[name].title if name in SOURCES else name) + comma + rest


def paths_of(source: Source, folder: Path) -> list[Path]:
    """The files of a benchmark; FileNotFoundError: one is not there, and where to get it."""
    paths = [folder / name for name in source.files]
    for path in paths:
        if not path.is_file():
            raise FileNotFoundError(f"{path}: must be a file of {source.name} ({source.origin}), is not there")
    return paths


@dataclass(frozen=True)
class Collection:
    """Texts of a search, by id, and which documents answer which query.

    Args:
        queries: every one has a relevant document.
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
    documents = {str(one["id"]): text_of(one) for one in records_of(corpus, "id", "title", "text")}
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
        corpus, queries, qrels = folder / "corpus.jsonl", queries or folder / "queries.jsonl", qrels or qrels_of(folder)
        name = folder.resolve().name
    else:
        name = corpus.name.partition(".")[0]
    if queries is None or qrels is None:
        raise ValueError(f"--corpus {corpus} must come with --queries and --qrels, or be a BEIR folder")
    for path in (corpus, queries, qrels):
        if not path.is_file():
            raise ValueError(f"{path}: must be a file, is not there")
    left_out: Counter[str] = Counter()
    documents = texts_of(corpus, "documents", left_out)
    made = judged(name, documents, texts_of(queries, "queries", left_out), grades_of(qrels), min_tokens, left_out)
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
    relevant = answered(queries, grades, kept, left_out)
    if not relevant:
        reasons = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
        raise ValueError(f"{name}: must have a query with a relevant document, got none (left out: {reasons or 'nothing'})")
    asked = {one: queries[one] for one in relevant}
    return Collection(name, kept, asked, relevant, tuple((reason, count) for reason, count in left_out.items() if count))
