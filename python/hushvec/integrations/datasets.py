"""A noise job on a Hugging Face data set: `noise_dataset(dataset, job)`, or `noise_function` for your own `map`."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.integrations import tables
from hushvec.jobs import NoiseJob, columns, noise_batch
from hushvec.jobs.batch import rows_by

# Options of `map` that change how the result is computed, and not what it is: results are cached under a name of the job's.
_OPTIONS = ("batch_size", "num_proc", "writer_batch_size", "keep_in_memory", "load_from_cache_file", "desc")


@dataclass(frozen=True)
class NoiseFunction:
    """The result of `noise_function`; see there."""

    job: NoiseJob
    column: str
    id_column: str | None
    partition: int | None

    def __call__(self, batch: Any, indices: Sequence[int] | None = None) -> Any:
        import pyarrow

        is_arrow = columns.is_arrow(batch)
        if not is_arrow and not isinstance(batch, Mapping):
            raise TypeError(f"batch must be a dict or a pyarrow Table, as map gives it with batched=True, got {validate.kind(batch)}")
        first = self._first_row(indices)
        found = columns.column_of(batch, self.column) if is_arrow else pyarrow.array(list(batch[self.column]))
        rows = np.empty((0, self.job.dimension), self.job.dtype)
        if len(found):
            rows = tables.vectors_of(self.column, found, dtype=self.job.dtype, first_row=first)
        ids = None
        if self.id_column is not None:
            ids = columns.column_of(batch, self.id_column) if is_arrow else batch[self.id_column]
        noisy = noise_batch(rows, self.job, ids=ids, partition=self.partition, first_row=first)
        if is_arrow:
            return columns.with_column(batch, self.column, columns.fixed_size_lists(noisy))
        return {self.column: list(noisy)}

    def _first_row(self, indices: Sequence[int] | None) -> int:
        if self.id_column is not None or (indices is not None and not len(indices)):
            return 0
        if indices is None:
            raise ValueError("map must have with_indices=True, or the function an id_column: a row needs a name that stays")
        if not np.array_equal(np.diff(indices), np.ones(len(indices) - 1)):
            raise ValueError("batches must have consecutive rows, as map gives them with batched=True")
        return int(indices[0])


def noise_function(
    job: NoiseJob, *, column: str = "embedding", id_column: str | None = None, partition: int | None = None
) -> NoiseFunction:
    """Return a function for `Dataset.map(..., batched=True, with_indices=True)`; arguments as in `hushvec.integrations`.

    Floats of the column are taken in the job's dtype. Without an id_column a shuffled or filtered data set is another one; with
    it with_indices may be left out. The job goes to the processes of `num_proc` through pipes, not through files.
    Of a dict the function returns the released column, of a pyarrow Table the whole Table with that column replaced. datasets
    names cache files after a short hash of the function, key included; `noise_dataset` names them after the job's public id.
    """
    _require_datasets()
    if not isinstance(job, NoiseJob):
        raise TypeError(f"job must be a hushvec.jobs.NoiseJob, got {validate.kind(job)}")
    job.require_rows_by(rows_by(id_column, partition))
    part = None if partition is None else validate.whole_number("partition", partition, at_least=0)
    return NoiseFunction(job, column, id_column, part)


def noise_dataset(
    dataset: Any, job: NoiseJob, *, column: str = "embedding", id_column: str | None = None, partition: int | None = None,
    **options: Any,
) -> Any:
    """Return a datasets.Dataset with its vectors released, at once, or from the cache if the same job released it before.

    Arguments as for `noise_function`; `options` are for `map`: batch_size, num_proc and others that do not change the result.
    Columns and format stay; vectors are lists of the job's dtype and of one length. Remove columns that must not be passed on
    before, by `dataset.remove_columns`. After an error the job's charge stands, and the same job may run on the corrected data.
    """
    datasets = _require_datasets()
    function = noise_function(job, column=column, id_column=id_column, partition=partition)
    if not isinstance(dataset, datasets.Dataset):
        raise TypeError(f"dataset must be a datasets.Dataset, got {validate.kind(dataset)}")
    for name in (column, *(() if id_column is None else (id_column,))):
        if name not in dataset.column_names:
            raise ValueError(f"dataset must have a column {name!r}, got {', '.join(map(repr, dataset.column_names)) or 'none'}")
    for option in options:
        if option not in _OPTIONS:
            raise ValueError(f"options must be among {', '.join(_OPTIONS)}, got {option!r}")
    # It has no public name. Without it nothing is read from the cache.
    content = getattr(dataset, "_fingerprint", None) or uuid.uuid4().hex
    named = [content, "hushvec", job.id, column, id_column, partition]
    released = dataset.with_format("arrow").map(
        function, batched=True, with_indices=id_column is None, new_fingerprint=datasets.fingerprint.Hasher.hash(named),
        **{"desc": "noise", **options},
    )
    return tables.with_format_of(dataset, released)


def _require_datasets() -> Any:
    with needs_extra("noise jobs on data sets of Hugging Face", "datasets"):
        import datasets
    return datasets
