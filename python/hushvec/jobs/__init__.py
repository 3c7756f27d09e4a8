"""One release over many processes: noise depends on rows and their names, not on who computes them, when, or how often.

hushvec.integrations.ray, .spark and .dask apply a job to their data sets. docs/scale-out.md is the guide.
"""

from hushvec.jobs.batch import noise_batch, noise_file
from hushvec.jobs.job import NoiseJob

__all__ = ["NoiseJob", "noise_batch", "noise_file"]
