"""How much of a vector comes back from its released row: in a list of all vectors, and from public vectors alone.

    python -m hushvec_studies.retrieval.measure_inversion embeddings.npy > inversion.md

embeddings.npy: float32 [n, d]. Every other row of an even sample is released, the rest is what is public. Prints a table in Markdown.
"""

import argparse

import numpy as np

import hushvec as hv
from hushvec.retrieval import embedding_inversion

SETTINGS = [
    ("no noise", None),
    ("empirical, σ = 0.2", {"mechanism": "empirical", "sigma": 0.2}),
    *((f"PrivUnitG, ε = {epsilon:g}", {"mechanism": "privunit", "epsilon": epsilon}) for epsilon in (20.0, 10.0, 5.0, 2.5, 1.0)),
    *((f"Gaussian, ε = {epsilon:g}", {"mechanism": "gaussian", "epsilon": epsilon}) for epsilon in (20.0, 5.0, 1.0)),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embeddings")
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=2025)
    options = parser.parse_args()
    embeddings = np.load(options.embeddings)
    sample = embeddings[np.linspace(0, len(embeddings) - 1, 2 * options.rows).astype(int)]
    clean, public = sample[::2], sample[1::2]
    print("| noise | identified among all | no more than | cosine of the row | linear | posterior over public vectors |")
    print("|---|---|---|---|---|---|")
    for name, setting in SETTINGS:
        rows, receipt = clean, None
        if setting is not None:
            rows, receipt = hv.privatize(clean, normalize=True, generator=hv.Generator.unsafe_seeded(options.seed), **setting)
        listed = embedding_inversion(rows, clean, receipt=receipt)
        unlisted = embedding_inversion(rows, clean, public, receipt=receipt)
        cosines = [unlisted.cosines[one] for one in ("released", "linear", "posterior mean")]
        print(
            f"| {name} | {listed.identified[1]} | {listed.identified_bound:.2g} | {' | '.join(map(str, cosines))} |", flush=True
        )


if __name__ == "__main__":
    main()
