"""How often the bootstrap intervals of hushvec.retrieval.evaluate hold the truth.

    python -m hushvec_studies.retrieval.measure_intervals -o studies/hushvec_studies/retrieval/results/intervals.json

Coverage: data sets are drawn from a known law, and the share of those whose 95 % interval holds the true mean is printed with
its standard error. Queries of one document share its own hit rate, drawn from a beta law; they are resampled together, or,
wrongly, alone. Two mechanisms that answer the same queries: how often the interval of their paired difference holds the true one,
and how often the sign-flip test rejects at 0.05 that there is none.
"""

import argparse
from pathlib import Path

import numpy as np

from hushvec.audit.bootstrap import bootstrap
from hushvec_studies.harness.outputs import write_json
from hushvec_studies.harness.paired import paired_test

QUERIES = (50, 200, 1000)
RATES = (0.5, 0.9, 0.99)
PER_DOCUMENT = (1, 3, 10)
DIFFERENCES = (0.0, 0.1)
DOCUMENTS = 100
SPREAD = 1.0  # of the beta law: hit rates of documents are its draws with parameters rate and 1 - rate, times this


def coverage(draw, mean, data_sets, groups=None):
    """(share of intervals that hold the mean, its standard error)."""
    held = 0
    for number in range(data_sets):
        one = bootstrap({"x": draw()}, groups=groups, resamples=1000, seed=number, limits=(0.0, 1.0))["x"]
        held += one.low <= mean <= one.high
    share = held / data_sets
    return round(share, 4), round((share * (1 - share) / data_sets) ** 0.5, 4)


def of_independent_queries(rng, data_sets):
    for queries in QUERIES:
        for rate in RATES:
            share, error = coverage(lambda: (rng.random(queries) < rate).astype(float), rate, data_sets)
            yield {"queries": queries, "rate": rate, "coverage": share, "error": error}


def of_dependent_queries(rng, data_sets):
    for count in PER_DOCUMENT:

        def draw():
            own = rng.beta(0.7 * SPREAD, 0.3 * SPREAD, (DOCUMENTS, 1))
            return (rng.random((DOCUMENTS, count)) < own).ravel().astype(float)

        groups = np.repeat(np.arange(DOCUMENTS), count)
        together, alone = coverage(draw, 0.7, data_sets, groups), coverage(draw, 0.7, data_sets)
        yield {
            "documents": DOCUMENTS,
            "queries each": count,
            "together": together[0],
            "alone": alone[0],
            "error": max(together[1], alone[1]),
        }


def of_paired_differences(rng, data_sets):
    """Two mechanisms with hit rates of the documents' own, the second lower by `difference`; the same documents are hard for both."""
    for count in PER_DOCUMENT[:2]:
        groups = np.repeat(np.arange(DOCUMENTS), count)
        for difference in DIFFERENCES:
            held, rejected = 0, 0
            for number in range(data_sets):
                own = rng.beta(0.7 * SPREAD, 0.3 * SPREAD, (DOCUMENTS, 1))
                first = rng.random((DOCUMENTS, count)) < own
                second = rng.random((DOCUMENTS, count)) < own * (1 - difference / 0.7)
                test = paired_test(first.ravel(), second.ravel(), groups=groups, flips=999, seed=number, limits=(-1.0, 1.0))
                held += test.difference.low <= difference <= test.difference.high
                rejected += test.p_value <= 0.05
            share = held / data_sets
            yield {
                "documents": DOCUMENTS,
                "queries each": count,
                "difference": difference,
                "coverage": round(share, 4),
                "rejected": round(rejected / data_sets, 4),
                "error": round((share * (1 - share) / data_sets) ** 0.5, 4),
            }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", required=True)
    parser.add_argument("--data-sets", type=int, default=4000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(1)
    results = {
        "data sets": arguments.data_sets,
        "independent queries": list(of_independent_queries(rng, arguments.data_sets)),
        "queries of one document": list(of_dependent_queries(rng, arguments.data_sets)),
        # a stream of its own, so that the parts above keep their draws
        "paired differences": list(of_paired_differences(np.random.default_rng(2), arguments.data_sets)),
    }
    write_json(Path(arguments.output), results)


if __name__ == "__main__":
    main()
