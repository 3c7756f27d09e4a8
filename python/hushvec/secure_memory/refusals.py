"""What the operating system refused, in words; each reason is warned of once."""

from __future__ import annotations

import errno
import os
import resource
import warnings
from collections.abc import Mapping
from pathlib import Path

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
    """One for each request that was refused."""
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
