"""The command `hushvec`: one module per subcommand, each with --json.

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
from types import FrameType
from typing import Any, NoReturn

from hushvec._native._core import __version__
from hushvec._util.validate import nearest
from hushvec.cli._map import COMMANDS, map_lines, options_lines
from hushvec.cli._parser import BAD_INPUT, CommandParser, error_line, meant_option, one_line
from hushvec.errors import HushvecError

INTERRUPTED = 130
TERMINATED = 143


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        if not words or words[0] in ("-h", "--help"):
            return _print_map(with_options=bool(words))
        if words[0] == "--version":
            print(f"hushvec {__version__}")
            return 0
        return _run(words)
    except BrokenPipeError:
        # The reader of the output is gone; avoid a second error at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _print_map(*, with_options: bool) -> int:
    from hushvec.cli._added import summaries

    print("\n".join(map_lines(summaries())))
    if with_options:
        print("\n".join(options_lines()))
    sys.stdout.flush()
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
        sys.stderr.write(error_line(options.prog, _said(error)))
        return BAD_INPUT
    finally:
        signal.signal(signal.SIGTERM, previous)


def _said(error: Exception) -> str:
    """The message; of files that the system refuses, the name and the reason, without the number."""
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _parser_of(command: str) -> CommandParser:
    """A parser that knows the command which is called, and no other."""
    from hushvec.cli import _added

    parser = CommandParser(prog="hushvec")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    if command in COMMANDS:
        add_own(subparsers, command)
    elif command in _added.ELSEWHERE or command in _added.added_commands():
        try:
            _added.add_called(subparsers, command)
        except ImportError as error:
            parser.exit(BAD_INPUT, error_line(f"{parser.prog} {command}", str(error)))
    else:
        _refuse(parser, command)
    return parser


def add_own(subparsers: Any, command: str) -> None:
    """Add a command of this package to the subparsers."""
    from importlib import import_module

    from hushvec.cli._map import module_of

    import_module(f"hushvec.cli.{module_of(command)}").add_to(subparsers)


def _refuse(parser: CommandParser, word: str) -> NoReturn:
    from hushvec.cli._added import summaries

    if word.startswith("-"):
        parser.error(f"unrecognized arguments: {word}{meant_option(word, ('--help', '--version'))}")
    near = nearest(word, (*COMMANDS, *summaries()))
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
