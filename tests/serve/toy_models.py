"""Small embedding models that a policy can name, with a list of everything that they saw."""

import sys
import threading
import time
from zlib import crc32

import numpy as np

DIMENSION = 32

seen = []


def words(texts):
    """Rows that depend on the words of a text: equal texts have equal rows."""
    seen.extend(texts)
    rows = np.zeros((len(texts), DIMENSION), np.float32)
    for row, text in zip(rows, texts):
        for word in text.split():
            row[crc32(word.encode()) % DIMENSION] += 1
    return rows + 0.01


def broken(texts):
    raise RuntimeError(f"cannot embed {texts}")


def not_finite(texts):
    return np.full((len(texts), DIMENSION), np.nan, np.float32)


def of_changing_width(texts):
    return np.ones((len(texts), 4 + len(texts)), np.float32)


def leaves(texts):
    sys.exit(f"bye {texts}")


class _LeavesWhenOpened:
    @property
    def dimension(self):
        sys.exit("bye")

    def embed(self, texts):
        sys.exit(f"bye {texts}")


leaves_when_opened = _LeavesWhenOpened()


gate = threading.Event()


def waits(texts):
    """As `words`, once the gate is open."""
    gate.wait(60)
    return words(texts)


def sleeps(texts):
    """Much longer than a test."""
    time.sleep(600)
    return words(texts)
