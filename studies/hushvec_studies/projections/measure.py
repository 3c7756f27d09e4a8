"""How much retrieval a local release leaves: mechanisms, public projections, and the split of PrivUnitG, on real embeddings.

    python -m hushvec_studies.projections.measure embeddings.npy splits.npy categories.npy -o results.json

embeddings.npy: float32 [n, d]; splits.npy: n strings, "train" rows are taken as public, 2,000 of the "test" rows as private;
categories.npy: n strings. Each private row is projected, normalised and released once per draw; it has to find its own clean
row among the 2,000 by cosine (first, or among the first ten), and others of its category (share of the first ten without
itself). PrivUnitG is written here in plain numpy, so that its threshold can be moved away from the optimum; "corpus_size" is
measured with the package's own.
"""

import argparse
import json
from pathlib import Path

import numpy as np
from scipy import optimize, stats

import hushvec as hv
from hushvec.mechanisms import PrivUnit, PublicProjection
from hushvec_studies.harness.outputs import write_json

EPSILONS = (5, 8, 10, 16, 20, 32)
DIMENSIONS = (5, 7, 10, 14, 20, 40, 80, 160, 240, 320, 380)
SPLIT_OFFSETS = (-1.5, -1.0, -0.8, -0.6, -0.5, -0.4, -0.3, -0.2, -0.1, 0.0, 0.1, 0.2, 0.3, 0.5, 1.0)
SPLIT_MAPS = ("none", "whitened 380")
DELTA = 1e-5
ROWS = 2000


def log_odds_of_cap(threshold, epsilon):
    """logit p that goes with a threshold (in units of 1/sqrt(d)) at this epsilon."""
    return epsilon - (stats.norm.logcdf(threshold) - stats.norm.logsf(threshold))


def strength(threshold, epsilon):
    """E<V, u> sqrt(d)."""
    p = 1 / (1 + np.exp(-log_odds_of_cap(threshold, epsilon)))
    above = np.exp(stats.norm.logpdf(threshold) - stats.norm.logsf(threshold))
    below = np.exp(stats.norm.logpdf(threshold) - stats.norm.logcdf(threshold))
    return p * above - (1 - p) * below


def best_threshold(epsilon):
    return optimize.minimize_scalar(
        lambda t: -strength(t, epsilon), bounds=(0, 4 + np.sqrt(2 * epsilon)), method="bounded", options={"xatol": 1e-10}
    ).x


def privunit(u, epsilon, rng, threshold):
    count, dimension = u.shape
    p = 1 / (1 + np.exp(-log_odds_of_cap(threshold, epsilon)))
    uniform = rng.random(count)
    tail = stats.norm.isf(uniform * stats.norm.sf(threshold))
    body = stats.norm.ppf(uniform * stats.norm.cdf(threshold))
    along = np.where(rng.random(count) < p, tail, body)
    v = rng.standard_normal((count, dimension)).astype(np.float32)
    v += (along - np.einsum("ij,ij->i", v, u))[:, None].astype(np.float32) * u
    return v


def gaussian(u, epsilon, rng):
    sigma = hv.gaussian_sigma(epsilon, DELTA, 2.0)
    return u + np.float32(sigma) * rng.standard_normal(u.shape).astype(np.float32)


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def retrieved(noisy, clean, category):
    """Shares of rows that find themselves first, and among the first ten; share of their category among the first ten others."""
    scores = noisy @ clean.T
    own = np.einsum("ij,ij->i", noisy, clean)
    better = (scores > own[:, None] + 1e-5 * np.abs(own)[:, None]).sum(axis=1)  # equal clean rows count as one another
    np.fill_diagonal(scores, -np.inf)
    nearest = np.argpartition(-scores, 10, axis=1)[:, :10]
    return np.array([(better < 1).mean(), (better < 10).mean(), (category[nearest] == category[:, None]).mean()])


def measured(release, clean, category, draws):
    return np.mean([retrieved(release(clean), clean, category) for _ in range(draws)], axis=0).round(4).tolist()


def measured_with_corpus_size(clean, category, draws):
    """`measured` for the package's PrivUnit, its split of epsilon chosen for as many others as there are rows."""

    def release(mechanism):
        return lambda u: hv.privatize(u, mechanism=mechanism).values

    clean, setting = clean.astype(np.float32), {"dimension": clean.shape[1], "corpus_size": len(clean)}
    table = {epsilon: PrivUnit(epsilon=float(epsilon), **setting) for epsilon in EPSILONS}
    return {f"privunit {epsilon}": measured(release(mechanism), clean, category, draws) for epsilon, mechanism in table.items()}


def projections(public):
    dimension = public.shape[1]
    mean = PublicProjection.mean_only(public)
    yield "none", PublicProjection(np.zeros(dimension, np.float32))
    yield "mean", mean
    for count in DIMENSIONS:
        random = PublicProjection.johnson_lindenstrauss(dimension, count, seed=1)
        yield f"jl {count}", random
        yield f"mean, jl {count}", PublicProjection(mean.mean, random.components)
        yield f"pca {count}, mean kept", PublicProjection.fit(public, components=count, remove_mean=False)
        yield f"pca {count}", PublicProjection.fit(public, components=count)
        yield f"whitened {count}", PublicProjection.fit(public, components=count, whiten=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("embeddings")
    parser.add_argument("splits")
    parser.add_argument("categories")
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--split-draws", type=int, default=10)
    arguments = parser.parse_args()
    rows, split = np.load(arguments.embeddings), np.load(arguments.splits)
    rng = np.random.default_rng(1)
    public = rows[split == "train"]
    chosen = rng.permutation(np.flatnonzero(split == "test"))[:ROWS]
    private, category = rows[chosen], np.load(arguments.categories)[chosen]
    results = {"public rows": len(public), "private rows": len(private), "draws": arguments.draws, "retrieval": {}, "split": {}}
    thresholds = {epsilon: best_threshold(epsilon) for epsilon in EPSILONS}
    for name, projection in projections(public):
        clean = unit(projection.transform(private))
        table = {"no noise": retrieved(clean, clean, category).round(4).tolist()}
        for epsilon in EPSILONS:
            table[f"gaussian {epsilon}"] = measured(lambda u: gaussian(u, epsilon, rng), clean, category, arguments.draws)
            table[f"privunit {epsilon}"] = measured(
                lambda u: privunit(u, epsilon, rng, thresholds[epsilon]), clean, category, arguments.draws
            )
        results["retrieval"][name] = table
        print(name, {key: value[0] for key, value in table.items()}, flush=True)
    for name in SPLIT_MAPS:
        clean = unit(dict(projections(public))[name].transform(private))
        for epsilon in EPSILONS:
            best = thresholds[epsilon]
            table = {
                offset: [
                    strength(best + offset, epsilon),
                    *measured(lambda u: privunit(u, epsilon, rng, best + offset), clean, category, arguments.split_draws),
                ]
                for offset in SPLIT_OFFSETS
                if best + offset > 0
            }
            results["split"][f"{name}, epsilon {epsilon}"] = table
            print(name, epsilon, round(best, 4), {key: value[1] for key, value in table.items()}, flush=True)
    results["corpus_size"] = {
        name: measured_with_corpus_size(unit(dict(projections(public))[name].transform(private)), category, arguments.draws)
        for name in SPLIT_MAPS
    }
    print("corpus_size", json.dumps(results["corpus_size"]), flush=True)
    write_json(Path(arguments.output), results)


if __name__ == "__main__":
    main()
