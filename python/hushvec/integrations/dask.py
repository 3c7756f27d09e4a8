"""A noise job on Dask arrays: `noise_array(array, job)`, or `noise_block` for your own `map_blocks`; and rows for
aggregates: `rows_of`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec.aggregates import RowsInParts
from hushvec.jobs import NoiseJob, noise_batch
from hushvec.jobs.batch import rows_by


def noise_block(
    block: NDArray[Any], job: NoiseJob, partition: int | None = None, block_info: dict[int, Any] | None = None
) -> NDArray[Any]:
    """Release a block [n, d] of whole rows, for `dask.array.map_blocks`: it says in block_info which rows of the array they are."""
    if block_info is None:
        raise ValueError("block_info must be given: Dask does so in map_blocks")
    rows, columns = block_info[0]["array-location"]
    if (columns[0], columns[1]) != (0, job.dimension):
        raise ValueError(f"blocks must hold whole rows, columns 0 to {job.dimension}, got {columns[0]} to {columns[1]}")
    released: NDArray[Any] = noise_batch(block, job, partition=partition, first_row=int(rows[0]))
    return released


def noise_array(array: Any, job: NoiseJob, *, partition: int | None = None) -> Any:
    """Return the array with its rows released, which are named by their number in it; lazy, as everything in Dask.

    Args:
        array: dask.array [n, d] of the job's dtype, in blocks of whole rows (`array.rechunk({1: -1})` makes them) of known sizes.
        job, partition: see `hushvec.integrations`.

    An array that is not as described is refused at once, NaN or Inf in a row when the array is computed.
    """
    with needs_extra("noise jobs on Dask arrays", "dask"):
        import dask.array  # noqa: F401
    job.require_rows_by(rows_by(None, partition))
    _require_array("array", array)
    if array.ndim != 2 or array.shape[1] != job.dimension:
        raise ValueError(f"array must have shape (n, {job.dimension}) like the job, got {array.shape}")
    if array.dtype != job.dtype:
        raise TypeError(f"array must be {job.dtype} like the job, got {array.dtype}")
    if array.numblocks[1] != 1:
        raise ValueError(f"array must be in blocks of whole rows, got {array.numblocks[1]} blocks per row")
    if any(np.isnan(length) for length in array.chunks[0]):
        raise ValueError("array must have blocks of known sizes (array.compute_chunk_sizes() finds them)")
    empty = np.empty((0, 0), job.dtype)
    return array.map_blocks(noise_block, job=job, partition=partition, dtype=array.dtype, meta=empty)


def rows_of(array: Any, groups: Any = None, people: Any = None) -> RowsInParts:
    """Return the rows of an array for `hushvec.aggregates`, whose functions read them on the workers, a block at a time.

    Args:
        array: dask.array [n, d] in blocks of whole rows.
        groups, people: dask.array [n] in the same blocks: the label of each row, and whose it is. All rows of a person are in one
            block.
    """
    with needs_extra("aggregates of Dask arrays", "dask"):
        import dask.array
    for name, one in (("array", array), ("groups", groups), ("people", people)):
        if one is not None:
            _require_array(name, one)
    if array.ndim != 2 or array.numblocks[1] != 1:
        raise ValueError(f"array must be in blocks of whole rows, got {array.numblocks} blocks")
    beside: list[Any] = []
    for name, one in (("groups", groups), ("people", people)):
        if one is not None and one.numblocks != array.numblocks[:1]:
            raise ValueError(f"{name} must be in the {array.numblocks[0]} blocks of array, got {one.numblocks[0]}")
        beside += (one, None if one is None else "i")

    def run(worker: Callable[..., bytes]) -> list[bytes]:
        # blockwise, so that Dask makes a block and its part in one task, and no block travels
        parts = dask.array.blockwise(
            _part_of_block, "ij", array, "ij", *beside, worker=worker, adjust_chunks={"i": lambda rows: 1, "j": lambda columns: 1},
            dtype=object, meta=np.empty((0, 0), object),
        )  # fmt: skip
        found: list[bytes] = parts.compute().ravel().tolist()
        return found

    return RowsInParts(run, array.shape[1], groups is not None, people is not None)


def _part_of_block(rows: Any, groups: Any, people: Any, worker: Callable[..., bytes]) -> Any:
    part = np.empty((1, 1), object)
    part[0, 0] = worker([(rows, groups, people)])
    return part


def _require_array(name: str, array: Any) -> None:
    import dask.array

    if not isinstance(array, dask.array.Array):
        raise TypeError(f"{name} must be a dask.array.Array, got {type(array).__name__}")
