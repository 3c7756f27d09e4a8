"""Embeddings of a corpus, computed once and kept in the folder of the run; an interrupted computation is resumed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from hushvec._util.display import Progress
from hushvec._util.publish import private_opener
from hushvec.embedders.answers import embedded_rows
from hushvec.embedders.sources import SourceModel

EMBEDDINGS_FILE = "embeddings.npy"
PARTIAL_SUFFIX = ".partial"
TEXTS_AT_ONCE = 1024


def embedded(model: SourceModel, texts: Sequence[str], *, first: int, dimension: int) -> NDArray[np.float32]:
    """Rows of texts, checked; `first` is the number of the first text in the corpus, for errors."""
    rows = embedded_rows(model, texts, first_row=first)
    if rows.shape[1] != dimension:
        raise ValueError(f"model output must have {dimension} columns, as for the first text, got {rows.shape[1]}")
    return rows


def kept_embeddings(folder: Path, model: SourceModel, texts: Sequence[str], dimension: int) -> NDArray[np.float32]:
    """The rows of all texts: from the folder if they are saved there, else computed and saved.

    Rows are appended to a file beside, which gets its name once all are in it. A resumed run continues after the last complete
    row.
    """
    path = folder / EMBEDDINGS_FILE
    if not path.exists():
        _compute(path, model, texts, dimension)
    try:
        rows: NDArray[np.float32] = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{path} is not an array file: {error}") from None
    if rows.dtype != np.float32 or rows.shape != (len(texts), dimension):
        raise ValueError(f"{path} must be float32 {(len(texts), dimension)}, got {rows.dtype} {rows.shape}")
    return rows


def _compute(path: Path, model: SourceModel, texts: Sequence[str], dimension: int) -> None:
    partial = path.with_name(path.name + PARTIAL_SUFFIX)
    with open(partial, "ab", opener=private_opener) as file, Progress("embedding", len(texts)) as progress:
        done = _rows_there(file, len(texts), dimension)
        progress.advance(done)
        for first in range(done, len(texts), TEXTS_AT_ONCE):
            chunk = texts[first : first + TEXTS_AT_ONCE]
            file.write(embedded(model, chunk, first=first, dimension=dimension).tobytes())
            file.flush()
            progress.advance(len(chunk))
        os.fsync(file.fileno())
    os.replace(partial, path)


def _rows_there(file: BinaryIO, rows: int, dimension: int) -> int:
    """How many rows the unfinished file holds, after cutting an incomplete last row; a new file gets the final header."""
    before = file.tell()
    if before == 0:
        header = {"descr": np.dtype(np.float32).str, "fortran_order": False, "shape": (rows, dimension)}
        np.lib.format.write_array_header_1_0(file, header)
        file.flush()
        return 0
    bytes_of_row = 4 * dimension
    start = _header_length(Path(file.name))
    whole = (before - start) // bytes_of_row
    file.truncate(start + whole * bytes_of_row)
    return whole


def _header_length(path: Path) -> int:
    with path.open("rb") as file:
        np.lib.format.read_magic(file)
        np.lib.format.read_array_header_1_0(file)
        return file.tell()
