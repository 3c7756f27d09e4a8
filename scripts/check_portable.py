#!/usr/bin/env python3
"""Builds the core, the C++ tests and the Python module for systems that are not this one, runs what can run here, and prints a table.

    scripts/check_portable.py                                 every system
    scripts/check_portable.py x86_64-windows aarch64-macos    these

64-bit ARM is compiled by Debian's GCC and runs under qemu. The others are compiled by zig (`pip install ziglang`), which makes its C
and C++ libraries of each system first, once, in minutes. Windows runs under Wine, with a Python that scripts/windows_python.py puts
together; musl runs here; macOS runs nowhere, but its module is linked and must leave nothing undefined but Python's own names. What a
tool is missing for is skipped, and the table says which. Debian and Ubuntu:

    apt-get install g++-aarch64-linux-gnu qemu-user wine64 wine musl

Without musl, its tests are built and not run. Where that package is, Spark's tests fail: snappy-java takes its library for musl.
"""

import argparse
import dataclasses
import os
import re
import shutil
import struct
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/portable"
HEADERS = Path(sysconfig.get_paths()["include"])
MUSL_LOADER = Path("/lib/ld-musl-x86_64.so.1")
# What needs no more than numpy and the packages of scripts/windows_python.py: the other two import torch and faiss.
PYTHON_TESTS = "tests/noise --ignore tests/noise/test_discrete.py --ignore tests/noise/test_lists.py"
NO_LIBRARY = (0x00, 0xFE, 0xFF)  # Mach-O's ordinals: this file itself, as zig's linker writes it; any that is loaded; the program
CORES = str(os.cpu_count() or 1)


class Failed(Exception):
    """A step of a system that did not end well."""


@dataclasses.dataclass
class Row:
    """What came of a system: a word for each column of the table."""

    system: str
    compiles: str = "-"
    links: str = "-"
    tests: str = "-"
    python: str = "workflow only"
    seconds: float = 0

    def __str__(self):
        return f"| {self.system} | {self.compiles} | {self.links} | {self.tests} | {self.python} | {self.seconds:.0f} s |"


def run(command, log, **environment):
    """Runs a command with its output in a file. Its last lines are shown where it fails."""
    with open(log, "ab") as file:
        plain = {"cwd": ROOT, "stdin": subprocess.DEVNULL, "stdout": file, "stderr": file}
        ended = subprocess.run(command, env=os.environ | environment, check=False, **plain)
    if ended.returncode != 0:
        lines = log.read_text(errors="replace").splitlines()
        raise Failed("\n".join([f"{' '.join(map(str, command))}: exit code {ended.returncode}", *lines[-60:]]))


def missing(*programs):
    return [program for program in programs if shutil.which(program) is None]


def zig():
    """The path of the program in the package ziglang."""
    try:
        import ziglang
    except ImportError:
        return None
    return str(Path(ziglang.__file__).parent / "zig")


def undefined(module):
    """Names that a 64-bit Mach-O file leaves to be found in whatever has been loaded: those of no library that it names."""
    data = module.read_bytes()
    magic, _, _, _, commands = struct.unpack_from("<5I", data)
    if magic != 0xFEEDFACF:
        raise Failed(f"{module} is no 64-bit Mach-O file")
    at, names = 32, set()
    for _ in range(commands):
        command, size = struct.unpack_from("<2I", data, at)
        if command == 2:  # LC_SYMTAB
            symbols, count, strings = struct.unpack_from("<3I", data, at + 8)
            for place in range(symbols, symbols + 16 * count, 16):
                name, kind, _, description = struct.unpack_from("<IBBH", data, place)
                stab, external, undefined_there = kind & 0xE0, kind & 0x01, kind & 0x0E == 0
                if not stab and external and undefined_there and description >> 8 in NO_LIBRARY:
                    names.add(data[strings + name : data.index(b"\0", strings + name)].decode())
        at += size
    return names


def check_names(module):
    """Only Python's names may be undefined, and some must be: otherwise this looked at the wrong thing."""
    names = undefined(module)
    others = sorted(name for name in names if not re.match(r"__?Py", name))
    if others or not names:
        raise Failed(f"{module} leaves undefined: {', '.join(others) or 'nothing, not even names of Python'}")


def windows_path(path):
    return "Z:" + str(path).replace("/", "\\")


def configure(folder, log, *options):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    always = {"CMAKE_BUILD_TYPE": "Release", "CMAKE_CXX_FLAGS_RELEASE": "-O1", "HUSHVEC_CUDA": "OFF", "HUSHVEC_BUILD_TESTS": "ON"}
    given = [f"-D{name}={value}" for name, value in always.items()]
    run(["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", f"-DPython_EXECUTABLE={sys.executable}", *given, *options], log)


def with_module(include, extension, *options):
    import pybind11

    places = {"pybind11_DIR": pybind11.get_cmake_dir(), "Python_INCLUDE_DIR": include, "PYTHON_MODULE_EXTENSION": extension}
    return [*(f"-D{name}={value}" for name, value in places.items()), *options]


def build(row, folder, log, *targets):
    run(["cmake", "--build", folder, "-j", CORES, "--target", *targets], log)
    row.compiles = row.links = "yes"


