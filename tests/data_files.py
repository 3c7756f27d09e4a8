"""Data that the tests can use and the repository does not carry."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("HUSHVEC_TEST_DATA") or Path(__file__).parents[2] / "shared" / "data")


def data_file(name):
    """(its path, a mark that skips tests where it is not there)."""
    reason = f"{name} is not part of the repository: set HUSHVEC_TEST_DATA to a folder that has it"
    return FOLDER / name, pytest.mark.skipif(not (FOLDER / name).exists(), reason=reason)
