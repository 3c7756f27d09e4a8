"""`hushvec rewrite`: texts to private vectors and back, for one text or thousands of documents."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, TextIO

from hushvec._native._core import Generator
from hushvec._util.display import Progress, announced, plural
from hushvec._util.lines import copied_fields, json_line, json_record, numbered_lines
from hushvec._util.publish import published_text, receipt_path
from hushvec.accounting import COMPOSITIONS
from hushvec.cli._arguments import BudgetOptions, ForceOption, comma_separated, opened_budget, replaced_release
from hushvec.cli._output import answered
from hushvec.cli._parser import argument, number_or_infinity, option
from hushvec.cli._style import say
from hushvec.cli._texts import files_of_folder, mode_of_output, path_or_stdout, read_utf8, source_name, written
from hushvec.mechanisms import Gaussian
from hushvec.text.pii.redactor import Redactor
from hushvec.text.rewriting.chunks import LEVELS, Chunking
from hushvec.text.rewriting.plans import AUTO, CHOICE, NOTE_NO_PUBLIC_TEXTS, rewriting_mechanisms
from hushvec.text.rewriting.results import Rewriting
from hushvec.text.rewriting.rewriter import Rewriter

FILE_NAME = "file"  # the key under which --keep copies the name of a folder's file


class Rewrite(ForceOption, BudgetOptions, name="rewrite", examples=(
    ("one text, as one of the bundled public sentences", "hushvec rewrite --text 'The biopsy came back benign.' --epsilon 8"),
    (
        "every line of a file, as one of your own public texts",
        "hushvec rewrite notes.txt --lines -o rewritten.jsonl --inverter public.txt",
    ),
    ("every file of a folder, with its name", "hushvec rewrite letters --keep file -o rewritten.jsonl"),
)):
    """Rewrite a text with differential privacy: it is redacted and embedded, and replaced by the nearest public text, or
    a random other one (randomized response). Public texts are those of --inverter, or the bundled sentences. The
    [DP] line belongs to the output wherever it goes.

    --published is the chain of published pipelines: placeholders stay, and each stretch between them is embedded,
    clipped, given Gaussian noise and inverted. At the default epsilon that leaves little of a text.

    The input is one text, unless --lines (every line is a document) or --text-key (JSON lines) says otherwise, or FILE is
    a folder (every .txt and .md file in it is a document, by name); then the output is JSON lines, each with its receipt:
    hushvec verify reads them. No original is printed or written without --show-original. OUT is written atomically; one
    that exists is refused without --force."""

    source: str | None = argument("a UTF-8 file, a folder, or - for standard input (default)", "FILE", nargs="?")
    text: str | None = option("the text itself, instead of a file")
    lines: bool = option("every line that is not blank is a separate document", alone="many")
    text_key: str | None = option("JSON lines: the document is the text under this key", alone="many", metavar="KEY")
    keep: str | None = option(
        "JSON lines: keys to copy unprotected, separated by commas; a folder: file, the name of each", metavar="NAMES"
    )
    output: Path | None = option("file to write (default: standard output, also -)", type=path_or_stdout, metavar="OUT")
    show_original: bool = option("print the original text, and with --json its parts: private, and not for OUT")
    epsilon: float = option("for a whole document (default 16); inf: no noise, no guarantee", 16.0, type=number_or_infinity)
    delta: float = option("for a whole document, gaussian only (default 1e-3)", 1e-3)
    clip_norm: float | None = option(
        "L2 norm that embeddings are clipped to (default: the bound on the embedder's norms if known, else 1.5)", None, "--clip"
    )
    mechanism: str = option(
        "law of the release (default auto: randomized_response where there are public texts)", AUTO, alone="law",
        choices=lambda: (AUTO, *rewriting_mechanisms()),
    )
    published: Any = option(
        "the published chain: --mechanism gaussian", alone="law", dest="mechanism", action="store_const", const=Gaussian.name
    )
    composition: str = option("of a document's chunks, gaussian only", Chunking.composition, choices=COMPOSITIONS)
    level: str | None = option("what is one row (default chunk for additive noise, else document)", choices=LEVELS)
    max_chunks: int | None = option("pad or join to this many chunks; placeholders follow", metavar="K")
    max_length: int = option("tokens in a chunk", Chunking.max_length, metavar="TOKENS")
    allow_categories: str | None = option("categories that are rewritten, not redacted", metavar="NAMES")
    inverter: str | None = option("file of public texts, or checkpoint (default: the bundled sentences)", metavar="PATH")
    embedder: str | None = option("folder or hub id (default all-MiniLM-L6-v2, or the inverter's own)", metavar="PATH")
    steps: int = option("corrections by a vec2text checkpoint", 5)
    device: str | None = option("of models that a path names (default: CUDA if there is one)")
    unsafe_seed: int | None = option("reproducible noise, which gives NO privacy", None, "--seed", metavar="SEED")

    def run(self) -> int:
        if self.text is not None and self.source is not None:
            raise ValueError("one of FILE and --text must be given, got both")
        if self.output is not None and not self.output.parent.is_dir():
            raise ValueError(f"{self.output}: the folder {self.output.parent} must exist")
        if self.output is not None and self.show_original:
            raise ValueError("--show-original must come without --output: OUT is for what may be published")
        is_folder = self.text is None and self.source not in (None, "-") and Path(str(self.source)).is_dir()
        documents = list(_documents_of_folder(self, Path(str(self.source)))) if is_folder else []
        if self.keep is not None and self.text_key is None and not is_folder:
            raise ValueError("--keep must come with --text-key, whose other keys it names, or with a folder")
        replaced = () if self.output is None else replaced_release(self)
        if is_folder:
            return _many(self, documents, replaced)
        content = self.text if self.text is not None else read_utf8(self.source)
        if self.lines or self.text_key is not None:
            return _many(self, list(_documents(self, content)), replaced)
        rewriter = _rewriter(self)
        with nullcontext() if self.output is None else written(self) as file:
            with opened_budget(self) as budget:
                result = _noted(rewriter.rewrite(content, budget=budget), replaced)
            _write_one(self, content, result, file)
        if self.output is not None:
            print(result.dp_line)
        return 0


def _documents_of_folder(options: Rewrite, folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each of its files as a document."""
    if options.lines or options.text_key is not None:
        raise ValueError(f"--lines and --text-key must come with a file, got the folder {folder}")
    if options.keep not in (None, FILE_NAME):
        raise ValueError(f"--keep must be {FILE_NAME!r} with a folder, got {options.keep!r}")
    for file in files_of_folder(folder):
        text = read_utf8(str(file))
        if not text.strip():
            raise ValueError(f"{file}: must not be empty")
        yield text, {} if options.keep is None else {FILE_NAME: file.relative_to(folder).as_posix()}


