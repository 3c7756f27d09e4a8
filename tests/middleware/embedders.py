"""Models for the tests: they answer what they are told to, and remember what they were asked."""

import numpy as np


class Recorder:
    """Unit rows that depend on the text alone."""

    def __init__(self, dimension=16, dtype=np.float32, norm=1.0):
        self.dimension, self.dtype, self.norm, self.calls = dimension, dtype, norm, []

    def embed(self, texts, kind="document"):
        self.calls.append((tuple(texts), kind))
        return np.array([self.norm * self._unit_row(text) for text in texts], self.dtype)

    def _unit_row(self, text):
        row = np.random.default_rng(list(text.encode()) or [0]).standard_normal(self.dimension)
        return row / np.linalg.norm(row)


class Answering:
    """The same answer, whatever it is asked."""

    def __init__(self, answer):
        self.answer = answer

    def embed(self, texts):
        return self.answer


class Charges:
    """A budget that accepts everything and keeps a list, or refuses."""

    def __init__(self, refusal=None):
        self.refusal, self.spent = refusal, []

    def consume(self, epsilon, delta):
        if self.refusal is not None:
            raise self.refusal
        self.spent.append((epsilon, delta))
