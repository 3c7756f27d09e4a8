"""Options that several commands share, and their checks."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hushvec._native._core import Generator
from hushvec._util.publish import receipt_path
from hushvec.cli._parser import Command, option
from hushvec.cli._parser import Subparsers as Subparsers
from hushvec.cli._parser import add_command as add_command
from hushvec.mechanisms import MECHANISMS
from hushvec.receipts import PER, ROUNDS

if TYPE_CHECKING:
    from hushvec.budget import PrivacyBudget

NOTE_REPLACED = "if a release was there before, both count: their losses add up"
_INPUTS = ("source", "input")
_FILES = ("source", "gazetteer", "corpus", "ids", "store", "budget_store")  # arguments that name files without being paths


class KeyOptions(Command):
    """Options for the key of the noise."""

    cipher: str | None = option(
        "of the key stream (default aes256 where the processor has instructions for it and no seed is given, else chacha20)",
        choices=tuple(ROUNDS),
    )
    rounds: int | None = option("20, 12 or 8: the older way to ask for --cipher chacha20, chacha12 or chacha8")
    unsafe_seed: int | None = option("reproducible noise, which gives NO privacy; the receipt says so", metavar="SEED")


class ReleaseOptions(KeyOptions):
    """The arguments of hushvec.privatize but epsilon and normalize."""

    delta: float = option("delta, for the Gaussian kinds", 1e-5)
    clip_norm: float = option("L2 norm that rows are clipped to", 1.0)
    mechanism: str = option("law of the noise", "gaussian", choices=MECHANISMS)
    sigma: float | None = option("standard deviation for --mechanism empirical")
    per: str = option("unit of privacy: one row, or all rows", "record", choices=PER)


class BudgetOptions(Command):
    """Which ledger is charged."""

    budget: str | None = option("charge the ledger of this key first; it must exist (see hushvec budget)", metavar="KEY")
    budget_store: str | None = option("where that ledger is (default as for hushvec budget)", metavar="STORE")


@contextmanager
def opened_budget(options: argparse.Namespace) -> Iterator[PrivacyBudget | None]:
    """Yield the budget of `BudgetOptions`; None if no key was given."""
    if options.budget is None:
        yield None
        return
    from hushvec.budget import PrivacyBudget

    with PrivacyBudget.reopen(options.budget, store=options.budget_store) as budget:
        yield budget


class ForceOption(Command):
    """For commands that release something into OUT."""

    force: bool = option("replace OUT and its receipt: if it was a release, both releases count")


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
    about the input (`replaced_release`)."""
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
    """Return the generator that `KeyOptions` ask for."""
    if options.unsafe_seed is None:
        return Generator(rounds=options.rounds, cipher=options.cipher)
    return Generator.unsafe_seeded(options.unsafe_seed, rounds=options.rounds, cipher=options.cipher)


def comma_separated(listed: str | None) -> list[str] | None:
    """Return the names in `a, b`; None stays None."""
    return None if listed is None else [name.strip() for name in listed.split(",") if name.strip()]


def named_values(argument: str, entries: Sequence[str], what: str) -> dict[str, str]:
    """Return the values of NAME=VALUE, by name."""
    pairs = {}
    for entry in entries:
        name, sign, value = entry.partition("=")
        if not sign or not name:
            raise ValueError(f"{argument} must be NAME={what}, got {entry!r:.80}")
        pairs[name] = value
    return pairs
