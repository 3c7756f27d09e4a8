"""A noise job on Spark: `noise_dataframe(frame, job)`, or `noise_function` for your own `mapInArrow`; and rows for aggregates:
`rows_of`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.aggregates import RowsInParts
from hushvec.integrations._parts import PART, Columns, part_of
from hushvec.jobs import NoiseJob, columns
from hushvec.jobs.batch import noise_batches


def noise_function(
    job: NoiseJob, *, column: str = "embedding", id_column: str | None = None
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for `DataFrame.mapInArrow`; arguments as in `hushvec.integrations`.

    The column is array<float> or array<double>. Without an id_column the job has rows_by="partitions": rows are named by Spark's
    number of the partition and their place in it, which a retried task must find unchanged, as it does behind a file or a sort by
    unique keys, and does not behind a shuffle alone.
    """
    with needs_extra("noise jobs on Spark", "spark"):
        import pyspark.sql  # noqa: F401
    job.require_rows_by("partitions" if id_column is None else "ids")

    def noise(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            raise RuntimeError("the function of a noise job must run in a Spark task")
        partition = int(context.partitionId())
        for noisy in noise_batches(batches, job, column=column, id_column=id_column, partition=partition):
            vectors = noisy.column(column)  # Spark has arrays of any length only: plain lists over the same memory
            plain = pyarrow.list_(pyarrow.field("element", vectors.type.value_type))
            yield columns.with_column(noisy, column, vectors.cast(plain))

    return noise


def noise_dataframe(frame: Any, job: NoiseJob, *, column: str = "embedding", id_column: str | None = None) -> Any:
    """Return the data frame with its vectors released and its schema as it was; lazy, as everything in Spark.

    Errors come wrapped in Spark's. Caching or checkpointing it is wise where rows have no ids: what is computed twice from other
    partitions is released twice.
    """
    function = noise_function(job, column=column, id_column=id_column)
    return frame.mapInArrow(function, schema=frame.schema)


def rows_of(frame: Any, *, column: str = "embedding", groups: str | None = None, people: str | None = None) -> RowsInParts:
    """Return the rows of a data frame for `hushvec.aggregates`, whose functions read them on the workers, a partition at a time.

    Args:
        column, groups, people: names of columns; of the last two, the label of each row, and whose it is. All rows of a person must
            be in one partition, as after `frame.repartition(people)`.
    """
    with needs_extra("aggregates of Spark data frames", "spark"):
        import pyspark.sql  # noqa: F401
    wanted = frame.select(*(name for name in (column, groups, people) if name is not None))
    first = wanted.first()
    names = Columns(0 if first is None else len(first[column]), column, groups, people)

    def run(worker: Callable[..., bytes]) -> list[bytes]:
        parts = wanted.mapInArrow(lambda batches: iter([part_of(batches, worker, names)]), schema=f"{PART} binary")
        return [bytes(row[PART]) for row in parts.collect()]

    return RowsInParts(run, names.dimension, groups is not None, people is not None)
