"""`noise_batch`: a batch of rows in, the same kind of batch out; `noise_file`: a whole Parquet or Arrow file, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.display import Progress
from hushvec._util.publish import Discarded, mode_of, published, receipt_path
from hushvec.budget import PrivacyBudget
from hushvec.extend import RowReceipt
from hushvec.jobs import columns, derivation
from hushvec.jobs.job import NoiseJob
from hushvec.jobs.tables import PART_ELEMENTS, SUFFIXES, NotATable, TableFile, open_table, table_writer
from hushvec.receipts import receipt_from_json

_LARGEST_NUMBER = 2**64
Report = Callable[[int, int], None]


def noise_batch(
    batch: Any, job: NoiseJob, *, column: str = "embedding", id_column: str | None = None, ids: Any = None,
    partition: int | None = None, first_row: int = 0,
) -> Any:
    """Return the released version of some rows of a job, with its guarantees.

    Args:
        batch: numpy array [n, d] or one row [d]; a pyarrow RecordBatch or Table, or a dict of numpy arrays (Ray's batches), with
            a column of vectors. d and dtype are the job's.
        job: what all batches of the data set share.
        column: name of the vector column; not used for an array.
        id_column: name of a column that identifies the rows, in a job with rows_by="integer-ids" or "text-ids": whole numbers or
            strings, unique in the data set, the same in every attempt. A number and the string that it prints as are one id.
            partition and first_row are then not used.
        ids: the same for an array: as many ids as rows.
        partition: number of the part of the data set that the batch is from, in [0, 2^64), in a job with rows_by="partitions".
        first_row: number of the batch's first row within its partition, or in the data set, in [0, 2^64 - n].

    Returns:
        What came in, with vectors replaced: an array; a batch or table with the column as fixed-size lists in its place; a dict.
        Other columns, ids included, are passed on as they are, without protection.

    Raises:
        TypeError, ValueError: another dtype or dimension than the job's, a missing column, a null, NaN or Inf (the row is named), a
            repeated id, rows that are named in another way than the job's.

    Edge cases:
        The same place must not be used for two rows of a data set: equal rows would have equal noise and be seen to be equal. Only
        repetitions within one batch are detected.

    Example:
        >>> import numpy as np
        >>> from hushvec.jobs import NoiseJob, noise_batch
        >>> job = NoiseJob.start(dimension=4, epsilon=8.0, rows_by="text-ids")
        >>> rows = np.eye(4, dtype=np.float32)[:3]
        >>> noisy = noise_batch(rows, job, ids=["ann", "bob", "eve"])
        >>> bool((noise_batch(rows[::-1], job, ids=["eve", "bob", "ann"]) == noisy[::-1]).all())
        True
    """
    validate.instance("job", job, NoiseJob, "a hushvec.jobs.NoiseJob")
    if isinstance(batch, np.ndarray):
        if id_column is not None:
            raise TypeError("id_column must be None for an array, which has no columns; give ids")
        if isinstance(batch, np.ma.MaskedArray):
            raise TypeError("batch must be a plain numpy array, got MaskedArray (its mask would be lost)")
        if batch.ndim not in (1, 2):
            raise ValueError(f"batch must have 1 or 2 dimensions, got {batch.ndim}")
        rows = np.atleast_2d(batch)
        _require_fit("batch", rows, job)
        places, label = _places(job, "ids", ids, len(rows), partition, first_row)
        return job.noise("batch", rows, places, label).reshape(batch.shape)
    if ids is not None:
        raise TypeError("ids must be None for a batch with columns; name an id_column")
    is_arrow = columns.is_arrow(batch)
    if is_arrow:
        values: Any = columns.column_of(batch, column)
        columns.require_vectors(column, values.type, job.dtype)
    elif isinstance(batch, Mapping):
        for name in (column, *(() if id_column is None else (id_column,))):
            if name not in batch:
                raise ValueError(f"batch must have a column {name!r}, got {', '.join(map(repr, batch)) or 'none'}")
        values = batch[column]
        if not isinstance(values, np.ndarray) or values.ndim != (1 if values.dtype.kind == "O" else 2):
            shape = f"{values.ndim} of {values.dtype}" if isinstance(values, np.ndarray) else validate.kind(values)
            raise TypeError(f"{column} must be a numpy array with 2 dimensions, got {shape}")
    else:
        raise TypeError(
            f"batch must be a numpy array, a pyarrow RecordBatch or Table, or a dict of arrays, got {validate.kind(batch)}"
        )
    if id_column is not None:
        ids = columns.column_of(batch, id_column) if is_arrow else batch[id_column]
    places, label = _places(job, id_column or "", ids, len(values), partition, first_row)
    if is_arrow:
        values = columns.vectors_of(column, values, job.dimension, label)
    elif values.dtype.kind == "O":
        values = _stacked(column, values, job, label)
    _require_fit(column, values, job)
    noisy = job.noise(column, values, places, label)
    return columns.with_column(batch, column, columns.fixed_size_lists(noisy)) if is_arrow else {**batch, column: noisy}


def noise_batches(batches: Iterable[Any], job: NoiseJob, **names: Any) -> Iterator[Any]:
    """Release Arrow batches of one file or partition, in its order; `names` are arguments of `noise_batch`."""
    done = 0
    for batch in batches:
        yield noise_batch(batch, job, first_row=done, **names)
        done += batch.num_rows


def _stacked(name: str, rows: NDArray[Any], job: NoiseJob, label: columns.Label) -> NDArray[Any]:
    for place, row in enumerate(rows):
        if not isinstance(row, np.ndarray) or row.dtype.name != job.dtype:
            found = row.dtype if isinstance(row, np.ndarray) else validate.kind(row)
            raise TypeError(f"{name} must hold arrays of {job.dtype}, got {found} in {label(place)}")
        if row.shape != (job.dimension,):
            raise ValueError(f"{name} must hold {job.dimension} numbers, got {row.size} numbers in {label(place)}")
    return np.stack(list(rows)) if len(rows) else np.empty((0, job.dimension), job.dtype)


def rows_by(id_column: Any, partition: int | None) -> str:
    """Return how these arguments name rows."""
    return "ids" if id_column is not None else "numbers" if partition is None else "partitions"


def _places(
    job: NoiseJob, name: str, ids: Any, rows: int, partition: int | None, first_row: int
) -> tuple[derivation.Places, columns.Label]:
    job.require_rows_by(rows_by(ids, partition))
    if ids is not None:
        places, label = columns.places_of_ids(name, ids, as_texts=job.rows_by == "text-ids")
        if len(places) != rows:
            raise ValueError(f"{name} must have {rows} values, one per row, got {len(places)}")
        return places, label
    part, first = (
        validate.whole_number(name, value, at_least=0) for name, value in (("partition", partition or 0), ("first_row", first_row))
    )
    for name, number in (("partition", part), ("first_row", first)):
        if number >= _LARGEST_NUMBER:
            raise ValueError(f"{name} must be < 2^64, got {number}")
    if first + rows > _LARGEST_NUMBER:
        raise ValueError(f"first_row must leave room for {rows} rows below 2^64, got {first}")
    return derivation.positions(part, first, rows), lambda row: f"row {first + row}"


def _require_fit(name: str, rows: NDArray[Any], job: NoiseJob) -> None:
    if rows.dtype.name != job.dtype or not rows.dtype.isnative:
        raise TypeError(f"{name} must be {job.dtype} like the job, got {rows.dtype}")
    if rows.shape[1] != job.dimension:
        raise ValueError(f"{name} must have {job.dimension} columns like the job, got {rows.shape[1]}")


def noise_file(
    source: str | PathLike[str], target: str | PathLike[str], job: NoiseJob, *, column: str = "embedding",
    id_column: str | None = None, keep: Sequence[str] = (), partition: int | None = None, budget: PrivacyBudget | None = None,
    progress: Report | None = None, overwrite: bool = False,
) -> RowReceipt:
    """Release the vectors of a Parquet or Arrow IPC file into another; the receipt is returned, and goes to TARGET.receipt.json.

    Args:
        source, target: names that end in .parquet, .arrow or .feather (the last two are one format); the two may differ in kind.
        job: a job for rows of this dimension and dtype.
        column: of the vectors: lists of any sort in, fixed-size lists out.
        id_column: names the rows, as for `noise_batch`, and is copied. None: rows are named by their number in the file, and by
            partition where that is given.
        keep: other columns to copy, without protection; columns that are not named are left out.
        partition: number of this file in a data set of several, whose job has rows_by="partitions".
        budget: charged for the job, once, after the whole file was read and checked.
        progress: called with (rows done, rows in all) after every part. None: a bar on standard error, at a terminal.
        overwrite: replace a target, or a receipt beside it, that another job wrote. Both releases count: their losses add up.

    Raises:
        PrivacyBudgetExhaustedError, BudgetError: as `NoiseJob.charge`.
        FileExistsError: the target or its receipt exists and is not from this job; nothing was charged.

    Guarantees:
        Target and receipt are written atomically, readable by those who may read the source. Everything that a writer could refuse is
        refused before the budget is charged. The same job writes the same vectors again in any process: repeat an interrupted run.

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
    job.require_rows_by(rows_by(id_column, partition))
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
            stored = file.batches(max(1, PART_ELEMENTS // job.dimension), names)
            return noise_batches(stored, job, column=column, id_column=id_column, partition=partition)

        paid = job
        import pyarrow

        vectors = pyarrow.list_(getattr(pyarrow, job.dtype)(), job.dimension)
        fields = [schema.field(name) for name in names]
        target_schema = pyarrow.schema([one.with_type(vectors) if one.name == column else one for one in fields])
        with published(output, mode=mode_of(Path(source))) as (values, receipt_file):
            if budget is not None:
                _written(noised(), target_schema, Discarded(), output, file.rows, lambda done, total: None)
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
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"target must end in {', '.join(SUFFIXES)}, got {str(path)!r}")
    if path.exists() and not path.is_file():
        raise ValueError(f"target must be a plain file, got {str(path)!r}")
    there = next((one for one in (path, receipt_path(path)) if one.exists()), None)
    if there is not None and not overwrite and not _is_by(job, receipt_path(path)):
        raise FileExistsError(
            f"{there} must not exist: a release there counts beside a new one; choose another name, or overwrite=True to replace it"
        )
    return path


def _is_by(job: NoiseJob, receipt: Path) -> bool:
    """Return whether the job wrote the file of this receipt, and would write the same again."""
    try:
        return job.note in receipt_from_json(receipt.read_text(encoding="utf-8")).notes
    except (OSError, ValueError, TypeError):
        return False


def _written(batches: Iterator[Any], schema: Any, file: Any, output: Path, total: int, report: Report | None) -> int:
    """Write the batches in the format that the output's name asks for; how many rows they had."""
    import pyarrow

    done = 0
    try:
        with table_writer(file, output.suffix, schema) as sink, Progress("rows", total) as bar:
            for batch in batches:
                sink.write_batch(pyarrow.RecordBatch.from_arrays(batch.columns, schema=schema))
                done += batch.num_rows
                if report is None:
                    bar.advance(batch.num_rows)
                else:
                    report(done, total)
    except pyarrow.ArrowException as error:
        raise ValueError(f"target must take all columns that are copied: {error}") from None
    return done


@contextmanager
def _opened(path: Path) -> Iterator[TableFile]:
    if path.suffix.lower() not in SUFFIXES:
        raise ValueError(f"source must end in {', '.join(SUFFIXES)}, got {str(path)!r}")
    try:
        with closing(open_table(path)) as file:
            yield file
    except NotATable as error:
        raise ValueError(f"{path}: {error}") from None
