#!/usr/bin/env python3
"""Prints what hushvec and the dependency groups or extras named require, and what the tests of studies need, one requirement per line.

    python scripts/requirements.py text test > requirements.txt
    python scripts/requirements.py --no-studies text > requirements.txt    what hushvec[text] requires and no more

A pip before 25.1 installs groups so, and what they need before hushvec itself is built. A requirement of an extra of hushvec, as
"hushvec[text]", is replaced by what the extra requires.
"""

import re
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
NO_STUDIES = "--no-studies"
OWN = re.compile(r"(hushvec(?:-studies)?)(?:\[([^]]*)\])?\s*(?:==.*)?$")


def main():
    projects = {}
    for file in (ROOT / "pyproject.toml", ROOT / "studies/pyproject.toml"):
        if file.exists() and (NO_STUDIES not in sys.argv or file.parent == ROOT):
            settings = tomllib.loads(file.read_text(encoding="utf-8"))
            projects[settings["project"]["name"]] = settings
    named = {"hushvec": [argument for argument in sys.argv[1:] if argument != NO_STUDIES], "hushvec-studies": ["test"]}
    wanted = [(project, name) for project in projects for name in ["", *named[project]]]
    found, seen = {}, set()
    while wanted:
        project, name = part = wanted.pop()
        if part in seen:
            continue
        seen.add(part)
        for requirement in requirements_of(projects[project], name):
            if isinstance(requirement, dict):
                wanted.append((project, requirement["include-group"]))
            elif own := OWN.match(requirement):
                wanted += [(own[1], extra) for extra in ["", *filter(None, (own[2] or "").split(","))]]
            else:
                found[requirement] = None
    print("\n".join(found))


def requirements_of(settings, name):
    """Those of a dependency group or an extra, which never share a name; of "", those of the package itself."""
    if not name:
        return settings["project"].get("dependencies", [])
    return {**settings["project"]["optional-dependencies"], **settings.get("dependency-groups", {})}[name]


if __name__ == "__main__":
    main()
