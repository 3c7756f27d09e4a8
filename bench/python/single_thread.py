"""Holds every library's own thread pool at one thread.  Import this before numpy.

The libraries read these variables once, while they load, so setting them later
has no effect.  A contestant that is meant to use more threads asks for them
through its library's own call.
"""

import os

for variable in (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "HUSHVEC_NUM_THREADS",
):
    os.environ[variable] = "1"

# Two OpenMP runtimes in one process (torch's and Intel's) can deadlock; the
# sequential layer of MKL needs neither.
os.environ["MKL_THREADING_LAYER"] = "SEQUENTIAL"
