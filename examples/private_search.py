"""One index, three ways to make its search private: what each costs, whom it protects, and how good the answers are."""

import numpy as np

import hushvec as hv
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise

rng = np.random.default_rng(7)
topics = rng.standard_normal((20, 64))
documents = (topics[rng.integers(20, size=2000)] + 0.7 * rng.standard_normal((2000, 64))).astype(np.float32)
queries = (documents[:50] + 0.2 * rng.standard_normal((50, 64))).astype(np.float32)
budget = hv.PrivacyBudget(max_epsilon=100.0)

SIDES = {
    "no noise": {},
    "documents, before they are stored": {"documents": VectorNoise(epsilon=16.0, budget=budget)},
    "queries, where they are asked": {"queries": VectorNoise(epsilon=16.0)},
    "scores, noisy scores come out": {"scores": ScoreNoise(epsilon=8.0, score_range=(0.0, 1.0))},
    "scores, the order alone": {"scores": ScoreNoise(epsilon=8.0, mechanism="gumbel", score_range=(0.0, 1.0))},
}


def paid(guarantee):
    return "without a bound" if guarantee is None else f"epsilon = {guarantee[0]:.4g}, delta = {guarantee[1]:g}"


for name, settings in SIDES.items():
    index = PrivateIndex(64, store="numpy", **settings)
    index.add(documents)
    answer = index.search(queries, k=1)
    print(f"{name}: the right one comes first for {np.mean(answer.ids[:, 0] == np.arange(50)):.0%} of {len(queries)} queries")
    print(f"    a document pays {paid(index.document_guarantee())} for one query, {paid(index.document_guarantee(50))} for all")
    print(f"    the asker pays {paid(index.query_guarantee())} for one query, {paid(index.query_guarantee(50))} for all")

print(f"\nthe documents' release spent {budget.consumed()}, {budget.remaining()} remain; deleting rows refunds nothing")
print("\n".join(PrivateIndex(64, store="numpy", documents=VectorNoise(epsilon=16.0), scores=ScoreNoise(epsilon=8.0)).describe()))
