"""What search keeps of int8 releases, beside float32 ones of the same noise.

    python -m hushvec_studies.search_by_mechanism.int8 DATA -o studies/hushvec_studies/search_by_mechanism/results/int8.json

All 5,183 abstracts of SciFact, whose files DATA holds, are released, and the 300 validation claims search them, clean. Both dtypes
draw from the same seeds, so that a difference is one of grids and saturation, not of noise. int8 rows are searched with claims as they
are, and with claims rounded to int8, as FAISS compares bytes. Means over three draws; the interval is that of int8 less float32,
percentile bootstrap over claims, 95 %.
"""

import argparse
from pathlib import Path

import numpy as np

import hushvec as hv
from hushvec.audit.bootstrap import bootstrap
from hushvec_studies.evaluation import collection, vectors
from hushvec_studies.evaluation.cells import measures, searched
from hushvec_studies.harness.embeddings import MINILM, embedder
from hushvec_studies.harness.outputs import write_json
from hushvec_studies.harness.rows import index_of

RELEASES = (("gaussian", 8.0), ("gaussian", 64.0), ("gaussian", 256.0), ("privunit", 8.0), ("privunit", 16.0), ("privunit", 64.0))
DRAWS = 3


def rounded(claims):
    """Claims as int8 values, each row on a scale of its own: scores of one claim keep their order but for the rounding."""
    return np.rint(claims * (127 / np.abs(claims).max(axis=1, keepdims=True))).astype(np.float32)


def compared(documents, claims, relevant, mechanism, epsilon):
    found = {"float32": [], "int8": [], "int8, int8 claims": []}
    for seed in range(DRAWS):
        settings = {"epsilon": epsilon, "mechanism": mechanism}
        floats = hv.privatize(documents, generator=hv.Generator.unsafe_seeded(seed), **settings).values
        release = hv.privatize(documents, generator=hv.Generator.unsafe_seeded(seed), dtype="int8", **settings)
        integers = index_of(release.to_float32())
        found["float32"].append(measures(searched(index_of(floats), claims), relevant))
        found["int8"].append(measures(searched(integers, claims), relevant))
        found["int8, int8 claims"].append(measures(searched(integers, rounded(claims)), relevant))
    means = {kind: np.mean([run["ndcg_at_10"] for run in runs], axis=0) for kind, runs in found.items()}
    differences = {kind: means[kind] - means["float32"] for kind in ("int8", "int8, int8 claims")}
    estimates = bootstrap(differences)
    return {
        "mechanism": mechanism,
        "epsilon": epsilon,
        "s": release.receipt.sigma / release.scale,
        "saturation_probability": release.receipt.saturation_probability,
        "ends": float((np.abs(release.values.astype(int)) == 127).mean()),
        "ndcg": {kind: float(mean.mean()) for kind, mean in means.items()},
        "difference": {kind: [one.value, one.low, one.high] for kind, one in zip(differences, estimates.values())},
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder with the files of SciFact")
    parser.add_argument("-o", "--output", type=Path, required=True)
    arguments = parser.parse_args()
    data = vectors.searched(collection.scifact(arguments.data, validation=True), embedder(MINILM[0]).embed)
    rows = []
    for mechanism, epsilon in RELEASES:
        rows.append(compared(data.documents, data.queries, data.relevant, mechanism, epsilon))
        print(rows[-1], flush=True)
    write_json(arguments.output, rows)


if __name__ == "__main__":
    main()
