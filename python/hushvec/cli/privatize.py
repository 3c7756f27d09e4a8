"""`hushvec privatize IN -o OUT`: a file of vectors (or texts) in, the same kind of file and a receipt out. `hushvec codebook`: a
public codebook from public rows or texts, for it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from hushvec._util.display import Progress
from hushvec._util.publish import mode_of, published, receipt_path
from hushvec.budget import PrivacyBudget
from hushvec.cli._arguments import BudgetOptions, ForceOption, ReleaseOptions, comma_separated, make_generator, replaced_release
from hushvec.cli._output import answered, facts, receipt_lines
from hushvec.cli._parser import argument, option
from hushvec.cli._style import printable
from hushvec.cli.vectors import FILES, NOTE_EMBEDDED, VectorOptions, open_source, rehearse
from hushvec.cli.vectors.source import Columns, FileError, Source, naming, require_output
from hushvec.cli.vectors.tables import suffix_of
from hushvec.extend import ReleasePlan, RowReceipt, charge, plan_release, released_rows, require_chargeable
from hushvec.mechanisms import CodebookResponse, PublicCodebook
from hushvec.mechanisms.codebook import AUTO, COSINE, SEARCH
from hushvec.receipts import INT8

ALL = "all"


class Privatize(VectorOptions, ForceOption, ReleaseOptions, BudgetOptions, name="privatize", examples=(
    ("a file of vectors, as noisy directions", "hushvec privatize vectors.npy -o private.npy --epsilon 8 --mechanism privunit"),
    (
        "texts of a JSON lines file, embedded first; the key \"id\" is copied as it is",
        "hushvec privatize notes.jsonl -o private.jsonl --text-key text --keep id --epsilon 8",
    ),
    ("charge a budget first (hushvec budget create)", "hushvec privatize vectors.npy -o private.npy --epsilon 2 --budget clinic"),
)):
    """Release the vectors of a file with differential privacy; the receipt goes to OUT.receipt.json.

    .npy      floats of 16, 32 or 64 bits, or integers (released as float32), one or two dimensions, any size
    .npz      the array --column, or the only one
    .parquet  a column of float lists; other columns are dropped unless --keep names them; .arrow and .feather likewise, and a
              folder of Hugging Face's save_to_disk, released into an .arrow file
    .jsonl    a list of numbers under --column, or with --text-key a text that is embedded first;
              other keys are dropped unless --keep names them; .ndjson likewise, and .json: an object or a list of them.
              Dots go into nested keys (data.embedding); a key that leads to several vectors makes several rows
    .csv      a number of the vector in each of the columns --column (d0..d383), by default all that --keep does not name, which
              must look alike; or a column of lists like "[0.5, 0.25]"; or a text, with --text-key

    What --keep names is copied without protection. OUT is written atomically, readable by those who may read IN.
    An existing OUT is refused without --force."""

    input: Path = argument(f"file of vectors: {FILES}", "IN")
    output: Path = option("file of the same kind", metavar="OUT", required=True)
    epsilon: float | None = option("needed by every mechanism but empirical")
    codebook: Path | None = option("answer with codes of this public codebook (hushvec codebook), not with noise", metavar="FILE")
    normalize: bool = option("unit rows before the noise (clip norm 1)")
    renormalize: bool = option("unit rows after the noise")
    dtype: str | None = option("whole numbers in [-127, 127]; the receipt's grid is their scale", choices=(INT8,))
    keep: str | None = option("columns or keys to copy unprotected, separated by commas", metavar="NAMES")

    def run(self) -> int:
        kept = tuple(comma_separated(self.keep) or ())
        for name in kept:
            if kept.count(name) > 1:
                raise ValueError(f"--keep must name {name!r} once")
        source = open_source(self.input, Columns(vector=self.column, text=self.text_key, keep=kept))
        require_output(self.output, suffix_of(self.input), " like the input")
        replaced = replaced_release(self)
        plan = _plan(self, source)
        embedded = (NOTE_EMBEDDED,) if self.text_key is not None else ()
        copied = (f"copied without protection: {', '.join(kept)}",) if kept else ()
        notes = (*embedded, *copied, *replaced)
        with published(self.output, mode=mode_of(self.input)) as (file, receipt_file):
            paid = None if self.budget is None else _charge(self, source, plan, plan.receipt(source.count(), notes=notes))
            rows = _release(source, plan, self.input, file)
            if paid is not None and rows != released_rows(paid):
                raise FileError(self.input, f"the file changed while it was read: {released_rows(paid)} rows were charged")
            receipt = paid or plan.receipt(rows, notes=notes)
            receipt_file.write(f"{receipt.to_json()}\n".encode())
        output, where = str(self.output), str(receipt_path(self.output))
        self.took(source, rows)
        value = {"output": output, "receipt_file": where, "receipt": receipt.to_dict()}
        return answered(self, value, printable(output), printable(where), "", receipt_lines(receipt))


def _plan(options: Privatize, source: Source) -> ReleasePlan:
    rows = source.count() if options.per == "release" else 1
    mechanism = options.mechanism if options.codebook is None else _response(options, source, rows)
    plan = plan_release(
        rows=rows, dimension=source.dimension, dtype=source.dtype,
        epsilon=options.epsilon if options.codebook is None else None,
        mechanism=mechanism, generator=make_generator(options),
        **options.named("delta", "clip_norm", "sigma", "normalize", "renormalize", "per"),
    )
    return plan if options.dtype is None else plan.with_values(options.dtype)


def _response(options: Privatize, source: Source, rows: int) -> CodebookResponse:
    if options.mechanism != "gaussian" or options.clip_norm != 1:
        raise ValueError("--codebook must come without --mechanism and --clip-norm: it answers with its own unit rows")
    if options.epsilon is None:
        raise ValueError("--epsilon must be given with --codebook")
    codebook = PublicCodebook.load(str(options.codebook))
    if options.text_key is None:  # texts would be embedded twice: theirs are looked at when they are released
        done = 0
        for part in source.parts():
            codebook.require_other_rows(part.values, first_row=done)
            done += len(part.values)
    return codebook.mechanism(options.epsilon, rows_per_person=max(1, rows))


def _charge(options: Privatize, source: Source, plan: ReleasePlan, receipt: RowReceipt) -> RowReceipt:
    """Charge the budget once nothing in the file can be refused any more. Embedded texts are finite, and slow to make twice."""
    with PrivacyBudget.reopen(str(options.budget), store=options.budget_store) as budget:
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
            with naming(path):
                plan.mechanism.require_other_rows(part.values, first_row=done)
                values = plan.run(part.values, first_row=done)
            sink(values, part.kept)
            done += rows
            progress.advance(rows)
    return done


class Codebook(VectorOptions, name="codebook", examples=(
    (
        "a codebook of public rows, and whether it fits a public sample",
        "hushvec codebook public.npy -o book.npz --epsilon 8 --check sample.npy",
    ),
    ("release private rows as its codes", "hushvec privatize private.npy -o out.npy --epsilon 8 --codebook book.npz"),
)):
    """Make a codebook of the PUBLIC rows or texts in IN, for `hushvec privatize` and `hushvec retrieve build` with
    `--codebook FILE`: each private row is released as the nearest public code, by randomized response. Pure epsilon,
    and no noisy vector.
    It needs public data of the same kind as the private data; --check measures on a public sample whether it fits.

    IN is a file as for hushvec privatize. Never the rows that are to be released."""

    input: Path = argument("file of public rows or texts", "IN")
    output: Path = option("the codebook's file (.npz)", metavar="FILE", required=True)
    epsilon: float = option("of one release: the number of codes depends on it", required=True)
    codes: str = option("how many codes; auto: chosen on public rows held out; all: every row is a code", AUTO)
    purpose: str = option(
        "what auto measures: the cosine that a release keeps, or what a search among releases finds", COSINE, choices=(COSINE, SEARCH)
    )
    check: Path | None = option("other public rows or texts, like those to be released", metavar="SAMPLE")

    def run(self) -> int:
        codebook = _fitted(self, np.asarray(self.rows(self.input), np.float32))
        fit = None
        if self.check is not None:
            fit = codebook.check(np.asarray(self.rows(self.check), np.float32), epsilon=self.epsilon)
        codebook.save(self.output)
        truth = codebook.mechanism(self.epsilon).response.probability_of_truth
        found = {"file": str(self.output), "codes": len(codebook), "dimension": codebook.dimension, "digest": codebook.digest}
        lines = [
            ("codes", f"{len(codebook)}, of {codebook.rows} public rows"),
            ("digest", codebook.digest),
            ("an answer is true", f"with probability {truth:.4g} at epsilon {self.epsilon:g}"),
        ]
        value = {**found, "probability_of_truth": truth, "fit": fit and fit._asdict()}
        about_fit = [] if fit is None else ["", printable(str(fit))]
        return answered(self, value, printable(str(self.output)), "", facts(lines), *about_fit)


def _fitted(options: Codebook, rows: NDArray[np.float32]) -> PublicCodebook:
    if options.codes == ALL:
        return PublicCodebook.of(rows)
    if options.codes == AUTO:
        return PublicCodebook.fit(rows, epsilon=options.epsilon, purpose=options.purpose)
    try:
        count = int(options.codes)
    except ValueError:
        raise ValueError(f"--codes must be auto, all or a whole number, got {options.codes!r}") from None
    return PublicCodebook.fit(rows, codes=count)
