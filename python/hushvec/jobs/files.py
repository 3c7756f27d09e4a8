"""`noise_file`: a whole Parquet or Arrow file on one machine, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec._util.display import Progress
from hushvec._util.lazy import needs_extra
from hushvec._util.publish import Discarded, mode_of, published, receipt_path
from hushvec.budget import PrivacyBudget
from hushvec.jobs import columns
from hushvec.jobs.batch import noise_batch
from hushvec.jobs.job import NoiseJob
from hushvec.receipts.labels import RowReceipt
from hushvec.receipts.verify import receipt_from_json

# Elements that are in memory at once: 16 MB of float32.
PART_ELEMENTS = 1 << 22

PARQUET = (".parquet",)
ARROW = (".arrow", ".feather")

Report = Callable[[int, int], None]


def noise_file(
    source: str | PathLike[str],
    target: str | PathLike[str],
    job: NoiseJob,
    *,
    column: str = "embedding",
    id_column: str | None = None,
    keep: Sequence[str] = (),
    partition: int = 0,
    budget: PrivacyBudget | None = None,
    progress: Report | None = None,
    overwrite: bool = False,
) -> RowReceipt:
    """Release the vectors of a Parquet or Arrow IPC file into another; the receipt goes to TARGET.receipt.json.

    Args:
        source, target: names that end in .parquet, .arrow or .feather (the last two are one format); the two may differ in kind.
        job: a job for rows of this dimension and dtype.
        column: of the vectors: lists of any sort in, fixed-size lists out.
        id_column: names the rows, as for `noise_batch`, and is copied. None: rows are named by partition and number in the file.
        keep: other columns to copy, without protection; columns that are not named are left out.
        partition: number of this file in a data set of several.
        budget: charged for the job, once, after the whole file was read and checked.
        progress: called with (rows done, rows in all) after every part. None: a bar on standard error, at a terminal.
        overwrite: replace a target, or a receipt beside it, that another job wrote. Both releases count: their losses add up.

    Returns:
        The receipt, for this file's rows.

    Raises:
        TypeError, ValueError: as `noise_batch`, the row named; an unknown suffix; a column missing or named twice.
        PrivacyBudgetExhaustedError, BudgetError: as `NoiseJob.charge`.
        MissingExtraError: pyarrow is not installed.
        FileExistsError: the target or its receipt exists and is not from this job; nothing was charged.
        OSError: a file cannot be read or written.

    Guarantees:
        Target and receipt are written atomically, readable by those who may read the source. Everything that a writer could
        refuse is refused
        before the budget is charged. The same job writes the same vectors again in any process: repeat a run that was interrupted.

    Example:
        >>> import tempfile, numpy as np, pyarrow as pa, pyarrow.parquet as pq
        >>> from hushvec.jobs import NoiseJob, noise_file
        >>> folder = tempfile.TemporaryDirectory()
        >>> rows = pa.FixedSizeListArray.from_arrays(pa.array(np.ones(12, np.float32)), 4)
        >>> pq.write_table(pa.table({"embedding": rows}), f"{folder.name}/in.parquet")
        >>> job = NoiseJob.start(dimension=4, epsilon=8.0)
        >>> receipt = noise_file(f"{folder.name}/in.parquet", f"{folder.name}/out.arrow", job)
        >>> receipt.rows, receipt.grade
        (3, 'exact')
        >>> folder.cleanup()
    """
    kept = _kept(column, id_column, keep)
    output = _checked_target(Path(target), job, validate.flag("overwrite", overwrite))
    with _opened(Path(source)) as file:
        schema = file.schema
        names = [name for name in schema.names if name == column or name in kept]
        for name in (column, *kept):
            if schema.names.count(name) != 1:
                raise ValueError(f"{source} must have one column {name!r}, got {', '.join(map(repr, schema.names))}")
        columns.require_vectors(column, schema.field(column).type, job.dtype)

        def noised() -> Iterator[Any]:
            done = 0
            for batch in file.batches(max(1, PART_ELEMENTS // job.dimension), names):
                yield noise_batch(
                    batch, job, column=column, id_column=id_column, partition=partition, first_row=done
                )
                done += batch.num_rows

        paid = job
        target_schema = _target_schema(schema, names, column, job)
        with published(output, mode=mode_of(Path(source))) as (values, receipt_file):
            if budget is not None:
                _written(noised(), target_schema, Discarded(), output, file.rows, _no_report)
                paid = job.charge(budget)
            rows = _written(noised(), target_schema, values, output, file.rows, progress)
            if rows != file.rows:
                raise ValueError(f"{source} must not change while it is read: {file.rows} rows were counted, got {rows}")
            notes = (f"copied without protection: {', '.join(kept)}",) if kept else ()
            receipt = paid.receipt(rows, notes=notes)
            receipt_file.write(f"{receipt.to_json()}\n".encode())
    return receipt


def _kept(column: str, id_column: str | None, keep: Sequence[str]) -> tuple[str, ...]:
    if isinstance(keep, str):
        raise TypeError(f"keep must be a sequence of column names, got the str {keep!r}")
    names = dict.fromkeys([*(() if id_column is None else (id_column,)), *keep])
    if column in names:
        raise ValueError(f"keep and id_column must not name {column!r}: it is what the noise protects")
    return tuple(names)


def _checked_target(path: Path, job: NoiseJob, overwrite: bool) -> Path:
    if path.suffix.lower() not in PARQUET + ARROW:
        raise ValueError(f"target must end in {', '.join(PARQUET + ARROW)}, got {str(path)!r}")
    if path.exists() and not path.is_file():
        raise ValueError(f"target must be a plain file, got {str(path)!r}")
    there = next((one for one in (path, receipt_path(path)) if one.exists()), None)
    if there is not None and not overwrite and not _is_by(job, receipt_path(path)):
        raise FileExistsError(
            f"{there} must not exist: a release there counts beside a new one; choose another name, or overwrite=True to replace it"
        )
    return path


def _is_by(job: NoiseJob, receipt: Path) -> bool:
    """Whether the job wrote the file of this receipt, and would write the same again."""
    try:
        return job.note in receipt_from_json(receipt.read_text(encoding="utf-8")).notes
    except (OSError, ValueError, TypeError):
        return False


def _target_schema(schema: Any, names: list[str], column: str, job: NoiseJob) -> Any:
    import pyarrow

    vectors = pyarrow.list_(getattr(pyarrow, job.dtype)(), job.dimension)
    fields = [schema.field(name).with_type(vectors) if name == column else schema.field(name) for name in names]
    return pyarrow.schema(fields)


def _no_report(done: int, total: int) -> None:
    """For a rehearsal."""


def _written(batches: Iterator[Any], schema: Any, file: Any, output: Path, total: int, report: Report | None) -> int:
    import pyarrow

    done = 0
    with _sink(file, output, schema) as sink, Progress("rows", total) as bar:
        for batch in batches:
            sink.write_batch(pyarrow.RecordBatch.from_arrays(batch.columns, schema=schema))
            done += batch.num_rows
            if report is None:
                bar.advance(batch.num_rows)
            else:
                report(done, total)
    return done


@contextmanager
def _sink(file: Any, output: Path, schema: Any) -> Iterator[Any]:
    """A writer of the kind that the output's name asks for."""
    import pyarrow.ipc
    import pyarrow.parquet

    kind = pyarrow.parquet.ParquetWriter if output.suffix.lower() in PARQUET else pyarrow.ipc.new_file
    try:
        with kind(file, schema) as sink:
            yield sink
    except pyarrow.ArrowException as error:
        raise ValueError(f"target must take all columns that are copied: {error}") from None


