"""What a command reads: a file, a folder or standard input, and the name by which messages call it; texts as vectors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hushvec._util.display import Progress
from hushvec._util.lines import decoded, numbered_lines
from hushvec._util.publish import PRIVATE, mode_of
from hushvec.embedders.minilm import BATCH, MiniLMEmbedder

SUFFIXES = (".txt", ".md")


def source_name(source: str | None) -> str:
    return "standard input" if source in (None, "-") else str(source)


def mode_of_output(source: str | None) -> int:
    """The mode of outputs: that of the input if it is a file; else, as for a folder, readable only by the user.

    Even a private release may have unprotected text beside it (kept keys, an infinite epsilon).
    """
    return PRIVATE if source in (None, "-") or Path(str(source)).is_dir() else mode_of(Path(str(source)))


def read_utf8(source: str | None) -> str:
    """All of a file, or of standard input (None or "-")."""
    content = sys.stdin.buffer.read() if source in (None, "-") else Path(str(source)).read_bytes()
    return decoded(source_name(source), content)


def files_of_folder(folder: Path) -> list[Path]:
    """The .txt and .md files in a folder and the folders below it, by name."""
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())


def lines_of_source(source: str) -> list[str]:
    """The lines, without the spaces around them, of a file, of standard input ("-") or of the .txt and .md files of a folder."""
    path, files = Path(source), [source]
    if source != "-" and path.is_dir():
        files = [str(file) for file in files_of_folder(path)]
    lines = [line.strip() for file in files for _, line in numbered_lines(read_utf8(file), file)]
    if not lines:
        raise ValueError(f"{source_name(source)}: must hold at least one line of text")
    return lines


def embedded(embedder: MiniLMEmbedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """`embedder.embed` with progress."""
    runs = [np.empty((0, embedder.dimension), np.float32)]
    with Progress("embedding", len(texts)) as progress:
        for first in range(0, len(texts), BATCH):
            runs.append(embedder.embed(texts[first : first + BATCH]))
            progress.advance(len(runs[-1]))
    return np.concatenate(runs)
