"""Files of vectors for commands: sources and sinks of parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from hushvec._native.rowwise import require_finite
from hushvec._util.publish import Discarded
from hushvec.errors import HushvecError

# Elements that are in memory at once: 16 MB of float32.
PART_ELEMENTS = 1 << 22


class Part(NamedTuple):
    """Some rows, and what is copied beside them."""

    values: NDArray[Any]
    kept: Any


class Sink(Protocol):
    """Where the rows of the output go."""

    def write(self, values: NDArray[Any], kept: Any) -> None: ...


class Source(Protocol):
    """A file of vectors, opened and checked."""

    dtype: str
    dimension: int

    def count(self) -> int:
        """How many rows there are; may read the file once."""

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        """The rows in order, a bounded number at a time. In a rehearsal everything is checked, but texts are zeros, not embedded."""

    def sink(self, file: Any, dtype: str | None = None) -> AbstractContextManager[Sink]:
        """A file of this sort for as many rows, into an empty one that is open for writing bytes; dtype None is the source's."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which part of a record is the vector, and which parts are copied as they are."""

    vector: str | None = None
    text: str | None = None
    keep: tuple[str, ...] = ()


class FileError(HushvecError, ValueError):
    """A file that cannot be used; the message begins with its name."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")


def rehearse(path: Path, source: Source) -> None:
    """Read and write the whole file without a result: everything that could be refused is refused here, before a charge."""
    done = 0
    with source.sink(Discarded()) as sink:
        for part in source.parts(rehearsal=True):
            try:
                require_finite("x", part.values, first_row=done)
            except ValueError as error:
                raise FileError(path, str(error)) from None
            sink.write(part.values, part.kept)
            done += len(part.values)


DEFAULT_VECTOR = "embedding"


def rows_per_part(dimension: int) -> int:
    return max(1, PART_ELEMENTS // dimension)
