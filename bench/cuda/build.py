"""Builds the package with CUDA into a folder, and the native device programs, without a network.

    python bench/cuda/build.py FOLDER [--architectures native]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("_core", "_cuda")
PROGRAMS = {
    "check_device_bounds": "cuda/tools/check_device_bounds",
    "count_open_samples": "cuda/tools/count_open_samples",
    "test_launchers": "tests/native/cuda/test_launchers",
}


def paths(folder: Path) -> dict[str, Path]:
    """Where things are after a build: "package" for PYTHONPATH, and each native program by name."""
    return {"package": folder / "package", **{name: folder / "build" / path for name, path in PROGRAMS.items()}}


def build(folder: Path, architectures: str) -> None:
    tree = folder / "build"
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    configure = [
        "cmake", "-S", str(ROOT), "-B", str(tree), "-DCMAKE_BUILD_TYPE=Release", "-DHUSHVEC_CUDA=ON",
        f"-DCMAKE_CUDA_ARCHITECTURES={architectures}", "-DHUSHVEC_BUILD_TESTS=ON", "-DHUSHVEC_BUILD_PYTHON=ON",
        f"-Dpybind11_DIR={pybind11}", f"-DPython_EXECUTABLE={sys.executable}",
    ]  # fmt: skip
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", str(tree), "-j", str(os.cpu_count() or 1), "--target", *MODULES, *PROGRAMS], check=True)
    assemble(tree, paths(folder)["package"])


def assemble(tree: Path, package: Path) -> None:
    """A folder that holds `hushvec` as an installation would: the Python sources and the compiled modules."""
    no_binaries = shutil.ignore_patterns("*.so", "__pycache__")  # of another build
    shutil.copytree(ROOT / "python/hushvec", package / "hushvec", ignore=no_binaries, dirs_exist_ok=True)
    for name in MODULES:
        (module,) = tree.glob(f"{name}*.so")
        shutil.copy2(module, package / "hushvec" / module.name)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--architectures", default="native")
    arguments = parser.parse_args()
    build(arguments.folder, arguments.architectures)
