"""The encrypted file that keeps what pseudonyms stand for, and the file of its key. Needs `pip install 'hushvec[secure]'`.

A vault is a mark, a nonce and the pseudonyms with their documents as JSON under AES-256-GCM with a key derived from the secret one: a
changed byte anywhere or another key is noticed. Both files are written beside their place and appear there whole, readable by their
owner alone.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec._util.publish import PRIVATE, published_bytes, unfinished
from hushvec.text.pii.pseudonyms import FEWEST_KEY_BYTES, Known, derived_key

MARK = b"hushvec vault 2\n"
EARLIER = b"hushvec vault 1\n"  # of the same length; its pseudonyms belong to no document
NONCE_BYTES = 12


def write_vault(path: str | os.PathLike[str], known: Mapping[str, str], key: bytes) -> None:
    """Encrypt pseudonyms and what they stand for into a file.

    Args:
        path: of the file, which is replaced if it exists.
        known: pseudonym -> value, as `Pseudonymizer.known` gives it with its documents.
        key: the secret key of the pseudonyms, 32 bytes at least.

    Raises:
        MissingExtraError: cryptography is not installed.
        OSError: the file cannot be written.

    Example:
        >>> from hushvec.text import read_vault, write_vault
        >>> write_vault("names.vault", {"[PERSON_AAAA]": "Jane Doe"}, bytes(32))  # doctest: +SKIP
        >>> read_vault("names.vault", bytes(32))  # doctest: +SKIP
        {'[PERSON_AAAA]': 'Jane Doe'}
    """
    cipher = _cipher(key)
    nonce = secrets.token_bytes(NONCE_BYTES)
    documents = {name: sorted(names) for name, names in getattr(known, "documents", {}).items()}
    content = json.dumps({"known": dict(known), "documents": documents}, ensure_ascii=True, sort_keys=True).encode()
    with published_bytes(Path(path), mode=PRIVATE) as file:
        file.write(MARK + nonce + cipher.encrypt(nonce, content, MARK))


def read_vault(path: str | os.PathLike[str], key: bytes) -> Known:
    """What the pseudonyms of a vault stand for.

    Args:
        path: of the file.
        key: the key that it was written with.

    Returns:
        Pseudonym -> value, with their documents: private.

    Raises:
        MissingExtraError: cryptography is not installed.
        ValueError: it is no vault, the key is another one, or a byte was changed.
        OSError: it cannot be read.

    Example: see `write_vault`.
    """
    cipher = _cipher(key)
    packed = Path(path).read_bytes()
    mark = packed[: len(MARK)]
    if mark not in (MARK, EARLIER):
        raise ValueError(f"{path}: must be a vault of pseudonyms, is another kind of file")
    nonce, sealed = packed[len(MARK) : len(MARK) + NONCE_BYTES], packed[len(MARK) + NONCE_BYTES :]
    with needs_extra("a vault of pseudonyms", "secure"):
        from cryptography.exceptions import InvalidTag
    try:
        content = json.loads(cipher.decrypt(nonce, sealed, mark))
    except (InvalidTag, ValueError):
        raise ValueError(f"{path}: must be opened with the key that it was written with, unchanged: key or content differ") from None
    return Known(content["known"], content["documents"]) if mark == MARK else Known(content)


def new_key(path: str | os.PathLike[str]) -> bytes:
    """A new random key, written to a file in hexadecimal.

    Args:
        path: of the file, which must not exist.

    Returns:
        The key, 32 bytes. Of several processes that ask for one file, one gets a key.

    Raises:
        FileExistsError: there is such a file, or a link.

    Example:
        >>> from hushvec.text import new_key
        >>> len(new_key("names.key"))  # doctest: +SKIP
        32
    """
    key = secrets.token_bytes(FEWEST_KEY_BYTES)
    with unfinished(Path(path), mode=PRIVATE) as beside:
        beside.file.write(key.hex().encode() + b"\n")
        beside.complete()
        try:
            beside.take_free_place()
        except FileExistsError:
            raise FileExistsError(f"{path}: must not exist yet; a key is never overwritten") from None
    return key


def read_key(path: str | os.PathLike[str]) -> bytes:
    """The key of a file that `new_key` wrote.

    Args:
        path: of the file.

    Returns:
        The key.

    Raises:
        ValueError: the file does not hold 32 bytes or more in hexadecimal.
        OSError: it cannot be read.

    Example: see `new_key`.
    """
    try:
        key = bytes.fromhex(Path(path).read_text(encoding="ascii"))
    except ValueError:
        key = b""
    if len(key) < FEWEST_KEY_BYTES:
        raise ValueError(f"{path}: must hold a key of at least {FEWEST_KEY_BYTES} bytes in hexadecimal")
    return key


def _cipher(key: bytes) -> Any:
    derived = derived_key(key, "vault")
    with needs_extra("a vault of pseudonyms", "secure"):
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    return AESGCM(derived)
