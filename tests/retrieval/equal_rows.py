"""A program that scores equal rows at all places of a block with everything that ranks, and prints what tells them apart.

Run in a process of its own for each setting of OPENBLAS_CORETYPE: the BLAS chooses its kernels when it is loaded.
"""

import numpy as np

import hushvec as hv
from hushvec.cli._demo_attack import nearest
from hushvec.mechanisms import Gaussian, L2Laplace, Laplacian, PrivUnit, PublicProjection
from hushvec.retrieval import PrivateIndex
from hushvec.retrieval.attacks.features import Returned, features_of
from hushvec.retrieval.attacks.inversion import embedding_inversion
from hushvec.retrieval.attacks.row_laws import log_densities
from hushvec.retrieval.attacks.statistics import Logistic
from hushvec.text.corpus import PublicCorpus
from hushvec.text.inverters.decoding import NearestRows, chosen_parts
from hushvec.text.inverters.posterior import CandidateLaw
from hushvec.text.public_choice import PublicChoice

DISTINCT, COPIES, DIMENSION = 29, 7, 45
BATCHES = (1, 2, 5, 16, 17, DISTINCT)
LAWS = {
    "gaussian": Gaussian(epsilon=20.0, delta=1e-5, dimension=DIMENSION),
    "laplacian": Laplacian(epsilon=20.0, dimension=DIMENSION),
    "l2_laplace": L2Laplace(epsilon=20.0, dimension=DIMENSION),
    "privunit": PrivUnit(epsilon=20.0, dimension=DIMENSION),
}


def unit_rows(count, seed):
    rows = np.random.default_rng(seed).standard_normal((count, DIMENSION)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


ONCE = unit_rows(DISTINCT, 1)
ROWS = np.tile(ONCE, (COPIES, 1))  # copies of one row stand DISTINCT apart: at every place of a block of up to 29 rows
QUERIES = unit_rows(DISTINCT, 2)


def alike(table):
    """Whether columns of copies are equal."""
    copies = np.asarray(table).reshape(len(table), COPIES, DISTINCT)
    return bool((copies == copies[:, :1]).all())


def rows_alike(table):
    return alike(np.asarray(table).reshape(COPIES * DISTINCT, -1).T)


def search(store):
    index = PrivateIndex(DIMENSION, store=store)
    index.add(ROWS)
    whole = index.search(QUERIES, len(ROWS))
    in_order = np.argsort(-whole.scores, axis=1, kind="stable")
    copies = whole.ids.reshape(DISTINCT, DISTINCT, COPIES)  # those of one row come together, the first one first
    found = bool((in_order == np.arange(len(ROWS))).all() and (np.diff(copies, axis=2) == DISTINCT).all())
    for batch in BATCHES:
        parts = [index.search(QUERIES[first : first + batch], len(ROWS)) for first in range(0, DISTINCT, batch)]
        found &= np.array_equal(np.concatenate([part.ids for part in parts]), whole.ids)
        found &= np.array_equal(np.concatenate([part.scores for part in parts]), whole.scores)
    return found


def checks():
    yield "search in the store flat", search("flat")
    yield "inversion", abs(embedding_inversion(ROWS, ROWS, resamples=2).identified[1].value - 1 / COPIES) < 1e-12
    for name, law in LAWS.items():
        released = hv.privatize(QUERIES, epsilon=20.0, mechanism=name, generator=hv.Generator.unsafe_seeded(1))
        yield f"log densities, {name}", alike(log_densities(released.values, ROWS, released.receipt))
        yield f"candidate law, {name}", alike(CandidateLaw(law, ROWS, 0.9).log_likelihood(released.values))
    first = np.arange(DISTINCT)
    yield "nearest row", np.array_equal(NearestRows(ROWS)._exact(ONCE, 1)[:, 0], first)
    yield "chosen parts", np.array_equal(chosen_parts(ONCE, ROWS, 2)[:, 0], first)
    yield "nearest sentence", np.array_equal(nearest(ONCE, ROWS), first)
    corpus = PublicCorpus(tuple(f"text {number}" for number in range(len(ROWS))), ROWS, "test/rows")
    yield "public choice", np.array_equal(PublicChoice(corpus, 8.0, size=len(ROWS)).nearest(ONCE), first)
    wide = np.random.default_rng(3).standard_normal((2, 7))
    features = np.tile(np.random.default_rng(4).standard_normal((DISTINCT, 7)), (COPIES, 1))
    yield "logits", rows_alike(Logistic(wide[0], np.ones(7), wide[1], 0.1).logits(features))
    ids = np.tile(np.arange(9).reshape(1, 3, 3), (COPIES * DISTINCT, 1, 1))
    scores = np.tile(np.random.default_rng(5).standard_normal((DISTINCT, 3, 3)).astype(np.float32), (COPIES, 1, 1))
    yield "features of retrieval", rows_alike(features_of(Returned.of(ids, scores), scores))
    yield "public projection", rows_alike(PublicProjection.fit(unit_rows(80, 6), components=13).transform(ROWS))


if __name__ == "__main__":
    done = list(checks())
    print(len(done), *(name for name, fine in done if not fine), sep="\n")
