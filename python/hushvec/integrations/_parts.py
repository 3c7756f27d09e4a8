"""What a worker of `hushvec.aggregates.RowsInParts` makes of the Arrow batches of an engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from hushvec.jobs import columns

PART = "part"


class Columns(NamedTuple):
    """Where a batch has vectors of so many elements, and perhaps groups and people."""

    dimension: int
    vectors: str
    groups: str | None
    people: str | None


def part_of(batches: Iterable[Any], worker: Callable[..., bytes], names: Columns) -> Any:
    """Return a RecordBatch of one row and one column: what the worker makes of these batches."""
    import pyarrow

    return pyarrow.record_batch({PART: pyarrow.array([worker(_blocks(batches, names))], pyarrow.binary())})


def _blocks(batches: Iterable[Any], names: Columns) -> Iterator[tuple[Any, Any, Any]]:
    for batch in batches:
        vectors = columns.column_of(batch, names.vectors)
        rows = columns.vectors_of(names.vectors, vectors, names.dimension, lambda row: f"row {row} of a batch")
        groups, people = (None if name is None else columns.column_of(batch, name).to_pylist() for name in names[2:])
        yield rows, groups, people
