#!/usr/bin/env python3
"""Prints what hushvec and the extras named require, and what the tests of studies/ need, one requirement per line.

    python scripts/requirements.py text test > requirements.txt
    python scripts/requirements.py --only docs      # an extra by itself, for tools that do not run hushvec
"""

import re
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    from pip._vendor import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
OWN = re.compile(r"(hushvec(?:-studies)?)(?:\[([^]]*)\])?\s*(?:==.*)?$")


def main():
    projects = {}
    for file in (ROOT / "pyproject.toml", ROOT / "studies/pyproject.toml"):
        if file.exists():
            project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
            projects[project["name"]] = project
    only = sys.argv[1] == "--only"
    extras = {"hushvec": sys.argv[1 + only :], "hushvec-studies": ["test"]}
    wanted = [f"{name}[{','.join(extras[name])}]" for name in projects if not only or name == "hushvec"]
    found, seen = {}, {(name, "") for name in projects if only}
    while wanted:
        own = OWN.match(wanted.pop())
        project = projects[own[1]]
        for extra in ["", *filter(None, (own[2] or "").split(","))]:
            if (own[1], extra) in seen:
                continue
            seen.add((own[1], extra))
            for requirement in project["optional-dependencies"][extra] if extra else project.get("dependencies", []):
                if OWN.match(requirement):
                    wanted.append(requirement)
                else:
                    found[requirement] = None
    print("\n".join(found))


if __name__ == "__main__":
    main()