def ctest(row, folder, log, where, **environment):
    """The tests labelled `quick`, as `make test` runs them."""
    # The test of the scheduler is not the system's, and takes minutes under emulation.
    asked = ["-L", "^quick$", "-E", "^test_threads$", "-j", CORES, "--output-on-failure", "--no-tests=error"]
    run(["ctest", "--test-dir", folder, *asked], log, **environment)
    row.tests = f"{passed(log)} {where}"


def passed(log):
    """How many tests ctest ran, all of which passed: it counts those with it that the processor has no instructions for."""
    text = log.read_text(errors="replace")
    return int(re.findall(r"tests passed.* out of (\d+)", text)[-1]) - len(re.findall(r"\(Skipped\)$", text, re.MULTILINE))


def arm(row, log):
    if lacking := missing("aarch64-linux-gnu-g++", "qemu-aarch64"):
        return f"no {', '.join(lacking)}"
    folder = BUILD / row.system
    configure(folder, log, f"--toolchain={ROOT / 'cpp/tools/aarch64-linux-gnu.cmake'}", "-DHUSHVEC_BUILD_PYTHON=OFF")
    build(row, folder, log, "quick_tests")
    ctest(row, folder, log, "under qemu")
    return None


def musl(row, log):
    if zig() is None:
        return "no zig (pip install ziglang)"
    folder = BUILD / "x86_64-linux-musl"
    configure(folder, log, *by_zig("x86_64-linux-musl"), *with_module(HEADERS, ".so"))
    build(row, folder, log, "quick_tests", "_core")
    if MUSL_LOADER.exists():
        ctest(row, folder, log, "here")
    else:
        row.tests = "skipped: no loader of musl (apt-get install musl)"
    return None


def by_zig(target):
    return [f"--toolchain={ROOT / 'cpp/tools/zig.cmake'}", f"-DHUSHVEC_ZIG={zig()}", f"-DHUSHVEC_TARGET={target}"]


def macos(row, log):
    if zig() is None:
        return "no zig (pip install ziglang)"
    folder = BUILD / row.system
    configure(folder, log, *by_zig(row.system), *with_module(HEADERS, ".so"))
    build(row, folder, log, "quick_tests", "_core")
    check_names(folder / "_core.so")
    row.tests = "workflow only"
    return None


def windows(row, log):
    if zig() is None:
        return "no zig (pip install ziglang)"
    folder, python = BUILD / "x86_64-windows", BUILD / "windows-python"
    run([sys.executable, "scripts/windows_python.py", python], log)
    library = next(python.glob("python3??.dll"))
    headers = with_module(python / "include", ".pyd", f"-DPython_LIBRARY={library}")
    configure(folder, log, *by_zig("x86_64-windows-gnu"), *headers)
    build(row, folder, log, "quick_tests", "_core")
    if missing("wine"):
        row.tests = row.python = "skipped: no wine (apt-get install wine64 wine)"
        return None
    wine = {"WINEPREFIX": str(BUILD / "wine"), "WINEDEBUG": "-all", "WINEDLLOVERRIDES": "mscoree,mshtml="}
    ctest(row, folder, log, "under Wine", **wine)
    package = python / "Lib/site-packages/hushvec"
    shutil.copytree(ROOT / "python/hushvec", package, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(folder / "_core.pyd", package / "_native")
    # By cmd, which redirects: Python finds no standard input under Wine otherwise.
    program, output = windows_path(python / "python.exe"), windows_path(log.with_suffix(".python.log"))
    for command in ("scripts/first_search.py", f"-m pytest -q -p no:cacheprovider {PYTHON_TESTS}"):
        run(["wine", "cmd", "/c", f"{program} {command} < nul >> {output} 2>&1"], log, **wine)
    log = log.with_suffix(".python.log")
    row.python = re.findall(r"^(\d+) passed", log.read_text(errors="replace"), re.MULTILINE)[-1] + " under Wine"
    return None


SYSTEMS = {"aarch64-linux": arm, "x86_64-linux-musl": musl, "x86_64-windows": windows, "aarch64-macos": macos, "x86_64-macos": macos}


def checked(system):
    """The row of one system, and whether all that could be done for it was done well."""
    row, begun, well = Row(system), time.monotonic(), True
    log = BUILD / f"{system}.log"
    for old in (log, log.with_suffix(".python.log")):
        old.unlink(missing_ok=True)
    try:
        if reason := SYSTEMS[system](row, log):
            row.compiles = row.links = row.tests = f"skipped: {reason}"
    except Failed as failure:
        print(f"{system}: {failure}", flush=True)
        row.tests, well = "FAILED", False
    row.seconds = time.monotonic() - begun
    return row, well


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("systems", nargs="*", metavar="SYSTEM", help=f"of {', '.join(SYSTEMS)}; all of them by default")
    asked = parser.parse_args().systems or list(SYSTEMS)
    if unknown := [system for system in asked if system not in SYSTEMS]:
        parser.error(f"SYSTEM must be one of {', '.join(SYSTEMS)}, got {', '.join(unknown)}")
    BUILD.mkdir(parents=True, exist_ok=True)
    rows = []
    for system in asked:
        print(f"== {system}", flush=True)
        rows.append(checked(system))
    print("\n| system | compiles | links | C++ tests | Python tests | time |\n|---|---|---|---|---|---|")
    for row, _ in rows:
        print(row)
    return 0 if all(well for _, well in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
