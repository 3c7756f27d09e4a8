"""Input of commands: files of vectors, by their suffix, and folders of Hugging Face data sets, a part at a time; and texts of a file,
a folder or standard input. Vectors are written back in the same form."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, TextIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hushvec._native.arrays import NUMPY_DTYPES
from hushvec._native.rowwise import as_array, dtype_after, require_finite
from hushvec._util.display import Progress, plural
from hushvec._util.lines import (
    copied_fields,
    decoded,
    json_line,
    json_object,
    lines_of_file,
    nested_field,
    numbered_lines,
    require_utf8,
)
from hushvec._util.publish import PRIVATE, Discarded, mode_of, published_text
from hushvec.cli._parser import Command, option
from hushvec.embedders.minilm import DIMENSION, MiniLMEmbedder
from hushvec.errors import HushvecError
from hushvec.jobs import columns
from hushvec.jobs.tables import ARROW, PART_ELEMENTS, open_table, table_writer
from hushvec.jobs.tables import SUFFIXES as SUFFIXES_OF_TABLES

TEXTS_PER_PART = 256
DEFAULT_VECTOR = "embedding"
FILES = ".npy, .npz, .parquet, .arrow, .feather, .jsonl, .ndjson, .json or .csv, or a folder of save_to_disk"
SUFFIXES = (".txt", ".md")  # of texts in a folder


class Part(NamedTuple):
    """Some rows, and what is copied beside them."""

    values: NDArray[Any]
    kept: Any


# Where the rows of the output go: their values, and what is copied beside them.
Sink = Callable[[NDArray[Any], Any], None]


class Columns(NamedTuple):
    """Which part of a record is the vector, and which parts are copied as they are."""

    vector: str | None = None
    text: str | None = None
    keep: tuple[str, ...] = ()


class VectorOptions(Command):
    """For commands that read all rows of a file."""

    column: str | None = option("column or key of the vectors (default embedding), nested as in data.embedding; of .csv also d0..d383")
    text_key: str | None = option(".jsonl, .ndjson, .json and .csv: embed the text under this key with MiniLM")
    taken: ClassVar[tuple[str, ...]] = ()  # what was read, for `answered`

    def rows(self, path: Path) -> NDArray[Any]:
        """The rows, [n, d]; texts are embedded."""
        rows, _ = self.rows_and_fields(path)
        return rows if rows.flags.owndata else np.array(rows, order="C")

    def rows_and_fields(self, path: Path, keep: tuple[str, ...] = ()) -> tuple[NDArray[Any], dict[str, list[Any]]]:
        """The rows, and for each name of `keep` what is beside them. A .npy file is mapped."""
        source = open_source(path, Columns(self.column, self.text_key, keep))
        rows, fields = rows_and_fields(source)
        self.took(source, len(rows))
        return rows, fields

    def took(self, source: Source, rows: int) -> None:
        self.taken = (*self.taken, source.taken(rows))  # type: ignore[misc]


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
        if _PACKED.search(self._vector) and columns.text is None:
            raise FileError(path, _packed(repr(self._vector)))

    def taken(self, rows: int) -> str:
        """What was read, in words."""
        return f"{plural(rows, 'row')} x {plural(self.dimension, 'column')} of {self._path}, {self.taken_from}"

    @property
    def kept(self) -> tuple[str, ...]:
        return self._keep

    @abstractmethod
    def count(self) -> int:
        """Number of rows; may read the file once."""

    @abstractmethod
    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        """The rows in order, a bounded number at a time. In a rehearsal everything is checked, but texts are zeros, not embedded."""

    @abstractmethod
    def sink(self, file: Any, dtype: str | None = None) -> AbstractContextManager[Sink]:
        """A file of this sort for as many rows, into an empty one that is open for writing bytes; dtype None is the source's."""

    def beside(self, part: Part, name: str) -> list[Any]:
        """What a part has under a name that is copied."""
        return [fields[name] for fields in part.kept]


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
    """Errors about what a file holds begin with its name."""
    try:
        yield
    except ValueError as error:
        raise FileError(path, str(error)) from None


def rehearse(path: Path, source: Source) -> None:
    """Read and write the whole file without a result: everything that could be refused is refused here, before a charge."""
    done = 0
    with source.sink(Discarded()) as sink:
        for part in source.parts(rehearsal=True):
            with naming(path):
                require_finite("x", part.values, first_row=done)
            sink(part.values, part.kept)
            done += len(part.values)


