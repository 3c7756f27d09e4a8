"""Attacking your own index: who is in it, and what epsilon does that prove?

A pool of documents, three queries about each. One index puts PrivUnitG noise on its rows, one adds too little noise.
"""

import numpy as np

from hushvec.retrieval import PrivateIndex, VectorNoise
from hushvec.retrieval.attacks.membership import judge
from hushvec.retrieval.attacks.shadows import play

DIMENSION = 32
random = np.random.default_rng(2025)
pool = random.standard_normal((600, DIMENSION)).astype(np.float32)
pool /= np.linalg.norm(pool, axis=1, keepdims=True)
queries = pool[:, None, :] + 0.1 * random.standard_normal((600, 3, DIMENSION)).astype(np.float32)


class ForgetsItsNoise:
    """A plausible mistake: rows are released, and then the index is built from the wrong array."""

    def __init__(self, generator):
        self.index = PrivateIndex(DIMENSION, generator=generator)

    def add(self, vectors, ids):
        PrivateIndex(DIMENSION, documents=VectorNoise(epsilon=2.0)).add(vectors, ids)
        self.index.add(vectors, ids)

    def search(self, queries, k):
        return self.index.search(queries, k)

    def document_guarantee(self, queries=1):
        return 2.0, 0.0


makers = {
    "no noise": PrivateIndex(DIMENSION).fresh,
    "epsilon 2": PrivateIndex(DIMENSION, documents=VectorNoise(epsilon=2.0)).fresh,
    "epsilon 2, wrong array": ForgetsItsNoise,
}
for name, make_index in makers.items():
    game = play(make_index, pool, queries, k=10, shadow_models=8)  # searched once, judged twice
    for attack in ("logistic", "likelihood"):
        found = judge(game, attack=attack)
        claim = "no claim" if found.epsilon_claimed is None else f"claim {found.epsilon_claimed:g}"
        verdict = "EXPOSED" if found.exposed else "not refuted" if found.epsilon_claimed is not None else ""
        print(
            f"{name:24}{attack:12} AUC {found.auc} (any attack: <= {found.bound['auc']:.2f})   "
            f"epsilon >= {found.epsilon_lower:.2f}, {claim} {verdict}"
        )