def _rewriter(options: Rewrite) -> Rewriter:
    with announced("loading the models"):
        rewriter = Rewriter(
            num_steps=options.steps, redactor=Redactor(allow_categories=comma_separated(options.allow_categories)),
            chunking=Chunking(**options.named("composition", "level", "max_chunks", "max_length")),
            generator=None if options.unsafe_seed is None else Generator.unsafe_seeded(options.unsafe_seed),
            **options.named("epsilon", "delta", "clip_norm", "mechanism", "inverter", "embedder", "device"),
        )
    if options.mechanism == AUTO and rewriter.mechanism != CHOICE:
        print(f"{options.prog}: {NOTE_NO_PUBLIC_TEXTS.format(mechanism=rewriter.mechanism)}", file=sys.stderr)
    return rewriter


def _write_one(options: Rewrite, text: str, result: Rewriting, file: TextIO | None) -> None:
    """Print the result, or write it to a file, with the receipt beside it."""
    if file is None:
        original = f"=== ORIGINAL ===\n{text.rstrip()}\n\n" if options.show_original else ""
        shown = f"{original}=== OUTPUT ===\n{result.output}\n\n{result.dp_line}"
        answered(options, result.to_dict(private=options.show_original), shown)
        return
    if options.json:
        file.write(json.dumps(result.to_dict(private=False), indent=2, ensure_ascii=False) + "\n")
    else:
        file.write(f"{result.output}\n\n{result.dp_line}\n")
    assert options.output is not None
    # The receipt is written before the output; without a release there is none, and an old one is removed.
    receipt_path(options.output).unlink(missing_ok=True)
    if result.receipt is not None:
        with published_text(receipt_path(options.output), mode=mode_of_output(options.source)) as receipt_file:
            receipt_file.write(result.receipt.to_json() + "\n")


def _noted(result: Rewriting, notes: tuple[str, ...]) -> Rewriting:
    """Return the result with further notes in its receipt, if it has one."""
    receipt = result.receipt
    return result if receipt is None else replace(result, receipt=replace(receipt, notes=(*receipt.notes, *notes)))


def _documents(options: Rewrite, content: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (text, fields that are copied) of every document."""
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


def _many(options: Rewrite, documents: list[tuple[str, dict[str, Any]]], replaced: tuple[str, ...]) -> int:
    if not documents:
        raise ValueError("the input must hold at least one document")
    rewriter = _rewriter(options)
    with written(options) as file, opened_budget(options) as budget, Progress("documents", len(documents)) as progress:
        if budget is not None:
            # Before the first charge: each document is a separate charge.
            needed, state = len(documents) * options.epsilon, budget.state()
            if state.max_epsilon is not None and state.on_exhausted == "block" and budget.remaining() < needed:
                what = f"{len(documents)} times epsilon = {options.epsilon!r} left, one for each document"
                raise ValueError(f"budget must have {what}, got {budget.remaining()!r}")
        results = rewriter.rewrite_all((text for text, _ in documents), budget=budget)
        for result, (_, kept) in zip(results, documents, strict=True):
            fields = {**kept, **_noted(result, replaced).to_dict(private=options.show_original)}
            file.write(json_line(fields) + "\n")
            progress.advance(1)
    if options.output is not None:
        say(f"{options.output}: {plural(len(documents), 'document')}")
    return 0
