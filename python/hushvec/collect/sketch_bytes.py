"""Sketches as bytes: a header, whole numbers, a checksum. docs/format.md section 12."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec.errors import HushvecError

VOCABULARY, BLOOM = 1, 2

_MAGIC = b"hushvec sketch\x00\x00"
_VERSION = 1
_HEADER = struct.Struct("<16sII32sQQ")
_CHECKSUM_BYTES = 32
MOST_REPORTS = 2**62
_NUMBER = np.dtype("<i8")


class SketchError(HushvecError, ValueError):
    """A sketch that cannot be read, or that does not go together with another: nothing was changed."""


class Contents(NamedTuple):
    """Contents of the bytes of a sketch."""

    digest: bytes
    reports: int
    numbers: NDArray[np.int64]


def packed(kind: int, contents: Contents) -> bytes:
    """The bytes of a sketch."""
    header = _HEADER.pack(_MAGIC, _VERSION, kind, contents.digest, contents.reports, len(contents.numbers))
    body = header + contents.numbers.astype(_NUMBER).tobytes()
    return body + hashlib.sha256(body).digest()


def unpacked(kind: int, data: bytes, *, digest: bytes, numbers: int, of_what: str) -> Contents:
    """The contents of bytes that must be a whole sketch of this kind, digest and size; `of_what` is for the messages."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise TypeError(f"data must be bytes, got {type(data).__name__}")
    data = bytes(data)
    if not data.startswith(_MAGIC[: len(data)]) or not data:
        raise SketchError("data must be a sketch of hushvec, got other bytes")
    if len(data) < _HEADER.size + _CHECKSUM_BYTES:
        raise SketchError(f"data must be a whole sketch, got {len(data)} bytes, less than its header")
    _, version, found_kind, found_digest, reports, count = _HEADER.unpack_from(data)
    if version != _VERSION:
        raise SketchError(f"data must be a sketch of version {_VERSION}, got version {version}")
    expected = _HEADER.size + count * _NUMBER.itemsize + _CHECKSUM_BYTES
    if len(data) != expected:
        raise SketchError(f"data must be a whole sketch of {expected} bytes, got {len(data)}")
    if hashlib.sha256(data[:-_CHECKSUM_BYTES]).digest() != data[-_CHECKSUM_BYTES:]:
        raise SketchError("data must be a sound sketch: its checksum does not fit its contents")
    if found_kind != kind or found_digest != digest or count != numbers:
        raise SketchError(f"data must be a sketch of this {of_what}, got one of another")
    return Contents(found_digest, reports, np.frombuffer(data, _NUMBER, count, _HEADER.size).astype(np.int64))


def require_sound(name: str, contents: Contents, fault_of: Callable[[], str | None]) -> None:
    """Refuse counts that no reports can have; `fault_of` is asked once all are >= 0: why they cannot be those of the reports, or
    None.
    """
    if contents.reports > MOST_REPORTS:
        raise SketchError(f"{name} must hold at most 2^62 reports, got {contents.reports}")
    least = int(contents.numbers.min(initial=0))
    if least < 0:
        raise SketchError(f"{name} must hold counts >= 0, got {least}")
    fault = fault_of()
    if fault is not None:
        raise SketchError(f"{name} must be a sound sketch: {fault}")


def require_room(reports: int, others: int) -> None:
    """Refuse sums that are more than a sketch may hold: no count is above the reports, so none can wrap around."""
    if reports + others > MOST_REPORTS:
        raise SketchError(f"both sketches must hold at most 2^62 reports together, got {reports} here and {others} in the other")


def exact_sum(counts: NDArray[np.int64]) -> int:
    """The sum of counts >= 0, without wrapping around: forged ones may add up to any number modulo 2^64."""
    high, low = counts >> 32, counts & 0xFFFFFFFF
    return (int(high.sum()) << 32) + int(low.sum())
