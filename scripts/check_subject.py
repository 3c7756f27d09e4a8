#!/usr/bin/env python3
"""Checks the subject of a commit message: at most 72 characters, a capital first, no full stop, an empty line after it.

    python scripts/check_subject.py .git/COMMIT_EDITMSG
"""

import re
import sys
from pathlib import Path

LONGEST = 72
# git writes these itself.
GENERATED = ("Merge ", "Revert ", "fixup! ", "squash! ")
# Forms that are not the imperative: "Add", and not "Added", "Adds" or "Adding".
NOT_IMPERATIVE = re.compile(r"(?:Add|Fix|Chang|Updat|Remov|Mov|Renam|Us|Mak|Writ|Test|Document)(?:ed|es|ing|s)$")


def faults(message):
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if subject.startswith(GENERATED):
        return
    if len(subject) > LONGEST:
        yield f"the subject must have at most {LONGEST} characters, got {len(subject)}"
    if not subject[:1].isupper():
        yield f"the subject must begin with a capital, got {subject!r}"
    if subject.endswith("."):
        yield f"the subject must not end with a full stop, got {subject!r}"
    if NOT_IMPERATIVE.match(subject.partition(" ")[0]):
        yield f"the subject must be in the imperative, got {subject!r}"
    if len(lines) > 1 and lines[1].strip():
        yield f"the second line must be empty, got {lines[1]!r}"


def main():
    found = list(faults(Path(sys.argv[1]).read_text(encoding="utf-8")))
    print(*found, sep="\n", end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
