"""Builds the package with CUDA into a folder, and the native device programs, without a network.

    python bench/cuda/build.py FOLDER [--architectures native] [--prebuilt DIR]

Compiler warnings are not errors here: a newer compiler must not cost a run on a device. With --prebuilt the programs are those of DIR, and
so are the modules if there are any for this Python, from these sources, that load.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODULES = ("_core", "_cuda")
PROGRAMS = {
    "check_device_bounds": "cuda/tools/check_device_bounds",
    "count_open_samples": "cuda/tools/count_open_samples",
    "test_launchers": "tests/native/cuda/test_launchers",
    "time_kernels": "cuda/tools/time_kernels",
}
SOURCES = ("CMakeLists.txt", "cmake", "cpp", "cuda", "python/bindings", "tests/native/cpp", "tests/native/cuda")
SUFFIXES = {".txt", ".cmake", ".hpp", ".cpp", ".cu", ".cuh"}
STAMP = "sources.txt"  # beside built files: the digest of what they were built from
SPARE_CORES = 2  # for the programs that run on the device meanwhile


def sources_digest(root: Path = ROOT) -> str:
    """Of everything that is compiled."""
    digest = hashlib.sha256()
    for place in SOURCES:
        top = root / place
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and path.suffix in SUFFIXES:
                digest.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def programs(folder: Path, prebuilt: Path | None) -> dict[str, Path]:
    """Each native program by name: of prebuild.py, or where a build in the folder puts it."""
    return {name: folder / "build" / path if prebuilt is None else prebuilt / name for name, path in PROGRAMS.items()}


def compiled(tree: Path, architectures: str, targets: Sequence[str], options: Sequence[str], jobs: int | None = None) -> None:
    """Configures and builds some targets."""
    configure = [
        "cmake", "-S", str(ROOT), "-B", str(tree), "-DCMAKE_BUILD_TYPE=Release", "-DHUSHVEC_CUDA=ON", "-DHUSHVEC_BUILD_TESTS=ON",
        f"-DCMAKE_CUDA_ARCHITECTURES={architectures}", "-DHUSHVEC_WARNINGS_AS_ERRORS=OFF", *options,
    ]  # fmt: skip
    if shutil.which("ninja"):
        configure += ["-G", "Ninja"]
    jobs = jobs or max(1, (os.cpu_count() or 1) - SPARE_CORES)
    subprocess.run(configure, check=True)
    subprocess.run(["cmake", "--build", str(tree), "-j", str(jobs), "--target", *targets], check=True)


def python_options(python: str = sys.executable) -> list[str]:
    pybind11 = subprocess.run(
        [sys.executable, "-m", "pybind11", "--cmakedir"], check=True, capture_output=True, text=True
    ).stdout.strip()
    return ["-DHUSHVEC_BUILD_PYTHON=ON", f"-Dpybind11_DIR={pybind11}", f"-DPython_EXECUTABLE={python}"]


def modules_in(folder: Path) -> list[Path]:
    """Modules for this Python from these sources, or none."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    found = [folder / f"{name}{suffix}" for name in MODULES]
    return found if all(path.exists() for path in found) and from_these_sources(folder) else []


def from_these_sources(folder: Path) -> bool:
    stamp = folder / STAMP
    return stamp.exists() and stamp.read_text().strip() == sources_digest()


def collect(tree: Path, modules: Path) -> None:
    """The modules of a build tree in a folder of their own, with what they were built from."""
    modules.mkdir(parents=True, exist_ok=True)
    for name in MODULES:
        (module,) = tree.glob(f"{name}*.so")
        shutil.copy2(module, modules / module.name)
    (modules / STAMP).write_text(sources_digest())


def assemble(modules: Path, package: Path) -> None:
    """A folder that holds `hushvec` as an installation would: the Python sources and the compiled modules."""
    shutil.rmtree(package, ignore_errors=True)
    no_binaries = shutil.ignore_patterns("*.so", "__pycache__")  # of another build
    shutil.copytree(ROOT / "python/hushvec", package / "hushvec", ignore=no_binaries)
    for module in modules.glob("*.so"):
        shutil.copy2(module, package / "hushvec/_native" / module.name)


def loads(package: Path) -> bool:
    """Whether the modules can be imported here."""
    program = "import hushvec._native._core, hushvec._native._cuda"
    return subprocess.run([sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(package)}).returncode == 0


def build(folder: Path, architectures: str, prebuilt: Path | None = None) -> None:
    package, tree, modules = folder / "package", folder / "build", folder / "modules"
    if prebuilt is not None and modules_in(prebuilt / "modules"):
        assemble(prebuilt / "modules", package)
        if loads(package):
            print(f"modules from {prebuilt}", flush=True)
            return
    targets = [*MODULES, *(PROGRAMS if prebuilt is None else ())]
    compiled(tree, architectures, targets, python_options())
    collect(tree, modules)
    assemble(modules, package)
    if not loads(package):
        raise SystemExit("the modules do not load")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--architectures", default="native")
    parser.add_argument("--prebuilt", type=Path, help="the folder that prebuild.py made")
    arguments = parser.parse_args()
    build(arguments.folder, arguments.architectures, arguments.prebuilt)
