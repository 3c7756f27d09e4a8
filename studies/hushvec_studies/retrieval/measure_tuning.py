"""The largest epsilon that an attack does not break, and the largest that no attack can break.

    python -m hushvec_studies.retrieval.measure_tuning documents.npy > tuning.md

documents.npy: float32 [n, d], public. The adversary asks with a document's own vector. Prints a table in Markdown.
"""

import argparse
import sys

import numpy as np

from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise, tune_epsilon
from hushvec.retrieval.attacks.membership import TunedEpsilon

SIDES = {
    "documents, PrivUnitG": lambda epsilon: {"documents": VectorNoise(epsilon=epsilon)},
    "documents, Gaussian": lambda epsilon: {"documents": VectorNoise(epsilon=epsilon, mechanism="gaussian")},
    "scores, Laplace": lambda epsilon: {"scores": ScoreNoise(epsilon=epsilon, delta=0.0)},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("documents")
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--target-tpr", type=float, default=0.05)
    parser.add_argument("--fpr", type=float, default=0.01)
    options = parser.parse_args()
    documents = np.load(options.documents)
    print(
        f"| side | attack | largest ε tried with TPR <= {options.target_tpr:g} at {options.fpr:g} FPR "
        "| TPR there | next ε tried | proven |"
    )
    print("|---|---|---|---|---|---|")
    for side, noise in SIDES.items():
        for attack in ("logistic", "likelihood", "released")[: 3 if side.startswith("documents") else 2]:
            tuned = tune_epsilon(
                lambda epsilon, generator: PrivateIndex(documents.shape[1], generator=generator, **noise(epsilon)),
                public_documents=documents,
                target_tpr=options.target_tpr,
                fpr=options.fpr,
                low=1.0,
                steps=8,
                attack=attack,
                shadow_models=2 if attack == "released" else 8,
                candidates=options.candidates,
            )
            try:
                print(row_of(side, attack, tuned), flush=True)
            except ValueError as error:
                sys.exit(f"measure_tuning: {error}")


def row_of(side: str, attack: str, tuned: TunedEpsilon) -> str:
    """A row of the table.

    Raises:
        ValueError: no epsilon that was tried met the limit.
    """
    if tuned.epsilon is None:
        lowest = tuned.trials[0]
        raise ValueError(
            f"target_tpr must be above what the attack reaches at epsilon {lowest.epsilon:g}, the lowest tried: "
            f"{attack!r} on {side} has TPR {lowest.tpr} at {tuned.fpr:g} FPR, got {tuned.target_tpr:g}"
        )
    found = next(trial for trial in tuned.trials if trial.epsilon == tuned.epsilon)
    above = [f"{trial.epsilon:.3g}" for trial in tuned.trials if trial.epsilon > tuned.epsilon][:1]
    return f"| {side} | `{attack}` | {tuned.epsilon:.3g} | {found.tpr} | {''.join(above)} | {tuned.epsilon_proven:.3g} |"


if __name__ == "__main__":
    main()
