"""Input of commands: files of vectors (.npy, .parquet, .arrow, .feather, .jsonl, by their suffix), a part at a time, and texts of a
file, a folder or standard input. Vectors are written back in the same form. Where all rows are read and none are written, .csv is
known too."""

from __future__ import annotations

import csv
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from hushvec._native.arrays import NUMPY_DTYPES
from hushvec._native.rowwise import as_array, dtype_after, require_finite
from hushvec._util.display import Progress
from hushvec._util.lines import (
    copied_fields,
    decoded,
    field,
    json_line,
    json_object,
    lines_of_file,
    numbered_lines,
    require_utf8,
    text_field,
)
from hushvec._util.publish import PRIVATE, Discarded, mode_of, published_text
from hushvec.cli._parser import Command, option
from hushvec.embedders.minilm import DIMENSION, MiniLMEmbedder
from hushvec.errors import HushvecError
from hushvec.jobs import columns
from hushvec.jobs.tables import PART_ELEMENTS, open_table, table_writer
from hushvec.jobs.tables import SUFFIXES as SUFFIXES_OF_TABLES

TEXTS_PER_PART = 256
DEFAULT_VECTOR = "embedding"
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

    column: str | None = option("column or key of the vectors (default embedding)")
    text_key: str | None = option(".jsonl and .csv: embed the text under this key with MiniLM")

    def rows(self, path: Path) -> NDArray[Any]:
        """The rows, [n, d]; texts are embedded."""
        return all_rows(path, Columns(self.column, self.text_key))


class Source(ABC):
    """A file of vectors, opened and checked."""

    dtype: str
    dimension: int

    def __init__(self, path: Path, columns: Columns) -> None:
        self._path, self._keep, self._vector = path, columns.keep, columns.vector or DEFAULT_VECTOR
        for name in self._keep:
            if name in (columns.text, self._vector):
                raise FileError(path, f"keep must not name {name!r}: it is what the noise protects")

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


def open_source(path: Path, columns: Columns) -> Source:
    """Open a file by its suffix."""
    return _opened(path, columns, WRITTEN_BACK)


def _opened(path: Path, columns: Columns, kinds: dict[str, Callable[[Path, Columns], Source]]) -> Source:
    if path.suffix.lower() not in kinds:
        raise FileError(path, f"the name must end in {', '.join(kinds)}, got {path.suffix!r}")
    return kinds[path.suffix.lower()](path, columns)


def all_rows(path: Path, columns: Columns) -> NDArray[Any]:
    """All rows of a file [n, d], with progress."""
    rows, _ = rows_and_fields(path, columns)
    return rows if rows.flags.owndata else np.array(rows, order="C")


def rows_and_fields(path: Path, columns: Columns) -> tuple[NDArray[Any], dict[str, list[Any]]]:
    """All rows of a file [n, d], and for each name of `columns.keep` what is beside them, with progress. A .npy file is mapped."""
    source = _opened(path, columns, {**WRITTEN_BACK, ".csv": CsvSource})
    if isinstance(source, NpySource):
        return source.mapped(), {}
    parts: list[NDArray[Any]] = [np.empty((0, source.dimension), source.dtype)]
    beside: dict[str, list[Any]] = {name: [] for name in columns.keep}
    with Progress("rows", source.count()) as progress:
        for part in source.parts():
            parts.append(part.values)
            for name, values in beside.items():
                values += source.beside(part, name)
            progress.advance(len(part.values))
    return np.concatenate(parts), beside


# ---- .npy: memory-mapped for reading, written plainly ----


_MOST_HEADER = 10_000  # bytes, as numpy's own limit


class NpySource(Source):
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
                self._shape, self._fortran_order, self._stored = readers[version](file)
            except (ValueError, EOFError) as error:
                raise FileError(path, f"not a .npy file of numbers: {error}") from None
            self._offset = file.tell()
        self.dtype = dtype_after(self._stored)
        if len(self._shape) not in (1, 2):
            raise FileError(path, f"the array must have 1 or 2 dimensions, got {len(self._shape)}")
        if self.dtype not in NUMPY_DTYPES:
            raise FileError(path, f"the array must be {' or '.join(NUMPY_DTYPES)}, got {self.dtype}")
        if self._shape[-1] < 1:
            raise FileError(path, "the array must have at least 1 column, got 0")
        expected = self._offset + self._stored.itemsize * int(np.prod(self._shape, dtype=object))
        if (actual := os.path.getsize(path)) < expected:
            raise FileError(path, f"the file is cut short: {expected} bytes expected, got {actual}")
        self.dimension = self._shape[-1]

    def count(self) -> int:
        return self._shape[0] if len(self._shape) == 2 else 1

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        matrix, step = self._mapped(), rows_per_part(self.dimension)
        for first in range(0, len(matrix), step):
            # A copy: what was checked is what is released, even if another program writes to the file meanwhile.
            rows = np.array(matrix[first : first + step], self._stored.newbyteorder("="), order="C")
            with naming(self._path):
                floats: NDArray[Any] = as_array("the array", rows)
            yield Part(floats, None)

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


# ---- .jsonl: a vector under a key, or a text under a key that is embedded first ----


_Line = tuple[str, dict[str, Any]]  # where an object of the file stands, and the object


