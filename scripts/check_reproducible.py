#!/usr/bin/env python3
"""Builds the packages of the last commit twice, in folders with other names, and compares every byte.

    python scripts/check_reproducible.py
    python scripts/check_reproducible.py --zig          arguments go to scripts/build_packages.py
    python scripts/check_reproducible.py --setting cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0    faster: all but -O3

The second build also has another home, umask, time zone and language. Both use the same compiler: another one gives other bytes.
"""

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OTHER = {"TZ": "Pacific/Auckland", "LC_ALL": "C", "umask": 0o077}


def main():
    with tempfile.TemporaryDirectory() as folder:
        first = built(Path(folder) / "one", sys.argv[1:], {"umask": 0o022})
        second = built(Path(folder) / "another" / "longer" / "path", sys.argv[1:], {**OTHER, "HOME": folder})
        faults = list(differences(first, second))
        print(*(faults or [f"{digest(path)}  {path.name}: twice the same bytes" for path in sorted(first.iterdir())]), sep="\n")
    return 1 if faults else 0


def built(tree, arguments, setting):
    subprocess.run(["git", "clone", "--quiet", ROOT, tree], check=True)
    environment = {**os.environ, **{name: value for name, value in setting.items() if name != "umask"}}
    command = [sys.executable, "scripts/build_packages.py", "dist", *arguments]
    log = subprocess.run(command, cwd=tree, env=environment, umask=setting["umask"], capture_output=True, text=True)
    if log.returncode:
        raise SystemExit(f"the build in {tree} failed:\n{log.stdout[-4000:]}{log.stderr[-4000:]}")
    return tree / "dist"


def differences(first, second):
    names = sorted({path.name for folder in (first, second) for path in folder.iterdir()})
    for name in names:
        if not ((first / name).exists() and (second / name).exists()):
            yield f"{name}: one build has it and the other has not"
        elif digest(first / name) != digest(second / name):
            yield f"{name}: {', '.join(differing_members(first / name, second / name)) or 'the archives differ, their members do not'}"


def differing_members(first, second):
    if first.suffix != ".whl":
        return ["the source distributions differ"]
    one, other = (dict(members(path)) for path in (first, second))
    return [name for name in sorted(one.keys() | other.keys()) if one.get(name) != other.get(name)]


def members(wheel):
    with zipfile.ZipFile(wheel) as archive:
        for entry in archive.infolist():
            yield entry.filename, (entry.date_time, entry.external_attr, archive.read(entry))


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
