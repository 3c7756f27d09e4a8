"""Where the demo's texts come from: a file, a folder, standard input, or the sentences that ship with the package."""

from __future__ import annotations

import sys
from importlib import resources
from pathlib import Path

from hushvec._util.lines import decoded

SUFFIXES = (".txt", ".md")


def private_texts(source: str | None) -> list[str]:
    """One text for every line that is not blank.

    Args:
        source: a file, a folder (its .txt and .md files, sorted), "-" for standard input, None for the shipped notes.

    Raises:
        ValueError: no text in it, or bytes that are not UTF-8.
        OSError: it cannot be read.
    """
    if source is None:
        return _shipped("private_notes.txt")
    name = "standard input" if source == "-" else source
    texts = [line for content in _contents(source) for line in _lines(content)]
    if not texts:
        raise ValueError(f"{name}: must hold at least one line of text")
    return texts


def public_sentences() -> list[str]:
    """The public corpus that noisy vectors are decoded to."""
    return _shipped("public_sentences.txt")


def _shipped(name: str) -> list[str]:
    return _lines(resources.files("hushvec").joinpath("data", name).read_text(encoding="utf-8"))


def _contents(source: str) -> list[str]:
    if source == "-":
        return [decoded("standard input", sys.stdin.buffer.read())]
    path = Path(source)
    if not path.is_dir():
        return [decoded(source, path.read_bytes())]
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    return [decoded(str(file), file.read_bytes()) for file in files]


def _lines(content: str) -> list[str]:
    return [line.strip() for line in content.splitlines() if line.strip()]
