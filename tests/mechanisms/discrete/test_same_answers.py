"""Discrete answers depend on neither the backend nor the threads. Their values are held to the reference in the other files."""

from pathlib import Path

import pytest

CALLS = Path(__file__).with_name("calls.py")


@pytest.fixture(scope="module")
def plain(digests):
    return digests(CALLS, "portable", 1)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_same_answers_everywhere(backend, threads, digests, plain):
    assert len(plain) == 6
    assert digests(CALLS, backend, threads) == plain
