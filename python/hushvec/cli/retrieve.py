"""`hushvec retrieve build|search|show`: an index of private vectors in a folder, and answers from it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.display import announced, plural
from hushvec._util.lines import field, json_record, numbered_lines
from hushvec.budget import PrivacyBudget
from hushvec.cli._arguments import BudgetOptions, KeyOptions, make_generator, named_values, opened_budget
from hushvec.cli._output import answered, receipt_lines, table
from hushvec.cli._parser import Command, argument, option
from hushvec.cli._style import printable
from hushvec.cli._texts import read_utf8, stripped_lines
from hushvec.cli.vectors import VectorOptions, require_one
from hushvec.mechanisms import MECHANISMS, PublicCodebook, PublicProjection
from hushvec.receipts import PER
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from hushvec.retrieval.noise import PER_QUERY, SCORE_MECHANISMS
from hushvec.retrieval.stores import BEHIND_AN_ADDRESS, ON_DISK, STORES
from hushvec.text import MiniLMEmbedder

_TEXT_SUFFIX = ".txt"
_SHOWN_QUERIES = 100

_BUILD_TEXTS = ("texts, one per line, with noise on their vectors", "hushvec retrieve build notes.txt -o notes.index --epsilon 16")
_SEARCH_TEXTS = ("ask it in words", "hushvec retrieve search notes.index --text 'heart problems'")

NOTE_TEXT = "the texts of documents are shown as they are: document privacy does not cover them, and ends where one is read"

_DOCUMENTS = "noise on documents, before they are stored"
_QUERIES = "noise on queries, for the asker"
_SCORES = "noise on scores, the cost of one query"
_INDEX = "the index"


class Retrieve(Command, name="retrieve", metavar="ACTION", examples=(_BUILD_TEXTS, _SEARCH_TEXTS)):
    """Indexes with noise on documents, on queries or on scores."""


class _OfVectors(VectorOptions):
    """For commands that read a .txt file of texts too."""

    def rows(self, path: Path) -> NDArray[Any]:
        if path.suffix.lower() != _TEXT_SUFFIX:
            return super().rows(path)
        lines = [line for _, line in numbered_lines(read_utf8(str(path)), str(path))]
        return MiniLMEmbedder().embed(lines)


class Build(_OfVectors, KeyOptions, BudgetOptions, name="retrieve build", help="vectors or texts into a new index", examples=(
    _BUILD_TEXTS,
    ("vectors without noise; each search hides its query", "hushvec retrieve build vectors.npy -o vectors.index --query-epsilon 8"),
)):
    """Put vectors into an index, with noise first where --epsilon (or --sigma) asks for it.

    .txt  one text per line, embedded with MiniLM
    Other files are those of hushvec privatize; with --text-key their texts are embedded with MiniLM.

    INDEX is written atomically."""

    input: Path = argument("file of vectors or texts", "IN")
    output: Path = option("folder to make", metavar="INDEX", required=True)
    ids: Path | None = option("one id per line: whole numbers, or strings (default: 0, 1, ...)", metavar="FILE")
    epsilon: float | None = option("of each row; without it and --sigma, no noise", heading=_DOCUMENTS)
    delta: float = option("for the Gaussian kinds", 1e-5, heading=_DOCUMENTS)
    mechanism: str = option("", "privunit", heading=_DOCUMENTS, choices=MECHANISMS)
    codebook: Path | None = option("answer with codes of this public codebook, not with noise", heading=_DOCUMENTS, metavar="FILE")
    sigma: float | None = option("standard deviation for --mechanism empirical", heading=_DOCUMENTS)
    per: str = option("every row, or all rows, about one person", "record", heading=_DOCUMENTS, choices=PER)
    renormalize: bool = option("unit rows after the noise", heading=_DOCUMENTS)
    query_epsilon: float | None = option("of one query; without it, no noise", heading=_QUERIES)
    query_mechanism: str = option("", "privunit", heading=_QUERIES, choices=MECHANISMS)
    query_per: str = option(
        "a search's queries are one person's and add up (query, the default), several people's (record), one release (release)",
        PER_QUERY, heading=_QUERIES, choices=(PER_QUERY, *PER),
    )
    score_epsilon: float | None = option("of the scores of one query; without it, no noise", heading=_SCORES)
    score_delta: float = option("", 1e-5, heading=_SCORES)
    score_mechanism: str = option("", "laplacian", heading=_SCORES, choices=SCORE_MECHANISMS)
    score_range: str = option("scores are clamped to it", "-1,1", heading=_SCORES, metavar="LOW,HIGH")
    # Passwords do not belong in arguments: no store behind an address.
    store: str = option("", "flat", heading=_INDEX, choices=tuple(store for store in STORES if store not in BEHIND_AN_ADDRESS))
    store_option: list[str] = option("may be repeated", [], heading=_INDEX, metavar="NAME=NUMBER")
    path: Path | None = option("folder of a store on disk (default: INDEX.rows)", heading=_INDEX)
    projection: Path | None = option("a public map, saved by PublicProjection.save", heading=_INDEX, metavar="FILE")
    no_normalize: bool = option("keep lengths; else rows and queries become unit vectors", heading=_INDEX)
    budget: str | None = option("charge documents to the ledger of this key first; it must exist (see hushvec budget)", metavar="KEY")

    def run(self) -> int:
        _require_new(self.output)
        if self.budget is not None and self.epsilon is None and self.sigma is None:
            raise ValueError("--budget must come with --epsilon or --sigma: without noise there is nothing to charge")
        given = named_values("--store-option", self.store_option, "NUMBER")
        store_options: dict[str, Any] = {name: int(one) if one.lstrip("-").isdigit() else one for name, one in given.items()}
        path = self.path
        if path is None and self.store in ON_DISK:
            path = self.output.with_name(f"{self.output.name}.rows")
        with opened_budget(self) as budget:
            ids = None if self.ids is None else _read_ids(self.ids)
            vectors = self.rows(self.input)
            index = PrivateIndex(
                vectors.shape[1],
                documents=_document_noise(self, budget),
                queries=None
                if self.query_epsilon is None
                else VectorNoise(epsilon=self.query_epsilon, mechanism=self.query_mechanism, per=self.query_per),
                scores=_score_noise(self), store=self.store, store_options=store_options or None, path=path,
                projection=None if self.projection is None else PublicProjection.load(self.projection),
                normalize=not self.no_normalize,
                generator=make_generator(self),
            )
            with announced("adding the rows to the index"):
                index.add(vectors, ids)
                index.save(self.output)
        return _print_index(self, index, _SHOWN_QUERIES)


class Search(_OfVectors, KeyOptions, BudgetOptions, name="retrieve search", help="the nearest documents of queries", examples=(
    _SEARCH_TEXTS,
    ("print the texts too; they are not protected", "hushvec retrieve search notes.index queries.npy -k 5 --show-text notes.txt"),
)):
    """Answer queries from an index: a file as for `hushvec retrieve build`, or texts."""

    folder: Path = argument("folder of an index", "INDEX")
    queries: Path | None = argument("file of vectors or texts, unless --text", "QUERIES", nargs="?")
    text: list[str] = option("a query in words, embedded with MiniLM; may be repeated", [])
    k: int = option("documents for a query", 10, "-k")
    show_text: Path | None = option(
        "print documents' texts too, one per line in the order of the build: NO privacy for them", metavar="FILE"
    )
    without_budgets: bool = option("continue without a budget that the index was saved with")
    budget: str | None = option("charge scores to the ledger of this key first; it must exist (see hushvec budget)", metavar="KEY")

    def run(self) -> int:
        require_one("QUERIES", self.queries, self.text)
        texts = None if self.show_text is None else _read_lines(self.show_text)
        with opened_budget(self) as budget:
            index = PrivateIndex.load(
                self.folder, score_budget=budget, without_budgets=self.without_budgets or self.budget is not None,
                generator=make_generator(self),
            )
            if texts is not None:
                unknown = next((one for one in index.ids.tolist() if one not in texts), None)
                if unknown is not None:
                    raise ValueError(f"--show-text must have a line for every id from 0 on, or JSON with an id: none for {unknown!r}")
                print(f"{self.prog}: {NOTE_TEXT}", file=sys.stderr)
            found = index.search(self.rows_or_texts(self.queries, self.text), k=self.k)
        scores: Any = np.full(found.ids.shape, None) if found.scores is None else found.scores
        pairs = zip(found.ids.tolist(), scores.tolist())
        answers = [[{"id": one, "score": score} for one, score in zip(*query)] for query in pairs]
        if texts is not None:
            answers = [[{**hit, "text": texts[hit["id"]]} for hit in hits] for hits in answers]
        receipts = {"query_receipt": found.query_receipt, "score_receipt": found.score_receipt}
        shown = {name: None if receipt is None else receipt.to_dict() for name, receipt in receipts.items()}
        lines = [_table_of(answers)]
        for name, receipt in receipts.items():
            if receipt is not None:
                claim = "" if receipt.is_dp_claim else ": NOT a DP claim"
                what = f"{name.replace('_', ' ')} of {plural(len(answers), 'query', 'queries')}"
                lines += ["", printable(f"{what}: epsilon = {receipt.epsilon!r}, delta = {receipt.delta!r}{claim}")]
        return answered(self, {"answers": answers, **shown, "notes": [] if texts is None else [NOTE_TEXT]}, *lines)


class Show(
    Command, name="retrieve show", help="what an index costs and whom it protects",
    examples=(("with the cost of 1000 queries", "hushvec retrieve show notes.index --queries 1000"),),
):
    """Costs of an index."""

    folder: Path = argument("folder of an index", "INDEX")
    queries: int = option("also show the cost of this many queries", _SHOWN_QUERIES)

    def run(self) -> int:
        return _print_index(self, PrivateIndex.load(self.folder, without_budgets=True), self.queries)


def _require_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder}: must be empty or not exist, so that nothing in it is overwritten")
    if not folder.parent.is_dir():
        raise ValueError(f"{folder}: the folder {folder.parent} must exist")
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK | os.X_OK):
        raise ValueError(f"{folder}: must be a place that can be written to")


def _document_noise(options: Build, budget: PrivacyBudget | None) -> VectorNoise | None:
    if options.codebook is not None:
        if options.epsilon is None:
            raise ValueError("--epsilon must be given with --codebook")
        if options.sigma is not None or options.renormalize or options.per != "record":
            raise ValueError(
                "--codebook must come without --sigma, --renormalize and --per release: it answers each row with a unit row"
            )
        return VectorNoise(mechanism=PublicCodebook.load(options.codebook).mechanism(options.epsilon), budget=budget)
    if options.epsilon is None and options.sigma is None:
        return None
    return VectorNoise(budget=budget, **options.named("epsilon", "delta", "mechanism", "sigma", "per", "renormalize"))


def _score_noise(options: Build) -> ScoreNoise | None:
    if options.score_epsilon is None:
        return None
    try:
        low, high = map(float, options.score_range.split(","))
    except ValueError:
        raise ValueError(f"--score-range must be two numbers LOW,HIGH, got {options.score_range!r}") from None
    return ScoreNoise(
        epsilon=options.score_epsilon, delta=options.score_delta, mechanism=options.score_mechanism, score_range=(low, high)
    )


def _table_of(answers: list[list[dict[str, Any]]]) -> str:
    rows = [
        (str(query), str(rank), str(hit["id"]), "" if hit["score"] is None else f"{hit['score']:.4f}", hit.get("text", ""))
        for query, hits in enumerate(answers)
        for rank, hit in enumerate(hits, 1)
    ]
    return table(("query", "rank", "id", "score", "text"), rows)


def _print_index(options: Build | Show, index: PrivateIndex, queries: int) -> int:
    value = {
        "rows": len(index),
        "settings": {name: value for name, value in index.settings.to_dict().items() if value is not None},
        "document_guarantee": index.document_guarantee(),
        "document_guarantee_of_queries": {"queries": queries, "guarantee": index.document_guarantee(queries)},
        "query_guarantee": index.query_guarantee(),
        "query_guarantee_of_queries": {"queries": queries, "guarantee": index.query_guarantee(queries)},
        "receipts": [receipt.to_dict() for receipt in index.receipts],
    }
    lines = list(index.describe())
    if index.settings.scores is not None:
        lines.append(f"{plural(queries, 'query', 'queries')}: {index.document_guarantee(queries)}")
    return answered(options, value, *map(printable, lines), *(f"\n{receipt_lines(receipt)}" for receipt in index.receipts))


def _read_ids(path: Path) -> list[int] | list[str]:
    """Read one id per line: whole numbers if all are."""
    lines = stripped_lines(str(path))
    try:
        return [int(line) for line in lines]
    except ValueError:
        return lines


def _read_lines(path: Path) -> dict[Any, str]:
    """Read texts by id: lines count from 0; lines of JSON have "id" and "text"."""
    lines = list(numbered_lines(read_utf8(str(path)), str(path)))
    if path.suffix.lower() != ".jsonl":
        return {number: line for number, (_, line) in enumerate(lines)}
    records = [(where, json_record(line, "text", where)) for where, line in lines]
    return {field(record.fields, "id", where): record.text for where, record in records}