class JsonlSource(Source):
    dtype = "float32"

    def __init__(self, path: Path, columns: Columns) -> None:
        super().__init__(path, columns)
        self._text = columns.text
        self.dimension = DIMENSION if self._text else self._first_length()

    def count(self) -> int:
        return sum(1 for _ in lines_of_file(self._path))

    def parts(self, *, rehearsal: bool = False) -> Iterator[Part]:
        lines = self._lines()
        size = TEXTS_PER_PART if self._text else rows_per_part(self.dimension)
        while part := list(islice(lines, size)):
            rows = self._vectors(part) if self._text is None else self._embedded(part, self._text, rehearsal)
            yield Part(rows, [copied_fields(fields, self._keep, where) for where, fields in part])

    @contextmanager
    def sink(self, file: Any, dtype: str | None = None) -> Iterator[Sink]:
        def write(values: NDArray[Any], kept: list[dict[str, Any]]) -> None:
            for row, others in zip(values.tolist(), kept):
                file.write((json_line({**others, self._vector: row}) + "\n").encode())

        yield write

    @cached_property
    def _embedder(self) -> MiniLMEmbedder:
        return MiniLMEmbedder()

    def _lines(self) -> Iterator[_Line]:
        return ((where, json_object(line, where)) for where, line in lines_of_file(self._path))

    def _first_length(self) -> int:
        first = next(self._lines(), None)
        if first is None:
            raise FileError(self._path, "the file must hold at least one line")
        return len(self._list_of(first))

    def _embedded(self, part: list[_Line], text_key: str, rehearsal: bool) -> NDArray[np.float32]:
        texts = [require_utf8(text_field(fields, text_key, where), where) for where, fields in part]
        return np.zeros((len(texts), DIMENSION), np.float32) if rehearsal else self._embedder.embed(texts)

    def _list_of(self, line: _Line) -> list[float]:
        where, fields = line
        values = field(fields, self._vector, where)
        if not isinstance(values, list) or not values or not all(type(value) in (float, int) for value in values):
            raise ValueError(f"{where}: {self._vector!r} must be a list of numbers")
        return values

    def _vectors(self, part: list[_Line]) -> NDArray[np.float32]:
        vectors = np.empty((len(part), self.dimension), np.float32)
        for row, line in enumerate(part):
            values, name = self._list_of(line), f"{line[0]}: {self._vector!r}"
            if len(values) != self.dimension:
                raise ValueError(f"{name} must have {self.dimension} numbers like the first line, got {len(values)}")
            try:
                with np.errstate(over="ignore"):  # becomes Inf, which the release refuses by row
                    vectors[row] = np.array(values, np.float64)
            except OverflowError:
                raise ValueError(f"{name} holds a number beyond float64") from None
        return vectors


# ---- .csv: a number in each column, or a text in one; for reading only ----


class CsvSource(JsonlSource):
    """The columns that are not named beside it are the vector. The first line has names, unless it holds numbers alone."""

    def __init__(self, path: Path, columns: Columns) -> None:
        if columns.vector is not None:
            raise FileError(path, "a .csv file has one number of the vector in each column, and no column of vectors to name")
        super().__init__(path, columns)

    def count(self) -> int:
        return sum(1 for _ in self._lines())

    def _lines(self) -> Iterator[_Line]:
        with self._path.open(encoding="utf-8-sig", newline="") as file, naming(self._path):
            reader = csv.reader(file, strict=True)
            lines = filter(None, reader)
            try:
                first = next(lines, [])
                has_names = not (first and all(map(_is_number, first)))
                names = first if has_names else list(map(str, range(len(first))))
                if len(set(names)) < len(names):
                    raise ValueError("line 1: the names of columns must differ")
                for fields in lines if has_names else chain([first], lines):
                    if len(fields) != len(names):
                        raise ValueError(f"line {reader.line_num}: must have {len(names)} fields like the first, got {len(fields)}")
                    yield f"{self._path}: line {reader.line_num}", dict(zip(names, fields))
            except csv.Error as error:
                raise ValueError(f"line {reader.line_num}: {error}") from None

    def _list_of(self, line: _Line) -> list[float]:
        where, fields = line
        numbers = {name: text for name, text in fields.items() if name not in self._keep}
        wrong = next((name for name, text in numbers.items() if not _is_number(text)), None)
        if wrong is not None or not numbers:
            raise ValueError(f"{where}: must have columns of numbers, got {'none' if wrong is None else repr(wrong)}")
        return list(map(float, numbers.values()))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


# ---- .parquet, .arrow, .feather: one column of float lists, streamed by record batches ----


class TableSource(Source):
    def __init__(self, path: Path, named: Columns) -> None:
        if named.text is not None:
            raise FileError(path, "texts are embedded from .jsonl files only; name a column of vectors")
        super().__init__(path, named)
        with naming(path):
            self._file = open_table(path)
        import pyarrow

        self._arrow: Any = pyarrow
        self._schema = self._file.schema
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
            with table_writer(file, self._path.suffix, schema) as writer:
                yield write
        except arrow.ArrowException as error:
            raise FileError(self._path, f"a column cannot be copied: {error}") from None

    def _check_columns(self) -> None:
        for name in (self._vector, *self._keep):
            if self._schema.names.count(name) != 1:
                raise FileError(self._path, f"must have one column {name!r}, got {', '.join(map(repr, self._schema.names))}")
        column = self._schema.field(self._vector).type
        if not columns.is_of_floats(column):
            raise FileError(self._path, f"column {self._vector!r} must hold lists of floats, got {column}")

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


# Formats that a result is written in too, by suffix.
WRITTEN_BACK: dict[str, Callable[[Path, Columns], Source]] = {
    ".npy": NpySource,
    **dict.fromkeys(SUFFIXES_OF_TABLES, TableSource),
    ".jsonl": JsonlSource,
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


_TEXTS_AT_ONCE = 64  # between two advances of the progress bar


def embedded(embedder: MiniLMEmbedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """`embedder.embed` with progress."""
    runs = [np.empty((0, embedder.dimension), np.float32)]
    with Progress("embedding", len(texts)) as progress:
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            runs.append(embedder.embed(texts[first : first + _TEXTS_AT_ONCE]))
            progress.advance(len(runs[-1]))
    return np.concatenate(runs)
