"""Sketches as bytes: a header, whole numbers, a checksum. docs/format.md section 12."""

from __future__ import annotations

import hashlib
import struct
import threading
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.errors import HushvecError

if TYPE_CHECKING:
    from typing_extensions import Self

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
    digest: bytes
    reports: int
    numbers: NDArray[np.int64]


class ReportSketch(ABC):
    """Shared by sketches of vocabularies and of Bloom filters: how they add up, and their bytes."""

    _kind: ClassVar[int]
    _of_what: ClassVar[str]

    reports: Any
    _collection: Any
    _lock: threading.Lock

    @abstractmethod
    def _contents(self) -> Contents:
        """A copy of everything, as of one moment."""

    @abstractmethod
    def _fault(self, contents: Contents) -> str | None:
        """Why counts >= 0 cannot be those of the reports, or None."""

    @abstractmethod
    def _add(self, contents: Contents) -> None:
        """Add counts that are sound."""

    @abstractmethod
    def _difference(self, other: Any) -> str:
        """Why a sketch of another collection is refused."""

    def merge(self, other: Self) -> None:
        """Add the reports of another sketch of this collection, 2^62 together at most; else SketchError, and nothing is added."""
        validate.instance("other", other, type(self), f"a {type(self).__name__}")
        if other._collection.digest != self._collection.digest:
            raise SketchError(self._difference(other._collection))
        contents = other._contents()
        self._require_sound("other", contents)
        with self._lock:
            reports = self.reports
            if reports + contents.reports > MOST_REPORTS:  # no count is above the reports, so none can wrap around
                got = f"got {reports} here and {contents.reports} in the other"
                raise SketchError(f"both sketches must hold at most 2^62 reports together, {got}")
            self._add(contents)

    def to_bytes(self) -> bytes:
        """The sketch as bytes, with a version and a checksum. The checksum detects accidents; it does not authenticate."""
        digest, reports, numbers = self._contents()
        body = _HEADER.pack(_MAGIC, _VERSION, self._kind, digest, reports, len(numbers)) + numbers.astype(_NUMBER).tobytes()
        return body + hashlib.sha256(body).digest()

    @classmethod
    def _read(cls, data: bytes, sketch: Self) -> Self:
        validate.instance("data", data, bytes | bytearray | memoryview, "bytes")
        data = bytes(data)
        if not data.startswith(_MAGIC[: len(data)]) or not data:
            raise SketchError("data must be a sketch of hushvec, got other bytes")
        if len(data) < _HEADER.size + _CHECKSUM_BYTES:
            raise SketchError(f"data must be a whole sketch, got {len(data)} bytes, less than its header")
        _, version, found_kind, digest, reports, count = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise SketchError(f"data must be a sketch of version {_VERSION}, got version {version}")
        expected = _HEADER.size + count * _NUMBER.itemsize + _CHECKSUM_BYTES
        if len(data) != expected:
            raise SketchError(f"data must be a whole sketch of {expected} bytes, got {len(data)}")
        if hashlib.sha256(data[:-_CHECKSUM_BYTES]).digest() != data[-_CHECKSUM_BYTES:]:
            raise SketchError("data must be a sound sketch: its checksum does not fit its contents")
        empty = sketch._contents()
        if (found_kind, digest, count) != (cls._kind, empty.digest, len(empty.numbers)):
            raise SketchError(f"data must be a sketch of this {cls._of_what}, got one of another")
        contents = Contents(digest, reports, np.frombuffer(data, _NUMBER, count, _HEADER.size).astype(np.int64))
        sketch._require_sound("data", contents)
        sketch._add(contents)
        return sketch

    def _require_sound(self, name: str, contents: Contents) -> None:
        if contents.reports > MOST_REPORTS:
            raise SketchError(f"{name} must hold at most 2^62 reports, got {contents.reports}")
        if (least := int(contents.numbers.min(initial=0))) < 0:
            raise SketchError(f"{name} must hold counts >= 0, got {least}")
        if fault := self._fault(contents):
            raise SketchError(f"{name} must be a sound sketch: {fault}")


def exact_sum(counts: NDArray[np.int64]) -> int:
    """The sum of counts >= 0, without wrapping around: forged ones may add up to any number modulo 2^64."""
    high, low = counts >> 32, counts & 0xFFFFFFFF
    return (int(high.sum()) << 32) + int(low.sum())