def rows_per_part(dimension: int) -> int:
    return max(1, PART_ELEMENTS // dimension)


def suffix_of(path: Path) -> str:
    """The suffix of a file; that of Arrow for a folder, as which Hugging Face's `save_to_disk` writes a data set."""
    return ARROW if path.is_dir() else path.suffix.lower()


def open_source(path: Path, columns: Columns) -> Source:
    """Open a file by its suffix."""
    if suffix_of(path) not in _KINDS:
        raise FileError(path, f"the name must end in {', '.join(_KINDS)}, got {path.suffix!r}")
    return _KINDS[suffix_of(path)](path, columns)


def rows_and_fields(source: Source) -> tuple[NDArray[Any], dict[str, list[Any]]]:
    """All rows [n, d], and for each name that is kept what is beside them, with progress. A .npy file is mapped."""
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


# ---- .npy: memory-mapped for reading, written plainly; .npz: one of its arrays ----

_PACKED = re.compile(r"(?i)(?:^|[._-])u?binary(?:$|[._-])")
_BYTES_TO_JUDGE = 4096


def _packed(name: str) -> str:
    return (
        f"{name} must hold coordinates, and looks like packed binary codes, eight of them in a byte, which no noise on numbers fits: "
        "give the float embeddings (numpy.unpackbits takes codes apart; astype('float32') if these are numbers)"
    )


def _is_packed(x: NDArray[Any]) -> bool:
    """Bytes whose highest bits differ as often as not: every bit is a coordinate of its own. Quantized numbers are mostly small."""
    return x.dtype == np.uint8 or (
        x.dtype == np.int8 and x.size >= _BYTES_TO_JUDGE and abs(float((((x >> 7) ^ (x >> 6)) & 1).mean()) - 0.5) < 0.05
    )


_MOST_HEADER = 10_000  # bytes, as numpy's own limit


class NpySource(Source):
    taken_from = "the array"

    def __init__(self, path: Path, columns: Columns) -> None:
        if columns != Columns():
            raise FileError(path, "a .npy file has no columns or keys to name")
        super().__init__(path, columns)
        readers = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}
        with path.open("rb") as file:
            try:
                version = npy.read_magic(file)
                if version not in readers:
                    raise ValueError(f"version {version} is unknown")
                length = int.from_bytes(file.read(2 * version[0]), "little")
                if length > _MOST_HEADER:  # numpy reads it whole before it refuses it
                    raise ValueError(f"its header must have at most {_MOST_HEADER} bytes, says {length}")
                file.seek(npy.MAGIC_LEN)
                shape, self._fortran_order, stored = readers[version](file)
            except (ValueError, EOFError) as error:
                raise FileError(path, f"not a .npy file of numbers: {error}") from None
            self._offset = file.tell()
        expected = self._offset + stored.itemsize * int(np.prod(shape, dtype=object))
        self._check(shape, stored)
        if (actual := os.path.getsize(path)) < expected:
            raise FileError(path, f"the file is cut short: {expected} bytes expected, got {actual}")
        self._refuse_packed()

    def _check(self, shape: tuple[int, ...], stored: np.dtype[Any]) -> None:
        self._shape, self._stored, self.dtype = shape, stored, dtype_after(stored)
        if len(shape) not in (1, 2):
            raise FileError(self._path, f"{self.taken_from} must have 1 or 2 dimensions, got {len(shape)}")
        if self.dtype not in NUMPY_DTYPES:
            raise FileError(self._path, f"{self.taken_from} must be {' or '.join(NUMPY_DTYPES)}, got {self.dtype}")
        if shape[-1] < 1:
            raise FileError(self._path, f"{self.taken_from} must have at least 1 column, got 0")
        self.dimension = shape[-1]

    def _refuse_packed(self) -> None:
        if _is_packed(self._mapped()[:_BYTES_TO_JUDGE]):
            raise FileError(self._path, _packed(self.taken_from))

    def count(self) -> int:
        return self._shape[0] if len(self._shape) == 2 else 1

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        matrix, step = self._mapped(), rows_per_part(self.dimension)
        for first in range(0, len(matrix), step):
            # A copy: what was checked is what is released, even if another program writes to the file meanwhile.
            rows = np.array(matrix[first : first + step], self._stored.newbyteorder("="), order="C")
            with naming(self._path):
                floats: NDArray[Any] = as_array("the array", rows)
            yield Part(floats, self._beside(slice(first, first + step)))

    def _beside(self, rows: slice) -> Any:
        return None

    def mapped(self) -> NDArray[Any]:
        """All rows [n, d], of the processor's byte order; floats are read from the file as they are needed."""
        stored = self._mapped()
        with naming(self._path):
            floats: NDArray[Any] = as_array("the array", np.asarray(stored, self._stored.newbyteorder("=")))
        return floats

    def _mapped(self) -> NDArray[Any]:
        if self.count() == 0:
            return np.empty(self._shape, self._stored)
        order = "F" if self._fortran_order else "C"
        stored: NDArray[Any] = np.memmap(self._path, self._stored, "r", self._offset, self._shape, order)  # type: ignore[call-overload]
        return stored.reshape(1, -1) if stored.ndim == 1 else stored

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        written = np.dtype(self.dtype if dtype is None else dtype)
        header = {"descr": npy.dtype_to_descr(written), "fortran_order": False, "shape": self._shape}
        npy.write_array_header_1_0(file, header)
        yield lambda values, kept: file.write(values.data)


