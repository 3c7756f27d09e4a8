"""Commands that other distributions add.

Such a distribution has an entry point of the group `hushvec.commands`, which names a function that adds the command to the subparsers:

    [project.entry-points."hushvec.commands"]
    study = "hushvec_studies.command:add_to"

The function is imported when its command is called. Help shows the summary of the distribution, for which its metadata are enough.
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from hushvec.cli._parser import Subparsers

GROUP = "hushvec.commands"
# Commands of this project in separate distributions, and how to install them.
ELSEWHERE = {"study": "hushvec-studies; in a clone of the repository: pip install . ./studies"}


def added_commands() -> dict[str, EntryPoint]:
    """The commands that are installed, by name."""
    return {entry.name: entry for entry in entry_points(group=GROUP)}


def add_called(subparsers: Subparsers, name: str) -> None:
    """Add the command that is called.

    Raises:
        ImportError: it is not installed, or cannot be imported.
    """
    entry = added_commands().get(name)
    if entry is None:
        raise ImportError(f"needs {ELSEWHERE[name]}")
    entry.load()(subparsers)


def summaries() -> dict[str, str]:
    """One line about each command, from the metadata of its distribution: none is imported."""
    lines = {name: f"needs {distribution}" for name, distribution in ELSEWHERE.items()}
    lines |= {name: entry.dist.metadata["Summary"] if entry.dist else "" for name, entry in added_commands().items()}
    return dict(sorted(lines.items()))
