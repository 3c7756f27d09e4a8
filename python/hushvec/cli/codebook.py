"""`hushvec codebook`: a public codebook from public rows or texts, for `hushvec privatize --codebook`."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushvec._util.display import Progress
from hushvec.cli._arguments import Subparsers, add_command
from hushvec.cli._output import facts, print_json
from hushvec.cli._printable import say
from hushvec.cli.files import Columns, open_source
from hushvec.mechanisms import PublicCodebook
from hushvec.mechanisms.codebook import AUTO, COSINE, SEARCH

ALL = "all"


def add_to(subparsers: Subparsers) -> None:
    parser = add_command(
        subparsers,
        "codebook",
        run,
        description=(
            "Make a codebook of the PUBLIC rows or texts in IN, for `hushvec privatize` and `hushvec retrieve build` with\n"
            "`--codebook FILE`: each private row is released as the nearest public code, by randomized response. Pure epsilon,\n"
            "and no noisy vector.\n"
            "It needs public data of the same kind as the private data; --check measures on a public sample whether it fits.\n\n"
            "IN: .npy, .parquet or .jsonl. Never the rows that are to be released."
        ),
        examples=(
            (
                "a codebook of public rows, and whether it fits a public sample",
                "hushvec codebook public.npy -o book.npz --epsilon 8 --check sample.npy",
            ),
            ("release private rows as its codes", "hushvec privatize private.npy -o out.npy --epsilon 8 --codebook book.npz"),
        ),
    )
    parser.add_argument("input", metavar="IN", type=Path, help="file of public rows or texts")
    parser.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="the codebook's file (.npz)")
    parser.add_argument("--epsilon", type=float, required=True, help="of one release: the number of codes depends on it")
    parser.add_argument(
        "--codes", default=AUTO, help="how many codes; auto: chosen on public rows held out; all: every row is a code (default auto)"
    )
    parser.add_argument(
        "--purpose",
        choices=(COSINE, SEARCH),
        default=COSINE,
        help="what auto measures: the cosine that a release keeps, or what a search among releases finds (default cosine)",
    )
    parser.add_argument("--check", metavar="SAMPLE", type=Path, help="other public rows or texts, like those to be released")
    parser.add_argument("--column", help="column or key of the vectors (default embedding)")
    parser.add_argument("--text-key", help=".jsonl: embed the text under this key with MiniLM")


def run(options: argparse.Namespace) -> int:
    rows = _rows(options, options.input)
    codebook = PublicCodebook.of(rows) if options.codes == ALL else _fitted(options, rows)
    fit = None if options.check is None else codebook.check(_rows(options, options.check), epsilon=options.epsilon)
    codebook.save(options.output)
    response = codebook.mechanism(options.epsilon)
    found = {"file": str(options.output), "codes": len(codebook), "dimension": codebook.dimension, "digest": codebook.digest}
    if options.json:
        print_json({**found, "probability_of_truth": response.response.probability_of_truth, "fit": fit and fit._asdict()})
        return 0
    say(str(options.output), "")
    print(
        facts(
            [
                ("codes", f"{len(codebook)}, of {codebook.rows} public rows"),
                ("digest", codebook.digest),
                ("an answer is true", f"with probability {response.response.probability_of_truth:.4g} at epsilon {options.epsilon:g}"),
            ]
        )
    )
    if fit is not None:
        say("", str(fit))
    return 0


def _fitted(options: argparse.Namespace, rows: NDArray[np.float32]) -> PublicCodebook:
    if options.codes == AUTO:
        return PublicCodebook.fit(rows, epsilon=options.epsilon, purpose=options.purpose)
    try:
        count = int(options.codes)
    except ValueError:
        raise ValueError(f"--codes must be auto, all or a whole number, got {options.codes!r}") from None
    return PublicCodebook.fit(rows, codes=count)


def _rows(options: argparse.Namespace, path: Path) -> NDArray[np.float32]:
    source = open_source(path, Columns(vector=options.column, text=options.text_key))
    rows = []
    with Progress("rows", source.count()) as progress:
        for part in source.parts():
            rows.append(np.asarray(part.values, np.float32))
            progress.advance(len(rows[-1]))
    return np.concatenate(rows) if rows else np.empty((0, source.dimension), np.float32)
