"""Builds the native device programs ahead, for a machine where time is short: a folder of some megabytes to carry there.

    python bench/cuda/prebuild.py [--folder build/cuda-programs] [--tree build/cuda-tree] [--architectures 90-real] [--jobs N]
                                  [--python PYTHON] [--variant NAME] [-- CMAKE OPTIONS]

--python builds the modules too, for that interpreter (the version of the other machine's, with its headers): nothing is left to compile there.
--variant adds time_kernels.NAME and test_launchers.NAME, built with the options after --, which variants.py times against the plain one:

    python bench/cuda/prebuild.py --variant narrow -- -DCMAKE_CUDA_FLAGS=-DHUSHVEC_SOMETHING=2

cuRAND is timed as a peer where its header is found; -DHUSHVEC_CURAND_INCLUDE=FOLDER says where it is.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
from pathlib import Path

import build

BUILDS = build.ROOT / "build"
OF_A_VARIANT = ("time_kernels", "test_launchers")


def put(program: Path, target: Path) -> None:
    """A copy without symbols, beside its name and then renamed."""
    beside = target.with_name(f"{target.name}.part")
    subprocess.run(["strip", "-o", str(beside), str(program)], check=True)
    os.replace(beside, target)


def prebuild(arguments: argparse.Namespace) -> None:
    folder, variant = arguments.folder, arguments.variant
    tree = arguments.tree.with_name(f"{arguments.tree.name}-{variant}") if variant else arguments.tree
    names = OF_A_VARIANT if variant else tuple(build.PROGRAMS)
    with_modules = arguments.python is not None and not variant
    python = build.python_options(arguments.python) if with_modules else ["-DHUSHVEC_BUILD_PYTHON=OFF"]
    targets = [*names, *(build.MODULES if with_modules else ())]
    build.compiled(tree, arguments.architectures, targets, [*python, *arguments.options], arguments.jobs)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        put(tree / build.PROGRAMS[name], folder / (f"{name}.{variant}" if variant else name))
    if variant:
        return
    (folder / build.STAMP).write_text(build.sources_digest())
    shutil.rmtree(folder / "modules", ignore_errors=True)
    if with_modules:
        build.collect(tree, folder / "modules")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=BUILDS / "cuda-programs")
    parser.add_argument("--tree", type=Path, default=BUILDS / "cuda-tree", help="where it is compiled")
    parser.add_argument("--architectures", default="90-real")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--python", help="the interpreter to build modules for")
    parser.add_argument("--variant", help="the name of a variant")
    parser.add_argument("options", nargs="*", help="for cmake")
    arguments = parser.parse_args()
    prebuild(arguments)
    for path in sorted(arguments.folder.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size / 1e6:6.2f} MB  {path}")


if __name__ == "__main__":
    main()
