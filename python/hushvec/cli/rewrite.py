"""`hushvec rewrite`: texts to private vectors and back, for one text or thousands of documents."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from hushvec import Generator
from hushvec._util.display import plural
from hushvec._util.lines import copied_fields, json_line, json_record, numbered_lines
from hushvec._util.progress import Progress, announced
from hushvec._util.publish import published_text, receipt_path
from hushvec.accounting.calibration import COMPOSITIONS
from hushvec.budget import PrivacyBudget
from hushvec.cli._arguments import (
    Subparsers,
    add_budget_arguments,
    add_command,
    add_force_argument,
    comma_separated,
    opened_budget,
    replaced_release,
)
from hushvec.cli._documents import files_of_folder, mode_of_output, read_utf8, source_name
from hushvec.cli._output import print_json
from hushvec.cli._parser import number_or_infinity
from hushvec.cli._printable import say
from hushvec.mechanisms import Gaussian
from hushvec.text.rewriting.plans import AUTO, CHOICE, LEVELS, NOTE_NO_PUBLIC_TEXTS, REWRITING_MECHANISMS
from hushvec.text.rewriting.results import Rewriting
from hushvec.text.rewriting.rewriter import Rewriter

FILE_NAME = "file"  # the key under which --keep copies the name of a folder's file


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "rewrite",
        run,
        description=(
            "Rewrite a text with differential privacy: it is redacted and embedded, and replaced by the nearest public text, or\n"
            "a random other one (randomized response). Public texts are those of --inverter, or the bundled sentences. The\n"
            "[DP] line belongs to the output wherever it goes.\n\n"
            "--published is the chain of published pipelines: placeholders stay, and each stretch between them is embedded,\n"
            "clipped, given Gaussian noise and inverted. At the default epsilon that leaves little of a text.\n\n"
            "The input is one text, unless --lines (every line is a document) or --text-key (JSON lines) says otherwise, or FILE is\n"
            "a folder (every .txt and .md file in it is a document, by name); then the output is JSON lines, each with its receipt:\n"
            "hushvec verify reads them. No original is printed or written without --show-original. OUT is written atomically; one\n"
            "that exists is refused without --force."
        ),
        examples=(
            (
                "one text, as one of the bundled public sentences",
                "hushvec rewrite --text 'The biopsy came back benign.' --epsilon 8",
            ),
            (
                "every line of a file, as one of your own public texts",
                "hushvec rewrite notes.txt --lines -o rewritten.jsonl --inverter public.txt",
            ),
            (
                "every file of a folder, with its name",
                "hushvec rewrite letters --keep file -o rewritten.jsonl",
            ),
        ),
    )
    parser.add_argument("source", nargs="?", metavar="FILE", help="a UTF-8 file, a folder, or - for standard input (default)")
    parser.add_argument("--text", help="the text itself, instead of a file")
    many = parser.add_mutually_exclusive_group()
    many.add_argument("--lines", action="store_true", help="every line that is not blank is a separate document")
    many.add_argument("--text-key", metavar="KEY", help="JSON lines: the document is the text under this key")
    parser.add_argument(
        "--keep", metavar="NAMES", help="JSON lines: keys to copy unprotected, separated by commas; a folder: file, the name of each"
    )
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, help="file to write (default: standard output)")
    add_force_argument(parser)
    parser.add_argument(
        "--show-original",
        action="store_true",
        help="print the original text, and with --json its parts: private, and not for OUT",
    )
    what = "for a whole document (default 16); inf: no noise, no guarantee"
    parser.add_argument("--epsilon", type=number_or_infinity, default=16.0, help=what)
    parser.add_argument("--delta", type=float, default=1e-3, help="for a whole document, gaussian only (default 1e-3)")
    parser.add_argument(
        "--clip-norm",
        "--clip",
        type=float,
        help="L2 norm that embeddings are clipped to (default: the bound on the embedder's norms if known, else 1.5)",
    )
    law = parser.add_mutually_exclusive_group()
    law.add_argument(
        "--mechanism",
        choices=(AUTO, *REWRITING_MECHANISMS),
        default=AUTO,
        help="law of the release (default auto: randomized_response where there are public texts)",
    )
    law.add_argument(
        "--published", dest="mechanism", action="store_const", const=Gaussian.name, help="the published chain: --mechanism gaussian"
    )
    parser.add_argument(
        "--composition", choices=COMPOSITIONS, default="joint", help="of a document's chunks, gaussian only (default joint)"
    )
    parser.add_argument("--level", choices=LEVELS, help="what is one row (default chunk for additive noise, else document)")
    parser.add_argument("--max-chunks", type=int, metavar="K", help="pad or join to this many chunks; placeholders follow")
    parser.add_argument("--max-length", type=int, default=32, metavar="TOKENS", help="tokens in a chunk (default 32)")
    parser.add_argument("--max-len", dest="max_length", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--allow-categories", metavar="NAMES", help="categories that are rewritten, not redacted")
    parser.add_argument("--whitelist-categories", dest="allow_categories", help=argparse.SUPPRESS)
    parser.add_argument("--inverter", metavar="PATH", help="file of public texts, or checkpoint (default: the bundled sentences)")
    parser.add_argument("--embedder", metavar="PATH", help="folder or hub id (default all-MiniLM-L6-v2, or the inverter's own)")
    parser.add_argument("--steps", type=int, default=5, help="corrections by a vec2text checkpoint (default 5)")
    parser.add_argument("--device", help="of models that a path names (default: CUDA if there is one)")
    parser.add_argument("--unsafe-seed", "--seed", type=int, metavar="SEED", help="reproducible noise, which gives NO privacy")
    add_budget_arguments(parser)


def run(options: argparse.Namespace) -> int:
    if options.text is not None and options.source is not None:
        raise ValueError("one of FILE and --text must be given, got both")
    if options.output is not None and not options.output.parent.is_dir():
        raise ValueError(f"{options.output}: the folder {options.output.parent} must exist")
    if options.output is not None and options.show_original:
        raise ValueError("--show-original must come without --output: OUT is for what may be published")
    folder = _folder(options)
    if options.keep is not None and options.text_key is None and folder is None:
        raise ValueError("--keep must come with --text-key, whose other keys it names, or with a folder")
    replaced = () if options.output is None else replaced_release(options)
    if folder is not None:
        return _many(options, list(_documents_of_folder(folder, options.keep)), replaced)
    content = options.text if options.text is not None else read_utf8(options.source)
    if options.lines or options.text_key is not None:
        return _many(options, list(_documents(options, content)), replaced)
    return _one(options, content, replaced)


def _folder(options: argparse.Namespace) -> Path | None:
    """FILE, if it is a folder; each of its files is then a document."""
    if options.text is not None or options.source in (None, "-") or not Path(options.source).is_dir():
        return None
    if options.lines or options.text_key is not None:
        raise ValueError(f"--lines and --text-key must come with a file, got the folder {options.source}")
    if options.keep not in (None, FILE_NAME):
        raise ValueError(f"--keep must be {FILE_NAME!r} with a folder, got {options.keep!r}")
    return Path(options.source)


def _documents_of_folder(folder: Path, keep: str | None) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in files_of_folder(folder):
        text = read_utf8(str(file))
        if not text.strip():
            raise ValueError(f"{file}: must not be empty")
        yield text, {} if keep is None else {FILE_NAME: file.relative_to(folder).as_posix()}


def _rewriter(options: argparse.Namespace) -> Rewriter:
    with announced("loading the models"):
        rewriter = _made(options)
    if options.mechanism == AUTO and rewriter.mechanism != CHOICE:
        print(f"{options.prog}: {NOTE_NO_PUBLIC_TEXTS.format(mechanism=rewriter.mechanism)}", file=sys.stderr)
    return rewriter


def _made(options: argparse.Namespace) -> Rewriter:
    return Rewriter(
        epsilon=options.epsilon,
        delta=options.delta,
        clip_norm=options.clip_norm,
        num_steps=options.steps,
        allow_categories=comma_separated(options.allow_categories),
        max_length=options.max_length,
        device=options.device,
        generator=None if options.unsafe_seed is None else Generator.unsafe_seeded(options.unsafe_seed),
        embedder=options.embedder,
        inverter=options.inverter,
        composition=options.composition,
        max_chunks=options.max_chunks,
        mechanism=options.mechanism,
        level=options.level,
    )


def _one(options: argparse.Namespace, text: str, replaced: tuple[str, ...]) -> int:
    rewriter = _rewriter(options)
    if options.output is None:
        with opened_budget(options) as budget:
            result = rewriter.rewrite(text, budget=budget)
        if options.json:
            print_json(result.to_dict(private=options.show_original))
        else:
            original = f"=== ORIGINAL ===\n{text.rstrip()}\n\n" if options.show_original else ""
            print(f"{original}=== OUTPUT ===\n{result.output}\n\n{result.dp_line}")
        return 0
    with published_text(options.output, mode=mode_of_output(options.source)) as file:
        with opened_budget(options) as budget:
            result = _noted(rewriter.rewrite(text, budget=budget), replaced)
        if options.json:
            file.write(json.dumps(result.to_dict(private=False), indent=2, ensure_ascii=False) + "\n")
        else:
            file.write(f"{result.output}\n\n{result.dp_line}\n")
        _write_receipt(options, result)
    print(result.dp_line)
    return 0


def _noted(result: Rewriting, notes: tuple[str, ...]) -> Rewriting:
    """With further notes in its receipt, if it has one."""
    receipt = result.receipt
    return result if receipt is None else replace(result, receipt=replace(receipt, notes=(*receipt.notes, *notes)))


def _write_receipt(options: argparse.Namespace, result: Rewriting) -> None:
    """Written beside the output, before it; without a release there is no receipt, and an old one is removed."""
    receipt_path(options.output).unlink(missing_ok=True)
    if result.receipt is not None:
        with published_text(receipt_path(options.output), mode=mode_of_output(options.source)) as file:
            file.write(result.receipt.to_json() + "\n")


def _documents(options: argparse.Namespace, content: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """(text, fields that are copied) of every document."""
    name = source_name(options.source) if options.text is None else "--text"
    keep = comma_separated(options.keep) or []
    for where, line in numbered_lines(content, name):
        if options.text_key is None:
            yield line, {}
            continue
        record = json_record(line, options.text_key, where)
        if not record.text.strip():
            raise ValueError(f"{where}: {options.text_key!r} must not be empty")
        yield record.text, copied_fields(record.fields, keep, where)


def _many(options: argparse.Namespace, documents: list[tuple[str, dict[str, Any]]], replaced: tuple[str, ...]) -> int:
    if not documents:
        raise ValueError("the input must hold at least one document")
    rewriter = _rewriter(options)
    sink: Any = nullcontext(sys.stdout)
    if options.output is not None:
        sink = published_text(options.output, mode=mode_of_output(options.source))
    with sink as file, opened_budget(options) as budget, Progress("documents", len(documents)) as progress:
        if budget is not None:
            _require_enough(budget, len(documents), options.epsilon)
        results = rewriter.rewrite_all((text for text, _ in documents), budget=budget)
        for result, (_, kept) in zip(results, documents, strict=True):
            _write_line(file, _noted(result, replaced), kept, private=options.show_original)
            progress.advance(1)
    if options.output is not None:
        say(f"{options.output}: {plural(len(documents), 'document')}")
    return 0


def _require_enough(budget: PrivacyBudget, documents: int, epsilon: float) -> None:
    """Refuse before the first charge if the budget would run out: each document is a separate charge."""
    state = budget.state()
    if state.max_epsilon is not None and state.on_exhausted == "block" and budget.remaining() < documents * epsilon:
        raise ValueError(
            f"budget must have {documents} times epsilon = {epsilon!r} left, one for each document, got {budget.remaining()!r}"
        )


def _write_line(file: TextIO, result: Rewriting, kept: dict[str, Any], *, private: bool) -> None:
    file.write(json_line({**kept, **result.to_dict(private=private)}) + "\n")
