"""The folder of a run: its files, the run it belongs to, and atomic writes.

    run.json                what the run is: every setting, and digests of the corpus and of the projection
    embeddings.npy          of the corpus, held-out texts first
    projection.npz          the public map, if the mechanism has one before it
    tokenizer.json          the vocabulary, with tokenizer_config.json
    checkpoint.pt           the state of the last checkpoint: weights, optimizer, random numbers, step, curve
    curve.csv, curve.png    the losses
    config.json, model.safetensors     with tokenizer.json: the best decoder so far
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushvec._util.publish import SHARED, published_bytes

RUN_FILE = "run.json"
PROJECTION_FILE = "projection.npz"
CHECKPOINT_FILE = "checkpoint.pt"
RUN_FORMAT = 1


def require_new(folder: Path) -> None:
    """Refuse a folder that is not empty."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder}: must be a folder or not exist")
    if (folder / RUN_FILE).exists():
        raise ValueError(f"{folder} holds a training run already: resume it, or choose another folder")
    if folder.is_dir() and any(folder.iterdir()):
        raise ValueError(f"{folder}: must be empty or not exist, so that nothing in it is overwritten")


def read_run(folder: Path) -> dict[str, Any]:
    """The content of run.json."""
    path = folder / RUN_FILE
    if not path.is_file():
        raise ValueError(f"{folder} holds no training run: {RUN_FILE} is missing")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(said, dict) or said.get("run_format") != RUN_FORMAT:
        raise ValueError(f"{path} must be a run of format {RUN_FORMAT}")
    return said


def require_same_run(folder: Path, asked: Mapping[str, Any]) -> None:
    """Refuse to resume a run with other settings."""
    there, wanted = _flat(read_run(folder)), _flat(asked)
    different = sorted(name for name in {*there, *wanted} if there.get(name) != wanted.get(name))
    if different:
        shown = "; ".join(f"{name} is {there.get(name)!r}, asked for {wanted.get(name)!r}" for name in different)
        raise ValueError(f"{folder} holds a run of other settings: {shown}")


def write_run(folder: Path, run: Mapping[str, Any]) -> None:
    write_file(folder / RUN_FILE, (json.dumps(run, indent=2, ensure_ascii=False, allow_nan=False) + "\n").encode())


def write_file(path: Path, content: bytes, *, mode: int = SHARED) -> None:
    """Write beside, then rename: a reader sees the old file or the new one."""
    with published_bytes(path, mode=mode) as file:
        file.write(content)


def _flat(said: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """{"size": {"width": 64}} as {"size.width": 64}."""
    flat: dict[str, Any] = {}
    for name, value in said.items():
        if isinstance(value, Mapping):
            flat.update(_flat(value, f"{before}{name}."))
        else:
            flat[before + name] = value
    return flat
