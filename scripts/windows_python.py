#!/usr/bin/env python3
"""Puts a Python for 64-bit Windows together, of what Linux can fetch with pip, to run tests under Wine (scripts/check_portable.py).

    scripts/windows_python.py FOLDER

python3XX.dll and the extension modules of the standard library come from the wheel of panda3d, which carries them for the programs
that it packs. The modules written in Python are those of the Python that runs this, of the same minor version. python.exe is a call
of Py_Main, compiled by zig. FOLDER/include has the headers, with the settings for Windows in cpp/tools/windows/pyconfig.h. It is
for tests alone: whoever uses Windows installs python.org's Python. A FOLDER that is complete is left as it is.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
# numpy 2.1 and newer call functions of Windows' C library that Wine 8 does not have.
PACKAGES = ["numpy==2.0.2", "pytest>=8", "pytest-asyncio>=1.0", "pytest-timeout>=2.3", "hypothesis>=6.100", "mpmath>=1.3"]
PURE = ["attrs", "colorama", "iniconfig", "packaging", "pluggy", "pygments", "sortedcontainers", "typing-extensions"]
PROGRAM = """
#include <wchar.h>
__declspec(dllimport) int Py_Main(int, wchar_t**);
int wmain(int argc, wchar_t** argv) { return Py_Main(argc, argv); }
"""


def pip(*arguments):
    for_windows = ["--platform", "win_amd64", "--python-version", VERSION, "--only-binary=:all:", "--no-deps", "--quiet"]
    subprocess.run([sys.executable, "-m", "pip", *arguments, *for_windows], check=True)


def make(folder):
    """Everything but the packages."""
    library = f"python{VERSION.replace('.', '')}.dll"
    for name in ("DLLs", "Lib", "include"):
        (folder / name).mkdir(parents=True)
    with tempfile.TemporaryDirectory() as scratch:
        pip("download", "--dest", scratch, "panda3d")
        with zipfile.ZipFile(next(Path(scratch).glob("panda3d-*.whl"))) as wheel:
            for name in wheel.namelist():
                file = Path(name)
                if file.parent.name == "deploy_libs" and not file.name.startswith("api-ms-"):
                    beside = file.name.lower() in (library, "vcruntime140.dll")
                    (folder / ("" if beside else "DLLs") / file.name).write_bytes(wheel.read(name))
    not_here = shutil.ignore_patterns("site-packages", "test", "lib-dynload", "config-*", "__pycache__", "idlelib", "turtledemo")
    shutil.copytree(Path(os.__file__).parent, folder / "Lib", dirs_exist_ok=True, ignore=not_here)
    shutil.copytree(sysconfig.get_paths()["include"], folder / "include", dirs_exist_ok=True)
    shutil.copy(ROOT / "cpp/tools/windows/pyconfig.h", folder / "include")
    (folder / "python.c").write_text(PROGRAM)
    compiler = [sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-municode", "-O1"]
    subprocess.run([*compiler, folder / "python.c", folder / library, "-o", folder / "python.exe"], check=True)


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = Path(sys.argv[1]).absolute()
    if (folder / "complete").exists():
        return
    shutil.rmtree(folder, ignore_errors=True)
    make(folder)
    pip("install", "--target", str(folder / "Lib/site-packages"), *PACKAGES, *PURE)
    (folder / "complete").touch()


if __name__ == "__main__":
    main()
