"""What is mounted where, as the kernel says in /proc/self/mountinfo."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

MOUNTINFO = Path("/proc/self/mountinfo")

_OCTAL = re.compile(rb"\\([0-7]{3})")  # how the kernel writes space, tab, line feed, backslash and #
_POINT, _FIRST_OPTIONAL = 4, 6


class Mount(NamedTuple):
    """One mount: the path at which it is seen, and the type of its file system."""

    point: str
    kind: str


def mounts() -> list[Mount]:
    """All mounts that this process can see, in the order in which they were made; none where the system has no such list.

    Raises:
        OSError: Linux, and /proc is not mounted.
    """
    return parsed(MOUNTINFO.read_bytes()) if sys.platform == "linux" else []


def parsed(content: bytes) -> list[Mount]:
    """The mounts of a mountinfo file. proc_pid_mountinfo(5) describes the fields; how many optional ones there are, varies."""
    found = []
    for line in content.split(b"\n"):
        fields = line.split(b" ")
        if b"-" in fields[_FIRST_OPTIONAL:]:
            separator = fields.index(b"-", _FIRST_OPTIONAL)
            found.append(Mount(_text(fields[_POINT]), _text(fields[separator + 1])))
    return found


def holding(path: str, seen: Iterable[Mount]) -> Mount | None:
    """The mount that an absolute path without links lies in: the deepest, and of several at one point the last."""
    best = None
    for mount in seen:
        inside = path == mount.point or path.startswith(mount.point.rstrip("/") + "/")
        if inside and (best is None or len(mount.point) >= len(best.point)):
            best = mount
    return best


def _text(field: bytes) -> str:
    return os.fsdecode(_OCTAL.sub(lambda match: bytes([int(match[1], 8)]), field))
