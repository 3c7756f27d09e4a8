"""The files that a study leaves for people: JSON, CSV, and what figures depend on besides the settings."""

from __future__ import annotations

import argparse
import json
import math
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

import pandas

import hushvec
from hushvec.extend.helpers import SHARED, published_bytes, published_text


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


def versions(*packages: str) -> dict[str, str | None]:
    """Of packages that figures depend on; None for one that is not installed."""
    found: dict[str, str | None] = dict.fromkeys(packages)
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def readable(value: Any, digits: int) -> Any:
    """Ready for strict JSON: infinity is "inf", what is not a number is null, figures have so many digits."""
    if isinstance(value, dict):
        return {str(key): readable(one, digits) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [readable(one, digits) for one in value]
    if not isinstance(value, float) or math.isnan(value):
        return None if isinstance(value, float) else value
    return "inf" if math.isinf(value) else float(f"{value:.{digits}g}")


def write_bytes(path: Path, content: bytes, *, mode: int = SHARED) -> None:
    """A file that appears whole or not at all."""
    with published_bytes(path, mode=mode) as file:
        file.write(content)


def write_text(path: Path, text: str) -> None:
    write_bytes(path, text.encode())


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
    """The commit that HEAD names, or None without git, outside a repository or before its first commit.

    Changes that are not committed do not show.
    """
    try:
        asked = subprocess.run(["git", "rev-parse", "--verify", "HEAD"], cwd=folder, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return asked.stdout.strip() if asked.returncode == 0 else None
