"""The two commands of README.md: they are there, with what each needs and the minutes that it takes, and CI runs them as written."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
COMMANDS = ["make demo", "make test"]


def test_both_commands_are_there_with_what_they_need_and_take():
    written = re.findall(r"^    (make \w+) +# .*; needs \S+", README, re.MULTILINE)
    assert written == COMMANDS
    sentence = r"^On two cores of Zen 4 `make demo` takes (\d+ s) and `make test` (\d+ min \d+ s), .* (\d+ s) and (\d+ min)\.$"
    times = re.search(sentence, README, re.MULTILINE)
    assert times
    contributing = " ".join((ROOT / "CONTRIBUTING.md").read_text("utf-8").split())
    assert f"`make demo` takes {times[3]}, `make test` {times[4]}utes" in contributing


def test_they_are_targets_that_the_makefile_begins_with():
    makefile = (ROOT / "Makefile").read_text("utf-8")
    assert re.findall(r"^#   (make \w+) ", makefile, re.MULTILINE) == COMMANDS
    assert all(re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE) for command in COMMANDS)


@pytest.mark.skipif(not (ROOT / ".ci").exists(), reason="source distributions have no .ci")
def test_ci_runs_them_as_written_and_the_tests_first():
    lines = [line.strip() for line in (ROOT / ".ci/run").read_text("utf-8").splitlines()]
    commands = [line for line in lines if line.startswith("make ")]
    assert commands[:2] == ["make test", "make demo"]
