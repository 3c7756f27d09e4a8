"""Equal rows score equally wherever they lie, alone and in company, whatever BLAS numpy has."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from blas_kernels import NEEDED, reason_not_to_run

PROGRAM = Path(__file__).parent / "equal_rows.py"
CHECKS = 17  # without FAISS


@pytest.mark.parametrize("kernel", [None, *NEEDED])
def test_nothing_that_ranks_tells_copies_of_a_row_apart(kernel):
    if kernel is not None and (reason := reason_not_to_run(kernel)):
        pytest.skip(reason)
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_CORETYPE"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    if kernel is not None:
        environment["OPENBLAS_CORETYPE"] = kernel
    done = subprocess.run([sys.executable, str(PROGRAM)], env=environment, capture_output=True, text=True, check=True)
    count, *different = done.stdout.splitlines()
    assert different == []
    assert int(count) >= CHECKS


def test_the_check_sees_scores_that_depend_on_the_place():
    """One unit in the last place of one copy."""
    from retrieval import equal_rows

    table = np.tile(np.random.default_rng(1).standard_normal((3, equal_rows.DISTINCT)).astype(np.float32), (1, equal_rows.COPIES))
    assert equal_rows.alike(table)
    table[2, -1] = np.nextafter(table[2, -1], np.float32(9))
    assert not equal_rows.alike(table)
