"""Takes from this process the right to lock more than so many bytes. For children: it cannot be had back."""

import ctypes
import resource

_VERSION = 0x20080522   # _LINUX_CAPABILITY_VERSION_3
_IPC_LOCK = 1 << 14


def forbid_locking(limit: int = 0) -> None:
    """Root's capability ignores the limit, so it goes first (capget(2))."""
    libc = ctypes.CDLL(None, use_errno=True)
    head = (ctypes.c_uint32 * 2)(_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)()   # effective, permitted, inheritable, twice 32 bits
    assert libc.capget(head, sets) == 0
    sets[0] &= ~_IPC_LOCK
    sets[1] &= ~_IPC_LOCK
    assert libc.capset(head, sets) == 0
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (limit, limit))
