#!/usr/bin/env python3
"""Prints what hushvec and the extras named require, and what the tests of studies/ need, one requirement per line.

    python scripts/requirements.py text test > requirements.txt
    python scripts/requirements.py --no-studies text > requirements.txt    what hushvec[text] requires and no more
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
    extras_asked = [argument for argument in sys.argv[1:] if argument != NO_STUDIES]
    projects = {}
    for file in (ROOT / "pyproject.toml", ROOT / "studies/pyproject.toml"):
        if file.exists() and (NO_STUDIES not in sys.argv or file.parent == ROOT):
            project = tomllib.loads(file.read_text(encoding="utf-8"))["project"]
            projects[project["name"]] = project
    extras = {"hushvec": extras_asked, "hushvec-studies": ["test"]}
    wanted = [f"{name}[{','.join(extras[name])}]" for name in projects]
    found, seen = {}, set()
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
