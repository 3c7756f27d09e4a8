"""`noise_batch`: a batch of rows in, the same kind of batch out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.jobs import columns, derivation
from hushvec.jobs.job import NoiseJob

_LARGEST_NUMBER = 2**64


def noise_batch(
    batch: Any,
    job: NoiseJob,
    *,
    column: str = "embedding",
    id_column: str | None = None,
    ids: Any = None,
    partition: int = 0,
    first_row: int = 0,
) -> Any:
    """The released version of some rows of a job.

    Args:
        batch: numpy array [n, d] or one row [d]; a pyarrow RecordBatch or Table, or a dict of numpy arrays (Ray's batches), with
            a column of vectors. d and dtype are the job's.
        job: what all batches of the data set share.
        column: name of the vector column; not used for an array.
        id_column: name of a column that identifies the rows: whole numbers or strings, unique in the data set, the same in every
            attempt. partition and first_row are then not used.
        ids: the same for an array: as many ids as rows.
        partition: number of the part of the data set that the batch is from, in [0, 2^64).
        first_row: number of the batch's first row within its partition, in [0, 2^64 - n].

    Returns:
        What came in, with vectors replaced: an array; a batch or table with the column as fixed-size lists in its place; a dict.
        Other columns, ids included, are passed on as they are, without protection.

    Raises:
        TypeError: wrong kinds, a dtype that is not the job's.
        ValueError: another dimension, a missing column, a null, NaN or Inf (the row is named), a repeated id.

    Guarantees:
        The released row depends on the job, its place and its own bytes, and on nothing else. See `NoiseJob`.

    Edge cases:
        The same place must not be used for two rows of a data set: equal rows would have equal noise and be seen to be equal. Only
        repetitions within one batch are detected.

    Reference:
        docs/format.md section 10; docs/scale-out.md.

    Example:
        >>> import numpy as np
        >>> from hushvec.jobs import NoiseJob, noise_batch
        >>> job = NoiseJob.start(dimension=4, epsilon=8.0)
        >>> rows = np.eye(4, dtype=np.float32)[:3]
        >>> noisy = noise_batch(rows, job, ids=["ann", "bob", "eve"])
        >>> bool((noise_batch(rows[::-1], job, ids=["eve", "bob", "ann"]) == noisy[::-1]).all())
        True
    """
    if not isinstance(job, NoiseJob):
        raise TypeError(f"job must be a hushvec.jobs.NoiseJob, got {validate.kind(job)}")
    if isinstance(batch, np.ndarray):
        if id_column is not None:
            raise TypeError("id_column must be None for an array, which has no columns; give ids")
        return _noised_array(batch, job, ids, partition, first_row)
    if ids is not None:
        raise TypeError("ids must be None for a batch with columns; name an id_column")
    if columns.is_arrow(batch):
        return _noised_arrow(batch, job, column, id_column, partition, first_row)
    if isinstance(batch, Mapping):
        return _noised_mapping(batch, job, column, id_column, partition, first_row)
    raise TypeError(
        f"batch must be a numpy array, a pyarrow RecordBatch or Table, or a dict of arrays, got {validate.kind(batch)}"
    )


def _noised_array(array: NDArray[Any], job: NoiseJob, ids: Any, partition: int, first_row: int) -> NDArray[Any]:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("batch must be a plain numpy array, got MaskedArray (its mask would be lost)")
    if array.ndim not in (1, 2):
        raise ValueError(f"batch must have 1 or 2 dimensions, got {array.ndim}")
    rows = array.reshape(1, -1) if array.ndim == 1 else array
    _require_fit("batch", rows, job)
    places, label = _places("ids", ids, len(rows), partition, first_row)
    return job.noise("batch", rows, places, label).reshape(array.shape)


def _noised_mapping(
    batch: Mapping[str, Any], job: NoiseJob, column: str, id_column: str | None, partition: int, first_row: int
) -> dict[str, Any]:
    for name in (column, *(() if id_column is None else (id_column,))):
        if name not in batch:
            raise ValueError(f"batch must have a column {name!r}, got {', '.join(map(repr, batch)) or 'none'}")
    rows = batch[column]
    if not isinstance(rows, np.ndarray) or rows.ndim != (1 if rows.dtype.kind == "O" else 2):
        raise TypeError(f"{column} must be a numpy array with 2 dimensions, got {_shape_of(rows)}")
    ids = None if id_column is None else batch[id_column]
    places, label = _places(id_column or "", ids, len(rows), partition, first_row)
    if rows.dtype.kind == "O":
        rows = _stacked(column, rows, job, label)
    _require_fit(column, rows, job)
    return {**batch, column: job.noise(column, rows, places, label)}


def _stacked(name: str, rows: NDArray[Any], job: NoiseJob, label: columns.Label) -> NDArray[Any]:
    """One array from Ray's lists, which are arrays of arrays."""
    for place, row in enumerate(rows):
        if not isinstance(row, np.ndarray) or row.dtype.name != job.dtype:
            found = row.dtype if isinstance(row, np.ndarray) else validate.kind(row)
            raise TypeError(f"{name} must hold arrays of {job.dtype}, got {found} in {label(place)}")
        if row.shape != (job.dimension,):
            raise ValueError(f"{name} must hold {job.dimension} numbers, got {row.size} numbers in {label(place)}")
    return np.stack(list(rows)) if len(rows) else np.empty((0, job.dimension), job.dtype)


def _noised_arrow(batch: Any, job: NoiseJob, column: str, id_column: str | None, partition: int, first_row: int) -> Any:
    vectors = columns.column_of(batch, column)
    columns.require_vectors(column, vectors.type, job.dtype)
    ids = None if id_column is None else columns.column_of(batch, id_column)
    places, label = _places(id_column or "", ids, batch.num_rows, partition, first_row)
    rows = columns.vectors_of(column, vectors, job.dimension, label)
    _require_fit(column, rows, job)
    noisy = job.noise(column, rows, places, label)
    return columns.with_column(batch, column, columns.fixed_size_lists(noisy))


def _places(name: str, ids: Any, rows: int, partition: int, first_row: int) -> tuple[derivation.Places, columns.Label]:
    if ids is not None:
        places, label = columns.places_of_ids(name, ids)
        if len(places) != rows:
            raise ValueError(f"{name} must have {rows} values, one per row, got {len(places)}")
        return places, label
    part = _number("partition", partition)
    first = _number("first_row", first_row)
    if first + rows > _LARGEST_NUMBER:
        raise ValueError(f"first_row must leave room for {rows} rows below 2^64, got {first}")
    return derivation.positions(part, first, rows), lambda row: f"row {first + row}"


def _number(name: str, value: Any) -> int:
    number = validate.whole_number(name, value, at_least=0)
    if number >= _LARGEST_NUMBER:
        raise ValueError(f"{name} must be < 2^64, got {number}")
    return number


def _require_fit(name: str, rows: NDArray[Any], job: NoiseJob) -> None:
    if rows.dtype.name != job.dtype or not rows.dtype.isnative:
        raise TypeError(f"{name} must be {job.dtype} like the job, got {rows.dtype}")
    if rows.shape[1] != job.dimension:
        raise ValueError(f"{name} must have {job.dimension} columns like the job, got {rows.shape[1]}")


def _shape_of(value: Any) -> str:
    return f"{value.ndim} of {value.dtype}" if isinstance(value, np.ndarray) else validate.kind(value)
