"""A file that counts the steps a run has drawn, so that the count survives a killed process."""

from __future__ import annotations

import os
import re
from enum import IntFlag
from pathlib import Path

from hushvec._util import os_files
from hushvec._util.publish import private_opener, sync_folder

# The run, the file's inode number (a copy beside it has another one, and lacks later steps), and the settings of every step.
_HEADER = re.compile(rb"hushvec-steps/2 ([0-9a-f]{32}) ([0-9a-f]{16}) ([0-9a-f]{64})\n")
_HEADER_LENGTH = len("hushvec-steps/2 ") + 32 + 1 + 16 + 1 + 64 + 1
_STEPS = b".ABCDEFGHIJKLMNOPQRSTUVWXYZabcde"  # by the sum of its flags
_UNKNOWN_SETTINGS = "0" * 64


class StepFlags(IntFlag):
    """Conditions that the guarantee must mention, of one step or of any step of a run."""

    FLOAT_SUMS = 1  # the sum was made in floating point
    SEEDED = 2  # the noise or the sample came from a seeded key
    UNWATCHED = 4  # the gradients came from a model that was not watched
    DISTRIBUTED = 8  # the examples were those of several processes
    UNNAMED = 16  # they were not one whole Poisson sample that is known to be new to the run


class StepJournal:
    """Steps of one run: a line that names the run, then one byte per step, appended and synced before the step's noise is drawn.

    Args:
        path: the file; made by the first step. Its folder must exist.
        settings: SHA-256, in hexadecimal, of what every step is made with; None: not compared.

    Raises:
        ValueError: the file is something else, damaged, or of a run with other settings.

    Guarantees:
        When `append` returns, the byte is on stable storage. The file's length is the count, so it is never inconsistent.
        One process writes: `append` refuses a file that another one has written to since.

    Edge cases:
        A copy is refused by its file number (inode), and so is a journal that was moved to another file system: steps counted in
        the original are not in it. Renaming keeps the number. Never restore a journal from a copy: docs/training_runs.md,
        "Checkpoints", says where that is not noticed.

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

    def __init__(self, path: str | os.PathLike[str], *, settings: str | None = None) -> None:
        self.path = Path(path)
        self.run_id: str | None = None
        self.steps, self.flags = 0, StepFlags(0)
        self._settings = settings or _UNKNOWN_SETTINGS
        self._file_number = self._made_as = 0
        if self.path.exists():
            self._read()

    def append(self, run_id: str, flags: int = 0) -> None:
        """Record one more step of this run, with the sum of its `StepFlags`.

        Refuses the file of another run, a copy, and one that another process has written to.
        """
        if self.run_id is not None and run_id != self.run_id:
            raise ValueError(f"{self.path}: must be the journal of run {run_id}, got that of run {self.run_id}")
        self.require_original()
        new = self.run_id is None
        handle = private_opener(os.fspath(self.path), os.O_WRONLY | os.O_APPEND | (os.O_EXCL if new else 0))
        try:
            os_files.lock(handle)
            length, number = os.fstat(handle).st_size, os.fstat(handle).st_ino % 2**64
            if not new and (length, number) != (_HEADER_LENGTH + self.steps, self._file_number):
                raise ValueError(f"{self.path}: must have {self.steps} steps, got another number: two processes write to it")
            header = b"hushvec-steps/2 %s %016x %s\n" % (run_id.encode(), number, self._settings.encode()) if new else b""
            if os.write(handle, header + _STEPS[flags : flags + 1]) != len(header) + 1:
                raise OSError(f"{self.path}: a step could not be written whole")
            os_files.sync(handle)
        finally:
            os.close(handle)
        if new:
            sync_folder(self.path.parent)
            self._file_number = self._made_as = number
        self.run_id, self.steps, self.flags = run_id, self.steps + 1, self.flags | StepFlags(flags)

    def require_original(self) -> None:
        """Refuse a copy of the journal, whose inode differs from the recorded one."""
        if self._made_as != self._file_number:
            raise ValueError(
                f"{self.path}: must be the file that the run began, got a copy of it: steps counted in the original are not in the "
                "copy (resume without a journal, as a run of its own)"
            )

    def _read(self) -> None:
        with self.path.open("rb") as file:
            content, self._file_number = file.read(), os.fstat(file.fileno()).st_ino % 2**64  # of 128 bits on ReFS
        header = _HEADER.match(content)
        steps = content[_HEADER_LENGTH:]
        if header is None or steps.strip(_STEPS):
            raise ValueError(f"{self.path}: must be a journal of steps, got something else")
        if self._settings not in (_UNKNOWN_SETTINGS, header[3].decode()):
            raise ValueError(
                f"{self.path}: must be the journal of a run with the settings of this one, got one whose steps had others: they "
                "would be counted at the wrong price"
            )
        self.run_id, self.steps = header[1].decode(), len(steps)
        self._made_as, self._settings = int(header[2], 16), header[3].decode()
        for step in set(steps):
            self.flags |= StepFlags(_STEPS.index(step))
