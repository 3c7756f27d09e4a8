"""A language so small that a decoder learns it in seconds: four words, each of which an embedding names."""

import itertools
import signal

import numpy as np
import pytest

from hushvec_studies.inverters import DecoderSize
from hushvec_studies.inverters.loop import TrainingLoop

# Networks so small only wait for each other's threads.
pytest.importorskip("torch").set_num_threads(1)

WORDS = (
    ("red", "green", "blue", "grey"),
    ("cats", "dogs", "hens", "cows"),
    ("eat", "see", "hear", "find"),
    ("fish", "milk", "corn", "hay"),
)
TEXTS = [" ".join(words) for words in itertools.product(*WORDS)]
DIMENSION = 16

SMALL = {
    "size": DecoderSize(width=16, layers=1, heads=2, feed_forward=32, positions=2, bottleneck=16),
    "vocabulary": 320,
    "max_tokens": 12,
    "batch_size": 16,
    "epochs": 1,
    "checkpoint_every": 5,
}


class ToyEmbedder:
    """Four elements for each of the four words, 1/2 for the word that it is: rows of length 1."""

    model_id = "toy"

    def __init__(self, batch_size=1):
        self.texts = 0

    def embed(self, texts):
        self.texts += len(texts)
        rows = np.zeros((len(texts), DIMENSION), np.float32)
        for row, text in zip(rows, texts, strict=True):
            for place, word in enumerate(text.split()):
                row[4 * place + WORDS[place].index(word)] = 0.5
        return rows


def interrupt(monkeypatch, step, what):
    """Let `what()` happen in the middle of a step, counted from 1 in this process."""
    learn = TrainingLoop._learn
    count = itertools.count(1)

    def learn_and_more(self):
        loss = learn(self)
        if next(count) == step:
            what()
        return loss

    monkeypatch.setattr(TrainingLoop, "_learn", learn_and_more)


def send(number):
    return lambda: signal.raise_signal(number)
