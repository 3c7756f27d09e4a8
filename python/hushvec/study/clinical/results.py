"""Measurements on disk: one file each, written whole, so that a study that was stopped goes on where it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from hushvec._util.progress import Progress
from hushvec._util.publish import published_text

FOLDER = "measured"


class Measurement(Protocol):
    """A cell, or a comparison of cosines."""

    @property
    def key(self) -> Mapping[str, Any]: ...
    @property
    def digest(self) -> str: ...
    @property
    def label(self) -> str: ...


def measured(
    wanted: Sequence[tuple[Measurement, Callable[[Any], dict[str, Any]]]], folder: Path, progress: Progress
) -> dict[str, dict[str, Any]]:
    """The result of every measurement, by its digest: read from `folder` where it is there, else made and written there.

    Args:
        wanted: measurements and the functions that make them; one that is named twice is made once.
        folder: of the study; its folder "measured" is made if need be.
        progress: is told of every one.
    """
    (folder / FOLDER).mkdir(parents=True, exist_ok=True)
    rows: dict[str, dict[str, Any]] = {}
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


def _stored(path: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """The row of a file that was written for this key; None if there is none that can be read."""
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return None
    if not isinstance(stored, dict) or stored.get("key") != key or not isinstance(stored.get("row"), dict):
        return None
    return dict(stored["row"])
