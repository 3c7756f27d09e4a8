#!/usr/bin/env python3
"""Builds the wheel from the objects of `make dev` and checks what is in it: each file of python/hushvec (git says which; a source
distribution has no git, and no other files there), the second verifier, the compiled modules, and nothing else. Then a process that
sees only that wheel and numpy runs scripts/first_search.py.

    python scripts/check_wheel.py
"""

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[1]
VERIFIER = "hushvec_verify.py"   # beside the package: it shares no code with it


def main():
    with tempfile.TemporaryDirectory() as folder:
        wheel = built(Path(folder))
        faults = [*wrong_files(wheel), *failed_search(wheel, Path(folder) / "site")]
    print(*(faults or [f"{wheel.name}: holds what it should, and works without its sources"]), sep="\n")
    return 1 if faults else 0


def built(folder):
    settings = {"build-dir": "build/dev", "cmake.define.HUSHVEC_BUILD_TESTS": "ON", "build.targets": "python_modules"}
    options = [f"--config-settings={name}={value}" for name, value in settings.items()]
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--no-build-isolation", *options, "--wheel-dir", folder, ROOT], cwd=ROOT, check=True)
    return next(folder.glob("*.whl"))


def wrong_files(wheel):
    expected, files = {*sources(ROOT), VERIFIER}, zipfile.ZipFile(wheel)
    packed = {name for name in files.namelist() if ".dist-info/" not in name}
    compiled = {name for name in packed if name.endswith(".so")}
    if not any(Path(name).name.startswith("_core.") for name in compiled):
        yield "the wheel has no compiled core"
    if VERIFIER in packed and files.read(VERIFIER) != (ROOT / "scripts/check_receipt.py").read_bytes():
        yield f"{VERIFIER} of the wheel is not scripts/check_receipt.py"
    yield from (f"the wheel lacks {name}" for name in sorted(expected - packed))
    yield from (f"the wheel has {name}, which is no source" for name in sorted(packed - expected - compiled))
    yield from (f"the wheel has {name}" for name in sorted(compiled) if not Path(name).name.startswith(("_core.", "_cuda.")))


def sources(root):
    """The files of the package as a wheel names them: those that git tracks, or without git all but what was compiled."""
    if (root / ".git").exists():
        listed = subprocess.run(["git", "ls-files", "python/hushvec"], cwd=root, capture_output=True, text=True, check=True)
        found = [root / name for name in listed.stdout.split()]
    else:
        found = [path for path in (root / "python/hushvec").rglob("*") if path.suffix not in (".so", ".pyc")]
    return {path.relative_to(root / "python").as_posix() for path in found if path.is_file()}


def failed_search(wheel, site):
    """The wheel in a folder of its own, beside the numpy of this environment: no editable installation is in the way."""
    zipfile.ZipFile(wheel).extractall(site)
    for package in (Path(numpy.__file__).parent, *Path(numpy.__file__).parents[1].glob("numpy.libs")):
        (site / package.name).symlink_to(package)
    environment = {**os.environ, "PYTHONPATH": str(site)}
    program = [sys.executable, "-S", ROOT / "scripts/first_search.py"]
    run = subprocess.run(program, cwd=site, env=environment, capture_output=True, text=True)
    if run.returncode or f" from {site}/" not in run.stdout:
        yield f"a first search by the wheel failed:\n{run.stdout}{run.stderr}"


if __name__ == "__main__":
    sys.exit(main())
