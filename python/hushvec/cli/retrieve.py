"""`hushvec retrieve build|search|show`: an index of private vectors in a folder, and answers from it."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.display import Progress, announced, plural
from hushvec._util.lines import field, json_record, numbered_lines
from hushvec.budget import PrivacyBudget
from hushvec.cli._arguments import (
    Subparsers,
    add_budget_arguments,
    add_command,
    add_group,
    add_key_arguments,
    make_generator,
    opened_budget,
)
from hushvec.cli._documents import embedded, read_utf8
from hushvec.cli._output import print_json, receipt_lines, table
from hushvec.cli._printable import say
from hushvec.cli.files import Columns, open_source
from hushvec.embedders.minilm import MiniLMEmbedder
from hushvec.mechanisms import MECHANISMS, CodebookResponse, PublicCodebook, PublicProjection
from hushvec.receipts.base import PER
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from hushvec.retrieval.noise import PER_QUERY, SCORE_MECHANISMS
from hushvec.retrieval.stores import BEHIND_AN_ADDRESS, ON_DISK, STORES

_TEXT_SUFFIX = ".txt"
_SHOWN_QUERIES = 100

_BUILD_TEXTS = ("texts, one per line, with noise on their vectors", "hushvec retrieve build notes.txt -o notes.index --epsilon 16")
_SEARCH_TEXTS = ("ask it in words", "hushvec retrieve search notes.index --text 'heart problems'")

NOTE_TEXT = "the texts of documents are shown as they are: document privacy does not cover them, and ends where one is read"


def add_to(subparsers: Subparsers) -> None:
    about = "Indexes with noise on documents, on queries or on scores."
    commands = add_group(subparsers, "retrieve", "ACTION", about, (_BUILD_TEXTS, _SEARCH_TEXTS))
    _add_build(commands)
    _add_search(commands)
    show = add_command(
        commands,
        "show",
        _show,
        help="what an index costs and whom it protects",
        description="Costs of an index.",
        examples=(("with the cost of 1000 queries", "hushvec retrieve show notes.index --queries 1000"),),
    )
    show.add_argument("folder", metavar="INDEX", type=Path, help="folder of an index")
    show.add_argument("--queries", type=int, default=_SHOWN_QUERIES, help="also show the cost of this many queries (default 100)")


def _add_build(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "build",
        _build,
        help="vectors or texts into a new index",
        description=(
            "Put vectors into an index, with noise first where --epsilon (or --sigma) asks for it.\n\n"
            ".npy .parquet .jsonl   vectors, as for hushvec privatize; .jsonl with --text-key: texts, embedded with MiniLM\n"
            ".txt                   one text per line, embedded with MiniLM\n\n"
            "INDEX is written atomically."
        ),
        examples=(
            _BUILD_TEXTS,
            (
                "vectors without noise; each search hides its query",
                "hushvec retrieve build vectors.npy -o vectors.index --query-epsilon 8",
            ),
        ),
    )
    parser.add_argument("input", metavar="IN", type=Path, help="file of vectors or texts")
    parser.add_argument("-o", "--output", metavar="INDEX", type=Path, required=True, help="folder to make")
    parser.add_argument("--ids", metavar="FILE", type=Path, help="one id per line: whole numbers, or strings (default: 0, 1, ...)")
    parser.add_argument("--column", help="column or key of the vectors (default embedding)")
    parser.add_argument("--text-key", help=".jsonl: embed the text under this key")
    documents = parser.add_argument_group("noise on documents, before they are stored")
    documents.add_argument("--epsilon", type=float, help="of each row; without it and --sigma, no noise")
    documents.add_argument("--delta", type=float, default=1e-5, help="for the Gaussian kinds (default 1e-5)")
    documents.add_argument("--mechanism", choices=tuple(MECHANISMS), default="privunit", help="default privunit")
    documents.add_argument("--codebook", metavar="FILE", type=Path, help="answer with codes of this public codebook, not with noise")
    documents.add_argument("--sigma", type=float, help="standard deviation for --mechanism empirical")
    documents.add_argument("--per", choices=PER, default="record", help="every row, or all rows, about one person (default record)")
    documents.add_argument("--renormalize", action="store_true", help="unit rows after the noise")
    queries = parser.add_argument_group("noise on queries, for the asker")
    queries.add_argument("--query-epsilon", type=float, help="of one query; without it, no noise")
    queries.add_argument("--query-mechanism", choices=tuple(MECHANISMS), default="privunit", help="default privunit")
    asker = "a search's queries are one person's and add up (query, the default), several people's (record), one release (release)"
    queries.add_argument("--query-per", choices=(PER_QUERY, *PER), default=PER_QUERY, help=asker)
    scores = parser.add_argument_group("noise on scores, the cost of one query")
    scores.add_argument("--score-epsilon", type=float, help="of the scores of one query; without it, no noise")
    scores.add_argument("--score-delta", type=float, default=1e-5, help="default 1e-5")
    scores.add_argument("--score-mechanism", choices=SCORE_MECHANISMS, default="laplacian", help="default laplacian")
    scores.add_argument("--score-range", metavar="LOW,HIGH", default="-1,1", help="scores are clamped to it (default -1,1)")
    rest = parser.add_argument_group("the index")
    without_address = tuple(store for store in STORES if store not in BEHIND_AN_ADDRESS)  # passwords do not belong in arguments
    rest.add_argument("--store", choices=without_address, default="flat", help="default flat")
    rest.add_argument("--store-option", metavar="NAME=NUMBER", action="append", default=[], help="may be repeated")
    rest.add_argument("--path", type=Path, help="folder of a store on disk (default: INDEX.rows)")
    rest.add_argument("--projection", metavar="FILE", type=Path, help="a public map, saved by PublicProjection.save")
    rest.add_argument("--no-normalize", action="store_true", help="keep lengths; else rows and queries become unit vectors")
    add_key_arguments(parser)
    add_budget_arguments(parser, "documents")


def _add_search(commands: Subparsers) -> None:
    parser = add_command(
        commands,
        "search",
        _search,
        help="the nearest documents of queries",
        description="Answer queries from an index: a file as for `hushvec retrieve build`, or texts.",
        examples=(
            _SEARCH_TEXTS,
            (
                "print the texts too; they are not protected",
                "hushvec retrieve search notes.index queries.npy -k 5 --show-text notes.txt",
            ),
        ),
    )
    parser.add_argument("folder", metavar="INDEX", type=Path, help="folder of an index")
    parser.add_argument("queries", nargs="?", metavar="QUERIES", type=Path, help="file of vectors or texts, unless --text")
    parser.add_argument("--text", action="append", default=[], help="a query in words, embedded with MiniLM; may be repeated")
    parser.add_argument("-k", type=int, default=10, help="documents for a query (default 10)")
    parser.add_argument("--column", help="column or key of the vectors (default embedding)")
    parser.add_argument("--text-key", help=".jsonl: embed the text under this key")
    texts = "print documents' texts too, one per line in the order of the build: NO privacy for them"
    parser.add_argument("--show-text", metavar="FILE", type=Path, help=texts)
    parser.add_argument("--without-budgets", action="store_true", help="continue without a budget that the index was saved with")
    add_key_arguments(parser)
    add_budget_arguments(parser, "scores")


# ---- build ----


def _build(options: argparse.Namespace) -> int:
    _require_new(options.output)
    if options.budget is not None and options.epsilon is None and options.sigma is None:
        raise ValueError("--budget must come with --epsilon or --sigma: without noise there is nothing to charge")
    with ExitStack() as stack:
        budget = stack.enter_context(opened_budget(options))
        ids = None if options.ids is None else _read_ids(options.ids)
        vectors = _vectors(options.input, options)
        index = PrivateIndex(
            vectors.shape[1],
            documents=_document_noise(options, budget),
            queries=_query_noise(options),
            scores=_score_noise(options),
            store=options.store,
            store_options=_store_options(options.store_option) or None,
            path=_store_path(options),
            projection=None if options.projection is None else PublicProjection.load(options.projection),
            normalize=not options.no_normalize,
            generator=make_generator(options),
        )
        with announced("adding the rows to the index"):
            index.add(vectors, ids)
            index.save(options.output)
    _print_index(options, index, _SHOWN_QUERIES)
    return 0


def _require_new(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder}: must be empty or not exist, so that nothing in it is overwritten")
    if not folder.parent.is_dir():
        raise ValueError(f"{folder}: the folder {folder.parent} must exist")
    if not os.access(folder if folder.exists() else folder.parent, os.W_OK | os.X_OK):
        raise ValueError(f"{folder}: must be a place that can be written to")


def _document_noise(options: argparse.Namespace, budget: PrivacyBudget | None) -> VectorNoise | None:
    if options.codebook is not None:
        return VectorNoise(mechanism=_response(options), budget=budget)
    if options.epsilon is None and options.sigma is None:
        return None
    return VectorNoise(
        epsilon=options.epsilon,
        delta=options.delta,
        mechanism=options.mechanism,
        sigma=options.sigma,
        per=options.per,
        renormalize=options.renormalize,
        budget=budget,
    )


def _response(options: argparse.Namespace) -> CodebookResponse:
    if options.epsilon is None:
        raise ValueError("--epsilon must be given with --codebook")
    if options.sigma is not None or options.renormalize or options.per != "record":
        raise ValueError("--codebook must come without --sigma, --renormalize and --per release: it answers each row with a unit row")
    return PublicCodebook.load(options.codebook).mechanism(options.epsilon)


def _query_noise(options: argparse.Namespace) -> VectorNoise | None:
    if options.query_epsilon is None:
        return None
    return VectorNoise(epsilon=options.query_epsilon, mechanism=options.query_mechanism, per=options.query_per)


def _score_noise(options: argparse.Namespace) -> ScoreNoise | None:
    if options.score_epsilon is None:
        return None
    try:
        low, high = map(float, options.score_range.split(","))
    except ValueError:
        raise ValueError(f"--score-range must be two numbers LOW,HIGH, got {options.score_range!r}") from None
    return ScoreNoise(
        epsilon=options.score_epsilon, delta=options.score_delta, mechanism=options.score_mechanism, score_range=(low, high)
    )


def _store_options(given: list[str]) -> dict[str, Any]:
    named = {}
    for option in given:
        name, separator, value = option.partition("=")
        if not separator:
            raise ValueError(f"--store-option must be NAME=NUMBER, got {option!r}")
        named[name] = int(value) if value.lstrip("-").isdigit() else value
    return named


def _store_path(options: argparse.Namespace) -> Path | None:
    if options.path is not None or options.store not in ON_DISK:
        return options.path  # type: ignore[no-any-return]
    folder: Path = options.output
    return folder.with_name(f"{folder.name}.rows")


# ---- search ----


def _search(options: argparse.Namespace) -> int:
    if (options.queries is None) == (not options.text):
        raise ValueError("one of QUERIES and --text must be given")
    texts = None if options.show_text is None else _read_lines(options.show_text)
    with ExitStack() as stack:
        index = PrivateIndex.load(
            options.folder,
            score_budget=stack.enter_context(opened_budget(options)),
            without_budgets=options.without_budgets or options.budget is not None,
            generator=make_generator(options),
        )
        if texts is not None:
            _require_texts(index, texts)
            print(f"{options.prog}: {NOTE_TEXT}", file=sys.stderr)
        queries = embedded(MiniLMEmbedder(), options.text) if options.text else _vectors(options.queries, options)
        found = index.search(queries, k=options.k)
    answers = [list(_hits(ids, scores, texts)) for ids, scores in zip(found.ids.tolist(), _score_lists(found), strict=True)]
    receipts = {"query_receipt": found.query_receipt, "score_receipt": found.score_receipt}
    if options.json:
        shown = {name: None if receipt is None else receipt.to_dict() for name, receipt in receipts.items()}
        print_json({"answers": answers, **shown, "notes": [] if texts is None else [NOTE_TEXT]})
        return 0
    _print_answers(answers)
    for name, receipt in receipts.items():
        if receipt is not None:
            claim = "" if receipt.is_dp_claim else ": NOT a DP claim"
            what = f"{name.replace('_', ' ')} of {plural(len(answers), 'query', 'queries')}"
            say("", f"{what}: epsilon = {receipt.epsilon!r}, delta = {receipt.delta!r}{claim}")
    return 0


def _score_lists(found: Any) -> list[Any]:
    return [None] * len(found.ids) if found.scores is None else found.scores.tolist()


def _hits(ids: list[Any], scores: list[float] | None, texts: Mapping[Any, str] | None) -> Iterator[dict[str, Any]]:
    for place, one in enumerate(ids):
        hit: dict[str, Any] = {"id": one, "score": None if scores is None else scores[place]}
        yield hit if texts is None else {**hit, "text": texts[one]}


def _print_answers(answers: list[list[dict[str, Any]]]) -> None:
    rows = []
    for query, hits in enumerate(answers):
        for rank, hit in enumerate(hits, 1):
            score = "" if hit["score"] is None else f"{hit['score']:.4f}"
            rows.append((str(query), str(rank), str(hit["id"]), score, hit.get("text", "")))
    print(table(("query", "rank", "id", "score", "text"), rows))


def _require_texts(index: PrivateIndex, texts: Mapping[Any, str]) -> None:
    unknown = next((one for one in index.ids.tolist() if one not in texts), None)
    if unknown is not None:
        raise ValueError(f"--show-text must have a line for every id from 0 on, or JSON with an id: none for {unknown!r}")


# ---- show ----


def _show(options: argparse.Namespace) -> int:
    _print_index(options, PrivateIndex.load(options.folder, without_budgets=True), options.queries)
    return 0


def _print_index(options: argparse.Namespace, index: PrivateIndex, queries: int) -> None:
    if options.json:
        settings = {name: value for name, value in index.settings.to_dict().items() if value is not None}
        print_json(
            {
                "rows": len(index),
                "settings": settings,
                "document_guarantee": index.document_guarantee(),
                "document_guarantee_of_queries": {"queries": queries, "guarantee": index.document_guarantee(queries)},
                "query_guarantee": index.query_guarantee(),
                "query_guarantee_of_queries": {"queries": queries, "guarantee": index.query_guarantee(queries)},
                "receipts": [receipt.to_dict() for receipt in index.receipts],
            }
        )
        return
    say(*index.describe())
    if index.settings.scores is not None:
        say(f"{plural(queries, 'query', 'queries')}: {index.document_guarantee(queries)}")
    for receipt in index.receipts:
        print(f"\n{receipt_lines(receipt)}")


# ---- what comes in ----


def _vectors(path: Path, options: argparse.Namespace) -> NDArray[Any]:
    """Rows of a file; texts are embedded."""
    if path.suffix.lower() == _TEXT_SUFFIX:
        lines = [line for _, line in numbered_lines(read_utf8(str(path)), str(path))]
        return embedded(MiniLMEmbedder(), lines)
    source = open_source(path, Columns(vector=options.column, text=options.text_key))
    parts = []
    with Progress("rows", source.count()) as progress:
        for part in source.parts():
            parts.append(np.atleast_2d(part.values))
            progress.advance(len(parts[-1]))
    return np.concatenate(parts) if parts else np.empty((0, source.dimension), np.float32)


def _read_ids(path: Path) -> list[int] | list[str]:
    """One id per line: whole numbers if all are."""
    lines = [line.strip() for _, line in numbered_lines(read_utf8(str(path)), str(path))]
    try:
        return [int(line) for line in lines]
    except ValueError:
        return lines


def _read_lines(path: Path) -> dict[Any, str]:
    """Texts by id: lines count from 0; lines of JSON have "id" and "text"."""
    lines = list(numbered_lines(read_utf8(str(path)), str(path)))
    if path.suffix.lower() != ".jsonl":
        return {number: line for number, (_, line) in enumerate(lines)}
    records = [(where, json_record(line, "text", where)) for where, line in lines]
    return {field(record.fields, "id", where): record.text for where, record in records}
