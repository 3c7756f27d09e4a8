"""Looks for a secret in the memory of a process, its own included, or in a file, and leaves no copy of it anywhere.

The secret and the window that memory is read through lie in mappings of their own, which a scan of this process steps over.
Needs the standard library alone, so that a child that uses it stays small.
"""

import ctypes
import mmap
import os
from pathlib import Path

SECRET_BYTES = 48
_WINDOW = 1 << 20


def write_secret(name: int, target: memoryview) -> None:
    """Bytes that nothing else has, one at a time, so that no temporary holds a run of them."""
    state = name * 0x9E3779B97F4A7C15 + 1
    for place in range(len(target)):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        target[place] = state >> 56


class Scanner:
    """Finds the bytes that `write_secret(name, ...)` put down, or those of `turned` with all bits turned, wherever they are."""

    def __init__(self, name: int = 0, *, turned: bytes = b"") -> None:
        self._secret = mmap.mmap(-1, mmap.PAGESIZE)
        self._window = mmap.mmap(-1, _WINDOW)
        self._needle = memoryview(self._secret)[: len(turned) or SECRET_BYTES]
        write_secret(name, self._needle)
        for place, byte in enumerate(turned):
            self._needle[place] = byte ^ 255
        self._own = [_extent(self._secret), _extent(self._window)]

    def in_process(self, pid: int) -> int:
        """How often the secret lies in the memory of a process, the scanner's own mappings not counted."""
        own = self._own if pid == os.getpid() else []
        found = 0
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for begin, end in _readable(pid):
                for low, high in _without(begin, end, own):
                    found += self._count(memory.fileno(), low, high)
        return found

    def in_file(self, path: Path) -> int:
        with path.open("rb", buffering=0) as file:
            return self._count(file.fileno(), 0, path.stat().st_size)

    # Windows overlap by a secret less one byte: none is missed, none is counted twice.
    def _count(self, file: int, begin: int, end: int) -> int:
        found = 0
        at = begin
        while end - at >= len(self._needle):
            try:
                got = os.preadv(file, [memoryview(self._window)[: min(_WINDOW, end - at)]], at)
            except OSError:
                break
            if got < len(self._needle):
                break
            place = self._window.find(self._needle, 0, got)
            while place >= 0:
                found += 1
                place = self._window.find(self._needle, place + 1, got)
            at += got - len(self._needle) + 1
        return found


def _extent(mapping: mmap.mmap) -> tuple[int, int]:
    begin = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
    return begin, begin + len(mapping)


def _readable(pid: int) -> list[tuple[int, int]]:
    """Mappings that data can lie in: readable, and not a file's unchanged pages."""
    found = []
    with open(f"/proc/{pid}/maps") as lines:
        for line in lines:
            extent, access, _, _, inode, *name = line.split()
            if access[0] != "r" or (access[1] != "w" and inode != "0") or name[:1] in (["[vvar]"], ["[vsyscall]"]):
                continue
            begin, end = extent.split("-")
            found.append((int(begin, 16), int(end, 16)))
    return found


def _without(begin: int, end: int, holes: list[tuple[int, int]]) -> list[tuple[int, int]]:
    parts = [(begin, end)]
    for low, high in holes:
        parts = [
            part
            for first, last in parts
            for part in ((first, min(last, low)), (max(first, high), last))
            if part[0] < part[1]
        ]
    return parts
