"""Files of vectors, by their suffix, and folders of Hugging Face data sets: read a part at a time, written back in the same form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hushvec._native.rowwise import require_finite
from hushvec._util.display import Progress
from hushvec._util.publish import Discarded
from hushvec.cli._parser import Command, option
from hushvec.cli.vectors.arrays import NpySource, NpzSource
from hushvec.cli.vectors.comma_separated import CsvSource
from hushvec.cli.vectors.objects import JsonlSource, JsonSource
from hushvec.cli.vectors.source import Columns, FileError, Source, naming
from hushvec.cli.vectors.tables import TableSource, suffix_of
from hushvec.jobs.tables import SUFFIXES
from hushvec.text import MiniLMEmbedder

FILES = ".npy, .npz, .parquet, .arrow, .feather, .jsonl, .ndjson, .json or .csv, or a folder of save_to_disk"
NOTE_EMBEDDED = "vectors are all-MiniLM-L6-v2 embeddings of texts, cut after 256 tokens"
_KINDS: dict[str, Callable[[Path, Columns], Source]] = {
    ".npy": NpySource,
    ".npz": NpzSource,
    **dict.fromkeys(SUFFIXES, TableSource),
    **dict.fromkeys((".jsonl", ".ndjson"), JsonlSource),
    ".json": JsonSource,
    ".csv": CsvSource,
}


class VectorOptions(Command):
    """For commands that read all rows of a file."""

    column: str | None = option("column or key of the vectors (default embedding), nested as in data.embedding; of .csv also d0..d383")
    text_key: str | None = option(".jsonl, .ndjson, .json and .csv: embed the text under this key with MiniLM")
    taken: ClassVar[tuple[str, ...]] = ()  # what was read, for `answered`

    def rows(self, path: Path) -> NDArray[Any]:
        """Return the rows, [n, d]; texts are embedded."""
        rows, _ = self.rows_and_fields(path)
        return rows if rows.flags.owndata else np.array(rows, order="C")

    def rows_or_texts(self, path: Path | None, texts: list[str]) -> NDArray[Any]:
        """Return the rows of the file, or where there is none, the embeddings of the texts."""
        return MiniLMEmbedder().embed(texts) if path is None else self.rows(path)

    def rows_and_fields(self, path: Path, keep: tuple[str, ...] = ()) -> tuple[NDArray[Any], dict[str, list[Any]]]:
        """Return the rows, and for each name of `keep` what is beside them. A .npy file is mapped."""
        source = open_source(path, Columns(self.column, self.text_key, keep))
        rows, fields = rows_and_fields(source)
        self.took(source, len(rows))
        return rows, fields

    def took(self, source: Source, rows: int) -> None:
        self.taken = (*self.taken, source.taken(rows))  # type: ignore[misc]


def require_one(name: str, path: Path | None, texts: list[str]) -> None:
    """Refuse a file and texts together, and neither of them."""
    if (path is None) == (not texts):
        raise ValueError(f"one of {name} and --text must be given")


def rehearse(path: Path, source: Source) -> None:
    """Read and write the whole file without a result: everything that could be refused is refused here, before a charge."""
    done = 0
    with source.sink(Discarded()) as sink:
        for part in source.parts(rehearsal=True):
            with naming(path):
                require_finite("x", part.values, first_row=done)
            sink(part.values, part.kept)
            done += len(part.values)


def open_source(path: Path, columns: Columns) -> Source:
    """Open a file by its suffix."""
    if suffix_of(path) not in _KINDS:
        raise FileError(path, f"the name must end in {', '.join(_KINDS)}, got {path.suffix!r}")
    return _KINDS[suffix_of(path)](path, columns)


def rows_and_fields(source: Source) -> tuple[NDArray[Any], dict[str, list[Any]]]:
    """Read all rows [n, d], and for each name that is kept what is beside them, with progress. A .npy file is mapped."""
    if type(source) is NpySource:
        return source.mapped(), {}
    parts: list[NDArray[Any]] = [np.empty((0, source.dimension), source.dtype)]
    beside: dict[str, list[Any]] = {name: [] for name in source.kept}
    with Progress("rows", source.count()) as progress:
        for part in source.parts():
            parts.append(part.values)
            for name, values in beside.items():
                values += source.beside(part, name)
            progress.advance(len(part.values))
    return np.concatenate(parts), beside
