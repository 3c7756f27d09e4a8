"""What a command reads: a file or standard input, and the name by which messages call it."""

from __future__ import annotations

import sys
from pathlib import Path

from hushvec._util.lines import decoded
from hushvec._util.publish import PRIVATE, mode_of


def source_name(source: str | None) -> str:
    return "standard input" if source in (None, "-") else str(source)


def mode_of_output(source: str | None) -> int:
    """Who may read what is made of the input: whoever may read that, where it is a file; else nobody but the user.

    Even a private release may have unprotected text beside it (keys that are kept, an infinite epsilon).
    """
    return PRIVATE if source in (None, "-") else mode_of(Path(str(source)))


def read_utf8(source: str | None) -> str:
    """All of a file, or of standard input (None or "-").

    Raises:
        ValueError: not UTF-8.
        OSError: it cannot be read.
    """
    content = sys.stdin.buffer.read() if source in (None, "-") else Path(str(source)).read_bytes()
    return decoded(source_name(source), content)
