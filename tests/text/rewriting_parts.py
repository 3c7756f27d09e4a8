"""A tiny embedder and inverters for tests of rewriting: no models, no files."""

import numpy as np

DIMENSION = 24


class WordEmbedder:
    """The sum of a fixed random direction for each word: texts with the same words are near each other."""

    dimension = DIMENSION
    model_id = "words"

    def __init__(self, scale=1.0):
        self.scale = scale
        self.calls = []

    def embed(self, texts):
        self.calls.append(list(texts))
        rows = [sum((self._word(word) for word in text.lower().split()), np.zeros(DIMENSION)) for text in texts]
        return np.array([self.scale * row / max(np.linalg.norm(row), 1e-9) for row in rows], np.float32)

    def _word(self, word):
        return np.random.default_rng(list(word.encode())).standard_normal(DIMENSION)


class Recorder:
    """Inverts every row to a name of its own, and keeps the rows."""

    def __init__(self):
        self.rows = []

    def invert(self, embeddings):
        self.rows.append(np.array(embeddings))
        return [f"text{number}" for number in range(len(embeddings))]


class LawRecorder(Recorder):
    """Wants a public map, and keeps what it is told about releases."""

    def __init__(self, projection):
        super().__init__()
        self.projection = projection
        self.asked, self.told = [], []

    def projection_for(self, mechanism, epsilon):
        self.asked.append((mechanism, epsilon))
        return self.projection

    def for_release(self, mechanism, projection):
        self.told.append((mechanism, projection))
        return self
