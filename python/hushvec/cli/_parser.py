"""The parser of every command: errors in one line with the name that was meant, help that fits the terminal, examples at its end.

A command is a class whose fields are its options (`Command`): the parser, the help and the page of the site come from it.
"""

from __future__ import annotations

import argparse
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, ClassVar, NamedTuple, NoReturn, get_args, get_origin, get_type_hints

from hushvec._util.validate import nearest
from hushvec.cli._style import is_colored, paint, printable

BAD_INPUT = 2

Example = tuple[str, str]
Subparsers = Any  # argparse has no public name for it

_EXAMPLES = "examples:"
# argparse lists choices quoted or bare, by version.
_INVALID_CHOICE = re.compile(r"invalid choice: (?P<quote>['\"])(?P<given>.*)(?P=quote) \(choose from (?P<choices>.*)\)$")
_CHOICE = re.compile(r"[\w.-]+")
# The second column of a line, where it has one.
_COLUMN = re.compile(r"\s*\S+(?: \S+)*?\s{2,}(?=\S)")
_OPTION_IN_HELP = re.compile(r"(?m)^ {2,}(?:-\w|--[\w-]+)(?:[ ,]+\S+)*?(?=$| {2,})")
_HEADING = re.compile(r"(?m)^(?!usage)[a-z][^\n]*:$")
_COMMAND = re.compile(r"(?m)^ {2}(?:\S+ \| )?hushvec .*$")