class NpzSource(NpySource):
    """An array of a .npz file, the only one unless it is named; read into memory. Others that have as many rows may be kept."""

    def __init__(self, path: Path, columns: Columns) -> None:
        if columns.text is not None:
            raise FileError(path, "texts are embedded from .jsonl and .csv files; name an array of vectors")
        try:
            with np.load(path) as arrays:
                names = arrays.files
                if columns.vector is None and len(names) == 1:
                    columns = columns._replace(vector=names[0])
                Source.__init__(self, path, columns)
                if absent := [name for name in (self._vector, *self._keep) if name not in names]:
                    raise FileError(path, f"must have an array {absent[0]!r}, got {', '.join(map(repr, names)) or 'none'}")
                self._array: NDArray[Any] = arrays[self._vector]
                self._others = {name: arrays[name] for name in self._keep}
        except (zipfile.BadZipFile, AttributeError, EOFError) as error:  # of a .npy file under this name np.load makes an array
            raise FileError(path, f"not a .npz file: {error}") from None
        except ValueError as error:
            raise error if isinstance(error, FileError) else FileError(path, f"not a .npz file of numbers: {error}") from None
        self.taken_from = f"array {self._vector!r}"
        self._check(self._array.shape, self._array.dtype)
        for name, array in self._others.items():
            if array.shape[:1] != (self.count(),):
                raise FileError(path, f"array {name!r} must have {self.count()} rows like {self._vector!r}, got shape {array.shape}")
        self._refuse_packed()

    def _mapped(self) -> NDArray[Any]:
        rows: NDArray[Any] = self._array.reshape(-1, self.dimension)
        return rows

    def _beside(self, rows: slice) -> Any:
        return {name: array[rows].tolist() for name, array in self._others.items()}

    def beside(self, part: Part, name: str) -> list[Any]:
        values: list[Any] = part.kept[name]
        return values

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        with zipfile.ZipFile(file, "w") as folder:
            for name, array in self._others.items():
                with folder.open(f"{name}.npy", "w", force_zip64=True) as entry:
                    npy.write_array(entry, array, allow_pickle=False)
            with folder.open(f"{self._vector}.npy", "w", force_zip64=True) as entry, super().sink(entry, dtype) as write:
                yield write


# ---- .jsonl, .ndjson: a vector under a key, or a text under a key that is embedded first; .json: one object, or a list of them ----


_Line = tuple[str, dict[str, Any]]  # where an object of the file stands, and the object
_Item = tuple[str, Any, dict[str, Any]]  # where a row stands, its vector or text, and what is kept


