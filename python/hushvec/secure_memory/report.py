"""The protection that the operating system grants and refuses, in words, and the memory for secrets that this process holds."""

from __future__ import annotations

import errno
import os
import resource
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushvec._native import _core
from hushvec._util.validate import kind
from hushvec.errors import SecureMemoryError, SecureMemoryWarning

CAP_IPC_LOCK = 14

# What each refusal means for the contents.
_CONSEQUENCE = {
    "lock": "the memory may be swapped out to disk",
    "leave_out_of_dumps": "a core dump of this process has the contents in it",
    "wipe_on_fork": "children made by fork() are wiped by a handler instead of the kernel, children made by clone() are not",
}
_CALL = {"lock": "mlock", "leave_out_of_dumps": "madvise(MADV_DONTDUMP)", "wipe_on_fork": "madvise(MADV_WIPEONFORK)"}

_warned: set[tuple[str, int]] = set()


def lock_limit() -> int | None:
    """RLIMIT_MEMLOCK in bytes; None where there is no limit."""
    soft, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return None if soft == resource.RLIM_INFINITY else soft


def ignores_lock_limit() -> bool:
    """Whether this process has the capability CAP_IPC_LOCK, as root usually does."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return False
    effective = next((line.split()[1] for line in lines if line.startswith("CapEff:")), "0")
    return bool(int(effective, 16) >> CAP_IPC_LOCK & 1)


def sentences(refusals: Mapping[str, int]) -> list[str]:
    return [_sentence(request, code) for request, code in refusals.items() if code != 0]


def _sentence(request: str, code: int) -> str:
    reason = f"{_CALL[request]} was refused ({os.strerror(code)}"
    limit = lock_limit()
    if request == "lock" and code in (errno.ENOMEM, errno.EPERM, errno.EAGAIN) and limit is not None:
        reason += f"; RLIMIT_MEMLOCK is {limit} bytes, see `ulimit -l`"
    return f"{reason}): {_CONSEQUENCE[request]}"


def accept_or_raise(refusals: Mapping[str, int], *, strict: bool) -> None:
    """Raise for a refusal if `strict`, else warn of each reason once."""
    refused = {request: code for request, code in refusals.items() if code != 0}
    if refused and strict:
        raise SecureMemoryError("; ".join(sentences(refused)))
    for request, code in refused.items():
        if (request, code) not in _warned:
            warnings.warn(_sentence(request, code), SecureMemoryWarning, stacklevel=3)
            _warned.add((request, code))


def status() -> dict[str, Any]:
    """Say how much memory for secrets this process holds, and what the operating system grants.

    Returns:
        "lock_limit_bytes": RLIMIT_MEMLOCK, None without one. "ignores_lock_limit": whether the process has CAP_IPC_LOCK.
        "buffer_bytes", "locked_buffer_bytes": pages of SecureBuffers. "keys": generator keys and reserved streams that are alive;
        "key_bytes", "locked_key_bytes": their pages. "refused": a sentence for each protection that a small buffer would not
        have now; [] is best. "keys_refused": the same for the newest page of generator keys. Nothing warns of the latter.

    Example:
        >>> from hushvec.secure_memory import SecureBuffer, status
        >>> with SecureBuffer(1000) as buffer:
        ...     status()["buffer_bytes"] >= 1000
        True
    """
    refused = _core.LockedPages(1).refusals
    report = _core.memory_report()
    return {
        "lock_limit_bytes": lock_limit(),
        "ignores_lock_limit": ignores_lock_limit(),
        "buffer_bytes": report["bytes"] - report["key_bytes"],
        "locked_buffer_bytes": report["locked_bytes"] - report["locked_key_bytes"],
        "keys": report["key_slots"],
        "key_bytes": report["key_bytes"],
        "locked_key_bytes": report["locked_key_bytes"],
        "refused": sentences(refused),
        "keys_refused": sentences(report["key_refusals"]),
    }


def overwrite_freed_memory(on: bool = True) -> None:
    """Let free() overwrite what it frees, in the whole process, from now on (glibc's M_PERTURB).

    A model computes keys, values and hidden states in ordinary memory, and the C library leaves them there when torch frees them.
    It has to be on before the memory in question is freed; `on=False` ends it.

    Raises:
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
