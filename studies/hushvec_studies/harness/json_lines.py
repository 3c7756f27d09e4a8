"""JSON lines in a file, packed or not: the one reader of the studies."""

from __future__ import annotations

import gzip
import json
import lzma
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hushvec._util.lines import decoded, numbered_lines

_UNPACKERS: dict[str, Callable[[bytes], bytes]] = {".jsonl": bytes, ".jsonl.xz": lzma.decompress, ".jsonl.gz": gzip.decompress}
SUFFIXES = tuple(_UNPACKERS)


def suffix_of(path: Path) -> str | None:
    """The ending that says how a file is packed; None if it is none of `SUFFIXES`."""
    return next((suffix for suffix in SUFFIXES if path.name.endswith(suffix)), None)


def lines_of(path: Path) -> Iterator[tuple[str, str]]:
    """(where, line) of every line that is not blank.

    Raises:
        ValueError: another kind of file, a damaged one, or one that is not UTF-8.
        OSError: it cannot be read.
    """
    suffix = suffix_of(path)
    if suffix is None:
        raise ValueError(f"{path}: must be a .jsonl, .jsonl.xz or .jsonl.gz file")
    packed = path.read_bytes()
    try:
        content = _UNPACKERS[suffix](packed)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise ValueError(f"{path}: must be a whole {suffix.rpartition('.')[2]} file, is damaged: {error}") from None
    yield from numbered_lines(decoded(str(path), content), str(path))


def objects_of(path: Path) -> list[Any]:
    """What the lines say."""
    return [json.loads(line) for _, line in lines_of(path)]


def records_of(path: Path, *fields: str) -> list[Any]:
    """The objects of a file of JSON lines, each with these fields.

    Raises:
        ValueError: a line without one of them; a file that is damaged.
    """
    records = objects_of(path)
    for number, record in enumerate(records, 1):
        missing = next((field for field in fields if not isinstance(record, dict) or field not in record), None)
        if missing is not None:
            raise ValueError(f"{path}: line {number} must have {missing!r}")
    return records
