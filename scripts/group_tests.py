#!/usr/bin/env python3
"""Makes tests/groups.txt, which says what each target of the Makefile runs, from the durations of one run of all tests.

    python scripts/group_tests.py every.xml [slim.xml] > build/groups.txt && mv build/groups.txt tests/groups.txt

The first file is what `pytest --junitxml` writes of every test, with the packages of the group `test-all`, on an idle machine.

The second file is a report of the same tests in the environment of `make test`: what was skipped there alone needs packages. Without
it, the tests that tests/groups.txt has as `hosts` stay there.
"""

import collections
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from groups import GROUPS, SENTINELS, group_of  # noqa: E402

SLOW = 0.3  # seconds on two cores of a first-generation EPYC
# Their tests share what takes seconds to make: one quick test would bring it into `make test`.
SHARING = re.compile(
    r"tests/(training/test_(distributed|four_processes|neighbor_runs|sharded)|receipts/test_verifiers_agree|serve/test_rewriting_mechanisms)\.py"
    r"|studies/tests/(inverters/test_trained_inverter|personalize/test_personalize_study|evaluation/test_evaluation_study)\.py"
    r"|studies/tests/retrieval/test_(run|report|figures)\.py"
)
# By what they need, whatever they take. Blocks of the documents meet all of the packages.
PATHS = {
    "hosts": re.compile(r"tests/docs/test_blocks\.py::test_a_block_runs_when_pasted"),
    "device_code": re.compile(r"tests/native/cuda/"),
    "site": re.compile(r"tests/(serve/test_browser|docs/test_site\w*)\.py"),
}


def main():
    tests = report(sys.argv[1])
    slim = report(sys.argv[2]) if len(sys.argv) > 2 else None
    groups = {name: group(name, *tests[name], slim) for name in tests}
    print(f"# Made by scripts/group_tests.py of {len(tests)} tests: group, seconds, test. Those not listed belong to `make test`.")
    for place in GROUPS:
        for name, seconds in sorted(whole(groups, place, tests).items()):
            print(f"{place} {seconds:.1f} {name}")


def report(file):
    """id -> (seconds, whether it was skipped) of pytest's XML."""
    found = {}
    for case in ElementTree.parse(file).getroot().iter("testcase"):
        if not case.get("classname"):   # a file that was skipped as a whole
            found[case.get("name").replace(".", "/") + ".py"] = 0.0, True
            continue
        *path, last = case.get("classname").split(".")
        classes = []
        while path and not (ROOT / "/".join((*path, last))).with_suffix(".py").is_file():   # tests in classes
            classes.insert(0, last)
            *path, last = path
        name = "::".join(["/".join((*path, last)) + ".py", *classes, case.get("name")])
        found[name] = float(case.get("time")), case.find("skipped") is not None
    return found


def group(name, seconds, skipped, slim):
    for place, pattern in PATHS.items():
        if pattern.match(name):
            return place
    if slim is None:
        needs_packages = group_of(name) == "hosts"
    else:
        needs_packages = not skipped and any(slim.get(part, (0, False))[1] for part in (name, name.split("::")[0]))
    if needs_packages:
        return "hosts"
    return "slow" if (seconds >= SLOW or SHARING.match(name)) and name not in SENTINELS else None


def whole(groups, place, tests):
    """name -> seconds of a group: a file or a function stands for its tests where all of them belong to the group."""
    found = {}
    by_file, by_function = collections.defaultdict(set), collections.defaultdict(set)
    for name, its_group in groups.items():
        by_file[name.split("::")[0]].add(its_group)
        by_function[name.split("[")[0]].add(its_group)
    for name, its_group in groups.items():
        if its_group == place:
            file, function = name.split("::")[0], name.split("[")[0]
            part = file if by_file[file] == {place} else function if by_function[function] == {place} else name
            found[part] = found.get(part, 0) + tests[name][0]
    return found


if __name__ == "__main__":
    main()
