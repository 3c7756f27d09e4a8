"""The files that a study leaves for people: JSON, CSV, and what figures depend on besides the settings."""

from __future__ import annotations

import argparse
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas

import hushvec
from hushvec._util.publish import SHARED, published_text


def surroundings() -> dict[str, str]:
    """What figures depend on besides the settings."""
    return {"hushvec": hushvec.__version__, "python": platform.python_version(), "machine": platform.machine()}


def write_text(path: Path, text: str) -> None:
    """A text; the file appears whole or not at all."""
    with published_text(path, mode=SHARED) as file:
        file.write(text)


def write_json(path: Path, value: Any) -> None:
    """A value as strict JSON."""
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
