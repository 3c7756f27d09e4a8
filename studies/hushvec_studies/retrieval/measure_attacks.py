"""Attacks on real vectors: which is strongest, how much inversion recovers, and which epsilon stops one. Prints a table in Markdown.

    python -m hushvec_studies.retrieval.measure_attacks strongest documents.npy queries.npy
    python -m hushvec_studies.retrieval.measure_attacks inversion documents.npy
    python -m hushvec_studies.retrieval.measure_attacks tuning documents.npy

documents.npy: float32 [n, d]. queries.npy: float32 [n * q, d], q in a row for each document, in their order.

strongest   every attack on several indexes, with queries as users ask them and with the document's own vector
inversion   how much of a vector comes back from its released row: in a list of all vectors, and from public vectors alone. Every
            other row of an even sample is released, the rest is what is public
tuning      the largest epsilon that an attack does not break, and the largest that no attack can break, on public documents; the
            adversary asks with a document's own vector
"""

import argparse
import sys

import numpy as np

import hushvec as hv
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise, embedding_inversion, tune_epsilon
from hushvec.retrieval.attacks.membership import ATTACKS, judge
from hushvec.retrieval.attacks.shadows import play

INDEXES = {
    "no noise": {},
    "documents, PrivUnitG, ε = 20": {"documents": VectorNoise(epsilon=20.0)},
    "documents, PrivUnitG, ε = 2.5": {"documents": VectorNoise(epsilon=2.5)},
    "queries, PrivUnitG, ε = 20": {"queries": VectorNoise(epsilon=20.0)},
    "scores, Laplace, ε = 20 per query": {"scores": ScoreNoise(epsilon=20.0)},
}
RELEASES = {
    "no noise": None,
    "empirical, σ = 0.2": {"mechanism": "empirical", "sigma": 0.2},
    **{f"PrivUnitG, ε = {epsilon:g}": {"mechanism": "privunit", "epsilon": epsilon} for epsilon in (20.0, 10.0, 5.0)},
}
SIDES = {
    "documents, PrivUnitG": lambda epsilon: {"documents": VectorNoise(epsilon=epsilon)},
    "scores, Laplace": lambda epsilon: {"scores": ScoreNoise(epsilon=epsilon, delta=0.0)},
}
INVERTED, SEED = 2000, 2025


def strongest(documents, options):
    """Areas of all attacks, the rate of the strongest one that searches, and the best of the lower bounds."""
    phrases = np.load(options.queries).reshape(len(documents), -1, documents.shape[1])
    areas = [f"AUC `{attack}`" for attack in ATTACKS]
    yield "noise", "queries", *areas, "TPR of `likelihood` at 0.1 % FPR, by", "ε at least, by", "claim"
    for setting, noise in INDEXES.items():
        index = PrivateIndex(documents.shape[1], **noise)
        # rows that no noise was put on are for nobody to see
        attacks = ATTACKS if "documents" in noise else ATTACKS[:2]
        for asked, queries in (("phrases", phrases), ("own vector", None)):
            game = play(index.fresh, documents, queries, k=10, shadow_models=8, candidates=options.candidates)
            results = [judge(game, attack=attack) for attack in attacks]
            best, likelihood = max(results, key=lambda result: result.epsilon_lower), results[1]
            claim = results[0].epsilon_claimed
            yield (
                setting,
                asked,
                *[*(result.auc for result in results), ""][: len(ATTACKS)],
                f"{likelihood.tpr[0.001]} {likelihood.statistic}",
                f"{best.epsilon_lower:.2f} {best.epsilon.statistic}",
                "none" if claim is None else f"{claim:g}",
            )


def inversion(documents, options):
    sample = documents[np.linspace(0, len(documents) - 1, 2 * INVERTED).astype(int)]
    clean, public = sample[::2], sample[1::2]
    yield "noise", "identified among all", "no more than", "cosine of the row", "linear", "posterior over public vectors"
    for name, setting in RELEASES.items():
        rows, receipt = clean, None
        if setting is not None:
            rows, receipt = hv.privatize(clean, normalize=True, generator=hv.Generator.unsafe_seeded(SEED), **setting)
        listed = embedding_inversion(rows, clean, receipt=receipt)
        unlisted = embedding_inversion(rows, clean, public, receipt=receipt)
        cosines = [unlisted.cosines[one] for one in ("released", "linear", "posterior mean")]
        yield name, listed.identified[1], f"{listed.identified_bound:.2g}", *cosines


def tuning(documents, options):
    passed = f"largest ε tried with TPR <= {options.target_tpr:g} at {options.fpr:g} FPR"
    yield "side", "attack", passed, "TPR there", "next ε tried", "proven"
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
            if tuned.epsilon is None:
                lowest = tuned.trials[0]
                sys.exit(
                    f"measure_attacks: target_tpr must be above what the attack reaches at epsilon {lowest.epsilon:g}, the lowest "
                    f"tried: {attack!r} on {side} has TPR {lowest.tpr} at {tuned.fpr:g} FPR, got {tuned.target_tpr:g}"
                )
            found = next(trial for trial in tuned.trials if trial.epsilon == tuned.epsilon)
            above = next((f"{trial.epsilon:.3g}" for trial in tuned.trials if trial.epsilon > tuned.epsilon), "")
            yield side, f"`{attack}`", f"{tuned.epsilon:.3g}", found.tpr, above, f"{tuned.epsilon_proven:.3g}"


TABLES = {"strongest": strongest, "inversion": inversion, "tuning": tuning}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("documents")
    parser.add_argument("queries", nargs="?", help="for strongest")
    parser.add_argument("--candidates", type=int, default=2000)
    parser.add_argument("--target-tpr", type=float, default=0.05)
    parser.add_argument("--fpr", type=float, default=0.01)
    options = parser.parse_args()
    if options.table == "strongest" and options.queries is None:
        parser.error("strongest needs queries.npy")
    for number, cells in enumerate(TABLES[options.table](np.load(options.documents), options)):
        print(f"| {' | '.join(map(str, cells))} |", *([f"|{'---|' * len(cells)}"] if number == 0 else []), sep="\n", flush=True)


if __name__ == "__main__":
    main()
