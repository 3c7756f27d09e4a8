#!/usr/bin/env python3
"""Runs the tests that rank (pytest -m ranks) with each kernel of OpenBLAS that this machine can run and does not use by itself.

Kernels round differently, and some by a row's place in a block; results must not depend on it. One process for each, all at once.

    python scripts/check_ranks.py
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from blas_kernels import NEEDED, own_kernel, reason_not_to_run  # noqa: E402

MARK = "pytest.mark.ranks"


def main():
    chosen = []
    for kernel in NEEDED:
        reason = "it is what pytest runs with" if kernel == own_kernel() else reason_not_to_run(kernel)
        if reason:
            print(f"skipped: OPENBLAS_CORETYPE={kernel}, as {reason}")
        else:
            chosen.append(kernel)
    # By name: collecting the whole suite imports every library that it uses, which takes longer than the tests themselves.
    folders = (ROOT / "tests", ROOT / "studies" / "tests")
    files = sorted(str(path) for folder in folders for path in folder.rglob("test_*.py") if MARK in path.read_text())
    with ThreadPoolExecutor(len(NEEDED)) as pool:
        runs = pool.map(lambda kernel: tested(kernel, files), chosen)
        codes = [shown(kernel, run) for kernel, run in zip(chosen, runs)]
    return 1 if any(codes) else 0


def tested(kernel, files):
    command = [sys.executable, "-m", "pytest", "-q", "-m", "ranks and not alone", "-p", "no:cacheprovider", *files]
    return subprocess.run(command, cwd=ROOT, env={**os.environ, "OPENBLAS_CORETYPE": kernel}, capture_output=True, text=True)


def shown(kernel, run):
    """The exit code; the whole output of a run that failed, else its last line."""
    lines = (run.stdout + run.stderr).splitlines()
    print(f"== OPENBLAS_CORETYPE={kernel}", *(lines if run.returncode else lines[-1:]), sep="\n", flush=True)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
