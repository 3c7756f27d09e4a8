"""Rows of a job: docs/format.md, section 10. BLAKE2b and SHA-256 are those of Python's standard library."""

import hashlib

import numpy as np

from . import clip, privunit, release


def parameters(**lines):
    """The text of a job's parameters; floats as `float.hex` writes them."""
    order = (
        "job_version", "mechanism", "epsilon", "delta", "dimension", "dtype", "clip_norm", "noise", "normalize", "renormalize",
        "cap_probability", "threshold", "codebook", "table",
    )  # fmt: skip
    shown = {name: value.hex() if isinstance(value, float) else value for name, value in lines.items()}
    return "".join(f"{name} {shown[name]}\n" for name in order if name in shown)


def derived(key, text, person, size):
    return hashlib.blake2b(text.encode(), key=key, person=person, digest_size=size).digest()


def rows_key(key, text):
    return derived(key, text, b"hushvec rows", 32)


def job_id(key, text):
    return derived(key, text, b"hushvec job id", 16).hex()


def place(partition=None, row=None, number=None, text=None):
    if text is not None:
        return (2).to_bytes(8, "little") + hashlib.sha256(text.encode()).digest()
    if number is not None:
        return (1).to_bytes(8, "little") + number.to_bytes(16, "little", signed=True) + bytes(16)
    return bytes(8) + partition.to_bytes(8, "little") + row.to_bytes(8, "little") + bytes(16)


def row_key(key, text, where, row):
    """The key of one row; `row` as the kernel gets it, in the job's dtype."""
    return hashlib.blake2b(where + row.tobytes(), key=rows_key(key, text), digest_size=32).digest()


def answer_key(key, text, where, row, code):
    """The key of one answer: of the row and of its code."""
    return hashlib.blake2b(where + row.tobytes() + int(code).to_bytes(4, "little"), key=rows_key(key, text), digest_size=32).digest()


def digest(table):
    """SHA-256 of a table of float32, little-endian."""
    return hashlib.sha256(table.astype("<f4").tobytes()).hexdigest()


def released(rows, key, text, places, clip_norm, noise, law, dtype="float32", rounds=20):
    """Gaussian or Laplace rows; rows are in the job's dtype."""
    result = []
    for row, where in zip(rows, places, strict=True):
        wide = row.astype(np.float32) if dtype == "float16" else row
        stream = row_key(key, text, where, row)
        result.append(release.clip_and_noise(wide, clip_norm, noise, key=stream, rounds=rounds, law=law, dtype=dtype)[0])
    return np.array(result)


def privunit_integers(rows, key, text, places, cap_probability, threshold, sigma, rounds=20):
    """n of PrivUnitG rows, float32."""
    return np.concatenate([
        privunit.integers(row, cap_probability, threshold, sigma, key=row_key(key, text, where, row), rounds=rounds)
        for row, where in zip(rows, places, strict=True)
    ])  # fmt: skip


def unit_rows(rows):
    """`normalize` and `renormalize`: rows in the job's dtype."""
    wide = rows.dtype == np.float64
    scaled = rows if wide else rows.astype(np.float32)
    if wide:
        exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1]
        scaled = np.ldexp(rows, -exponents)
    norm = np.sqrt(clip.sum_of_squares(scaled))[:, None]
    unit = scaled.astype(np.float64) / np.where(norm == 0, 1.0, norm)
    return unit if wide else unit.astype(np.float32).astype(rows.dtype)
