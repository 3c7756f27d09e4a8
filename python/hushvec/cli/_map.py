"""The commands by purpose, each with one line: what `hushvec` alone prints. Imports none of them."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from hushvec._native._core import __version__
from hushvec.cli._printable import printable
from hushvec.cli._style import paint

WIDTH = 80

# The module of a command has its name, with underscores.
PURPOSES = {
    "See it": {"demo": "what a stolen vector gives away, and what noise leaves of it"},
    "Choose": {
        "recommend": "which mechanism keeps most at your epsilon",
        "sigma": "calculator: two of epsilon, delta, sigma give the third",
    },
    "Release": {
        "privatize": "a file of vectors, with a receipt",
        "codebook": "a public codebook, to release rows as public ones",
        "rewrite": "texts, as public texts or by noise on their vectors",
        "redact": "texts with placeholders for personal data (not DP)",
        "train-inverter": "a decoder from vectors to text, from public texts",
    },
    "Serve": {
        "serve": "private embeddings over HTTP, in the shape of OpenAI's endpoint",
        "ui": "a page to redact, rewrite and explore, in your browser",
    },
    "Search": {"retrieve": "build and search an index of private vectors"},
    "Account and check": {
        "budget": "create a budget, see what is spent, start a new period",
        "verify": "recompute the guarantee of receipts",
        "audit": "try to refute a mechanism's claim with samples",
    },
    "This installation": {
        "backends": "what was compiled, what this machine runs, what is in use",
        "completion": "the TAB key in bash, zsh and fish",
    },
}
COMMANDS = {name: line for commands in PURPOSES.values() for name, line in commands.items()}


def module_of(command: str) -> str:
    return command.replace("-", "_")


def map_lines(added: dict[str, str]) -> Iterator[str]:
    """The map, for a terminal; `added`: commands of other distributions and one line about each."""
    yield f"{paint('bold', f'hushvec {__version__}')}  differential privacy for embedding vectors"
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
    """The options of `hushvec` itself, and the environment."""
    yield ""
    yield paint("title", "Options")
    yield f"  {paint('name', '-h, --help')}     this text"
    yield f"  {paint('name', '--version')}      the version"
    yield ""
    yield paint("title", "Environment")
    yield f"  {paint('name', 'NO_COLOR')}, {paint('name', 'FORCE_COLOR')}      colors off, or on for pipes too"
    yield f"  {paint('name', 'HUSHVEC_NUM_THREADS')}        threads of a call"
    yield f"  {paint('name', 'HUSHVEC_BUDGET_STORE')}       where ledgers are kept"
