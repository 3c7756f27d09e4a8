#!/usr/bin/env python3
"""A release with its receipt, a private search and a command, by the hushvec that this Python finds: what an installed package must do
where there is numpy and nothing else. Prints the version and where it was found.

    python scripts/first_search.py
"""

import time

STARTED = time.perf_counter()

import numpy as np  # noqa: E402

import hushvec as hv  # noqa: E402
from hushvec.cli import main  # noqa: E402
from hushvec.retrieval import PrivateIndex, VectorNoise  # noqa: E402

ROWS, DIMENSION = 200, 64


def first_search():
    rows = np.random.default_rng(0).standard_normal((ROWS, DIMENSION)).astype(np.float32)
    release = hv.privatize(rows, epsilon=8.0, delta=1e-6, clip_norm=1.0)
    verification = hv.verify_receipt(release.receipt)
    assert verification.status == "holds", verification
    assert release.values.shape == rows.shape and not np.array_equal(release.values, rows)

    index = PrivateIndex(DIMENSION, documents=VectorNoise(epsilon=200.0))   # PrivUnit loses about one row in 400 at this epsilon
    index.add(rows)
    answer = index.search(rows, k=3)
    found = sum(ids[0] == row for row, ids in enumerate(answer.ids))
    assert found >= ROWS - 10, f"{found} of {ROWS} rows find themselves"     # more than 10 lost: less than one run in 10^9
    assert main(["sigma", "--epsilon", "8", "--delta", "1e-6", "--sensitivity", "2"]) == 0


if __name__ == "__main__":
    first_search()
    print(f"hushvec {hv.__version__} from {hv.__file__}: a release, its receipt and a search in {time.perf_counter() - STARTED:.1f} s")
