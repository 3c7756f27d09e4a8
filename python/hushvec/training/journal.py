"""A file that remembers how many steps a run has drawn, so that a killed process cannot make them forgotten."""

from __future__ import annotations

import os
from pathlib import Path

from hushvec._publish import private_opener

_MAGIC = b"hushvec-steps/1 "
_ID_DIGITS = 32
_HEADER = len(_MAGIC) + _ID_DIGITS + 1
_STEP = b"."


class StepJournal:
    """Steps of one run: a line that names the run, then one byte a step, appended and synced before the step's noise is drawn.

    Args:
        path: the file; made by the first step. Its folder must exist.

    Raises:
        ValueError: the file is something else, or damaged.
        OSError: it cannot be read or written.

    Guarantees:
        When `append` returns, the byte is on stable storage. A length is the count, so there is no moment at which it is wrong.

    Edge cases:
        One process writes at a time; a second one that resumes the same run while the first is alive is not noticed.

    Example:
        >>> import tempfile
        >>> from hushvec.training import StepJournal
        >>> folder = tempfile.TemporaryDirectory()
        >>> journal = StepJournal(f"{folder.name}/steps")
        >>> journal.append("0" * 32)
        >>> StepJournal(f"{folder.name}/steps").steps
        1
        >>> folder.cleanup()
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.run_id: str | None = None
        self.steps = 0
        if self.path.exists():
            self._read()

    def append(self, run_id: str) -> None:
        """One step more of this run.

        Raises:
            ValueError: the file is of another run, or another process has written to it.
            OSError: it cannot be written.
        """
        if self.run_id is not None and run_id != self.run_id:
            raise ValueError(f"{self.path}: must be the journal of run {run_id}, got that of run {self.run_id}")
        new = self.run_id is None
        content = (_MAGIC + run_id.encode() + b"\n" if new else b"") + _STEP
        handle = private_opener(os.fspath(self.path), os.O_WRONLY | os.O_APPEND | (os.O_EXCL if new else 0))
        try:
            if not new and os.fstat(handle).st_size != _HEADER + self.steps:
                raise ValueError(f"{self.path}: must have {self.steps} steps, got another number: two processes write to it")
            if os.write(handle, content) != len(content):
                raise OSError(f"{self.path}: a step could not be written whole")
            os.fsync(handle)
        finally:
            os.close(handle)
        if new:
            _sync_folder(self.path.parent)
        self.run_id, self.steps = run_id, self.steps + 1

    def _read(self) -> None:
        content = self.path.read_bytes()
        run_id = content[len(_MAGIC) : _HEADER - 1].decode("ascii", "replace")
        named = content.startswith(_MAGIC) and content[_HEADER - 1 : _HEADER] == b"\n"
        if not (named and set(run_id) <= set("0123456789abcdef") and set(content[_HEADER:]) <= set(_STEP)):
            raise ValueError(f"{self.path}: must be a journal of steps, got something else")
        self.run_id, self.steps = run_id, len(content) - _HEADER


def _sync_folder(folder: Path) -> None:
    """The file's name is on stable storage too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
