"""Which attack is strongest: every attack on several indexes, with queries as users ask them and with the document's own vector.

    python -m hushvec_studies.retrieval.measure_attacks documents.npy queries.npy > attacks.md

documents.npy: float32 [n, d]. queries.npy: float32 [n * q, d], q in a row for each document, in their order. Prints a table in
Markdown.
"""

import argparse
import sys

import numpy as np

from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from hushvec.retrieval.attacks.membership import ATTACKS, judge
from hushvec.retrieval.attacks.shadows import play

SETTINGS = {
    "no noise": {},
    "documents, PrivUnitG, ε = 20": {"documents": VectorNoise(epsilon=20.0)},
    "documents, PrivUnitG, ε = 10": {"documents": VectorNoise(epsilon=10.0)},
    "documents, PrivUnitG, ε = 2.5": {"documents": VectorNoise(epsilon=2.5)},
    "documents, Gaussian, ε = 20": {"documents": VectorNoise(epsilon=20.0, mechanism="gaussian")},
    "queries, PrivUnitG, ε = 20": {"queries": VectorNoise(epsilon=20.0)},
    "scores, Laplace, ε = 20 a query": {"scores": ScoreNoise(epsilon=20.0)},
    "scores, Laplace, ε = 5 a query": {"scores": ScoreNoise(epsilon=5.0)},
    "scores, Gumbel, ε = 20 a query": {"scores": ScoreNoise(epsilon=20.0, mechanism="gumbel")},
}


def row(setting, asked, results):
    """One line: areas of all attacks, the rate of the strongest one that searches, and the best of the lower bounds."""
    best = max(results, key=lambda result: result.epsilon_lower)
    likelihood = results[1]
    rate = likelihood.tpr[0.001]
    claims = [result.epsilon_claimed for result in results[:2]]
    cells = [
        setting,
        asked,
        *(str(result.auc) for result in results),
        *([""] * (len(ATTACKS) - len(results))),
        f"{rate} {likelihood.statistic}",
        f"{best.epsilon_lower:.2f} {best.epsilon.statistic}",
        "none" if claims[0] is None else f"{claims[0]:g}",
    ]
    return f"| {' | '.join(cells)} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("documents")
    parser.add_argument("queries")
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--shadow-models", type=int, default=8)
    parser.add_argument("--k", type=int, default=10)
    options = parser.parse_args()
    documents = np.load(options.documents)
    phrases = np.load(options.queries).reshape(len(documents), -1, documents.shape[1])
    areas = " | ".join(f"AUC `{attack}`" for attack in ATTACKS)
    print(f"| noise | queries | {areas} | TPR of `likelihood` at 0.1 % FPR, by | ε at least, by | claim |")
    print("|---|---|---|---|---|---|---|---|")
    for setting, noise in SETTINGS.items():
        index = PrivateIndex(documents.shape[1], **noise)
        for asked, queries in (("phrases", phrases), ("own vector", None)):
            game = play(
                index.fresh,
                documents,
                queries,
                k=options.k,
                shadow_models=options.shadow_models,
                candidates=options.candidates,
            )
            # rows that no noise was put on are for nobody to see
            attacks = ATTACKS if "documents" in noise else ATTACKS[:2]
            print(row(setting, asked, [judge(game, attack=attack) for attack in attacks]), flush=True)
        print(setting, "done", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
