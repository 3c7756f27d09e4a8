"""Rows, stores and budgets that the tests of an index share."""

import atexit
import functools
import importlib.util
import itertools
import json

import numpy as np
import pytest

from hushvec.retrieval import PrivateIndex
from postgres_server import PostgresServer, why_not

NEEDS = {
    "flat": (),
    "numpy": (),
    "hnsw": ("faiss",),
    "lancedb": ("lancedb",),
    "qdrant": ("qdrant_client",),
    "pgvector": ("psycopg", "pgvector"),
}
EXACT = ("flat", "numpy", "lancedb", "qdrant", "pgvector")
_tables = itertools.count()


def why_missing(store):
    """Why a store cannot be tested here, or None."""
    if any(importlib.util.find_spec(package) is None for package in NEEDS[store]):
        return f"{store} is not installed: pip install '.[{store}]'"
    return why_not("vector") if store == "pgvector" else None


STORES = [pytest.param(name, marks=pytest.mark.skipif(bool(why := why_missing(name)), reason=why or "")) for name in NEEDS]


@functools.cache
def postgres():
    """A server with pgvector, for all tests of this process."""
    server = PostgresServer("vector").__enter__()
    atexit.register(server.__exit__)
    return server


def placed(store):
    """Where a new index of this store has its rows: a new table, where the store is a database."""
    if store != "pgvector":
        return {"store": store}
    return {"store": store, "path": postgres().url, "store_options": {"table": f"rows_{next(_tables)}"}}


def made(dimension, *, store, **settings):
    return PrivateIndex(dimension, **{**placed(store), **settings})


def loaded(folder, **options):
    """The index in a folder; addresses of databases are not in its files."""
    store = json.loads((folder / "index.json").read_text())["settings"]["store"]
    return PrivateIndex.load(folder, **({"path": postgres().url} if store == "pgvector" else {}), **options)


def released(index):
    """A folder of Qdrant is for one index at a time: this one lets go of it."""
    client = getattr(index._content.store, "_client", None)
    if client is not None:
        client.close()


def some_rows(count=60, dimension=16, seed=0):
    return np.random.default_rng(seed).standard_normal((count, dimension)).astype(np.float32)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def filled(rows, *, ids=None, **settings):
    settings = {"store": "flat", **settings}
    index = made(rows.shape[1], **settings)
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
