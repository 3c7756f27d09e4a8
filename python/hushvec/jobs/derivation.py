"""How the key stream of a row follows from the job's key, the row's place and its bytes: docs/format.md, section 10."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec.mechanisms import Mechanism, VectorMechanism
from hushvec.receipts import HALF_WORDS

KEY_BYTES = 32
PLACE_BYTES = 40
# What a job can draw from, and by which version of the release format; the version of a job that does.
CIPHERS = ("aes256", "chacha20")
JOB_VERSIONS = {("aes256", HALF_WORDS): 3, ("chacha20", HALF_WORDS): 4, ("aes256", 2): 2, ("chacha20", 1): 1}
# Of the jobs of a seed.
FIRST_CIPHER = "chacha20"

_ROWS_KEY = b"hushvec rows"
_JOB_ID = b"hushvec job id"
_POSITION, _NUMBER, _TEXT = 0, 1, 2

Places = NDArray[np.uint8]


def parameters_text(mechanism: Mechanism, *, job_version: int, dtype: str, normalize: bool, renormalize: bool) -> str:
    """Return everything besides key and rows that determines the result and the guarantee: lines of a name and a value."""
    epsilon, delta = mechanism.cost
    fields = {
        "job_version": job_version,
        "mechanism": mechanism.name,
        "epsilon": epsilon.hex(),
        "delta": delta.hex(),
        "dimension": mechanism.dimension,
        "dtype": dtype,
        "clip_norm": float(mechanism.clip_norm).hex(),
    }
    if isinstance(mechanism, VectorMechanism):
        fields["noise"] = mechanism.noise_parameter.hex()
    fields |= {"normalize": int(normalize), "renormalize": int(renormalize), **mechanism.further_parameters()}
    return "".join(f"{name} {value}\n" for name, value in fields.items())


def versions(cipher: str, half_words: bool) -> tuple[int, int]:
    """Return those of the job and of its release format."""
    of_format = HALF_WORDS if half_words else _core.format_versions[cipher]
    return JOB_VERSIONS[cipher, of_format], of_format


def rows_key(key: bytes, parameters: str) -> bytes:
    """Return the key of the function from rows to streams. A job with other parameters has another one."""
    return _keyed(key, parameters, _ROWS_KEY, 32).digest()


def job_id(key: bytes, parameters: str) -> str:
    """Return a name for the job that says nothing about its key; no two jobs share one."""
    return _keyed(key, parameters, _JOB_ID, 16).hexdigest()


def _keyed(key: bytes, parameters: str, purpose: bytes, size: int) -> hashlib.blake2b:
    return hashlib.blake2b(parameters.encode("ascii"), key=key, person=purpose, digest_size=size)


def positions(partition: int, first_row: int, rows: int) -> Places:
    words = _words(_POSITION, rows)
    words[:, 1] = partition
    words[:, 2] = np.arange(rows, dtype=np.uint64) + np.uint64(first_row)
    return words.view(np.uint8)


def numbers(ids: NDArray[np.integer]) -> Places:
    """Return places of rows that are named by whole numbers: the 128-bit two's complement, whatever the width of the ids."""
    words = _words(_NUMBER, len(ids))
    words[:, 1] = ids.astype(np.int64).view(np.uint64) if ids.dtype.kind == "i" else ids
    words[:, 2] = np.where(ids < 0, np.uint64(2**64 - 1), np.uint64(0)) if ids.dtype.kind == "i" else 0
    return words.view(np.uint8)


def texts(ids: Sequence[str]) -> Places:
    """Return places of rows that are named by strings: the SHA-256 of their UTF-8."""
    words = _words(_TEXT, len(ids))
    digests = b"".join([hashlib.sha256(text.encode()).digest() for text in ids])
    words[:, 1:] = np.frombuffer(digests, "<u8").reshape(-1, 4)
    return words.view(np.uint8)


def _words(kind: int, rows: int) -> NDArray[np.uint64]:
    """Return five little-endian words per row, the first of them the kind of place."""
    words = np.zeros((rows, PLACE_BYTES // 8), "<u8")
    words[:, 0] = kind
    return words
