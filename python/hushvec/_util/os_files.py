"""What differs from system to system, for files and for memory: the one module that knows which it is on. docs/threat-model.md,
"Systems", has a table of what each of them promises."""

from __future__ import annotations

import errno
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

__all__ = ["allow_open_files", "call_around_fork", "ignores_lock_limit", "lock_limit", "mounts", "print_utf8", "sync"]

# `take_free_name(file, name)` raises FileExistsError if the name is taken, and may leave the old one. On Windows there are no forks
# and `restrict(descriptor, mode)` does nothing: the folder says who may read a file. MEMORY_CALLS has no protection without a call.
if sys.platform == "win32":
    import ctypes
    import msvcrt

    MEMORY_CALLS = {"lock": "VirtualLock"}
    take_free_name, restrict, call_around_fork = os.rename, (lambda descriptor, mode: None), (lambda **calls: None)
else:
    import fcntl
    import resource

    MEMORY_CALLS = {"lock": "mlock", "leave_out_of_dumps": "madvise(MADV_DONTDUMP)", "wipe_on_fork": "madvise(MADV_WIPEONFORK)"}
    if sys.platform == "darwin":
        MEMORY_CALLS = {"lock": "mlock", "wipe_on_fork": "minherit"}
    take_free_name, restrict, call_around_fork = os.link, os.fchmod, os.register_at_fork

MOUNTINFO = Path("/proc/self/mountinfo")
_OPEN_FLAGS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_LOCKED_BYTE = 2**31 - 2  # behind all content, and the last that msvcrt takes: Windows lets nobody else read what is locked
_MOUNT = re.compile(rb"^(?:[^ \n]+ ){4}([^ \n]+) [^ \n]+ (?:[^ \n]+ )*?- ([^ \n]+)", re.MULTILINE)
_OCTAL = re.compile(rb"\\([0-7]{3})")  # how the kernel writes space, tab, line feed, backslash and #


def open_unlinked(path: str | os.PathLike[str], flags: int, mode: int) -> int:
    """A descriptor of a file at this very path; OSError where a symbolic link is. Windows has no flag for that: it is looked first."""
    if sys.platform == "win32" and os.path.islink(path):
        raise OSError(errno.ELOOP, "is a symbolic link", os.fspath(path))
    return os.open(path, flags | _OPEN_FLAGS, 0o600 if sys.platform == "win32" else mode)  # Windows replaces no read-only file


def lock(descriptor: int, *, wait: bool = True) -> None:
    """Lock a file until it is closed. BlockingIOError if it is locked and not `wait`; on Windows also if it stays so for 30 s."""
    if sys.platform == "win32":
        os.lseek(descriptor, _LOCKED_BYTE, os.SEEK_SET)
        try:
            _patiently(lambda: msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1), 3000 if wait else 1)
        except OSError as taken:  # EACCES; Wine gives no number
            raise BlockingIOError(errno.EAGAIN, taken.strerror) from None
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)


def replace(source: Path, target: Path) -> None:
    """Rename a file, over an older one. Windows refuses while a program has one of them open, as scanners do for moments."""
    _patiently(lambda: os.replace(source, target), 100 if sys.platform == "win32" else 1)


def _patiently(call: Callable[[], None], tries: int) -> None:
    while (tries := tries - 1) > 0:
        with suppress(OSError):
            return call()
        time.sleep(0.01)
    return call()


def sync(descriptor: int) -> None:
    """Put what was written on stable storage. macOS has a call of its own for that, which not all of its file systems take."""
    if sys.platform == "darwin":
        with suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """So that the names in it survive a power failure; on Windows, which opens no folders, that is left to its file system."""
    if sys.platform != "win32":
        handle = os.open(folder, os.O_RDONLY)
        try:
            sync(handle)
        finally:
            os.close(handle)


def mounts(path: str) -> list[tuple[str, str]]:
    """All mounts, oldest first: path, type of file system. On Windows the path's drive, if it is another machine's; on macOS none."""
    drive = os.path.splitdrive(path)[0]
    if sys.platform == "win32" and ctypes.windll.kernel32.GetDriveTypeW(drive + "\\") == 4:
        return [(drive, "remote")]
    return parsed(MOUNTINFO.read_bytes()) if sys.platform == "linux" else []


def parsed(content: bytes) -> list[tuple[str, str]]:
    """The mounts of a mountinfo file, proc_pid_mountinfo(5): the fifth field, and the first after the "-" behind the optional ones."""
    text: Callable[[bytes], str] = lambda field: os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field))
    return [(text(point), text(kind)) for point, kind in _MOUNT.findall(content)]


def holding(path: str, seen: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """The mount that an absolute path without links lies in: the deepest, and of several at one point the last."""
    inside = [mount for mount in seen if (path + os.sep).startswith(mount[0].rstrip(os.sep) + os.sep)]
    return max(reversed(inside), key=lambda mount: len(mount[0]), default=None)


def print_utf8() -> None:
    """Let standard output take every text: UTF-8, and on a terminal of another encoding \\u2603 for what does not fit into that."""
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(**({"errors": "backslashreplace"} if sys.stdout.isatty() else {"encoding": "utf-8"}))


def allow_open_files(wanted: int) -> None:
    """Let this process have so many files and connections open, or as many as the system allows. Windows has no such limit."""
    if sys.platform != "win32":
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            if soft != resource.RLIM_INFINITY and soft < wanted:
                resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))


def lock_limit() -> int | None:
    """How many bytes a process may lock, RLIMIT_MEMLOCK; None without such a limit. Windows has another one: the working set."""
    soft, infinity = (-1, -1) if sys.platform == "win32" else (resource.getrlimit(resource.RLIMIT_MEMLOCK)[0], resource.RLIM_INFINITY)
    return None if soft == infinity else soft


def ignores_lock_limit() -> bool:
    """Whether this process has the capability CAP_IPC_LOCK, as root usually does on Linux."""
    with suppress(OSError):
        status = Path("/proc/self/status" if sys.platform == "linux" else "").read_text("ascii", "replace")
        effective = re.search(r"^CapEff:\s*(\w+)", status, re.MULTILINE)
        return effective is not None and bool(int(effective[1], 16) >> 14 & 1)
    return False
