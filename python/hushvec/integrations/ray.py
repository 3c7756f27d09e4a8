"""A noise job on Ray Data: `noise_dataset(dataset, job, id_column="id")`, or `noise_function` for your own `map_batches`;
and rows for aggregates: `rows_of`.

Ray does not say which rows of the data set a batch holds, so an id column is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.aggregates import RowsInParts
from hushvec.integrations._parts import PART, Columns, part_of
from hushvec.jobs import NoiseJob, noise_batch


def noise_function(job: NoiseJob, *, id_column: str, column: str = "embedding") -> Callable[[Any], Any]:
    """Return a function for `Dataset.map_batches` with batch_format "pyarrow" or "numpy"; arguments as in `hushvec.integrations`.

    Ray moves it, and with it the job's secret key, through its object store.
    """
    with needs_extra("noise jobs on Ray Data", "ray"):
        import ray.data  # noqa: F401
    if not isinstance(id_column, str):
        raise TypeError(f"id_column must be the name of a column: Ray gives rows no numbers; got {type(id_column).__name__}")
    job.require_rows_by("ids")
    return partial(noise_batch, job=job, column=column, id_column=id_column)


def noise_dataset(dataset: Any, job: NoiseJob, *, id_column: str, column: str = "embedding", **options: Any) -> Any:
    """Return a ray.data.Dataset with its vectors released; lazy, as everything in Ray Data.

    They become fixed-size lists, with "numpy" Ray's tensors. `options` are for `map_batches`, such as batch_size or concurrency;
    batch_format is "pyarrow" unless named there.
    """
    function = noise_function(job, id_column=id_column, column=column)
    return dataset.map_batches(function, **{"batch_format": "pyarrow", **options})


def rows_of(
    dataset: Any, *, column: str = "embedding", groups: str | None = None, people: str | None = None, **options: Any
) -> RowsInParts:
    """Return the rows of a ray.data.Dataset for `hushvec.aggregates`, whose functions read them on the workers, a batch at a time.

    Args:
        column, groups, people: names of columns; of the last two, the label of each row, and whose it is. All rows of a person must
            come in one batch, as after `dataset.sort(people)` with `batch_size=None` and one block.
        options: for `map_batches`, such as batch_size or concurrency.
    """
    with needs_extra("aggregates of Ray Data", "ray"):
        import ray.data  # noqa: F401
    first = dataset.take(1)
    names = Columns(len(first[0][column]) if first else 0, column, groups, people)

    def run(worker: Callable[..., bytes]) -> list[bytes]:
        function = partial(_part_of_batch, worker=worker, names=names)
        return [part[PART] for part in dataset.map_batches(function, **{**options, "batch_format": "pyarrow"}).take_all()]

    return RowsInParts(run, names.dimension, groups is not None, people is not None)


def _part_of_batch(batch: Any, worker: Callable[..., bytes], names: Columns) -> Any:
    import pyarrow

    return pyarrow.Table.from_batches([part_of([batch], worker, names)])
