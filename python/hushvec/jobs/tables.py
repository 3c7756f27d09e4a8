"""Files of an Arrow table, read a part at a time and written: Parquet, and Arrow's own format, which Feather's second version is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.errors import HushvecError

# Elements that are in memory at once: 16 MB of float32.
PART_ELEMENTS = 1 << 22


class NotATable(HushvecError, ValueError):
    """The file of that name holds something else, or is damaged."""


@contextmanager
def _intact() -> Iterator[None]:
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise NotATable(f"the file is damaged: {error}") from None


class _ParquetFile:
    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self._file = pyarrow.parquet.ParquetFile(path)
        self.schema = self._file.schema_arrow
        self.rows: int = self._file.metadata.num_rows

    def batches(self, size: int, names: list[str]) -> Iterator[Any]:
        """Record batches of these columns, of at most `size` rows."""
        with _intact():
            yield from self._file.iter_batches(batch_size=size, columns=names)

    def close(self) -> None:
        self._file.close()


class _ArrowFile:
    """Mapped: a batch is read when it is needed."""

    def __init__(self, path: Path) -> None:
        import pyarrow.ipc

        self._file = pyarrow.memory_map(str(path))
        self._reader = pyarrow.ipc.open_file(self._file)
        self.schema = self._reader.schema
        self.rows = sum(batch.num_rows for batch in self._stored())

    def batches(self, size: int, names: list[str]) -> Iterator[Any]:
        """Record batches of these columns, of at most `size` rows."""
        with _intact():
            for stored in self._stored():
                batch = stored.select(names)
                batch.validate(full=True)   # offsets of lists are the file's; nothing else looks at them before they are followed
                for first in range(0, batch.num_rows, size):
                    yield batch.slice(first, size)

    def close(self) -> None:
        self._file.close()

    def _stored(self) -> Iterator[Any]:
        return map(self._reader.get_batch, range(self._reader.num_record_batches))


TableFile = _ParquetFile | _ArrowFile
_KINDS: dict[str, Callable[[Path], TableFile]] = {".parquet": _ParquetFile, ".arrow": _ArrowFile, ".feather": _ArrowFile}
SUFFIXES = tuple(_KINDS)


def open_table(path: Path) -> TableFile:
    """Open a file by its suffix, one of SUFFIXES; to be closed. OSError if it cannot be read, NotATable if it is something else."""
    with path.open("rb"):
        pass
    with needs_extra("reading Parquet and Arrow files", "cli"):
        import pyarrow
    suffix = path.suffix.lower()
    try:
        return _KINDS[suffix](path)
    except (pyarrow.ArrowException, OSError) as error:
        raise NotATable(f"not a {suffix} file: {error}") from None


def table_writer(file: Any, suffix: str, schema: Any) -> AbstractContextManager[Any]:
    """What takes record batches by `write_batch`, in the format of a suffix, into a file that is open for writing bytes."""
    import pyarrow.ipc
    import pyarrow.parquet

    kind = pyarrow.parquet.ParquetWriter if suffix.lower() == ".parquet" else pyarrow.ipc.new_file
    writer: AbstractContextManager[Any] = kind(file, schema)
    return writer
