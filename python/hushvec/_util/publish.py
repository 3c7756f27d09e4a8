"""Files and folders written atomically, with their permissions: the one place where hushvec writes files.

    PRIVATE     its owner alone (0600, folders 0700): unprotected vectors and texts, keys, secrets, states that can be resumed
    mode_of(x)  who may read the file x, from which the output is made, less the umask
    SHARED      what the umask leaves: reports, tables, figures, public maps, weights made of public texts

Rewriting a file never widens its permissions. Unfinished files are created beside the target under random names, never through
a link, readable only by their owner until they are complete.
"""

from __future__ import annotations

import io
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

from hushvec._util.os_files import open_unlinked, replace, restrict, sync, take_free_name
from hushvec._util.os_files import sync_folder as sync_folder

__all__ = [
    "PRIVATE", "SHARED", "Discarded", "is_first_to_write", "mode_of", "private_file", "private_folder", "private_opener",
    "published", "published_bytes", "published_folder", "published_text", "receipt_path", "sync_folder",
]

RECEIPT_SUFFIX = ".receipt.json"

PRIVATE = 0o600
SHARED = 0o666
PRIVATE_FOLDER = 0o700

_LONGEST_STEM = 70  # characters of the target's name in that of an unfinished file, which must not be too long either


def receipt_path(output: Path) -> Path:
    return output.with_name(output.name + RECEIPT_SUFFIX)


def mode_of(path: Path) -> int:
    """The mode of an output that is made from this file: the same readers and writers."""
    return stat.S_IMODE(path.stat().st_mode) & SHARED


class Unfinished:
    """A new file beside its target, of a mode less the umask, and less what an older file under that name does not grant."""

    def __init__(self, output: Path, mode: int) -> None:
        self.output, self.path = output, _beside(output)
        self._mode = mode

    def create(self) -> None:
        handle = open_unlinked(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, self._mode)
        self.file: BinaryIO = os.fdopen(handle, "wb")
        self._mode = stat.S_IMODE(os.fstat(handle).st_mode)  # what the umask has left of it
        with suppress(FileNotFoundError):
            self._mode &= stat.S_IMODE(os.lstat(self.output).st_mode)
        restrict(handle, PRIVATE)

    def complete(self) -> None:
        """Sync what was written, then give it its final mode."""
        self.file.flush()
        restrict(self.file.fileno(), self._mode)
        sync(self.file.fileno())
        self.file.close()

    def take_place(self) -> None:
        replace(self.path, self.output)

    def take_free_place(self) -> None:
        """Take the place unless another process has: FileExistsError tells so."""
        take_free_name(self.path, self.output)
        sync_folder(self.output.parent)

    def remove(self) -> None:
        """Remove the file if it has not been renamed."""
        try:
            if hasattr(self, "file"):
                self.file.close()
        finally:
            self.path.unlink(missing_ok=True)


def _beside(output: Path) -> Path:
    """An unguessable path beside the output. The process id comes second to last, so leftovers of dead processes are recognized."""
    return output.with_name(f".{output.name[:_LONGEST_STEM]}.{secrets.token_hex(8)}.{os.getpid()}.partial")


@contextmanager
def unfinished(output: Path, *, mode: int = PRIVATE) -> Iterator[Unfinished]:
    """A new file beside the output, gone when the block ends unless it has taken its place."""
    beside = Unfinished(output, mode)
    try:  # around the creation too: a signal may end the program right after it
        beside.create()
        yield beside
    finally:
        beside.remove()


def is_first_to_write(output: Path, content: bytes) -> bool:
    """Write a private file, which is whole for every reader; False if another process took the name first, whose file stays."""
    with unfinished(output) as beside:
        beside.file.write(content)
        beside.complete()
        try:
            beside.take_free_place()
        except FileExistsError:
            return False
    return True


