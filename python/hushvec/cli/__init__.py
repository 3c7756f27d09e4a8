"""The command `hushvec`: one module per subcommand, each with --json.

Exit code 0: done; 1: `verify` or `budget verify` found what does not hold, or `audit` refuted a claim; 2: bad input, a budget
that refuses, or a receipt without a claim. Whatever goes wrong is one line on standard error.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

import hushvec
from hushvec.cli._added import ELSEWHERE, add_called, add_summaries, added_commands
from hushvec.cli._arguments import Subparsers
from hushvec.cli._printable import printable
from hushvec.errors import HushvecError

BAD_INPUT = 2
INTERRUPTED = 130
TERMINATED = 143

# Modules of this package, in the order in which help lists them; a command's name has hyphens.
_SUBCOMMANDS = (
    "demo", "privatize", "codebook", "redact", "rewrite", "train_inverter", "retrieve", "sigma", "verify", "audit", "budget",
    "backends",
)  # fmt: skip


class _OneLineParser(argparse.ArgumentParser):
    """argparse without the usage text above an error."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {_one_line(message)}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    parser = _OneLineParser(prog="hushvec", description="Differential privacy for embedding vectors.")
    parser.add_argument("--version", action="version", version=f"hushvec {hushvec.__version__}")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_commands(parser, subparsers, sys.argv[1:] if arguments is None else arguments)
    options = parser.parse_args(arguments)
    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        with _warnings_in_one_line(options.prog):
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        # The reader of the output is gone; avoid a second error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ValueError, TypeError, OSError, ImportError, MemoryError, HushvecError) as error:
        print(f"{options.prog}: {_one_line(str(error) or type(error).__name__)}", file=sys.stderr)
        return BAD_INPUT
    finally:
        signal.signal(signal.SIGTERM, previous)


def _add_commands(parser: argparse.ArgumentParser, subparsers: Subparsers, arguments: Sequence[str]) -> None:
    """Add the command that is asked for, all of them for help and for a wrong name: importing one alone is faster."""
    word = next((word for word in arguments if not word.startswith("-")), "")
    asked = word.replace("-", "_")
    if asked in _SUBCOMMANDS:
        _add_own(subparsers, asked)
    elif word in ELSEWHERE or word in added_commands():
        try:
            add_called(subparsers, word)
        except ImportError as error:
            parser.exit(BAD_INPUT, f"{parser.prog} {word}: {_one_line(str(error))}\n")
    else:
        for module in _SUBCOMMANDS:
            _add_own(subparsers, module)
        add_summaries(subparsers)


def _add_own(subparsers: Subparsers, module: str) -> None:
    import_module(f"hushvec.cli.{module}").add_to(subparsers)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """Exit, with cleanup of unfinished files."""
    raise SystemExit(TERMINATED)


@contextmanager
def _warnings_in_one_line(prog: str) -> Iterator[None]:
    """Show hushvec's warnings without their place in the source."""
    with warnings.catch_warnings():
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if category.__module__ == hushvec.errors.__name__:
                print(f"{prog}: warning: {_one_line(str(message))}", file=sys.stderr)
            else:
                plain(message, category, *place, **more)

        warnings.showwarning = show
        yield


def _one_line(message: str) -> str:
    return printable(" ".join(message.split()))
