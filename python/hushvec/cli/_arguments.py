"""Arguments that several subcommands share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hushvec import Generator
from hushvec._util.publish import receipt_path
from hushvec.cli._parser import Example, examples_text
from hushvec.cli._parser import Subparsers as Subparsers
from hushvec.mechanisms import MECHANISMS
from hushvec.receipts.base import PER, ROUNDS

if TYPE_CHECKING:
    from hushvec.budget import PrivacyBudget

NOTE_REPLACED = "if a release was there before, both count: their losses add up"
_INPUTS = ("source", "input")
_FILES = ("source", "gazetteer", "corpus", "ids", "store", "budget_store")  # arguments that name files without being paths

def add_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], int],
    help: str = "",
    description: str = "",
    examples: Sequence[Example] = (),
) -> argparse.ArgumentParser:
    """A subcommand with --json. Its help ends with the examples, each (what it does, the command)."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        name, help=help, description=description, epilog=examples_text(examples)
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run, prog=parser.prog)
    return parser


def add_group(
    subparsers: Subparsers, name: str, metavar: str, description: str, examples: Sequence[Example] = ()
) -> Subparsers:
    """A command whose first argument is the name of another one: the subparsers for those."""
    parser = subparsers.add_parser(name, description=description, epilog=examples_text(examples))
    return parser.add_subparsers(required=True, metavar=metavar)


def add_release_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of hushvec.privatize but epsilon and normalize."""
    parser.add_argument("--delta", type=float, default=1e-5, help="delta, for the Gaussian kinds (default 1e-5)")
    parser.add_argument("--clip-norm", type=float, default=1.0, help="L2 norm that rows are clipped to (default 1)")
    parser.add_argument("--mechanism", choices=tuple(MECHANISMS), default="gaussian", help="law of the noise (default gaussian)")
    parser.add_argument("--sigma", type=float, help="standard deviation for --mechanism empirical")
    parser.add_argument("--per", choices=PER, default="record", help="unit of privacy: one row, or all rows (default record)")
    add_key_arguments(parser)


def add_key_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--cipher",
        choices=tuple(ROUNDS),
        help="of the key stream (default aes256 where the processor has instructions for it and no seed is given, else chacha20)",
    )
    parser.add_argument("--rounds", type=int, help="20, 12 or 8: the older way to ask for --cipher chacha20, chacha12 or chacha8")
    parser.add_argument(
        "--unsafe-seed", type=int, metavar="SEED", help="reproducible noise, which gives NO privacy; the receipt says so"
    )


def add_budget_arguments(parser: argparse.ArgumentParser, charged: str = "") -> None:
    """Which ledger is charged; `charged` says for what, if not for everything that the command releases."""
    what = f"charge {charged} to" if charged else "charge"
    parser.add_argument("--budget", metavar="KEY", help=f"{what} the ledger of this key first; it must exist (see hushvec budget)")
    parser.add_argument("--budget-store", metavar="STORE", help="where that ledger is (default as for hushvec budget)")


@contextmanager
def opened_budget(options: argparse.Namespace) -> Iterator[PrivacyBudget | None]:
    """The budget of `add_budget_arguments`; None if no key was given."""
    if options.budget is None:
        yield None
        return
    from hushvec.budget import PrivacyBudget

    with PrivacyBudget.reopen(options.budget, store=options.budget_store) as budget:
        yield budget


def add_force_argument(parser: argparse.ArgumentParser) -> None:
    """For commands that release something into OUT."""
    parser.add_argument("--force", action="store_true", help="replace OUT and its receipt: if it was a release, both releases count")


def replaced_release(options: argparse.Namespace) -> tuple[str, ...]:
    """Refuse to replace OUT or its receipt without --force, before anything is charged. Returns the notes for the new receipt.

    A second release about the same people does not undo the first, which may have been copied, and whose receipt would be lost.
    """
    there = next((path for path in (options.output, receipt_path(options.output)) if path.exists()), None)
    if there is None:
        return ()
    if not options.force:
        raise ValueError(
            f"{there}: must not exist: a release there counts beside a new one; choose another name, or --force to replace it"
        )
    return (NOTE_REPLACED,)


def require_new_output(options: argparse.Namespace) -> None:
    """Refuse an OUT that is one of the files that the command reads or keeps, by whatever name. Where there is --force, it decides
    about the input (`replaced_release`).

    Raises:
        ValueError: it is.
    """
    output = Path(getattr(options, "output", None) or ".")
    if output.is_dir():  # a command that writes a folder says itself what may be in it
        return
    for name, value in vars(options).items():
        is_other = name == "output" or (name in _INPUTS and hasattr(options, "force"))
        if is_other or not (isinstance(value, Path) or (name in _FILES and value)):
            continue
        other = Path(str(value).removeprefix("sqlite:///"))
        if output.resolve() == other.resolve() or (output.exists() and other.exists() and output.samefile(other)):
            raise ValueError(f"{output}: must be another file than {value}, which it would replace")


def make_generator(options: argparse.Namespace) -> Generator:
    if options.unsafe_seed is None:
        return Generator(rounds=options.rounds, cipher=options.cipher)
    return Generator.unsafe_seeded(options.unsafe_seed, rounds=options.rounds, cipher=options.cipher)


def comma_separated(listed: str | None) -> list[str] | None:
    """The names in `a, b`; None stays None."""
    return None if listed is None else [name.strip() for name in listed.split(",") if name.strip()]
