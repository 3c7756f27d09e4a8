#!/usr/bin/env python3
"""Makes a release ready in dist/VERSION: packages, bill of materials, recipe for conda-forge, hashes.

It uploads nothing: a signed tag starts the workflow that does.

    python scripts/release.py 0.2.0                `make release VERSION=0.2.0` installs what it needs first
    python scripts/release.py 0.2.0 --zig          a wheel for glibc 2.28 instead of that of this machine

Before anything is built: the tree is clean, pyproject.toml has this version, the first entry of CHANGELOG.md is it with a date, and no
tag has its name yet. Afterwards: the wheel is small enough and makes a private search in an environment with numpy alone.
"""

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LARGEST_WHEEL = 2_000_000   # bytes


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("version")
    parser.add_argument("--zig", action="store_true", help="compile for an old glibc (scripts/build_packages.py)")
    options = parser.parse_args()
    if found := list(faults(ROOT, options.version)):
        raise SystemExit("\n".join(found))
    out = ROOT / "dist" / options.version
    if out.exists():
        raise SystemExit(f"{out} must not exist yet: delete it to build again")
    build(out, options)
    (wheel,) = out.glob("*.whl")
    if wheel.stat().st_size > LARGEST_WHEEL:
        raise SystemExit(f"{wheel.name} must have at most {LARGEST_WHEEL} bytes, got {wheel.stat().st_size}")
    try_wheel(wheel)
    write_recipe(out, options.version)
    write_hashes(out)
    print(f"{out} is ready. To publish: git tag -s v{options.version} && git push origin v{options.version}")
    return 0


def faults(root, version):
    """What stands against a release of this version from this tree."""
    if changed := git(root, "status", "--porcelain").splitlines():
        yield f"the tree must be clean, got {len(changed)} changed or untracked files, as {changed[0][3:]}"
    stated = re.search(r'^version = "([^"]+)"', (root / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)[1]
    if stated != version:
        yield f"pyproject.toml must have version {version}, got {stated}"
    entry = re.search(r"^## (.+)$", (root / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    if not re.fullmatch(rf"{re.escape(version)} \(\d{{4}}-\d\d-\d\d\)", entry[1] if entry else ""):
        yield f"the first entry of CHANGELOG.md must be '## {version} (YYYY-MM-DD)', got '{entry[0] if entry else 'none'}'"
    if git(root, "tag", "--list", f"v{version}"):
        yield f"the tag v{version} must not exist yet"


def git(root, *arguments):
    return subprocess.run(["git", *arguments], cwd=root, check=True, capture_output=True, text=True).stdout


def build(out, options):
    environment = {**os.environ, "SOURCE_DATE_EPOCH": git(ROOT, "log", "-1", "--format=%ct").strip()}
    build_packages = [sys.executable, ROOT / "scripts/build_packages.py", out, *(["--zig"] if options.zig else [])]
    subprocess.run(build_packages, check=True, env=environment)
    subprocess.run([sys.executable, "-m", "twine", "check", "--strict", *out.iterdir()], check=True)
    bill = subprocess.run([sys.executable, ROOT / "scripts/sbom.py", out], check=True, env=environment, stdout=subprocess.PIPE).stdout
    (out / f"hushvec-{options.version}.cdx.json").write_bytes(bill)


def try_wheel(wheel):
    """From the wheel to the first private search, in an environment that has numpy alone."""
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin/python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", wheel], check=True, cwd=folder)
        subprocess.run([python, "-I", ROOT / "scripts/first_search.py"], check=True, cwd=folder)
        seconds = time.perf_counter() - started
        print(f"{wheel.name}: {wheel.stat().st_size} bytes; environment, installation and first search in {seconds:.0f} s")


def write_recipe(out, version):
    """The recipe for conda-forge, which builds from the source distribution."""
    digest = hashlib.sha256((out / f"hushvec-{version}.tar.gz").read_bytes()).hexdigest()
    template = (ROOT / "packaging/conda/recipe.yaml").read_text(encoding="utf-8")
    _, _, recipe = template.partition("schema_version")   # without the comment about the template
    filled = recipe.replace("@VERSION@", version).replace("@SHA256@", digest)
    (out / "recipe.yaml").write_text(f"schema_version{filled}", encoding="utf-8")


def write_hashes(out):
    """For `sha256sum --check SHA256SUMS`."""
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sorted(out.iterdir())]
    (out / "SHA256SUMS").write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