class JsonlSource(Source):
    """Where a key leads to a list of vectors or texts, as in an answer of a service, every one of them is a row."""

    dtype = "float32"
    _ends = "", "\n", "\n"  # before the objects of a file, between them, and after them

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(path, columns)
        self._text = columns.text
        self._protected = self._text or self._vector
        self.taken_from = f"key {self._vector!r}" if self._text is None else f"texts under {self._text!r}, embedded"
        self._look(next(self._lines(), None))
        first = next(self._items(), None)
        if first is None:
            raise FileError(self._path, "the file must hold at least one line, and one row")
        self.dimension = DIMENSION if self._text else len(self._list_of(*first[:2]))

    def _look(self, first: _Line | None) -> None:
        """Find out from the first object how a row is found in each."""
        found = None if first is None else nested_field(first[1], self._protected, first[0])
        self._is_many = isinstance(found, list) and all(isinstance(one, str if self._text else list) for one in found)

    def count(self) -> int:
        return sum(1 for _ in (self._items() if self._is_many else self._lines_alone()))

    def _lines_alone(self) -> Iterator[Any]:
        return lines_of_file(self._path)

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        items = self._items()
        size = TEXTS_PER_PART if self._text else rows_per_part(self.dimension)
        while part := list(islice(items, size)):
            yield Part(self._vectors(part) if self._text is None else self._embedded(part, rehearsal), [kept for *_, kept in part])

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        before, between, after = self._ends

        def write(values: NDArray[Any], kept: list[dict[str, Any]]) -> None:
            nonlocal before
            for row, others in zip(values.tolist(), kept):
                file.write((before + json_line(_nest({**others, self._vector: row}))).encode())
                before = between

        yield write
        file.write((before * (before != between) + after).encode())

    @cached_property
    def _embedder(self) -> MiniLMEmbedder:
        return MiniLMEmbedder()

    def _lines(self) -> Iterator[_Line]:
        return ((where, json_object(line, where)) for where, line in lines_of_file(self._path))

    def _items(self) -> Iterator[_Item]:
        for where, fields in self._lines():
            kept = copied_fields(fields, self._keep, where)
            found = self._given(where, fields)
            if not self._is_many:
                yield where, found, kept
                continue
            if not isinstance(found, list):
                raise ValueError(f"{where}: {self._protected!r} must be a list like that of the first, got {type(found).__name__}")
            for name, values in kept.items():
                if isinstance(values, list) and len(values) != len(found):
                    raise ValueError(f"{where}: {name!r} must have {len(found)} values, one for each row, got {len(values)}")
            for row, one in enumerate(found):
                yield f"{where}, row {row}", one, {name: all_[row] if isinstance(all_, list) else all_ for name, all_ in kept.items()}

    def _given(self, where: str, fields: dict[str, Any]) -> Any:
        return nested_field(fields, self._protected, where)

    def _embedded(self, part: list[_Item], rehearsal: bool) -> NDArray[np.float32]:
        for where, text, _ in part:
            if not isinstance(text, str):
                raise ValueError(f"{where}: {self._text!r} must be a string, got {type(text).__name__}")
        texts = [require_utf8(text, where) for where, text, _ in part]
        return np.zeros((len(texts), DIMENSION), np.float32) if rehearsal else self._embedder.embed(texts)

    def _list_of(self, where: str, values: Any) -> list[float]:
        if not isinstance(values, list) or not values or not all(type(value) in (float, int) for value in values):
            hint = ", got a string (encoding_format='float' of a service gives numbers)" if isinstance(values, str) else ""
            raise ValueError(f"{where}: {self._vector!r} must be a list of numbers{hint}")
        return values

    def _vectors(self, part: list[_Item]) -> NDArray[np.float32]:
        vectors = np.empty((len(part), self.dimension), np.float32)
        for row, (where, given, _) in enumerate(part):
            values, name = self._list_of(where, given), f"{where}: {self._vector!r}"
            if len(values) != self.dimension:
                raise ValueError(f"{name} must have {self.dimension} numbers like the first line, got {len(values)}")
            try:
                with np.errstate(over="ignore"):  # becomes Inf, which the release refuses by row
                    vectors[row] = np.array(values, np.float64)
            except OverflowError:
                raise ValueError(f"{name} holds a number beyond float64") from None
        return vectors


def _nest(fields: dict[str, Any]) -> dict[str, Any]:
    """Names with dots as objects in objects again."""
    nested: dict[str, Any] = {}
    for name, value in fields.items():
        *path, last = name.split(".")
        inside = nested
        for key in path:
            inside = inside.setdefault(key, {})
        inside[last] = value
    return nested


class JsonSource(JsonlSource):
    _ends = "[\n", ",\n", "\n]\n"

    def _lines(self) -> Iterator[_Line]:
        try:
            found = json.loads(decoded(str(self._path), self._path.read_bytes()).removeprefix("\ufeff"))
        except (ValueError, RecursionError) as error:
            raise FileError(self._path, f"not JSON: {error}") from None
        for number, fields in enumerate(found if isinstance(found, list) else [found]):
            if not isinstance(fields, dict):
                raise FileError(self._path, f"must be an object or a list of objects, got {type(fields).__name__} in it")
            yield f"{self._path}: object {number}", fields

    def _lines_alone(self) -> Iterator[Any]:
        return self._lines()


