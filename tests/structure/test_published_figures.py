"""The measured tables of README.md and docs, and the pictures, are those of the results in the repository."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("program", ["bench/python/figures.py", "scripts/draw_pictures.py"])
def test_pages_and_pictures_hold_what_the_results_say(program):
    if not (ROOT / "bench/results").is_dir():
        pytest.skip("bench/results is not part of a source distribution")
    check = subprocess.run([sys.executable, ROOT / program, "--check"], capture_output=True, text=True)
    assert (check.returncode, check.stderr) == (0, "")


def test_benchmarks_need_no_plugin_that_their_requirements_lack():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "bench/python"]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stdout + found.stderr
