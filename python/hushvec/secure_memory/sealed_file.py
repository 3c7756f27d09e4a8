"""The file of an encrypted cache: a header anyone can read, and keys and values under AES-256-GCM (docs/secure_memory.md).

    magic 8 | version 4 | header length 4 | header, JSON | nonce 12 | ciphertext | tag 16

Everything before the ciphertext is authenticated with it. Numbers are little-endian.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import published_bytes
from hushvec._util.validate import kind
from hushvec.errors import CacheFileError
from hushvec.secure_memory.buffer import SecureBuffer

MAGIC = b"hushkvc\n"
VERSION = 1
KEY_BYTES = 32
_NONCE_BYTES = 12
_TAG_BYTES = 16
_START = struct.Struct("<8sII")
_MOST_HEADER_BYTES = 1 << 20
_MOST_PLAIN_BYTES = (1 << 36) - 32   # NIST SP 800-38D, section 5.2.1.1
_CHUNK = 1 << 16
_SLACK = 15   # cryptography before 43 needs a block less one byte more room than it writes


@dataclass(frozen=True)
class Layer:
    """Shape of a layer's keys and values; window is the sliding window, None without one."""

    heads: int
    key_width: int
    value_width: int
    window: int | None


@dataclass(frozen=True)
class Header:
    model_id: str
    dtype: str
    batch: int
    positions: int
    plain_bytes: int
    layers: tuple[Layer, ...]


def key_bytes(key: Any) -> Any:
    """The 32 bytes of a key, not copied. A key of zeros is what a scrubbed buffer holds, so it is refused."""
    if isinstance(key, SecureBuffer):
        key = key.memory()
    try:
        seen = memoryview(key).cast("B")
    except TypeError:
        raise TypeError(f"key must be 32 bytes or a SecureBuffer, got {kind(key)}") from None
    if len(seen) != KEY_BYTES:
        raise ValueError(f"key must be {KEY_BYTES} bytes long, got {len(seen)}")
    if not any(seen):
        raise ValueError("key must not be all zeros: was its buffer scrubbed, or wiped by a fork?")
    return seen


def write(path: Path, header: Header, key: Any, pieces: Iterable[memoryview]) -> None:
    """Encrypt the pieces, not copied first, into a file written atomically; ValueError for more than one nonce allows."""
    if header.plain_bytes > _MOST_PLAIN_BYTES:
        raise ValueError(f"a cache must have at most {_MOST_PLAIN_BYTES} bytes in one file, got {header.plain_bytes}")
    ciphers = _ciphers()
    nonce = os.urandom(_NONCE_BYTES)
    described = json.dumps(asdict(header), sort_keys=True).encode()
    start = _START.pack(MAGIC, VERSION, len(described)) + described + nonce
    encryptor = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(start)
    room = memoryview(bytearray(_CHUNK + _SLACK))
    with published_bytes(path) as file:
        file.write(start)
        for piece in pieces:
            for begin in range(0, len(piece), _CHUNK):
                plain = piece[begin : begin + _CHUNK]
                file.write(room[: encryptor.update_into(plain, room)])
        encryptor.finalize()
        file.write(encryptor.tag)


class SealedFile:
    """A file of `write`, opened: its header, not yet authenticated, then its contents, authenticated once `read_into` returns."""

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self._file = file
        self._path = path
        head = file.read(_START.size)
        if len(head) < _START.size:
            raise CacheFileError(f"{path}: is cut short")
        magic, version, length = _START.unpack(head)
        if magic != MAGIC:
            raise CacheFileError(f"{path}: is no encrypted cache")
        if version != VERSION:
            raise CacheFileError(f"{path}: has version {version}, and only version {VERSION} can be read")
        described = file.read(min(length, _MOST_HEADER_BYTES))
        self._nonce = file.read(_NONCE_BYTES)
        if len(described) != length or len(self._nonce) != _NONCE_BYTES:
            raise CacheFileError(f"{path}: is cut short")
        self._start = head + described + self._nonce
        self.header = _header(described, path)
        expected = len(self._start) + self.header.plain_bytes + _TAG_BYTES
        found = os.fstat(file.fileno()).st_size
        if found != expected:
            raise CacheFileError(f"{path}: has {found} bytes and should have {expected}: cut short, or changed")

    def read_into(self, key: Any, pieces: Iterable[memoryview], *, strict: bool) -> None:
        """Decrypt into the pieces, which must be as long together as the header says. Meanwhile the plain bytes are in a SecureBuffer.

        CacheFileError for another key, or a file that is not as it was written: the contents of the pieces are then invalid.
        """
        ciphers = _ciphers()
        self._file.seek(-_TAG_BYTES, os.SEEK_END)
        tag = self._file.read(_TAG_BYTES)
        self._file.seek(len(self._start))
        decryptor = ciphers.Cipher(ciphers.algorithms.AES(key), ciphers.modes.GCM(self._nonce, tag)).decryptor()
        decryptor.authenticate_additional_data(self._start)
        with SecureBuffer(_CHUNK + _SLACK, strict=strict) as plain:
            room = plain.memory()
            for piece in pieces:
                for begin in range(0, len(piece), _CHUNK):
                    part = piece[begin : begin + _CHUNK]
                    encrypted = self._file.read(len(part))
                    if len(encrypted) != len(part):
                        raise CacheFileError(f"{self._path}: is cut short")
                    part[:] = room[: decryptor.update_into(encrypted, room)]
        try:
            decryptor.finalize()
        except ciphers.InvalidTag:
            raise CacheFileError(f"{self._path}: cannot be decrypted: it was saved under another key, or changed since") from None


def _header(described: bytes, path: Path) -> Header:
    try:
        fields = json.loads(described)
        layers = tuple(Layer(**layer) for layer in fields.pop("layers"))
        header = Header(**fields, layers=layers)
        numbers = [header.batch, header.positions, header.plain_bytes]
        numbers += [size for layer in layers for size in (layer.heads, layer.key_width, layer.value_width, layer.window or 0)]
        sound = all(type(size) is int and size >= 0 for size in numbers) and isinstance(header.dtype, str)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError):
        sound = False
    if not sound:
        raise CacheFileError(f"{path}: its header cannot be read")
    return header


def _ciphers() -> Any:
    with needs_extra("an encrypted cache", "secure"):
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives import ciphers
        from cryptography.hazmat.primitives.ciphers import algorithms, modes
    return SimpleNamespace(Cipher=ciphers.Cipher, algorithms=algorithms, modes=modes, InvalidTag=InvalidTag)
