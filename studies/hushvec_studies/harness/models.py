"""The embedding models that a configuration may name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

MINILM = ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2")
HASHED_WORDS = "hashed-words"


def embedder(name: str) -> Any:
    """A model by name.

    Args:
        name: "all-MiniLM-L6-v2": by hushvec.text.MiniLMEmbedder, nothing is downloaded; "hashed-words": `HashedWords`, which needs no
            model; else a name or folder of sentence-transformers, which may download it.

    Raises:
        OSError, ValueError: sentence-transformers does not know or find it.
    """
    if name in MINILM:
        from hushvec.embedders.minilm import MiniLMEmbedder

        return MiniLMEmbedder(device=None)
    return HashedWords() if name == HASHED_WORDS else _SentenceTransformer(name)


class HashedWords:
    """Counts of words in 256 cells with random signs: no language model, but enough to try a study with.

    Reference:
        Weinberger, Dasgupta, Langford, Smola, Attenberg, "Feature hashing for large scale multitask learning" (2009).

    Example:
        >>> rows = HashedWords().embed(["red apples", "apples red", "blue"])
        >>> rows.shape, bool((rows[0] == rows[1]).all()), bool(abs(rows[0] @ rows[2]) < 0.9)
        ((3, 256), True, True)
    """

    model_id = HASHED_WORDS
    dimension = 256

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """float32 [n, 256]: unit rows, zeros for a text without a word."""
        rows = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in zip(rows, texts):
            for word in re.findall(r"\w+", text.lower()):
                digest = hashlib.sha256(word.encode()).digest()
                row[digest[0]] += 1 if digest[1] % 2 else -1
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        np.divide(rows, lengths, out=rows, where=lengths > 0)
        return rows


class _SentenceTransformer:
    def __init__(self, name: str) -> None:
        from sentence_transformers import SentenceTransformer

        self.model_id = name
        self._model = SentenceTransformer(name)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = self._model.encode(list(texts), convert_to_numpy=True, normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)
