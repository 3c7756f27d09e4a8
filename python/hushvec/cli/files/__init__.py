"""Files of vectors, read and written a part at a time: .npy, .parquet, .jsonl. The suffix says which."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hushvec.cli.files.base import Columns, FileError, Source, rehearse
from hushvec.cli.files.jsonl import JsonlSource
from hushvec.cli.files.npy import NpySource
from hushvec.cli.files.parquet import ParquetSource

__all__ = ["Columns", "FileError", "Source", "open_source", "rehearse"]


def open_source(path: Path, columns: Columns) -> Source:
    """Open a file by its suffix."""
    kinds: dict[str, Any] = {".npy": NpySource, ".parquet": ParquetSource, ".jsonl": JsonlSource}
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise FileError(path, f"the name must end in {', '.join(kinds)}, got {path.suffix!r}")
    source: Source = kind(path, columns)
    return source
