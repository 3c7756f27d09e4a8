"""The command `hushvec`, whose subcommands are declared in the modules beside this one, each with --json.

Exit code 0: done; 1: `verify` or `budget verify` found what does not hold, or `audit` refuted a claim; 2: bad input, a budget
that refuses, or a receipt without a claim. Whatever goes wrong is one line on standard error.

A command imports what it needs and no other command, and `hushvec` alone none of them.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import FrameType
from typing import Any, NoReturn

from hushvec._native import _core
from hushvec._util.os_files import print_utf8
from hushvec._util.validate import nearest
from hushvec.cli import _map
from hushvec.cli._map import COMMANDS
from hushvec.cli._parser import BAD_INPUT, CommandParser, add_declared, error_line, meant_option, one_line
from hushvec.errors import HushvecError

INTERRUPTED = 130
TERMINATED = 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    print_utf8()
    try:
        if not words or words[0] in ("-h", "--help"):
            print("\n".join([*_map.map_lines(_map.summaries()), *(_map.options_lines() if words else ())]), flush=True)
            return 0
        if words[0] == "--version":
            print(f"hushvec {_core.__version__}")
            return 0
        return _run(words)
    except BrokenPipeError:
        # The reader of the output is gone; avoid a second error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(words: Sequence[str]) -> int:
    options = _parser_of(words[0]).parse_args(words)
    from hushvec.cli._arguments import require_new_output  # every command has imported it

    previous = signal.signal(signal.SIGTERM, _terminate)
    try:
        with _warnings_in_one_line(options.prog):
            require_new_output(options)
            code: int = options.run(options)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (ValueError, TypeError, OSError, ImportError, MemoryError, HushvecError) as error:
        said = str(error) or type(error).__name__
        if isinstance(error, OSError) and error.strerror and error.filename is not None:  # without the number
            said = f"{error.filename}: {error.strerror}"
        sys.stderr.write(error_line(options.prog, said))
        return BAD_INPUT
    finally:
        signal.signal(signal.SIGTERM, previous)


def _parser_of(command: str) -> CommandParser:
    """Return a parser that knows the command which is called, and no other."""
    parser = CommandParser(prog="hushvec")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    if command in COMMANDS:
        add_own(subparsers, command)
    elif command in _map.ELSEWHERE or command in _map.added_commands():
        try:
            _map.add_called(subparsers, command)
        except ImportError as error:
            parser.exit(BAD_INPUT, error_line(f"{parser.prog} {command}", str(error)))
    else:
        _refuse(parser, command)
    return parser


def add_own(subparsers: Any, command: str) -> None:
    """Add a command of this package to the subparsers."""
    import_module(f"hushvec.cli.{_map.module_of(command)}")
    add_declared(subparsers, command)


def whole_parser() -> CommandParser:
    """Return a parser of all commands of this package; shtab makes scripts for the TAB key from it."""
    parser = CommandParser(prog="hushvec")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for command in COMMANDS:
        add_own(subparsers, command)
    return parser


def _refuse(parser: CommandParser, word: str) -> NoReturn:
    if word.startswith("-"):
        parser.error(f"unrecognized arguments: {word}{meant_option(word, ('--help', '--version'))}")
    near = nearest(word, (*COMMANDS, *_map.summaries()))
    meant = f", did you mean {near!r}?" if near else ""
    parser.error(f"invalid choice: {word!r}{meant} (hushvec alone lists the commands)")


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    """Exit, with cleanup of unfinished files."""
    raise SystemExit(TERMINATED)


@contextmanager
def _warnings_in_one_line(prog: str) -> Iterator[None]:
    """Show hushvec's warnings without their place in the source."""
    with warnings.catch_warnings():
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *place: Any, **more: Any) -> None:
            if category.__module__ == HushvecError.__module__:
                print(f"{prog}: warning: {one_line(str(message))}", file=sys.stderr)
            else:
                plain(message, category, *place, **more)

        warnings.showwarning = show
        yield
