"""A file of vectors as commands read and write it, a part at a time: what every form of it has."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util.display import plural
from hushvec.errors import HushvecError
from hushvec.jobs.tables import PART_ELEMENTS

DEFAULT_VECTOR = "embedding"


class Part(NamedTuple):
    """Some rows, and by name what is copied beside them."""

    values: NDArray[Any]
    kept: dict[str, Any]


# Where the rows of the output go: their values, and what is copied beside them.
Sink = Callable[[NDArray[Any], dict[str, Any]], None]


class Columns(NamedTuple):
    """Which part of a record is the vector, and which parts are copied as they are."""

    vector: str | None = None
    text: str | None = None
    keep: tuple[str, ...] = ()


class Source(ABC):
    """A file of vectors, opened and checked."""

    dtype: str
    dimension: int
    taken_from: str  # the column, key or array of the vectors, in words

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path, self._keep, self._vector = path, columns.keep, columns.vector or DEFAULT_VECTOR
        for name in self._keep:
            if any(f"{name}.".startswith(f"{one}.") or f"{one}.".startswith(f"{name}.") for one in (columns.text, self._vector)):
                raise FileError(path, f"keep must not name {name!r}: it is what the noise protects")
        if PACKED.search(self._vector) and columns.text is None:
            raise FileError(path, packed(repr(self._vector)))

    def taken(self, rows: int) -> str:
        """Return what was read, in words."""
        return f"{plural(rows, 'row')} x {plural(self.dimension, 'column')} of {self._path}, {self.taken_from}"

    @property
    def kept(self) -> tuple[str, ...]:
        return self._keep

    @abstractmethod
    def count(self) -> int:
        """Return the number of rows; may read the file once."""

    @abstractmethod
    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        """Yield the rows in order, a bounded number at a time. In a rehearsal all is checked, but texts are zeros, not embedded."""

    @abstractmethod
    def sink(self, file: Any, dtype: str | None = None) -> AbstractContextManager[Sink]:
        """Write a file of this sort for as many rows into an empty one that is open for bytes; dtype None is the source's."""

    def beside(self, part: Part, name: str) -> list[Any]:
        """Return what a part has under a name that is copied."""
        return list(part.kept[name])


class FileError(HushvecError, ValueError):
    """A file that cannot be used; the message begins with its name."""

    def __init__(self, path: Path, message: str) -> None:
        super().__init__(f"{path}: {message}")


def require_output(output: Path, suffix: str, why: str = "") -> None:
    """Refuse a name without this suffix, and a place where no file can be written."""
    if output.suffix.lower() != suffix.lower():
        raise FileError(output, f"must end in {suffix}{why}")
    if output.exists() and not output.is_file():
        raise FileError(output, "must be a plain file")
    if not output.parent.is_dir():
        raise FileError(output, f"the folder {output.parent} must exist")


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Begin errors about what a file holds with its name."""
    try:
        yield
    except ValueError as error:
        raise FileError(path, str(error)) from None


def rows_per_part(dimension: int) -> int:
    return max(1, PART_ELEMENTS // dimension)


PACKED = re.compile(r"(?i)(?:^|[._-])u?binary(?:$|[._-])")
BYTES_TO_JUDGE = 4096


def packed(name: str) -> str:
    return (
        f"{name} must hold coordinates, and looks like packed binary codes, eight of them in a byte, which no noise on numbers fits: "
        "give the float embeddings (numpy.unpackbits takes codes apart; astype('float32') if these are numbers)"
    )


def is_packed(x: NDArray[Any]) -> bool:
    """Tell bytes whose highest bits differ as often as not, as each is a coordinate, from quantized numbers, mostly small."""
    return x.dtype == np.uint8 or (
        x.dtype == np.int8 and x.size >= BYTES_TO_JUDGE and abs(float((((x >> 7) ^ (x >> 6)) & 1).mean()) - 0.5) < 0.05
    )
