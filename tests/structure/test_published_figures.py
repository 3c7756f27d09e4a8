"""The measured tables of README.md and docs/design.md are those of bench/results."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def test_pages_hold_what_the_results_say():
    if not (ROOT / "bench/results").is_dir():
        pytest.skip("bench/results is not part of a source distribution")
    check = subprocess.run([sys.executable, ROOT / "bench/python/figures.py", "--check"], capture_output=True, text=True)
    assert (check.returncode, check.stderr) == (0, "")
