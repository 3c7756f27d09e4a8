"""One release over many processes: noise depends on the rows alone, not on which process computes them, when, or how often.

    job         NoiseJob: parameters, a secret key, the charge of a budget
    batch       noise_batch: a batch of rows in, the same kind of batch out; noise_file: a Parquet or Arrow file on one machine
    derivation  how the stream of a row follows from the job's key, the row's place and its bytes

hushvec.integrations.ray, .spark and .dask apply a job to their data sets. docs/scale-out.md is the guide.
"""

from hushvec.jobs.batch import noise_batch, noise_file
from hushvec.jobs.job import NoiseJob

__all__ = ["NoiseJob", "noise_batch", "noise_file"]
