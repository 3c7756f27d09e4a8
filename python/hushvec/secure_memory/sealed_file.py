"""The encrypted file of a cache: MAGIC, 12 bytes of a nonce, AES-256-GCM of the contents, its tag (docs/secure_memory.md)."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import published_bytes
from hushvec._util.validate import kind
from hushvec.errors import SecureMemoryError
from hushvec.secure_memory.buffer import SecureBuffer

MAGIC = b"hushvec cache 1\n"
KEY_BYTES, _NONCE_BYTES, _TAG_BYTES = 32, 12, 16
_ROOM = 15   # that update_into wants beyond what it writes


def key_bytes(key: Any) -> memoryview:
    """The bytes of a key, not copied. Zeros are what a scrubbed buffer holds, so they are refused."""
    try:
        seen = memoryview(key.memory() if isinstance(key, SecureBuffer) else key).cast("B")
    except TypeError:
        raise TypeError(f"key must be {KEY_BYTES} bytes or a SecureBuffer, got {kind(key)}") from None
    if len(seen) != KEY_BYTES:
        raise ValueError(f"key must be {KEY_BYTES} bytes long, got {len(seen)}")
    if not any(seen):
        raise ValueError("key must not be all zeros: was its buffer scrubbed, or wiped by a fork?")
    return seen


def seal(path: Path, key: memoryview, bound_to: bytes, pieces: Iterable[Any]) -> None:
    """Encrypt the pieces, which are not copied first, into a file that only a call with the same `bound_to` opens."""
    ciphers, nonce = _ciphers(), os.urandom(_NONCE_BYTES)
    encryptor = ciphers.Cipher(ciphers.AES(key), ciphers.GCM(nonce)).encryptor()
    encryptor.authenticate_additional_data(MAGIC + bound_to)
    with published_bytes(path) as file:
        file.write(MAGIC + nonce)
        for piece in pieces:
            file.write(encryptor.update(piece))
        file.write(encryptor.finalize() + encryptor.tag)


def unsealed(path: Path, key: memoryview, bound_to: bytes, *, strict: bool) -> SecureBuffer:
    """The contents, authenticated, in a buffer with some room behind them; SecureMemoryError for whatever else the file holds."""
    ciphers, sealed = _ciphers(), memoryview(path.read_bytes())
    start = len(MAGIC) + _NONCE_BYTES
    nonce, encrypted, tag = sealed[len(MAGIC) : start], sealed[start:-_TAG_BYTES], sealed[-_TAG_BYTES:]
    contents = SecureBuffer(len(encrypted) + _ROOM, strict=strict)
    try:
        if len(sealed) < start + _TAG_BYTES or sealed[: len(MAGIC)] != MAGIC:
            raise ciphers.InvalidTag
        decryptor = ciphers.Cipher(ciphers.AES(key), ciphers.GCM(bytes(nonce), bytes(tag))).decryptor()
        decryptor.authenticate_additional_data(MAGIC + bound_to)
        decryptor.update_into(encrypted, contents.memory())
        decryptor.finalize()
    except ciphers.InvalidTag:
        contents.release()   # now: the error keeps this call alive
        raise SecureMemoryError(
            f"{path} cannot be opened: it was cut or changed, or saved under another key, for other weights or other tokens"
        ) from None
    return contents


def _ciphers() -> SimpleNamespace:
    with needs_extra("an encrypted cache", "encryption"):
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import GCM
    return SimpleNamespace(Cipher=Cipher, AES=AES, GCM=GCM, InvalidTag=InvalidTag)