# ---- .csv: a number in each column, a list of numbers in one, or a text in one ----

_FEW = 3  # columns with which 0,1,2 on the first line may well be a row; fewer rows that count on may do so by chance


class CsvSource(JsonSource):
    """Numbers of the vector are in the columns that --column names; else in all that nothing else names, which must look alike. The
    first line has names, unless it holds numbers alone that are no places of columns. A first column without a name is an index."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self._named, self._chosen = columns.vector, list[str]()
        super().__init__(path, columns._replace(vector=columns.vector if columns.text else None))
        if self._text is None:
            with naming(path):
                self._survey()

    def _look(self, first: _Line | None) -> None:
        self._is_many = False
        if first is None or self._text is not None:
            return
        where, fields = first
        names = list(fields)
        if self._named is not None or fields.get(DEFAULT_VECTOR, "").lstrip().startswith("["):
            self._chosen = _columns_named(names, self._named or DEFAULT_VECTOR, where)
        else:
            index = names[:1] if names[0] in ("", "Unnamed: 0") else []
            self._chosen = [name for name in names if name not in (*self._keep, *index)]
        if kept := [name for name in self._chosen if name in self._keep]:
            raise FileError(self._path, f"keep must not name {kept[0]!r}: it is what the noise protects")
        self._is_list = len(self._chosen) == 1 and fields[self._chosen[0]].lstrip().startswith("[")
        self._vector = self._chosen[0] if self._is_list else self._vector
        left = [name for name in names if name not in (*self._chosen, *self._keep)]
        out = f"; left out: {_listed(left)}" if left else ""
        self.taken_from = f"{'column' if len(self._chosen) == 1 else 'columns'} {_listed(self._chosen)}{out}"

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        is_list = self._text is not None or self._is_list
        text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        writer = csv.writer(text, lineterminator="\n")
        if self._has_names:
            writer.writerow([*self._keep, *([self._vector] if is_list else self._chosen)])

        def write(values: NDArray[Any], kept: list[dict[str, Any]]) -> None:
            rows = values.tolist()
            writer.writerows([*others.values(), *([json_line(row)] if is_list else row)] for row, others in zip(rows, kept))

        yield write
        text.detach()

    def _lines(self) -> Iterator[_Line]:
        with self._path.open(encoding="utf-8-sig", newline="") as file, naming(self._path):
            reader = csv.reader(file, strict=True)
            lines = filter(None, reader)
            try:
                first = next(lines, [])
                self._has_names = _are_names(first)
                names = first if self._has_names else list(map(str, range(len(first))))
                if len(set(names)) < len(names):
                    raise ValueError("line 1: the names of columns must differ")
                for fields in lines if self._has_names else chain([first] if first else [], lines):
                    if len(fields) != len(names):
                        raise ValueError(f"line {reader.line_num}: must have {len(names)} fields like the first, got {len(fields)}")
                    yield f"{self._path}: line {reader.line_num}", dict(zip(names, fields))
            except csv.Error as error:
                raise ValueError(f"line {reader.line_num}: {error}") from None

    def _given(self, where: str, fields: dict[str, Any]) -> Any:
        if self._text is not None:
            return super()._given(where, fields)
        if self._is_list:
            try:
                return json.loads(fields[self._vector])
            except ValueError:
                raise ValueError(f"{where}: {self._vector!r} must be a list of numbers like [0.5, 0.25]") from None
        numbers = [fields[name] for name in self._chosen]
        if wrong := [repr(name) for name, text in zip(self._chosen, numbers) if not _is_number(text)] or ["none"] * (not numbers):
            raise ValueError(f"{where}: must have columns of numbers, got {wrong[0]}")
        return list(map(float, numbers))

    def _survey(self) -> None:
        """Refuse columns that are no coordinates like the others. All rows are looked at: the first ones may be whole by chance."""
        if self._named is not None or self._is_list:
            return
        whole, odd, last, runs, rows = dict.fromkeys(range(self.dimension)), set[int](), None, True, 0
        for where, fields in self._lines():
            numbers = self._given(where, fields)
            if not np.isfinite(numbers).all():
                return  # which is refused where rows are read
            for place in list(whole):
                if not numbers[place].is_integer():
                    del whole[place]
                elif fields[self._chosen[place]].strip().lstrip("+-").isdecimal() or abs(numbers[place]) > 1:
                    odd.add(place)
            runs = runs and 0 in whole and last in (None, numbers[0] - 1)
            last, rows = numbers[0], rows + 1
        suspects = [self._chosen[place] for place in whole if place in odd] if len(whole) < self.dimension else []
        if not suspects and runs and rows >= _FEW and self.dimension > 1:
            suspects = self._chosen[:1]
        suspects += _outside_the_series(self._chosen) if self._has_names else []
        if suspects:
            rest = [name for name in self._chosen if name not in suspects] or self._chosen
            raise ValueError(
                f"column {suspects[0]!r} must be a coordinate, and is unlike the others, as an id or a label is: say which columns "
                f"are the vector, such as --column {rest[0]}..{rest[-1]}"
            )


def _listed(names: Sequence[str]) -> str:
    """Names, or the first and the last of many."""
    return ", ".join(map(repr, names)) if len(names) < 4 else f"{names[0]!r} to {names[-1]!r} ({len(names)})"


def _columns_named(names: list[str], given: str, where: str) -> list[str]:
    """Those that --column names: one, several with commas, or all from one to another as FIRST..LAST, in the order of the file."""
    found = set[int]()
    for part in [given] if given in names else given.split(","):
        first, _, last = (part, "", "") if part in names else part.partition("..")
        for name in (first, last or first):
            if name not in names:
                raise ValueError(f"{where}: has no column {name!r}, got {_listed(names)}")
        found.update(range(names.index(first), names.index(last or first) + 1))
    return [names[place] for place in sorted(found)]


def _are_names(first: list[str]) -> bool:
    """Whether the first line has names. Whole numbers from 0 or 1 on are those of columns, as pandas writes them."""
    numbers = [text for text in first if _is_number(text)]
    start = int(numbers[0]) if numbers and numbers[0] in ("0", "1") else None
    counts = start is not None and numbers == list(map(str, range(start, start + len(numbers))))
    if counts and len(numbers) == len(first) <= _FEW:
        raise ValueError(f"line 1: must be a row or names, and {','.join(first)} may be either: give the columns names with letters")
    if numbers and len(numbers) < len(first) and not counts:
        other = next(text for text in first if text not in numbers)
        raise ValueError(f"line 1: must have names or numbers alone, got the number {numbers[0]} beside {other!r}")
    return counts or len(numbers) < len(first)


def _outside_the_series(names: list[str]) -> list[str]:
    """Names that do not count on, where most do, as d0, d1, d2 or 0, 1, 2."""
    stems = [re.sub(r"[0-9]+$", "", name) if name[-1:].isdecimal() else None for name in names]
    counted = [stem for stem in stems if stem is not None]
    most = max(set(counted), key=counted.count, default="")
    return [] if counted.count(most) <= max(1, len(names) // 2) else [name for name, stem in zip(names, stems) if stem != most]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- .parquet, .arrow, .feather, and folders of them: one column of float lists, streamed by record batches ----


class TableSource(Source):
    def __init__(self, path: Path, named: Columns) -> None:
        if named.text is not None:
            raise FileError(path, "texts are embedded from .jsonl and .csv files; name a column of vectors")
        super().__init__(path, named)
        with naming(path):
            self._file = open_table(path)
        import pyarrow

        self._arrow: Any = pyarrow
        self._schema = self._file.schema
        self.taken_from = f"column {self._vector!r}"
        self._check_columns()
        self.dtype = str(np.dtype(self._schema.field(self._vector).type.value_type.to_pandas_dtype()).name)
        self.dimension = self._dimension()

    def count(self) -> int:
        return self._file.rows

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        first_row = 0
        for batch in self._batches(rows_per_part(self.dimension)):
            label = lambda row, first=first_row: f"row {first + row}"
            with naming(self._path):
                values = columns.vectors_of(f"column {self._vector!r}", batch.column(self._vector), self.dimension, label)
            yield Part(np.array(values), batch.select(self._keep))
            first_row += batch.num_rows

    def beside(self, part: Part, name: str) -> list[Any]:
        values: list[Any] = part.kept.column(name).to_pylist()
        return values

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        arrow, kind = self._arrow, self._vector_type(dtype)
        schema = arrow.schema([*map(self._schema.field, self._keep), arrow.field(self._vector, kind, nullable=False)])

        def write(values: NDArray[Any], kept: Any) -> None:
            vectors = columns.fixed_size_lists(values).cast(kind)
            writer.write_batch(arrow.RecordBatch.from_arrays([*kept.columns, vectors], schema=schema))

        try:
            with table_writer(file, suffix_of(self._path), schema, stream=getattr(self._file, "is_stream", False)) as writer:
                yield write
        except arrow.ArrowException as error:
            raise FileError(self._path, f"a column cannot be copied: {error}") from None

    def _check_columns(self) -> None:
        for name in (self._vector, *self._keep):
            if self._schema.names.count(name) != 1:
                raise FileError(self._path, f"must have one column {name!r}, got {', '.join(map(repr, self._schema.names))}")
        column = self._schema.field(self._vector).type
        if not columns.is_of_floats(column):
            hint = f" ({_packed('it')})" if "int8" in str(column) or "binary" in str(column) else ""
            raise FileError(self._path, f"column {self._vector!r} must hold lists of floats, got {column}{hint}")

    def _vector_type(self, dtype: str | None) -> Any:
        """The column's own type, its inner field reduced to a name and a number: the column's own if dtype is None."""
        arrow, column = self._arrow, self._schema.field(self._vector).type
        element = column.value_type if dtype is None else arrow.from_numpy_dtype(np.dtype(dtype))
        if arrow.types.is_fixed_size_list(column):
            return arrow.list_(element, column.list_size)
        return arrow.large_list(element) if arrow.types.is_large_list(column) else arrow.list_(element)

    def _dimension(self) -> int:
        length = columns.declared_length(self._schema.field(self._vector).type)
        if length is None:
            first = next((batch for batch in self._batches(1) if batch.num_rows), None)
            if first is None:
                raise FileError(self._path, f"column {self._vector!r} must hold at least one row of known length")
            length = len(first.column(self._vector)[0].as_py() or ())
        if length < 1:
            raise FileError(self._path, f"column {self._vector!r} must hold vectors of at least 1 number, got 0 in row 0")
        return length

    def _batches(self, size: int) -> Iterator[Any]:
        with naming(self._path):
            yield from self._file.batches(size, [self._vector, *self._keep])


_KINDS: dict[str, Callable[[Path, Columns], Source]] = {
    ".npy": NpySource,
    ".npz": NpzSource,
    **dict.fromkeys(SUFFIXES_OF_TABLES, TableSource),
    **dict.fromkeys((".jsonl", ".ndjson"), JsonlSource),
    ".json": JsonSource,
    ".csv": CsvSource,
}


# ---- texts ----


def source_name(source: str | None) -> str:
    return "standard input" if source in (None, "-") else str(source)


def mode_of_output(source: str | None) -> int:
    """The mode of outputs: that of the input if it is a file; else, as for a folder, readable only by the user.

    Even a private release may have unprotected text beside it (kept keys, an infinite epsilon).
    """
    return PRIVATE if source in (None, "-") or Path(str(source)).is_dir() else mode_of(Path(str(source)))


def path_or_stdout(text: str) -> Path | None:
    """None for "-", standard output."""
    return None if text == "-" else Path(text)


def written(options: Any) -> AbstractContextManager[TextIO]:
    """OUT of a command with a `source`, or standard output if none is given."""
    if options.output is None:
        return nullcontext(sys.stdout)
    return published_text(options.output, mode=mode_of_output(options.source))


def read_utf8(source: str | None) -> str:
    """All of a file, or of standard input (None or "-")."""
    content = sys.stdin.buffer.read() if source in (None, "-") else Path(str(source)).read_bytes()
    return decoded(source_name(source), content)


def files_of_folder(folder: Path) -> list[Path]:
    """The .txt and .md files in a folder and the folders below it, by name."""
    return sorted(file for file in folder.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())


def lines_of_source(source: str) -> list[str]:
    """The lines, without the spaces around them, of a file, of standard input ("-") or of the .txt and .md files of a folder."""
    is_folder = source != "-" and Path(source).is_dir()
    files = map(str, files_of_folder(Path(source))) if is_folder else [source]
    lines = [line.strip() for file in files for _, line in numbered_lines(read_utf8(file), file)]
    if not lines:
        raise ValueError(f"{source_name(source)}: must hold at least one line of text")
    return lines
