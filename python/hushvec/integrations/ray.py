"""A noise job on Ray Data: `noise_dataset(dataset, job, id_column="id")`, or `noise_function` for your own `map_batches`;
and sums: `add_dataset`.

Ray does not say which rows of the data set a batch holds, so an id column is needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.aggregates import SumsOfRows, SumsWorker
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


def add_dataset(
    sums: SumsOfRows, dataset: Any, *, column: str = "embedding", groups: str | None = None, people: str | None = None, **options: Any
) -> SumsOfRows:
    """Add the rows of a ray.data.Dataset, which its workers read now; returns `sums`, for `release()`.

    Args:
        sums: holds the exact totals, on this machine alone. Batches change no bit of them.
        column, groups, people: names of columns; of the last two, what `SumsOfRows.add` takes. All rows of a person must come in one
            batch, as after `dataset.sort(people)` with `batch_size=None` and one block.
        options: for `map_batches`, such as batch_size or concurrency.

    What `SumsOfRows.add` raises on a worker comes from here in Ray's errors, and nothing is added then.
    """
    with needs_extra("sums of Ray Data", "ray"):
        import ray.data  # noqa: F401
    function = partial(_part_of_batch, worker=sums.worker(), names=Columns(column, groups, people))
    parts = dataset.map_batches(function, **{**options, "batch_format": "pyarrow"}).take_all()
    sums.merge(*(part[PART] for part in parts))
    return sums


def _part_of_batch(batch: Any, worker: SumsWorker, names: Columns) -> Any:
    import pyarrow

    return pyarrow.Table.from_batches([part_of([batch], worker, names)])
