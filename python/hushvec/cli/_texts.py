"""Texts of a file, a folder or standard input, and where they go."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TextIO

from hushvec._util.lines import decoded, numbered_lines
from hushvec._util.publish import PRIVATE, mode_of, published_text

SUFFIXES = (".txt", ".md")  # in a folder


def source_name(source: str | None) -> str:
    return "standard input" if source in (None, "-") else str(source)


def mode_of_output(source: str | None) -> int:
    """Return the mode of outputs: that of the input if it is a file; else, as for a folder, readable only by the user.

    Even a private release may have unprotected text beside it (kept keys, an infinite epsilon).
    """
    return PRIVATE if source in (None, "-") or Path(str(source)).is_dir() else mode_of(Path(str(source)))


def path_or_stdout(text: str) -> Path | None:
    """Return the path; None for "-", standard output."""
    return None if text == "-" else Path(text)


def written(options: Any) -> AbstractContextManager[TextIO]:
    """Open OUT of a command with a `source`, or standard output if none is given."""
    if options.output is None:
        return nullcontext(sys.stdout)
    return published_text(options.output, mode=mode_of_output(options.source))


def read_utf8(source: str | None) -> str:
    """Return all of a file, or of standard input (None or "-")."""
    content = sys.stdin.buffer.read() if source in (None, "-") else Path(str(source)).read_bytes()
    return decoded(source_name(source), content)


def files_of_folder(folder: Path) -> list[Path]:
    """Return the .txt and .md files in a folder and the folders below it, by name."""
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())


def stripped_lines(source: str) -> list[str]:
    """Return the lines that are not blank of a file or of standard input ("-"), without the spaces around them."""
    return [line.strip() for _, line in numbered_lines(read_utf8(source), source)]


def lines_of_source(source: str) -> list[str]:
    """Return `stripped_lines`, of a folder those of its .txt and .md files; at least one."""
    is_folder = source != "-" and Path(source).is_dir()
    files = map(str, files_of_folder(Path(source))) if is_folder else [source]
    lines = [line for file in files for line in stripped_lines(file)]
    if not lines:
        raise ValueError(f"{source_name(source)}: must hold at least one line of text")
    return lines
