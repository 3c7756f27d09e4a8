"""The commands of hushvec and their options, in Markdown, from the parsers of the command line.

    PYTHONPATH=python python scripts/site/command_line.py

The site is built where hushvec is not compiled: what is missing of the core and of numpy is replaced by stand-ins, which no parser
asks for a value.
"""

from __future__ import annotations

import argparse
import html
import importlib.abc
import importlib.machinery
import re
import subprocess
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import places

PAGE = "reference/command_line.md"
PLACE = "<!-- commands -->"   # where they stand on that page
NEEDED = ("numpy", "hushvec._native._core", "hushvec._native._cuda")


class StandIn(MagicMock):
    """Of a module and all that is in it. As a base of a class it is none, so that the class may have others."""

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[()]:
        return ()


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the modules of NEEDED that nothing else finds."""

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        wanted = any(name == one or name.startswith(f"{one}.") for one in NEEDED)
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if wanted else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module: Any = StandIn(name=spec.name)
        module.__name__, module.__spec__, module.__path__, module.__version__ = spec.name, spec, [], ""
        return module

    def exec_module(self, module: ModuleType) -> None:
        pass


def with_commands(text: str) -> str:
    """The page with the commands in their place. They are read by a process of its own, so that stand-ins stay there."""
    environment = {"PYTHONPATH": str(places.ROOT / "python"), "COLUMNS": "80", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, __file__], capture_output=True, encoding="utf-8", env=environment, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{__file__}: {done.stderr}")
    return text.replace(PLACE, done.stdout)


def commands_text() -> str:
    from hushvec.cli import add_own
    from hushvec.cli._map import PURPOSES, options_lines
    from hushvec.cli._parser import CommandParser

    parser = CommandParser(prog="hushvec")
    subparsers = parser.add_subparsers(metavar="COMMAND")
    blocks = ["## hushvec", fenced("\n".join(options_lines()), "text")]
    for purpose, commands in PURPOSES.items():
        blocks.append(f"## {purpose}")
        for name, line in commands.items():
            add_own(subparsers, name)
            blocks += command_blocks(parser.commands()[name], 3, line)
    return "\n\n".join(blocks) + "\n"


def command_blocks(parser: Any, level: int, line: str) -> Iterator[str]:
    """A command and the commands below it: what it does, how it is called, its options, examples."""
    parser.format_help()   # which makes the usage
    yield f"{'#' * level} {parser.prog}"
    yield from described(parser.description or f"{line[0].upper()}{line[1:]}.")
    if parser.commands():
        yield f"Its commands: {', '.join(f'`{one.prog}`' for one in parser.commands().values())}."
    else:
        yield fenced(parser.usage.replace("%%", "%"), "text")
        yield from tables(parser)
    if parser.epilog:
        yield fenced(re.sub(r"(?m)^  ", "", parser.epilog.partition("\n")[2]), "bash")
    for one in parser.commands().values():
        yield from command_blocks(one, level + 1, "")


def described(text: str) -> Iterator[str]:
    """The paragraphs of a description; those with columns keep their lines."""
    for paragraph in text.split("\n\n"):
        has_columns = re.search(r"(?m)^ |\S {2,}\S", paragraph)
        yield fenced(paragraph, "text") if has_columns else plain(" ".join(paragraph.split()))


def tables(parser: argparse.ArgumentParser) -> Iterator[str]:
    """What a command takes: arguments and options in one table, those with a heading of their own in another; --json is the last."""
    groups: dict[str, list[argparse.Action]] = {}
    for group in parser._action_groups:   # argparse has no public way to them
        title = "" if group.title in ("positional arguments", "options", "optional arguments") else group.title or ""
        shown = (one for one in group._group_actions if one.help != argparse.SUPPRESS and "--help" not in one.option_strings)
        groups.setdefault(title, []).extend(sorted(shown, key=lambda one: "--json" in one.option_strings))
    for title, actions in groups.items():
        if actions:
            rows = [f"| {called(one)} | {meaning(one, parser.prog)} |" for one in actions]
            yield "\n".join([f"| {title or 'argument'} | meaning |", "|---|---|", *rows])


def called(action: argparse.Action) -> str:
    """`-o`, `--output OUT`; the name alone for a positional argument."""
    words = [str(action.metavar or action.dest.upper())] if action.nargs != 0 else []
    if action.choices is not None and action.metavar is None:
        words = ["{" + ",".join(map(str, action.choices)) + "}"]
    if action.nargs in ("+", "*"):
        words.append("...")
    if not action.option_strings:
        return f"`{' '.join(words)}`"
    *short, last = action.option_strings
    return ", ".join(f"`{name}`" for name in [*short, " ".join([last, *words])])


def meaning(action: argparse.Action, prog: str) -> str:
    return plain((action.help or "") % {**vars(action), "prog": prog})


def plain(text: str) -> str:
    """Text in which nothing is Markdown but code between backticks and options, which become code."""
    parts = re.split(r"(`[^`]+`|(?<![\w-])--[a-z][\w-]*)", text)
    return "".join(in_markdown(part) for part in parts)


def in_markdown(part: str) -> str:
    if part.startswith(("`", "--")):
        return f"`{part.strip('`')}`"
    return re.sub(r"([\\*_\[\]|#])", r"\\\1", html.escape(part, quote=False))


def fenced(text: str, language: str) -> str:
    return f"```{language}\n{text.strip()}\n```"


if __name__ == "__main__":
    sys.meta_path.append(StandIns())
    print(commands_text(), end="")
