"""What is found in released rows, and who is recognized in them, by mechanism and epsilon: the picture of the README.

    python -m hushvec_studies.embeddings.posts 20newsgroups_8.jsonl.xz posts
    python -m hushvec_studies.overview.measure posts -o studies/hushvec_studies/overview/results/utility_and_attack.json

20 Newsgroups by date: train posts are public, test posts are private and released once, each with its own noise.

utility   each clean test post searches the released ones for others of its group: precision at 10.
attack    the adversary has the clean rows of all test posts, takes a released row, and names the likeliest post: how often it is right.
          For every mechanism here that is the post whose row has the largest inner product with the released one.

Every mechanism gets the public map, and the codebook the number of codes, that serve public rows best. Shares are means of three
draws, with a percentile bootstrap over posts, 95 %. The mechanisms draw fresh noise, so another run gives slightly different figures.
"""

import argparse
from pathlib import Path

import numpy as np

import hushvec as hv
from hushvec.audit.bootstrap import bootstrap
from hushvec.mechanisms import Gaussian, PrivUnit, PublicCodebook, PublicProjection
from hushvec.mechanisms.code_counts import found_share
from hushvec.retrieval import PrivateIndex
from hushvec_studies.harness.outputs import write_json

EPSILONS = (1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 20.0, 24.0)
DELTA = 1e-5
COMPONENTS = (10, 20, 40, 80, 160, 320)
DRAWS = 3
K = 10


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def gaussian(epsilon, dimension):
    return Gaussian(epsilon=epsilon, delta=DELTA, dimension=dimension)


def privunit(epsilon, dimension):
    return PrivUnit(epsilon=epsilon, dimension=dimension)


def best_map(public, mechanism, epsilon):
    """The whitening map behind which most of the neighborhood of held-out public rows is found in their releases."""
    seen, held_out = public[::2], public[1::2]

    def share(components):
        mapped = unit(PublicProjection.fit(seen, components=components, whiten=True).transform(held_out))
        return found_share(held_out, mapped, unit(hv.privatize(mapped, mechanism=mechanism(epsilon, components)).values))

    return PublicProjection.fit(public, components=max(COMPONENTS, key=share), whiten=True)


def releases(public, private, epsilon):
    """(name, what was chosen, rows to compare releases with, a function that releases) of each mechanism."""
    for name, mechanism in (("gaussian", gaussian), ("privunit", privunit)):
        whitening = best_map(public, mechanism, epsilon)
        mapped, components = unit(whitening.transform(private)), whitening.output_dimension
        yield name, components, mapped, lambda m=mechanism(epsilon, components), rows=mapped: hv.privatize(rows, mechanism=m).values
    codebook = PublicCodebook.fit(public, epsilon=epsilon, purpose="cosine")
    answer = codebook.mechanism(epsilon)
    yield "codebook", len(codebook), private, lambda: hv.privatize(private, mechanism=answer).values


def searched(rows, queries, k):
    index = PrivateIndex(rows.shape[1], store="numpy")
    index.add(rows)
    return index.search(queries, k).ids


def precision(released, beside, groups):
    """[n]: among the 10 released rows nearest to each clean row, without its own, the share of its group."""
    ids = searched(released, beside, K + 1)
    others = np.argsort(ids == np.arange(len(ids))[:, None], axis=1, kind="stable")[:, :K]
    return (groups[np.take_along_axis(ids, others, axis=1)] == groups[:, None]).mean(axis=1)


def recognized(released, beside):
    """[n]: whether the clean row nearest to each released row is its own."""
    return (searched(beside, released, 1)[:, 0] == np.arange(len(released))).astype(np.float64)


def row_of(name, epsilon, chosen, draws):
    columns = {measure: np.mean([draw[measure] for draw in draws], axis=0) for measure in draws[0]}
    estimates = bootstrap(columns)
    row = {"mechanism": name, "epsilon": epsilon, "chosen": chosen}
    row |= {measure: [one.value, one.low, one.high] for measure, one in estimates.items()}
    print(row, flush=True)
    return row


def measured(embeddings, splits, categories):
    order = np.random.default_rng(0).permutation(np.flatnonzero(splits == "test"))  # equal releases come in order of arrival
    public, private, groups = embeddings[splits == "train"], embeddings[order], categories[order]
    rows = [row_of("none", None, None, [{"utility": precision(private, private, groups)}])]
    for epsilon in EPSILONS:
        for name, chosen, beside, release in releases(public, private, epsilon):
            drawn = [release() for _ in range(DRAWS)]
            draws = [{"utility": precision(one, beside, groups), "attack": recognized(one, beside)} for one in drawn]
            rows.append(row_of(name, epsilon, chosen, draws))
    shares = np.unique(groups, return_counts=True)[1] / len(groups)
    return {"public": len(public), "private": len(private), "utility_by_chance": float((shares**2).sum()), "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("posts", type=Path, help="folder that hushvec_studies.embeddings.posts wrote")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    write_json(arguments.output, measured(*(np.load(arguments.posts / f"{name}.npy") for name in ("embeddings", "splits", "categories"))))


if __name__ == "__main__":
    main()
