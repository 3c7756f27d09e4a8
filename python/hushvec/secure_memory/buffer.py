"""Bytes on locked pages, with numpy and torch views that copy nothing; what the operating system grants and refuses, in words."""

from __future__ import annotations

import errno
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from hushvec._native import _core
from hushvec._util.lazy import needs_extra
from hushvec._util.os_files import MEMORY_CALLS, ignores_lock_limit, lock_limit
from hushvec._util.validate import flag, instance, whole_number
from hushvec.errors import SecureMemoryError, SecureMemoryWarning

if TYPE_CHECKING:
    import torch

# What each request is for, and what its refusal means for the contents.
_REQUEST = {"lock": "kept out of swap", "leave_out_of_dumps": "left out of core dumps", "wipe_on_fork": "wiped in forked children"}
_CONSEQUENCE = {
    "lock": "the memory may be swapped out to disk",
    "leave_out_of_dumps": "a core dump of this process has the contents in it",
    "wipe_on_fork": "children made by fork() are wiped by a handler instead of the kernel, those of other calls are not",
}

_warned: set[tuple[str, int]] = set()


def sentences(refusals: Mapping[str, int]) -> list[str]:
    """One for each request that was refused."""
    return [_sentence(request, code) for request, code in refusals.items() if code != 0]


def _sentence(request: str, code: int) -> str:
    if code == 0:
        return "yes: this system has no fork" if request == "wipe_on_fork" and request not in MEMORY_CALLS else "yes"
    if request not in MEMORY_CALLS:
        return f"this system has no call by which memory is {_REQUEST[request]}: {_CONSEQUENCE[request]}"
    reason = f"{MEMORY_CALLS[request]} was refused ({os.strerror(code)}"
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


class SecureBuffer:
    """Memory that is locked into RAM, left out of core dumps, and zeros at the start, in a forked child and after use.

    Args:
        nbytes: size in bytes, >= 1. Whole pages are taken, with a guard page before and after them.
        strict: True raises SecureMemoryError where the operating system refuses any part of the protection, before anything is
            written; False warns, once for each reason.

    Guarantees:
        The pages are zeroed by `scrub`, `release`, the end of a `with` block, when the last of the buffer and its views goes, and when
        the process ends through exit(), which an uncaught exception and sys.exit do. A forked child sees zeros (MADV_WIPEONFORK;
        where refused, a fork handler). Core dumps leave the pages out (MADV_DONTDUMP). They are not swapped out (mlock). After
        os._exit or a signal the kernel zeroes the pages before it reuses them. What is copied out of a view is ordinary memory:
        docs/secure_memory.md says what libraries copy.

    Edge cases:
        After `release` no new view can be made. Remaining views read zeros and may be written to: their pages stay protected and are
        zeroed again when the last view goes. In a forked child `wiped_by_fork` is True until `scrub`.

    Example:
        >>> from hushvec.secure_memory import SecureBuffer
        >>> with SecureBuffer(4 * 6) as buffer:
        ...     secret = buffer.numpy("float32", (2, 3))
        ...     secret[:] = 0.5
        ...     float(secret.sum())
        3.0
        >>> float(secret.sum())
        0.0
    """

    def __init__(self, nbytes: int, *, strict: bool = False) -> None:
        size = whole_number("nbytes", nbytes, at_least=1)
        self._strict = flag("strict", strict)
        pages = _core.LockedPages(size)
        accept_or_raise(pages.refusals, strict=strict)
        self._pages: _core.LockedPages | None = pages
        self.nbytes = size

    @property
    def released(self) -> bool:
        return self._pages is None

    @property
    def refused(self) -> list[str]:
        """A sentence for each part of the protection that the operating system refused. [] is best."""
        return sentences(self._open().refusals)

    @property
    def wiped_by_fork(self) -> bool:
        """Whether this is a forked child whose parent's contents are lost, and `scrub` was not called since."""
        return self._open().wiped_by_fork

    def memory(self) -> memoryview:
        """A view as bytes; writing to it writes to the buffer: ``source.readinto(key.memory())`` makes no copy in between.

        SecureMemoryError: the buffer was released; or it is strict and lost its protection in a forked child.
        """
        pages = self._open()
        accept_or_raise(pages.refusals, strict=self._strict)   # a child asks for its own locks, which may be refused
        return memoryview(pages)

    def numpy(self, dtype: DTypeLike = "uint8", shape: int | Sequence[int] | None = None, *, offset: int = 0) -> NDArray[Any]:
        """A view as a numpy array; writing to it writes to the buffer.

        Args:
            dtype: of the elements; object dtypes are refused.
            shape: of the view; None takes all whole elements after `offset`.
            offset: where the view begins, in bytes; a multiple of an element's.
        """
        element = np.dtype(dtype)
        if element.hasobject:
            raise TypeError(f"dtype must hold no Python objects, got {element}")
        dimensions, count = self._layout(element.itemsize, shape, offset)
        return np.frombuffer(self.memory(), element, count, offset).reshape(dimensions)

    def torch(self, dtype: torch.dtype | None = None, shape: int | Sequence[int] | None = None, *, offset: int = 0) -> torch.Tensor:
        """A view as a torch CPU tensor, as `numpy` gives one; `dtype` None is torch.uint8."""
        with needs_extra("a torch view", "torch"):
            import torch
        element = torch.uint8 if dtype is None else dtype
        instance("dtype", element, torch.dtype, "a torch.dtype")
        dimensions, count = self._layout(element.itemsize, shape, offset)
        if count == 0:
            return torch.empty(dimensions, dtype=element)
        return torch.frombuffer(self.memory(), dtype=element, count=count, offset=offset).view(dimensions)

    def scrub(self) -> None:
        """Zeros, now; the buffer and its views stay in use."""
        self._open().scrub()

    def release(self) -> None:
        """Zeros, now, and no further use. May be called again."""
        pages, self._pages = self._pages, None
        if pages is not None:
            pages.scrub()

    def __enter__(self) -> SecureBuffer:
        self._open()
        return self

    def __exit__(self, *exception: object) -> None:
        self.release()

    def __repr__(self) -> str:
        return f"SecureBuffer({self.nbytes}{', released' if self.released else ''})"

    def __reduce__(self) -> Any:
        raise TypeError("a SecureBuffer cannot be copied or pickled: the copy would be ordinary memory")

    def _open(self) -> _core.LockedPages:
        if self._pages is None:
            raise SecureMemoryError("this buffer was released")
        return self._pages

    def _layout(self, item: int, shape: int | Sequence[int] | None, offset: int) -> tuple[tuple[int, ...], int]:
        begin = whole_number("offset", offset, at_least=0, at_most=self.nbytes)
        if item == 0:
            raise ValueError("dtype must have a size")
        if begin % item != 0:
            raise ValueError(f"offset must be a multiple of the {item} bytes of an element, got {begin}")
        room = (self.nbytes - begin) // item
        if shape is None:
            return (room,), room
        lengths = shape if isinstance(shape, Sequence) else (shape,)
        dimensions = tuple(whole_number("shape", length, at_least=0) for length in lengths)
        count = math.prod(dimensions)
        if count > room:
            raise ValueError(f"shape {dimensions} must fit: {count} elements of {item} bytes from byte {begin} of {self.nbytes}")
        return dimensions, count


