"""Parts of `hushvec.aggregates.SumsOfRows` from the Arrow batches of an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from hushvec.aggregates import SumsWorker
from hushvec.jobs import columns

PART = "part"


class Columns(NamedTuple):
    """Where a batch has vectors, and perhaps groups and people."""

    vectors: str
    groups: str | None
    people: str | None


def part_of(batches: Iterable[Any], worker: SumsWorker, names: Columns) -> Any:
    """Return a RecordBatch of one row and one column: the part that the worker makes of these batches."""
    import pyarrow

    return pyarrow.record_batch({PART: pyarrow.array([worker(_blocks(batches, worker, names))], pyarrow.binary())})


def _blocks(batches: Iterable[Any], worker: SumsWorker, names: Columns) -> Iterator[tuple[Any, Any, Any]]:
    for batch in batches:
        vectors = columns.column_of(batch, names.vectors)
        rows = columns.vectors_of(names.vectors, vectors, worker.settings["dimension"], lambda row: f"row {row} of a batch")
        groups, people = (None if name is None else columns.column_of(batch, name).to_pylist() for name in names[1:])
        yield rows, groups, people
