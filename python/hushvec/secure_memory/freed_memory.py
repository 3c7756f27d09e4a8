"""Overwrite ordinary memory as it is freed: for the copies that libraries make outside a SecureBuffer."""

from __future__ import annotations

from hushvec._native import _core
from hushvec._util.validate import kind
from hushvec.errors import SecureMemoryError


def overwrite_freed_memory(on: bool = True) -> None:
    """Let free() overwrite what it frees, in the whole process, from now on (glibc's M_PERTURB).

    A model computes keys, values and hidden states in ordinary memory, and the C library leaves them there when torch frees them.
    It has to be on before the memory in question is freed; `on=False` ends it.

    Raises:
        TypeError: on is not True or False.
        SecureMemoryError: the C library has no such setting (musl, for example).

    Guarantees:
        None on its own: blocks of up to about a kilobyte that a thread keeps for its next request are not overwritten, memory in
        use is not protected at all, and allocators other than the C library's are not reached. docs/secure_memory.md measures it.

    Reference:
        mallopt(3), M_PERTURB; the environment variable MALLOC_PERTURB_=85 does the same from the start of a process.

    Example:
        >>> from hushvec.secure_memory import overwrite_freed_memory
        >>> overwrite_freed_memory(True)
        >>> overwrite_freed_memory(False)
    """
    if not isinstance(on, bool):
        raise TypeError(f"on must be True or False, got {kind(on)}")
    if not _core.overwrite_freed_memory(on):
        raise SecureMemoryError("the C library cannot overwrite what it frees: mallopt(M_PERTURB) is not there")
