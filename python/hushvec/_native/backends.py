"""Instruction sets and threads: what this build has, what this machine runs, how many cores a call takes."""

from __future__ import annotations

from hushvec._native import _core, cuda
from hushvec._util.validate import whole_number


def set_num_threads(n: int) -> None:
    """Set how many threads a large call may use.

    Never changes a bit of a result. The environment variable HUSHVEC_NUM_THREADS sets the value at start.

    Args:
        n: number of threads, 0 for all cores (the default).

    Raises:
        TypeError: n is not a whole number.
        ValueError: n < 0.

    Example:
        >>> import hushvec as hv
        >>> hv.set_num_threads(1)
        >>> hv.set_num_threads(0)
    """
    _core.set_num_threads(whole_number("n", n, at_least=0))


def backends() -> dict[str, list[str] | str]:
    """Say which instruction sets this build has, which this machine runs, and which is in use.

    HUSHVEC_BACKEND=portable|avx2|avx512|neon, read at import, forces one. Exact releases have the same bits on all.

    Returns:
        {"compiled": [...], "available": [...], "active": name, "cuda": state}; instruction sets widest first; the state of the
        CUDA backend is "not built", "built" (but no driver or device is here) or "available".

    Example:
        >>> import hushvec as hv
        >>> "portable" in hv.backends()["compiled"]
        True
    """
    report: dict[str, list[str] | str] = {**_core.backends(), "cuda": cuda.state()}
    return report
