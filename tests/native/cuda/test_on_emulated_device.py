"""The tests marked `gpu` on the emulated device (ptx/README.md), in a process of their own: public functions, on the PTX of nvcc."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from evidence.reference.sizes import SCALE
from native.cuda.ptx import build

pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]
CALLS = "tests/native/cuda/calls_on_emulated_device.py"   # named, as it is collected nowhere else
# What takes minutes on a CPU: the largest shapes, and a search in 3,000 rows.
LARGE = ["70001", "1000", "1536", "768", "4096", "test_the_first_row_that_is_not_finite", "test_float64_rows_have_their_nearest_code"]
SKIPPED = 10   # those that would show nothing, of which emulated_torch.py has the reasons, and those of CuPy


def test_the_tests_of_a_device_pass_on_the_emulated_one():
    try:
        build.python_module(build.Settings())
    except build.NotBuilt as reason:
        pytest.skip(str(reason))
    chosen = [] if SCALE == "full" else ["-k", " and ".join(f"not {name}" for name in LARGE)]
    command = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "gpu", "--emulated-device", *chosen, "tests/native/cuda", CALLS]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run([sys.executable, *command], cwd=ROOT, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-3000:]
    (passed,) = re.findall(r"(\d+) passed", done.stdout)
    skipped = sum(map(int, re.findall(r"(\d+) skipped", done.stdout)))
    print(done.stdout.splitlines()[-1])
    assert int(passed) >= (820 if SCALE == "full" else 600) and skipped <= SKIPPED
    assert re.search(r"^emulated device: .*\b0 faults$", done.stderr, re.MULTILINE), done.stderr[-3000:]
