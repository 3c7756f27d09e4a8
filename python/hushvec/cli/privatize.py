"""`hushvec privatize IN -o OUT`: a file of vectors (or texts) in, the same kind of file and a receipt out."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import BinaryIO

from hushvec._util.display import Progress
from hushvec._util.publish import mode_of, published, receipt_path
from hushvec.budget import PrivacyBudget
from hushvec.cli._arguments import (
    Subparsers,
    add_budget_arguments,
    add_command,
    add_force_argument,
    add_release_arguments,
    make_generator,
    replaced_release,
)
from hushvec.cli._output import print_json, receipt_lines
from hushvec.cli._printable import say
from hushvec.cli.files import Columns, FileError, Source, open_source, rehearse
from hushvec.mechanisms import CodebookResponse, PublicCodebook
from hushvec.receipts.labels import RowReceipt, released_rows
from hushvec.receipts.vectors import INT8
from hushvec.release.plan import ReleasePlan, plan_release
from hushvec.release.vectors import charge, require_chargeable


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "privatize",
        run,
        description=(
            "Release the vectors of a file with differential privacy; the receipt goes to OUT.receipt.json.\n\n"
            ".npy      floats of 16, 32 or 64 bits, or integers (released as float32), one or two dimensions, any size\n"
            ".parquet  a column of float lists; other columns are dropped unless --keep names them\n"
            ".jsonl    a list of numbers under --column, or with --text-key a text that is embedded first;\n"
            "          other keys are dropped unless --keep names them\n\n"
            "What --keep names is copied without protection. OUT is written atomically, readable by those who may read IN.\n"
            "An existing OUT is refused without --force."
        ),
        examples=(
            (
                "a file of vectors, as noisy directions",
                "hushvec privatize vectors.npy -o private.npy --epsilon 8 --mechanism privunit",
            ),
            (
                "texts of a JSON lines file, embedded first; the key \"id\" is copied as it is",
                "hushvec privatize notes.jsonl -o private.jsonl --text-key text --keep id --epsilon 8",
            ),
            (
                "charge a budget first (hushvec budget create)",
                "hushvec privatize vectors.npy -o private.npy --epsilon 2 --budget clinic",
            ),
        ),
    )
    parser.add_argument("input", metavar="IN", type=Path, help="file of vectors: .npy, .parquet or .jsonl")
    parser.add_argument("-o", "--output", metavar="OUT", type=Path, required=True, help="file of the same kind")
    add_force_argument(parser)
    parser.add_argument("--epsilon", type=float, help="needed by every mechanism but empirical")
    add_release_arguments(parser)
    parser.add_argument(
        "--codebook", metavar="FILE", type=Path, help="answer with codes of this public codebook (hushvec codebook), not with noise"
    )
    parser.add_argument("--normalize", action="store_true", help="unit rows before the noise (clip norm 1)")
    parser.add_argument("--renormalize", action="store_true", help="unit rows after the noise")
    parser.add_argument("--dtype", choices=(INT8,), help="whole numbers in [-127, 127]; the receipt's grid is their scale")
    add_budget_arguments(parser)
    parser.add_argument("--column", help="column or key of the vectors (default embedding)")
    parser.add_argument("--text-key", help=".jsonl: embed the text under this key with MiniLM")
    parser.add_argument("--keep", metavar="NAMES", default="", help="columns or keys to copy unprotected, separated by commas")


def run(options: argparse.Namespace) -> int:
    _check_output(options.input, options.output)
    replaced = replaced_release(options)
    kept = _kept(options)
    source = open_source(options.input, Columns(vector=options.column, text=options.text_key, keep=kept))
    plan = _plan(options, source)
    notes = (*_notes(options.text_key, kept), *replaced)
    with published(options.output, mode=mode_of(options.input)) as (file, receipt_file):
        paid = None if options.budget is None else _charge(options, source, plan, plan.receipt(source.count(), notes=notes))
        rows = _release(source, plan, options.input, file)
        if paid is not None and rows != released_rows(paid):
            raise FileError(options.input, f"the file changed while it was read: {released_rows(paid)} rows were charged")
        receipt = paid or plan.receipt(rows, notes=notes)
        receipt_file.write(f"{receipt.to_json()}\n".encode())
    _report(options, receipt)
    return 0


def _check_output(source: Path, output: Path) -> None:
    if output.suffix.lower() != source.suffix.lower():
        raise FileError(output, f"must end in {source.suffix} like the input")
    if output.exists() and not output.is_file():
        raise FileError(output, "must be a plain file")
    if not output.parent.is_dir():
        raise FileError(output, f"the folder {output.parent} must exist")


def _kept(options: argparse.Namespace) -> tuple[str, ...]:
    kept = tuple(name for name in options.keep.split(",") if name)
    twice = next((name for name in kept if kept.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"--keep must name {twice!r} once")
    return kept


def _plan(options: argparse.Namespace, source: Source) -> ReleasePlan:
    rows = source.count() if options.per == "release" else 1
    mechanism = options.mechanism if options.codebook is None else _response(options, source, rows)
    return plan_release(
        rows=rows,
        dimension=source.dimension,
        dtype=source.dtype,
        epsilon=options.epsilon if options.codebook is None else None,
        delta=options.delta,
        clip_norm=options.clip_norm,
        mechanism=mechanism,
        sigma=options.sigma,
        normalize=options.normalize,
        renormalize=options.renormalize,
        per=options.per,
        generator=make_generator(options),
        values_dtype=options.dtype,
    )


def _response(options: argparse.Namespace, source: Source, rows: int) -> CodebookResponse:
    if options.mechanism != "gaussian" or options.clip_norm != 1:
        raise ValueError("--codebook must come without --mechanism and --clip-norm: it answers with its own unit rows")
    if options.epsilon is None:
        raise ValueError("--epsilon must be given with --codebook")
    codebook = PublicCodebook.load(options.codebook)
    if options.text_key is None:  # texts would be embedded twice: theirs are looked at when they are released
        done = 0
        for part in source.parts():
            codebook.require_other_rows(part.values, first_row=done)
            done += len(part.values)
    return codebook.mechanism(options.epsilon, rows_per_person=max(1, rows))


def _charge(options: argparse.Namespace, source: Source, plan: ReleasePlan, receipt: RowReceipt) -> RowReceipt:
    """Charge the budget once nothing in the file can be refused any more. Embedded texts are finite, and slow to make twice."""
    with PrivacyBudget.reopen(options.budget, store=options.budget_store) as budget:
        require_chargeable(budget, plan)
        rehearse(options.input, source)
        return charge(receipt, budget, plan)


def _release(source: Source, plan: ReleasePlan, path: Path, file: BinaryIO) -> int:
    """Write all rows to `file` and return their number."""
    planned = plan.mechanism.rows_per_person
    done = 0
    with source.sink(file, plan.dtype if plan.dtype == INT8 else None) as sink, Progress("rows", source.count()) as progress:
        for part in source.parts():
            rows = len(part.values)
            if plan.per == "release" and done + rows > planned:
                raise FileError(path, f"the file grew while it was read: {planned} rows were counted")
            try:
                if isinstance(plan.mechanism, CodebookResponse):
                    plan.mechanism.codebook.require_other_rows(part.values, first_row=done)
                values = plan.run(part.values, first_row=done)
            except ValueError as error:
                raise FileError(path, str(error)) from None
            sink.write(values, part.kept)
            done += rows
            progress.advance(rows)
    return done


def _notes(text_key: str | None, kept: tuple[str, ...]) -> tuple[str, ...]:
    notes = []
    if text_key is not None:
        notes.append("vectors are all-MiniLM-L6-v2 embeddings of texts, cut after 256 tokens")
    if kept:
        notes.append(f"copied without protection: {', '.join(kept)}")
    return tuple(notes)


def _report(options: argparse.Namespace, receipt: RowReceipt) -> None:
    where = receipt_path(options.output)
    if options.json:
        print_json({"output": str(options.output), "receipt_file": str(where), "receipt": receipt.to_dict()})
    else:
        say(str(options.output), str(where), "")
        print(receipt_lines(receipt))
