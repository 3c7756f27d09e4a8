"""Rows, stores and budgets that the tests of an index share."""

import importlib.util

import numpy as np
import pytest

from hushvec.retrieval import PrivateIndex

NEEDS = {"flat": (), "numpy": (), "hnsw": ("faiss",), "ivf": ("faiss",), "lancedb": ("lancedb",), "qdrant": ("qdrant_client",)}


def is_missing(store):
    return any(importlib.util.find_spec(package) is None for package in NEEDS[store])


STORES = [pytest.param(name, marks=pytest.mark.skipif(is_missing(name), reason=f"{name} is not installed")) for name in NEEDS]
EXACT = ("flat", "numpy", "lancedb", "qdrant")


def some_rows(count=60, dimension=16, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def filled(rows, *, ids=None, **settings):
    index = PrivateIndex(rows.shape[1], **settings)
    index.add(rows, ids)
    return index


def best_by_sorting(rows, queries, k):
    """Places and scores of the k largest inner products, the first of equal ones first."""
    scores = queries.astype(np.float64) @ rows.astype(np.float64).T
    places = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return places, np.take_along_axis(scores, places, axis=1)


class Counting:
    """A budget of the caller's own: what it was asked for, in order."""

    def __init__(self, limit=float("inf")):
        self.charges = []
        self.limit = limit

    def consume(self, epsilon, delta):
        if sum(spent for spent, _ in self.charges) + epsilon > self.limit:
            raise RuntimeError("exhausted")
        self.charges.append((epsilon, delta))
