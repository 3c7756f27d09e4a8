"""Objects of public arrays in .npz files: exactly the saved fields, and the digest of the object."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from hushvec._util.publish import SHARED, published_bytes


class Digested(Protocol):
    """An object with a digest of its contents."""

    @property
    def digest(self) -> str: ...


Made = TypeVar("Made", bound=Digested)


def save_npz(path: str | os.PathLike[str], version: int, digest: str, fields: Mapping[str, Any]) -> None:
    """Write fields with their format's version and the digest: beside `path` first, then in one step onto it."""
    with published_bytes(Path(path), mode=SHARED) as file:
        np.savez(file, format=version, digest=digest, **fields)


def load_npz(
    path: str | os.PathLike[str], what: str, version: int, fields: Collection[str], make: Callable[[dict[str, Any]], Made]
) -> Made:
    """What `make` makes of a saved file's fields. Nothing is unpickled.

    Args:
        path: of the file.
        what: it is, for errors.
        version: of the format.
        fields: their names, which the file must have and no others, beside "format" and "digest".
        make: the object, from the fields by name.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is not such a file, or its digest differs from the saved one.
    """
    with open(path, "rb") as file:
        try:
            stored = _fields_of(file, ("format", "digest", *fields), version)
            made = make(stored)
        # whatever the reader raises for a damaged archive: zip, zlib and numpy each have their own errors
        except Exception as mistake:
            raise ValueError(f"{os.fspath(path)} is not a saved {what}: {mistake}") from None
    if made.digest != str(stored["digest"]):
        raise ValueError(f"{os.fspath(path)} has digest {made.digest}, but says {stored['digest']}")
    return made


def _fields_of(file: Any, fields: Collection[str], version: int) -> dict[str, Any]:
    with np.load(file, allow_pickle=False) as archive:
        if sorted(archive.files) != sorted(fields):
            raise ValueError(f"fields must be {', '.join(fields)}, got {', '.join(archive.files)}")
        stored = {name: archive[name] for name in archive.files}
    if stored["format"].shape != () or int(stored["format"]) != version:
        raise ValueError(f"format must be {version}, got {stored['format']}")
    return stored