def status() -> dict[str, Any]:
    """Say how much memory for secrets this process holds, and what the operating system grants.

    It allocates and frees a test page, so that the answer is current.

    Returns:
        "lock_limit_bytes": RLIMIT_MEMLOCK, None without one. "ignores_lock_limit": whether the process has CAP_IPC_LOCK.
        "buffer_bytes", "locked_buffer_bytes": pages of SecureBuffers. "keys": generator keys and reserved streams that are alive;
        "key_bytes", "locked_key_bytes": their pages. "refused": a sentence for each protection that a small buffer would not
        have now; [] is best. "keys_refused": the same for the newest page of generator keys. Nothing warns of the latter.
        "protections": each protection of a small buffer or page of keys that is made now, and "yes" or the sentence.

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
        "protections": {_REQUEST[request]: _sentence(request, code) for request, code in refused.items()},
    }


def overwrite_freed_memory(on: bool = True) -> None:
    """Let free() overwrite what it frees, in the whole process, from now on (glibc's M_PERTURB).

    A model computes keys, values and hidden states in ordinary memory, and the C library leaves them there when torch frees them.
    It has to be on before the memory in question is freed; `on=False` ends it. A C library without such a setting (musl, for example)
    raises SecureMemoryError.

    Guarantees:
        None on its own: blocks of up to about a kilobyte that a thread keeps for its next request are not overwritten, memory in
        use is not protected at all, and allocators other than the C library's are not reached. docs/secure_memory.md measures it.

    Reference:
        mallopt(3), M_PERTURB; the environment variable MALLOC_PERTURB_=85 does the same from the start of a process.
    """
    if not _core.overwrite_freed_memory(flag("on", on)):
        raise SecureMemoryError("the C library cannot overwrite what it frees: mallopt(M_PERTURB) is not there")
