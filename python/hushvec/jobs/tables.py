"""Files of an Arrow table, read a part at a time and written: Parquet, and Arrow's own formats, files (which Feather's second version
is) and streams; and folders of streams, as Hugging Face's `save_to_disk` writes data sets."""

from __future__ import annotations

import json
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
    """Mapped: a batch is read when it is needed. A stream has no table of contents: it is gone through once for the number of rows."""

    def __init__(self, *paths: Path) -> None:
        import pyarrow.ipc

        self._files = [pyarrow.memory_map(str(path)) for path in paths]
        self.is_stream = all(file.read(len(_MAGIC)) != _MAGIC for file in self._files)
        for path, file in zip(paths, self._files):
            file.seek(max(0, file.size() - len(_END)))
            if self.is_stream and file.read() != _END:
                raise OSError(f"{path.name} must be Arrow's file or stream format, and end as a whole stream does")
        self.schema = self._opened(self._files[0]).schema
        for path, file in zip(paths, self._files):
            if self._opened(file).schema != self.schema:
                raise NotATable(f"{path.name} must have the columns of {paths[0].name}")
        with _intact():
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
        for file in self._files:
            file.close()

    def _opened(self, file: Any) -> Any:
        import pyarrow.ipc

        file.seek(0)
        return pyarrow.ipc.open_stream(file) if self.is_stream else pyarrow.ipc.open_file(file)

    def _stored(self) -> Iterator[Any]:
        for file in self._files:
            reader = self._opened(file)
            yield from reader if self.is_stream else map(reader.get_batch, range(reader.num_record_batches))


_MAGIC, _END = b"ARROW1", b"\xff\xff\xff\xff\0\0\0\0"  # of a file at its beginning, of a stream behind its last batch


def _saved_dataset(folder: Path) -> _ArrowFile:
    """Return the files of one data set in the order that its state names."""
    if (folder / "dataset_dict.json").is_file():
        raise NotATable(f"the folder must hold one data set: name one of its folders, such as {folder / 'train'}")
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        paths = [folder / Path(one["filename"]).name for one in state["_data_files"]]
    except (OSError, ValueError, TypeError, KeyError):
        raise NotATable("the folder must be one that save_to_disk of a Hugging Face data set made, with its state.json") from None
    if not paths:
        raise NotATable("the folder must hold at least one file of rows")
    return _ArrowFile(*paths)


TableFile = _ParquetFile | _ArrowFile
ARROW = ".arrow"
_KINDS: dict[str, Callable[[Path], TableFile]] = {".parquet": _ParquetFile, ARROW: _ArrowFile, ".feather": _ArrowFile}
SUFFIXES = tuple(_KINDS)


def open_table(path: Path) -> TableFile:
    """Open a file by its suffix, one of SUFFIXES, or a folder; to be closed.

    Raises OSError if it cannot be read, NotATable if it is something else."""
    if not path.is_dir():
        path.open("rb").close()
    with needs_extra("reading Parquet and Arrow files", "cli"):
        import pyarrow
    suffix = path.suffix.lower()
    try:
        return _saved_dataset(path) if path.is_dir() else _KINDS[suffix](path)
    except (pyarrow.ArrowException, OSError) as error:
        raise NotATable(f"not a {suffix} file: {error}") from None


def table_writer(file: Any, suffix: str, schema: Any, *, stream: bool = False) -> AbstractContextManager[Any]:
    """What takes record batches by `write_batch`, in the format of a suffix, into a file that is open for writing bytes."""
    import pyarrow.ipc
    import pyarrow.parquet

    arrow = pyarrow.ipc.new_stream if stream else pyarrow.ipc.new_file
    kind = pyarrow.parquet.ParquetWriter if suffix.lower() == ".parquet" else arrow
    writer: AbstractContextManager[Any] = kind(file, schema)
    return writer
