"""How much memory for secrets this process holds, and how well it is protected."""

from __future__ import annotations

from typing import Any

from hushvec._native import _core
from hushvec.secure_memory.refusals import ignores_lock_limit, lock_limit, sentences


def status() -> dict[str, Any]:
    """Say how much memory for secrets this process holds, and what the operating system grants.

    It allocates and frees a test page, so that the answer is current.

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
