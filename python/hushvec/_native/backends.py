"""Instruction sets and threads: what this build has, what this machine runs, how many cores a call takes."""

from __future__ import annotations

from typing import Any

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


def backends() -> dict[str, Any]:
    """Say which instruction sets this build has, which this machine runs, and which is in use; the same for AES-256.

    HUSHVEC_BACKEND=portable|avx2|avx512|neon and HUSHVEC_AES=portable|aesni|vaes256|vaes512|neon, read at import, force one. Exact
    releases have the same bits on all. With portable AES the default cipher is ChaCha20.

    Returns:
        {"compiled": [...], "available": [...], "active": name, "aes": the same three, "default_cipher": "aes256" or "chacha20",
        "cuda": state}; widest first; the state of the CUDA backend is "not built", "of another version" (calls refuse it), "built"
        (but no driver or device is here) or "available". The default cipher is that of a generator on the CPU that is keyed by the
        operating system.

    Example:
        >>> import hushvec as hv
        >>> "portable" in hv.backends()["compiled"]
        True
    """
    return {**_core.backends(), "cuda": cuda.state()}
