"""Made-up public corpora, and an embedder that needs no model."""

import hashlib

import numpy as np

from hushvec.text.corpus import PublicCorpus


class HashEmbedder:
    """A fixed unit vector for every word, summed and normalised."""

    model_id = "test/hash"

    def __init__(self, dimension=24):
        self.dimension = dimension
        self.calls = []

    def embed(self, texts):
        self.calls.append(len(texts))
        rows = np.array([np.sum([self._word(word) for word in text.split()], axis=0) for text in texts], np.float32)
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)

    def _word(self, word):
        seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:4], "little")
        return np.random.RandomState(seed).standard_normal(self.dimension)


def clustered(count=400, dimension=24, topics=20, seed=0, spread=0.5):
    """Unit rows around a few topics, as embeddings of texts are."""
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(99).standard_normal((topics, dimension)) / np.sqrt(np.arange(1, dimension + 1))
    rows = centres[rng.integers(topics, size=count)] + spread * rng.standard_normal((count, dimension)) / np.sqrt(dimension)
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def corpus_of(rows, model_id="test/rows"):
    return PublicCorpus(tuple(f"text {number}" for number in range(len(rows))), rows, model_id)


def numbers_of(texts):
    return np.array([int(text.split()[1]) for text in texts])
