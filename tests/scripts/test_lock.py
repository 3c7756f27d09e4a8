"""pylock.toml is the lock of constraints.txt for hushvec and `make test`. After a change of either: make lock."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = tomllib.loads((ROOT / "pylock.toml").read_text(encoding="utf-8"))["packages"]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned():
    found = re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.MULTILINE)
    return {normal(name): version for name, version in found}


def test_the_lock_has_the_versions_of_the_constraints():
    pins = pinned()
    assert [one["name"] for one in PACKAGES if pins.get(one["name"], one["version"]) != one["version"]] == []
    # What is not pinned is for other systems, and the CUDA libraries of torch.
    assert [one["name"] for one in PACKAGES if one["name"] not in pins and "marker" not in one] == []


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the lock is for Python 3.11 and newer")
def test_the_lock_has_everything_that_make_test_needs():
    command = [sys.executable, ROOT / "scripts/requirements.py", "--no-studies", "test"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    names = {normal(re.match(r"[\w.-]+", line)[0]) for line in listed.splitlines()}
    assert len(names) > 20 and names - {one["name"] for one in PACKAGES} == set()


def test_every_file_is_on_pypi_and_has_a_hash():
    files = [file for one in PACKAGES for file in [*one.get("wheels", []), *([one["sdist"]] if "sdist" in one else [])]]
    assert len(files) > 1000
    assert [file["url"] for file in files if not file["url"].startswith("https://files.pythonhosted.org/packages/")] == []
    assert [file["url"] for file in files if not re.fullmatch("[0-9a-f]{64}", file["hashes"]["sha256"])] == []
