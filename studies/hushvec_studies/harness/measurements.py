"""From a plan to what was measured: one file for each measurement, so that a study that was stopped goes on where it was.

    FOLDER/measured/DIGEST.json    {"key": everything that decides the figures, "row": what was measured}

The digest is the key's SHA-256. A file appears whole or not at all, and one that is damaged or has another key does not count: however
a study ends, a measurement is there once or not at all, and the same call makes the missing ones.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from hushvec.extend.helpers import Progress, published_text
from hushvec_studies.harness.workers import results_of

FOLDER = "measured"
_SEED_DIGITS = 15  # hexadecimal

Row = Mapping[str, Any]
_Found = TypeVar("_Found")
_Cell = TypeVar("_Cell")


class Measurement:
    """What one file is of: a run, a cell of a study, or a comparison."""

    @property
    def key(self) -> Mapping[str, Any]:
        """Everything that the result depends on, ready for JSON."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        """What is being measured, for a progress bar."""
        raise NotImplementedError

    @property
    def digest(self) -> str:
        """Of the key: names the file."""
        return digest_of(self.key)

    def fields(self, *names: str) -> dict[str, Any]:
        """Some of its fields, as its row says them."""
        return {name: getattr(self, name) for name in names}


Measure = Callable[[Any], dict[str, Any]]


class Made(NamedTuple):
    """What `measured` gives back: rows by the digests of the measurements, and how many were there already."""

    rows: dict[str, dict[str, Any]]
    before: int


def digest_of(key: Mapping[str, Any]) -> str:
    """SHA-256 of a key that is ready for JSON, 64 hexadecimal digits."""
    return hashlib.sha256(json.dumps(key, sort_keys=True, allow_nan=False).encode()).hexdigest()


def noise_seed(digest: str) -> int:
    """A stream for each measurement, so that it gives the same result whichever others were made before."""
    return int(digest[:_SEED_DIGITS], 16)


def dotted(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested mappings under dotted names."""
    for key, value in values.items():
        if isinstance(value, Mapping):
            yield from dotted(value, f"{before}{key}.")
        else:
            yield f"{before}{key}", value


def grid(cell: Callable[..., _Cell], **axes: Iterable[Any]) -> list[_Cell]:
    """A measurement for every choice of a value on each axis, by name; those of the last axis beside each other."""
    return [cell(**dict(zip(axes, values))) for values in product(*axes.values())]


def measured(
    wanted: Sequence[tuple[Measurement, Measure]], folder: Path, what: str, *, workers: int = 0, progress: bool = True
) -> Made:
    """Every measurement: read from the folder where it is there, else made and written there.

    Args:
        wanted: measurements and the functions that make their rows; one that is named twice is made once.
        what: is being done, for the progress bar.
        workers: processes, one thread each; a measurement and its function are sent to them. 0: this process.

    Raises:
        ChildProcessError: a worker died.
        Exception: what a function raised. What was made before is kept.
    """
    kept = Measurements(folder)
    jobs = {one.digest: _Job(one, measure, kept) for one, measure in wanted}
    rows = {digest: row for digest, job in jobs.items() if (row := kept.row_of(job.one)) is not None}
    missing = [job for digest, job in jobs.items() if digest not in rows]
    before = len(rows)
    with Progress(what, len(jobs) if progress else 0) as bar:
        bar.advance(before)
        for digest, label, row in results_of(_make, missing, workers):
            rows[digest] = row
            bar.advance(1, label)
    kept.tidy()
    return Made({digest: rows[digest] for digest in jobs}, before)


class Measurements:
    """The measurements in a study's folder, whose folder "measured" is made by the first of them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = folder / FOLDER

    def __len__(self) -> int:
        return sum(1 for _ in self._paths())

    def row_of(self, one: Measurement) -> dict[str, Any] | None:
        """What was measured; None if there is no whole file for this key."""
        try:
            key, row = _read(self._path(one.digest))
        except (FileNotFoundError, ValueError):
            return None
        return row if key == one.key else None

    def save(self, one: Measurement, row: Row) -> None:
        """Put a measurement's file in place."""
        path = self._path(one.digest)
        self._files.mkdir(parents=True, exist_ok=True)
        try:
            with published_text(path) as file:
                json.dump({"key": one.key, "row": row}, file, indent=1, allow_nan=False)
                file.write("\n")
        except FileNotFoundError:
            # Another process has made the same measurement and cleared up behind it.
            if not path.is_file():
                raise

    def all(self, read: Callable[[dict[str, Any]], _Found]) -> list[_Found]:
        """Every row as `read` makes it, whatever its key.

        Raises:
            ValueError: a file that is no measurement, that `read` refuses, or whose name is not its key's; it is named.
        """
        found = []
        for path in self._paths():
            try:
                key, row = _read(path)
                found.append(read(row))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise ValueError(f"{path}: must be a run of this study; remove it to do the run again ({error})") from None
            if not digest_of(key).startswith(path.stem):
                raise ValueError(f"{path}: must have the name that its key asks for, {digest_of(key)[: len(path.stem)]}")
        return found

    def tidy(self) -> None:
        """Remove what killed processes have left half-written."""
        for leftover in self._files.glob(".*"):
            if self._path(leftover.name.split(".")[1]).is_file():
                leftover.unlink(missing_ok=True)
        for leftover in self._folder.glob(".*.partial"):
            if not _is_another(leftover):
                leftover.unlink(missing_ok=True)

    def _path(self, digest: str) -> Path:
        return self._files / f"{digest}.json"

    def _paths(self) -> Iterator[Path]:
        return self._files.glob("[!.]*.json")


class _Job(NamedTuple):
    """A measurement with everything that a worker needs to make it."""

    one: Measurement
    measure: Measure
    kept: Measurements


def _make(job: _Job) -> tuple[str, str, dict[str, Any]]:
    row = job.measure(job.one)
    job.kept.save(job.one, row)
    return job.one.digest, job.one.label, row


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    stored = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(stored, dict) or not all(isinstance(stored.get(name), dict) for name in ("key", "row")):
        raise ValueError("no key with a row")
    return stored["key"], stored["row"]


def _is_another(leftover: Path) -> bool:
    """Whether a half-written file belongs to another process that is still there."""
    number = leftover.name.split(".")[-2]
    if not number.isdecimal() or int(number) == os.getpid():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
