"""Extras are for users, dependency groups for work on hushvec: scripts/requirements.py prints both without naming hushvec itself."""

import subprocess
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS, GROUPS = SETTINGS["project"]["optional-dependencies"], SETTINGS["dependency-groups"]


def printed(*names):
    command = [sys.executable, ROOT / "scripts/requirements.py", "--no-studies", *names]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines())


def test_no_group_has_the_name_of_an_extra():
    assert EXTRAS.keys() & GROUPS.keys() == set()


def test_an_extra_in_a_group_is_what_the_extra_requires():
    own = {"pytest>=8", "hypothesis>=6.100", "scipy>=1.11", "numpy>=1.24"}
    extras = {*EXTRAS["cli"], *EXTRAS["secure"], *EXTRAS["encryption"], *EXTRAS["redact"], *EXTRAS["accounting"]}
    assert own | extras - {"hushvec[encryption]"} <= printed("test")
    assert printed("lint") == {*SETTINGS["project"]["dependencies"], *GROUPS["lint"]}


def test_a_group_has_the_groups_that_it_includes():
    assert {*GROUPS["docs"], *printed("test"), *printed("release"), *GROUPS["test-device-code"]} <= printed("test-all")
    assert printed("all") == printed("test-all") | printed("bench") | printed("dev")


def test_hushvec_itself_is_never_a_requirement():
    assert [line for line in printed("all", *EXTRAS) if line.startswith(("hushvec", "{"))] == []
