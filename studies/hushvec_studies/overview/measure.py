"""What is found in released rows, and who is recognized in them, by mechanism and epsilon: the picture of the README.

    python -m hushvec_studies.embeddings.posts 20newsgroups_8.jsonl.xz posts
    python -m hushvec_studies.overview.measure posts -o studies/hushvec_studies/overview/results/utility_and_attack.json

20 Newsgroups by date: train posts are public, test posts are private and released once, each with its own noise.

utility   each clean test post searches the released ones for others of its group: precision at 10.
attack    the adversary has the clean rows of all test posts and names the likeliest post for each released row: how often it is right.
          For every mechanism here that is the post whose row has the largest inner product with the released one.

Maps and the number of codes are chosen on public posts alone: the whitening map behind which their groups are found best, and the
codebook whose answers are most alike to the rows. Shares are means of three draws, with a percentile bootstrap over posts, 95 %. The
mechanisms draw fresh noise, so another run gives slightly different figures.
"""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import hushvec as hv
from hushvec.audit.bootstrap import bootstrap
from hushvec.mechanisms import Gaussian, PrivUnit, PublicCodebook, PublicProjection
from hushvec_studies.harness.outputs import write_study
from hushvec_studies.harness.rows import index_of, others_of, unit

EPSILONS = (1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0)
DELTA = 1e-5
COMPONENTS = (10, 20, 40, 80, 160)
DRAWS = 3
K = 10


def gaussian(epsilon, dimension):
    return Gaussian(epsilon=epsilon, delta=DELTA, dimension=dimension)


def privunit(epsilon, dimension):
    return PrivUnit(epsilon=epsilon, dimension=dimension)


def best_map(public, groups, mechanism, epsilon):
    """The whitening map of one half of the public rows behind which the groups of the other half are found best, fitted on both."""
    seen, held_out = public[::2], public[1::2]

    def found(components):
        mapped = unit(PublicProjection.fit(seen, components=components, whiten=True).transform(held_out))
        released = hv.privatize(mapped, mechanism=mechanism(epsilon, components)).values
        return precision(released, mapped, groups[1::2]).mean()

    return PublicProjection.fit(public, components=max(COMPONENTS, key=found), whiten=True)


def choices(public, public_groups, private, epsilon):
    """(name, what was chosen, rows that it releases and that releases are compared with, mechanism)."""
    for name, kind in (("gaussian", gaussian), ("privunit", privunit)):
        whitening = best_map(public, public_groups, kind, epsilon)
        components = whitening.output_dimension
        yield name, components, unit(whitening.transform(private)), kind(epsilon, components)
    codebook = PublicCodebook.fit(public, epsilon=epsilon, purpose="cosine").for_any_row()
    yield "codebook", len(codebook), private, codebook.mechanism(epsilon)


def precision(released, clean, groups):
    """[n]: among the 10 released rows nearest to each clean row, without its own, the share of its group."""
    others = others_of(index_of(released).search(clean, K + 1).ids)
    return (groups[others] == groups[:, None]).mean(axis=1)


def recognized(released: Any, clean: Any) -> Any:
    """[n]: whether the clean row nearest to each released row is its own."""
    return (index_of(clean).search(released, 1).ids[:, 0] == np.arange(len(released))).astype(np.float64)


def row_of(name, epsilon, chosen, draws):
    columns = {measure: np.mean([draw[measure] for draw in draws], axis=0) for measure in draws[0]}
    estimates = bootstrap(columns)
    row = {"mechanism": name, "epsilon": epsilon, "chosen": chosen}
    row |= {measure: [one.value, one.low, one.high] for measure, one in estimates.items()}
    print(row, flush=True)
    return row


def measured(embeddings, splits, categories):
    order = np.random.default_rng(0).permutation(np.flatnonzero(splits == "test"))  # equal releases come in order of arrival
    older = splits == "train"
    public, private, groups = embeddings[older], embeddings[order], categories[order]
    rows = [row_of("none", None, None, [{"utility": precision(private, private, groups)}])]
    for epsilon in EPSILONS:
        for name, chosen, clean, mechanism in choices(public, categories[older], private, epsilon):
            drawn = [hv.privatize(clean, mechanism=mechanism).values for _ in range(DRAWS)]
            draws = [{"utility": precision(one, clean, groups), "attack": recognized(one, clean)} for one in drawn]
            rows.append(row_of(name, epsilon, chosen, draws))
    shares = np.unique(groups, return_counts=True)[1] / len(groups)
    return {"public": len(public), "private": len(private), "utility_by_chance": float((shares**2).sum()), "rows": rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("posts", type=Path, help="folder that hushvec_studies.embeddings.posts wrote")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    arrays = (np.load(arguments.posts / f"{name}.npy") for name in ("embeddings", "splits", "categories"))
    write_study(arguments.output, measured(*arrays))


if __name__ == "__main__":
    main()