class CommandParser(argparse.ArgumentParser):
    """argparse, with errors in one line and help for people."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": HelpFormatter, **settings})
        self.register("type", float, _finite)  # of every option of type float
        self.color = False  # of Python 3.14: `print_help` has its own

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        given = sys.argv[1:] if args is None else list(args)
        if self.commands():
            return super().parse_known_args(given, namespace)
        self._require_known_options(given)
        found, rest = super().parse_known_args(given, namespace)
        if rest:  # argparse would say it in the name of the whole program
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest

    def _require_known_options(self, given: Sequence[str]) -> None:
        """Name an unknown option before what is missing without it. No value of an option begins with two hyphens."""
        known = self.option_names()
        for word in takewhile(lambda word: word != "--", given):
            name = word.partition("=")[0]
            if word.startswith("--") and " " not in word and not any(option.startswith(name) for option in known):
                self.error(f"unrecognized arguments: {word}{meant_option(name, known)}")

    def option_names(self) -> list[str]:
        """Return the long options."""
        return [name for action in self._actions for name in action.option_strings if name.startswith("--")]

    def commands(self) -> dict[str, CommandParser]:
        """Return the parsers of the commands below this one, by name; none for a command that does something itself."""
        for action in self._actions:
            if action.nargs == argparse.PARSER:
                return dict(action.choices or {})
        return {}

    def error(self, message: str) -> NoReturn:
        if wrong := _INVALID_CHOICE.search(message):
            near = nearest(wrong["given"], _CHOICE.findall(wrong["choices"]))
            message += f", did you mean {near!r}?" if near else ""
        self.exit(BAD_INPUT, error_line(self.prog, message))

    def format_help(self) -> str:
        self.usage = self.usage or " ".join([self.prog, *_words_of_usage(self._actions)]).replace("%", "%%")
        return super().format_help()

    def print_help(self, file: Any = None) -> None:
        text = self.format_help()
        if file is None and is_colored(sys.stdout):
            for pattern, style in ((_HEADING, "title"), (_COMMAND, "good"), (_OPTION_IN_HELP, "name")):
                text = pattern.sub(partial(lambda style, found: paint(style, found[0]), style), text)
        (sys.stdout if file is None else file).write(text)


def number_or_infinity(text: str) -> float:
    """Return the number, of an option for which infinity means something."""
    if math.isnan(float(text)):
        raise argparse.ArgumentTypeError(f"must be a number, got {text}")
    return float(text)


def _finite(text: str) -> float:
    if not math.isfinite(float(text)):
        raise argparse.ArgumentTypeError(f"must be finite, got {text}")
    return float(text)


number_or_infinity.__name__ = _finite.__name__ = "float"  # argparse names them where the text is no number


class HelpFormatter(argparse.HelpFormatter):
    """Paragraphs are filled to the width of the terminal; lines with columns keep them."""

    def __init__(self, prog: str, **settings: Any) -> None:
        super().__init__(prog, **{"max_help_position": 26, **settings})

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(
            "\n".join(f"{indent}{line}" for line in _wrapped(paragraph, width - len(indent))) for paragraph in text.split("\n\n")
        )


def meant_option(name: str, known: Sequence[str]) -> str:
    """Return `, did you mean '--epsilon'?`, or nothing where no option is near."""
    near = nearest(name.strip("-"), [option.strip("-") for option in known])
    return f", did you mean '--{near}'?" if near else ""


def _wrapped(paragraph: str, width: int) -> Iterator[str]:
    lines = paragraph.split("\n")
    if lines[0] == _EXAMPLES:
        yield from lines  # commands are copied
        return
    if not any(_COLUMN.match(line) or line.startswith(" ") for line in lines):
        yield from textwrap.wrap(" ".join(lines), width)
        return
    for line in lines:
        column = _COLUMN.match(line)
        hanging = len(column[0]) if column else len(line) - len(line.lstrip())
        yield from textwrap.wrap(line, width, subsequent_indent=" " * hanging, break_long_words=False, break_on_hyphens=False)


def _words_of_usage(actions: Sequence[argparse.Action]) -> Iterator[str]:
    """Yield required options and positional arguments; the rest is "[options]"."""
    yield from (f"{action.option_strings[0]} {_value(action)}" for action in actions if action.option_strings and action.required)
    optional = {"?": "[{}]", "+": "{} ...", "*": "[{} ...]"}
    for action in actions:
        if not action.option_strings:
            yield optional.get(str(action.nargs), "{}").format(_value(action))
    yield "[options]"


def _value(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return f"{{{','.join(map(str, action.choices))}}}"
    return str(action.metavar or action.dest.upper())


def error_line(prog: str, message: str) -> str:
    return f"{paint('bad', f'{prog}:', sys.stderr)} {one_line(message)}\n"


def one_line(message: str) -> str:
    return printable(" ".join(message.split()))


# ---- commands and their options ----


class Field(NamedTuple):
    """An option or an argument as a class declares it."""

    flags: tuple[str, ...] | None  # besides the field's name; None for a positional argument
    heading: str
    alone: str
    settings: dict[str, Any]


def option(help: str, default: Any = None, *flags: str, heading: str = "", alone: str = "", **settings: Any) -> Any:
    """Declare an option with the name and the type of its field: a flag if that is bool, one that may be repeated if it is a list.

    Help adds the default unless it says "default", and lists options with one heading together; `flags` are further names, `alone`
    is a name for options of which one may be given, and `settings` are further arguments of `add_argument`.
    """
    if default is not None:
        settings["default"] = default
    if default not in (None, []) and "default" not in help:
        shown = f"{default:g}".replace("e-0", "e-") if isinstance(default, float) else str(default)
        settings["help"] = f"{help} (default {shown})" if help else f"default {shown}"
    return Field(flags, heading, alone, {"help": help, **settings})


def argument(help: str, metavar: str, **settings: Any) -> Any:
    """Declare a positional argument with the type of its field."""
    return Field(None, "", "", {"help": help, "metavar": metavar, **settings})


class Command(argparse.Namespace):
    """The options of a command, and what it does.

    A subclass with a `name` ("sigma", "budget show") is a command. Its docstring is the description, its fields and those of its bases
    are options and arguments, `run` returns the exit code. One with a `metavar` has commands below it, and no `run`.
    """

    prog: str
    json: bool

    names: ClassVar[dict[str, type[Command]]] = {}  # of the modules that were imported
    _about: ClassVar[tuple[str, str | None]] = ("", None)
    _metavar: ClassVar[str] = ""

    def __init_subclass__(cls, *, name: str = "", help: str = "", examples: Sequence[Example] = (), metavar: str = "") -> None:
        if name:
            cls.names[name] = cls
            cls._about, cls._metavar = (help, _examples_text(examples)), metavar

    def run(self) -> int:
        raise NotImplementedError

    def named(self, *names: str) -> dict[str, Any]:
        """Return the values of these options, for a function whose arguments have the same names."""
        return {name: getattr(self, name) for name in names}

    @classmethod
    def add_to(cls, subparsers: Subparsers, name: str) -> Any:
        """Add it to the subparsers; returns those for commands below it."""
        from inspect import cleandoc

        line, epilog = cls._about
        parser = subparsers.add_parser(name, help=line, description=cleandoc(cls.__doc__ or ""), epilog=epilog)
        if cls._metavar:
            return parser.add_subparsers(required=True, metavar=cls._metavar)
        _add_json(parser, lambda options: cls(**{key: value for key, value in vars(options).items() if key != "run"}).run())
        return add_options(parser, cls)


def add_declared(subparsers: Subparsers, name: str) -> None:
    """Add the command of this name, and the commands below it, whose module is imported."""
    below = subparsers
    for words, kind in Command.names.items():
        first, _, rest = words.partition(" ")
        if first == name:
            if rest:
                kind.add_to(below, rest)
            else:
                below = kind.add_to(subparsers, first)


def add_command(
    subparsers: Subparsers, name: str, run: Callable[[argparse.Namespace], int], help: str = "", description: str = "",
    examples: Sequence[Example] = (),
) -> argparse.ArgumentParser:
    """Add a command with --json whose options are added by hand. Its help ends with examples: (what it does, the command)."""
    parser = subparsers.add_parser(name, help=help, description=description, epilog=_examples_text(examples))
    return _add_json(parser, run)


def _add_json(parser: argparse.ArgumentParser, run: Callable[[argparse.Namespace], int]) -> argparse.ArgumentParser:
    parser.add_argument("--json", action="store_true", help="print JSON instead of text")
    parser.set_defaults(run=run, prog=parser.prog)
    return parser


def add_options(parser: argparse.ArgumentParser, kind: type[Command]) -> argparse.ArgumentParser:
    """Add options for the fields of a class, its own before those of its bases."""
    places: dict[str, Any] = {"": parser}
    types = get_type_hints(kind)
    for one in kind.__mro__:
        for name, field in vars(one).items():
            if not isinstance(field, Field) or getattr(kind, name) is not field:
                continue
            if field.heading and field.heading not in places:
                places[field.heading] = parser.add_argument_group(field.heading)
            if field.alone and field.alone not in places:
                places[field.alone] = parser.add_mutually_exclusive_group()
            add = places[field.alone or field.heading].add_argument
            settings = {**({} if "action" in field.settings else _settings_of(types[name])), **field.settings}
            if callable(settings.get("choices")):  # which depend on what is registered
                settings["choices"] = settings["choices"]()
            if field.flags is None:
                add(name, **{key: value for key, value in settings.items() if key != "action"})  # nargs says how many there are
                continue
            flags = [*(["-o"] if name == "output" else []), f"--{name.replace('_', '-')}", *field.flags]
            add(*(field.flags if f"-{name}" in field.flags else flags), **{"dest": name, **settings})
    return parser


def _settings_of(annotation: Any) -> dict[str, Any]:
    """Return settings of `add_argument` for a type: int | None, bool, list[str], ..."""
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)] if get_origin(annotation) is not list else []
    if kinds:
        return _settings_of(kinds[0])
    if annotation is bool:
        return {"action": "store_true"}
    if get_origin(annotation) is list:
        return {"action": "append"}
    return {} if annotation is str else {"type": annotation}


def _examples_text(examples: Sequence[Example]) -> str | None:
    """Return the end of a help text: what each example does, and its command."""
    return f"{_EXAMPLES}\n" + "\n".join(f"  # {what}\n  {command}" for what, command in examples) if examples else None
