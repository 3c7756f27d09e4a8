"""Text for a terminal: printable, and in colors where it wants them. What is colored reads the same without.

NO_COLOR turns them off; else FORCE_COLOR turns them on, for a pipe too; else they are for terminals only, unless TERM is "dumb".
Colors are fixed ones of the 256, of medium luminance, so that each has a contrast of at least 4 on black and on white. The 16 colors
of a terminal's theme do not: blue on black and cyan or green on white are below 2.5 in common themes.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

from hushvec._util.display import printable as printable

_CODES = {
    "bold": "1",
    "dim": "2",
    "good": "38;5;28",  # green
    "bad": "38;5;161",  # red
    "warn": "38;5;163",  # magenta
    "name": "38;5;30",  # cyan
    "title": "1;38;5;27",  # blue
}
_PLAIN = "\x1b[0m"


def is_colored(stream: TextIO) -> bool:
    """Return whether colors are written to the stream."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(style: str, text: str, stream: TextIO | None = None) -> str:
    """Return the text, which has to be `printable`, in a style of _CODES, for standard output if no stream is given."""
    if not text or not is_colored(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{_CODES[style]}m{text}{_PLAIN}"


def say(*lines: str) -> None:
    """Print lines; each is `printable`."""
    print("\n".join(map(printable, lines)))
