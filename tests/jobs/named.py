"""Jobs with one key whose rows are named in different ways, for tests of the bits of each. A user has one of them."""

from dataclasses import replace

import hushvec.jobs
from hushvec.jobs import NoiseJob


def named(job, rows_by):
    """The job of this key that names its rows so."""
    return replace(job, rows_by=rows_by)


def noise_batch(batch, job, **settings):
    """`hushvec.jobs.noise_batch` by the job of this key that names its rows as these arguments do."""
    ids = settings.get("ids")
    if settings.get("id_column") is not None and settings["id_column"] in getattr(batch, "column_names", batch):
        ids = batch[settings["id_column"]]
    if isinstance(job, NoiseJob):
        listed = ids.to_pylist() if hasattr(ids, "to_pylist") else ids
        of_texts = ids is not None and any(isinstance(one, str) for one in listed)
        by_number = "partitions" if "partition" in settings else "numbers"
        of_ids = ids is not None or settings.get("id_column") is not None
        job = named(job, ("text-ids" if of_texts else "integer-ids") if of_ids else by_number)
    return hushvec.jobs.noise_batch(batch, job, **settings)
