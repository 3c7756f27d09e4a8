"""The kernels of OpenBLAS that tests which rank are run with: it chooses them by processor, and they round differently.

OPENBLAS_CORETYPE names one before the library is loaded, so each setting needs a process of its own.
"""

import contextlib
import io
import platform
from pathlib import Path

import numpy as np

# What the processor must have for each.
NEEDED = {
    "Haswell": {"avx2", "fma"},
    "SkylakeX": {"avx2", "fma", "avx512f", "avx512dq", "avx512bw", "avx512vl", "avx512cd"},
    "Zen": {"avx2", "fma"},
}


def own_kernel():
    """What OpenBLAS has chosen in this process; None where nobody tells."""
    try:
        from threadpoolctl import threadpool_info
    except ImportError:
        return None
    return next((library.get("architecture") for library in threadpool_info() if library["internal_api"] == "openblas"), None)


def reason_not_to_run(kernel):
    """Why this machine cannot run numpy with the kernel, or None."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return f"OPENBLAS_CORETYPE={kernel} is for x86-64, this is {platform.machine()}"
    build = io.StringIO()
    with contextlib.redirect_stdout(build):
        np.show_config()
    if "openblas" not in build.getvalue().lower():
        return "this numpy has another BLAS than OpenBLAS"
    missing = NEEDED[kernel] - _instructions()
    return f"this processor has no {', '.join(sorted(missing))}" if missing else None


def _instructions():
    """Empty where the system does not tell."""
    path = Path("/proc/cpuinfo")
    lines = path.read_text().splitlines() if path.exists() else []
    return set(next((line.partition(":")[2] for line in lines if line.startswith("flags")), "").split())