class _ParquetFile:
    def __init__(self, path: Path) -> None:
        import pyarrow.parquet

        self._file = pyarrow.parquet.ParquetFile(path)
        self.schema = self._file.schema_arrow
        self.rows: int = self._file.metadata.num_rows

    def batches(self, size: int, names: list[str]) -> Iterator[Any]:
        yield from self._file.iter_batches(batch_size=size, columns=names)

    def close(self) -> None:
        self._file.close()


class _ArrowFile:
    def __init__(self, path: Path) -> None:
        import pyarrow.ipc

        self._file = pyarrow.memory_map(str(path))
        self._reader = pyarrow.ipc.open_file(self._file)
        self.schema = self._reader.schema
        self.rows = sum(self._reader.get_batch(i).num_rows for i in range(self._reader.num_record_batches))

    def batches(self, size: int, names: list[str]) -> Iterator[Any]:
        for i in range(self._reader.num_record_batches):
            batch = self._reader.get_batch(i).select(names)
            for first in range(0, batch.num_rows, size):
                yield batch.slice(first, size)

    def close(self) -> None:
        self._file.close()


@contextmanager
def _opened(path: Path) -> Iterator[_ParquetFile | _ArrowFile]:
    kinds: dict[str, type[_ParquetFile] | type[_ArrowFile]] = dict.fromkeys(PARQUET, _ParquetFile) | dict.fromkeys(ARROW, _ArrowFile)
    kind = kinds.get(path.suffix.lower())
    if kind is None:
        raise ValueError(f"source must end in {', '.join(kinds)}, got {str(path)!r}")
    with path.open("rb"):  # an absent or unreadable file raises the system's error
        pass
    with needs_extra("reading Parquet and Arrow files", "cli"):
        import pyarrow
    try:
        file = kind(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} must be a {path.suffix.lower()} file: {error}") from None
    try:
        yield file
    finally:
        file.close()
