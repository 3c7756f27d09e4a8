"""Measurements on disk: one file each, written whole, so that a study that was stopped goes on where it was; and a study's files."""

from __future__ import annotations

import argparse
import hashlib
import json
import platform
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import pandas

import hushvec
from hushvec._util.progress import Progress
from hushvec._util.publish import SHARED, published_text

FOLDER = "measured"
_SEED_DIGITS = 15  # hexadecimal

Row = Mapping[str, Any]


class Measurement(Protocol):
    """What one file is of: a cell of a study, or a comparison."""

    @property
    def key(self) -> Mapping[str, Any]: ...
    @property
    def digest(self) -> str: ...
    @property
    def label(self) -> str: ...


def digest_of(key: Mapping[str, Any]) -> str:
    """SHA-256 of a key that is ready for JSON, 64 hexadecimal digits: the name of a measurement on disk."""
    return hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()


def noise_seed(digest: str) -> int:
    """A stream for each measurement, so that it gives the same result whichever others were made before."""
    return int(digest[:_SEED_DIGITS], 16)


def measured(
    wanted: Sequence[tuple[Measurement, Callable[[Any], dict[str, Any]]]], folder: Path, what: str
) -> dict[str, dict[str, Any]]:
    """The result of every measurement, by its digest: read from `folder` where it is there, else made and written there.

    Args:
        wanted: measurements and the functions that make them; one that is named twice is made once.
        folder: of the study; its folder "measured" is made if need be.
        what: is being done, for the progress bar.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, Any]] = {}
    with Progress(what, len({one.digest for one, _ in wanted})) as progress:
        for one, measure in wanted:
            if one.digest in rows:
                continue
            path = folder / FOLDER / f"{one.digest}.json"
            row = _stored(path, one.key)
            if row is None:
                row = measure(one)
                with published_text(path) as file:
                    json.dump({"key": one.key, "row": row}, file, indent=1, allow_nan=False)
                    file.write("\n")
            rows[one.digest] = row
            progress.advance(1, one.label)
    return rows


def surroundings() -> dict[str, str]:
    """What figures depend on besides the settings."""
    return {"hushvec": hushvec.__version__, "python": platform.python_version(), "machine": platform.machine()}


def write_json(path: Path, value: Any) -> None:
    """A value as strict JSON; the file appears whole or not at all."""
    with published_text(path, mode=SHARED) as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_study(path: Path, study: Mapping[str, Any]) -> None:
    """The study as JSON, one line for each row of a list."""
    parts = []
    for name, value in study.items():
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in (value if isinstance(value, list) else [value])]
        said = "[\n  " + ",\n  ".join(lines) + "\n ]" if isinstance(value, list) else lines[0]
        parts.append(f"{json.dumps(name)}: {said}")
    with published_text(path, mode=SHARED) as file:
        file.write("{\n " + ",\n ".join(parts) + "\n}\n")


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """All fields of all rows; an empty cell where a row has none."""
    with published_text(path, mode=SHARED) as file:
        pandas.DataFrame(rows, dtype=object).to_csv(file, index=False, lineterminator="\n")


def show(options: argparse.Namespace, study: Mapping[str, Any], sentences: Sequence[str]) -> int:
    """Print the findings or, with --json, all of the study. Returns the exit code."""
    said = json.dumps(study, indent=2, ensure_ascii=False, allow_nan=False) if options.json else "\n".join(sentences)
    print(said)
    return 0


def _stored(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row of a file that was written for this key; None if there is none that can be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(stored, dict) or stored.get("key") != key or not isinstance(stored.get("row"), dict):
        return None
    return dict(stored["row"])