@contextmanager
def published(output: Path, *, mode: int) -> Iterator[tuple[BinaryIO, BinaryIO]]:
    """Two unfinished files, for the output and its receipt; both take their places when the block ends well, neither if it does not.

    An old receipt is removed first: new values are never beside another release's receipt.
    """
    with unfinished(output, mode=mode) as values, unfinished(receipt_path(output), mode=mode) as receipt:
        yield values.file, receipt.file
        values.complete()
        receipt.complete()
        receipt.output.unlink(missing_ok=True)
        values.take_place()
        receipt.take_place()


@contextmanager
def published_bytes(output: Path, *, mode: int = PRIVATE) -> Iterator[BinaryIO]:
    """A binary file beside the output, which takes its place when the block ends well."""
    with unfinished(output, mode=mode) as beside:
        yield beside.file
        beside.complete()
        beside.take_place()


@contextmanager
def published_text(output: Path, *, mode: int = PRIVATE) -> Iterator[TextIO]:
    """`published_bytes` for text in UTF-8, line ends as they are written."""
    if output.exists() and not output.is_file():
        raise ValueError(f"{output}: must be a plain file")
    with published_bytes(output, mode=mode) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="")
        yield text
        text.detach()


@contextmanager
def published_folder(output: Path) -> Iterator[Path]:
    """A private folder beside the output, which takes its place when the block ends well, unless another process was faster: for
    what is the same for every writer."""
    output.parent.mkdir(parents=True, exist_ok=True)
    beside = _beside(output)
    try:
        beside.mkdir(mode=PRIVATE_FOLDER)
        yield beside
        for path in beside.rglob("*"):
            if not path.is_symlink():  # whose target is not ours to change
                path.chmod(PRIVATE_FOLDER if path.is_dir() else PRIVATE)
        try:
            os.rename(beside, output)
        except OSError:
            if not output.is_dir():
                raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


class Discarded(io.RawIOBase):
    """A file that keeps nothing: to find out whether a writer refuses something before anything is charged."""

    def __init__(self) -> None:
        super().__init__()
        self._length = 0

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        length = memoryview(content).nbytes
        self._length += length
        return length

    def tell(self) -> int:
        return self._length


def private_folder(path: Path) -> None:
    """Make a folder that only its owner may enter, and missing parents; an existing one is left alone."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)


def private_file(path: Path) -> None:
    """Make an empty file that only its owner may read, for libraries that write to a path."""
    os.close(open_unlinked(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, PRIVATE))


def fault_of_place(path: Path | str) -> str | None:
    """Why a path must not be written in place: it is no plain file, or has other names. None for a good one, or where nothing is."""
    with suppress(OSError):  # what has no status cannot be opened either
        status = os.lstat(path)
        if not stat.S_ISREG(status.st_mode):
            return "must be a plain file"
        if status.st_nlink > 1:
            return f"must have one name, has {status.st_nlink} (hard links)"
    return None


def plain_bytes(path: Path, most: int) -> bytes:
    """The content of a plain file; ValueError for a pipe, which would wait for a writer, and for more than `most` bytes."""
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | getattr(os, "O_NONBLOCK", 0))) as file:
        content = file.read(most + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    if content is None or len(content) > most:
        raise ValueError(f"{path}: must be a plain file of at most {most:,} bytes")
    return content


def append_bytes(path: Path, content: bytes) -> None:
    """Append to a file that only its owner may read: all of it, on stable storage, or nothing if writing fails.

    A crash may leave a part of it.
    """
    handle = open_unlinked(path, os.O_WRONLY | os.O_APPEND, PRIVATE)
    try:
        before = os.fstat(handle)
        restrict(handle, stat.S_IMODE(before.st_mode) & PRIVATE)
        try:
            left = memoryview(content)
            while left:
                left = left[os.write(handle, left) :]
            sync(handle)
        except BaseException:
            with suppress(OSError):
                os.ftruncate(handle, before.st_size)
            raise
    finally:
        os.close(handle)


def private_opener(path: str, flags: int) -> int:
    """`opener` of a file that is written in place: readable only by its owner if new, and never through a link."""
    return open_unlinked(path, flags | os.O_CREAT, PRIVATE)
