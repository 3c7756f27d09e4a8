"""Reports and counts depend on neither the backend nor the threads. Their values are held to the reference in the other files."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CALLS = Path(__file__).with_name("calls.py")


def digests(backend, threads):
    environment = dict(os.environ, HUSHVEC_BACKEND=backend, HUSHVEC_NUM_THREADS=str(threads))
    printed = subprocess.run([sys.executable, str(CALLS)], env=environment, capture_output=True, text=True, check=True).stdout
    return printed.split()


@pytest.fixture(scope="module")
def plain():
    return digests("portable", 1)


@pytest.mark.parametrize("threads", [1, 3])
def test_same_reports_everywhere(backend, threads, plain):
    assert len(plain) == 5
    assert digests(backend, threads) == plain
