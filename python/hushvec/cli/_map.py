"""The commands by purpose, each with one line: what `hushvec` alone prints. Imports none of them.

Another distribution adds commands by an entry point of the group `hushvec.commands`, which names a function that adds the command to
the subparsers:

    [project.entry-points."hushvec.commands"]
    study = "hushvec_studies.command:add_to"

The function is imported when its command is called. Help shows the summary of the distribution, for which its metadata are enough.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hushvec._native import _core
from hushvec.cli._style import paint, printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

WIDTH = 80

PURPOSES = {
    "See it": {"demo": "what a stolen vector gives away, and what noise leaves of it"},
    "Choose": {
        "recommend": "which mechanism keeps most at your epsilon",
        "sigma": "calculator: two of epsilon, delta, sigma give the third",
    },
    "Release": {
        "privatize": "a file of vectors, with a receipt",
        "codebook": "a public codebook, to release rows as public ones",
        "aggregate": "a mean or a classifier of many people's vectors",
        "topics": "what people write about, and what grew, as a page",
        "rewrite": "texts, as public texts or by noise on their vectors",
        "redact": "texts with placeholders for personal data (not DP)",
    },
    "Serve": {
        "serve": "private embeddings over HTTP, in the shape of OpenAI's endpoint",
        "ui": "a page to redact, rewrite and explore, in your browser",
    },
    "Search": {"retrieve": "build and search an index of private vectors"},
    "Account and check": {
        "budget": "create a budget, see what is spent, start a new period",
        "verify": "recompute the guarantee of receipts",
        "card": "a registry's entry of your deployment, from receipts",
        "attack": "what protected vectors give away, whatever protects them",
        "audit": "try to refute a mechanism's claim with samples",
    },
    "This installation": {"backends": "what was compiled, what this machine runs and protects"},
}
COMMANDS = {name: line for commands in PURPOSES.values() for name, line in commands.items()}


# The module of a command has its name, with underscores, or this one.
_JOINED = {"codebook": "privatize", "ui": "serve"}


def module_of(command: str) -> str:
    return _JOINED.get(command, command.replace("-", "_"))


def map_lines(added: dict[str, str]) -> Iterator[str]:
    """Yield the map, for a terminal; `added`: commands of other distributions and one line about each."""
    yield f"{paint('bold', f'hushvec {_core.__version__}')}  differential privacy for embedding vectors"
    purposes = {**PURPOSES, "Measure": added} if added else PURPOSES
    width = max(len(name) for commands in purposes.values() for name in commands)
    for purpose, commands in purposes.items():
        yield ""
        yield paint("title", purpose)
        for name, line in commands.items():
            first, *rest = textwrap.wrap(printable(line), WIDTH - width - 4) or [""]
            yield f"  {paint('name', printable(name).ljust(width))}  {first}"
            yield from (f"{'':{width + 4}}{more}" for more in rest)
    yield ""
    demo, help_of = paint("name", "hushvec demo"), paint("name", "hushvec COMMAND --help")
    yield f"{paint('title', 'Next')}  {demo}, or {help_of} for examples and options"


def options_lines() -> Iterator[str]:
    """Yield the options of `hushvec` itself, and the environment."""
    yield ""
    yield paint("title", "Options")
    yield f"  {paint('name', '-h, --help')}     this text"
    yield f"  {paint('name', '--version')}      the version"
    yield ""
    yield paint("title", "Environment")
    yield f"  {paint('name', 'NO_COLOR')}, {paint('name', 'FORCE_COLOR')}      colors off, or on for pipes too"
    yield f"  {paint('name', 'HUSHVEC_NUM_THREADS')}        threads of a call"
    yield f"  {paint('name', 'HUSHVEC_BUDGET_STORE')}       where ledgers are kept"


# ---- commands of other distributions ----

GROUP = "hushvec.commands"
# Commands of this project in separate distributions, and how to install them.
ELSEWHERE = {"study": "hushvec-studies; in a clone of the repository: pip install . ./studies"}


def added_commands() -> dict[str, EntryPoint]:
    """Return the commands that are installed, by name."""
    from importlib.metadata import entry_points  # 30 ms that few calls need

    return {entry.name: entry for entry in entry_points(group=GROUP)}


def add_called(subparsers: Any, name: str) -> None:
    """Add the command that is called; ImportError if it is not installed, or cannot be imported."""
    entry = added_commands().get(name)
    if entry is None:
        raise ImportError(f"needs {ELSEWHERE[name]}")
    entry.load()(subparsers)


def summaries() -> dict[str, str]:
    """Return one line about each command, from the metadata of its distribution: none is imported."""
    lines = {name: f"needs {distribution}" for name, distribution in ELSEWHERE.items()}
    lines |= {name: entry.dist.metadata["Summary"] if entry.dist else "" for name, entry in added_commands().items()}
    return dict(sorted(lines.items()))
