"""A noise job on Spark: `noise_dataframe(frame, job)`, or `noise_function` for your own `mapInArrow`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.jobs import NoiseJob, columns, noise_batch


def noise_function(
    job: NoiseJob, *, column: str = "embedding", id_column: str | None = None
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """A function for `DataFrame.mapInArrow`.

    Args:
        job: travels to the executors with the function, its secret key included: in the closure that Spark serializes.
        column: of the vectors, array<float> or array<double>.
        id_column: whole numbers or strings, unique in the data set and the same in every attempt, of a job with
            rows_by="integer-ids" or "text-ids". None, of one with rows_by="partitions": rows are named by Spark's
            number of the partition and their place in it, which a retried task must find unchanged: as it does behind a file or
            a sort by unique keys, and does not behind a shuffle alone.

    Batch sizes, executors, retried and speculative tasks do not change a bit of the result, as long as rows keep their names.
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
        partition, done = int(context.partitionId()), 0
        for batch in batches:
            noisy = noise_batch(batch, job, column=column, id_column=id_column, partition=partition, first_row=done)
            done += batch.num_rows
            vectors = noisy.column(column)  # Spark has arrays of any length only: plain lists over the same memory
            plain = pyarrow.list_(pyarrow.field("element", vectors.type.value_type))
            yield columns.with_column(noisy, column, vectors.cast(plain))

    return noise


def noise_dataframe(frame: Any, job: NoiseJob, *, column: str = "embedding", id_column: str | None = None) -> Any:
    """The data frame with its vectors released and its schema as it was; lazy, as everything in Spark.

    Caching or checkpointing it is wise where rows have no ids: what is computed twice from other partitions is released twice.
    Errors are those of `hushvec.jobs.noise_batch`, when the frame is computed, wrapped in Spark's own.
    """
    function = noise_function(job, column=column, id_column=id_column)
    return frame.mapInArrow(function, schema=frame.schema)
