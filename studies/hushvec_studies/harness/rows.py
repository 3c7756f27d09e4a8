"""Rows of embeddings: of unit length, and searched."""

from __future__ import annotations

from typing import Any

import numpy as np

from hushvec.retrieval import PrivateIndex


def unit(rows: Any) -> Any:
    """Rows of length 1; those of zeros stay as they are."""
    lengths = np.linalg.norm(rows, axis=-1, keepdims=True)
    return (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def index_of(rows: Any) -> PrivateIndex:
    index = PrivateIndex(rows.shape[1], store="numpy")
    index.add(rows)
    return index


def others_of(ids: Any) -> Any:
    """Results of a search in which each row looked for its like, without the row itself: one fewer for each."""
    own = ids == np.arange(len(ids))[:, None]
    return np.take_along_axis(ids, np.argsort(own, axis=1, kind="stable")[:, :-1], axis=1)


def bytes_of(array: Any) -> bytes:
    """Kind, shape and values of an array, for a digest of it."""
    return f"{array.dtype.str} {array.shape}\n".encode() + bytes(np.ascontiguousarray(array).tobytes())
