"""Builds the package with CUDA for this machine's device into a folder, and the native device programs, without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def build(folder: Path) -> dict[str, Path]:
    """Where things are: "package" for PYTHONPATH, and each native program by name."""
    tree = folder / "build"
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    configure = [
        "cmake", "-S", str(ROOT), "-B", str(tree), "-DCMAKE_BUILD_TYPE=Release", "-DHUSHVEC_CUDA=ON",
        "-DCMAKE_CUDA_ARCHITECTURES=native", "-DHUSHVEC_BUILD_TESTS=ON", "-DHUSHVEC_BUILD_PYTHON=ON",
        f"-Dpybind11_DIR={pybind11}", f"-DPython_EXECUTABLE={sys.executable}",
    ]  # fmt: skip
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", str(tree), "-j", str(os.cpu_count() or 1)], check=True)
    return {
        "package": assemble(tree, folder / "package"),
        "test_launchers": tree / "tests/cuda/test_launchers",
        "check_device_bounds": tree / "cuda/tools/check_device_bounds",
    }


def assemble(tree: Path, package: Path) -> Path:
    """A folder that holds `hushvec` as an installation would: the Python sources and the compiled modules."""
    shutil.copytree(ROOT / "python/hushvec", package / "hushvec", dirs_exist_ok=True)
    for module in (*tree.glob("_core*.so"), *tree.glob("_cuda*.so")):
        shutil.copy2(module, package / "hushvec" / module.name)
    return package
