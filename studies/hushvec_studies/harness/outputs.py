"""The files that a study leaves for people: JSON, CSV, and what figures depend on besides the settings."""

from __future__ import annotations

import argparse
import json
import platform
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas

import hushvec
from hushvec.extend import SHARED, published_text


def surroundings() -> dict[str, str]:
    """What figures depend on besides the settings."""
    return {"hushvec": hushvec.__version__, "python": platform.python_version(), "machine": platform.machine()}


def processor() -> str:
    """Name of the processor, without that of the machine."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def write_text(path: Path, text: str) -> None:
    """A text; the file appears whole or not at all."""
    with published_text(path, mode=SHARED) as file:
        file.write(text)


def write_json(path: Path, value: Any) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def write_study(path: Path, study: Mapping[str, Any]) -> None:
    """The study as JSON, one line for each row of a list."""
    parts = []
    for name, value in study.items():
        lines = [json.dumps(row, ensure_ascii=False, allow_nan=False) for row in (value if isinstance(value, list) else [value])]
        said = "[\n  " + ",\n  ".join(lines) + "\n ]" if isinstance(value, list) else lines[0]
        parts.append(f"{json.dumps(name)}: {said}")
    write_text(path, "{\n " + ",\n ".join(parts) + "\n}\n")


def write_csv(path: Path, rows: pandas.DataFrame | Sequence[Mapping[str, Any]], names: Sequence[str] | None = None) -> None:
    """The named fields of all rows, None: all that there are; an empty cell where a row has none."""
    with published_text(path, mode=SHARED) as file:
        pandas.DataFrame(rows, columns=names, dtype=object).to_csv(file, index=False, lineterminator="\n")


def show(options: argparse.Namespace, study: Mapping[str, Any], sentences: Sequence[str]) -> int:
    """Print the findings or, with --json, all of the study. Returns the exit code."""
    said = json.dumps(study, indent=2, ensure_ascii=False, allow_nan=False) if options.json else "\n".join(sentences)
    print(said)
    return 0


def commit_of(folder: Path) -> str | None:
    """The commit that HEAD names, or None outside a repository or before its first commit.

    Changes that are not committed do not show.
    """
    for place in (folder, *folder.parents):
        if (place / ".git").exists():
            return _head(place / ".git")
    return None


def _head(marker: Path) -> str | None:
    """HEAD of a repository, whose folder the marker is or, in a linked work tree, names."""
    try:
        own = marker if marker.is_dir() else (marker.parent / marker.read_text().removeprefix("gitdir:").strip())
        head = (own / "HEAD").read_text().strip()
        if not head.startswith("ref:"):
            return head or None
        name = head.removeprefix("ref:").strip()
        common = own / (own / "commondir").read_text().strip() if (own / "commondir").is_file() else own
        for folder in (own, common):
            if (folder / name).is_file():
                return (folder / name).read_text().strip() or None
        packed = (common / "packed-refs").read_text().splitlines() if (common / "packed-refs").is_file() else []
        return next((line.split()[0] for line in packed if line.endswith(f" {name}")), None)
    except (OSError, UnicodeDecodeError):
        return None
