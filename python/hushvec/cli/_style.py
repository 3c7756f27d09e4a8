"""Colors for a terminal that wants them. What is colored reads the same without.

NO_COLOR turns them off; else FORCE_COLOR turns them on, for a pipe too; else they are for terminals only, unless TERM is "dumb".
Only the 16 colors that a terminal's own theme defines are used, so that they can be read on a light and on a dark background.
"""

from __future__ import annotations

import os
import sys
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "good": "32", "bad": "31", "warn": "35", "name": "36", "title": "1;34"}
_PLAIN = "\x1b[0m"


def is_colored(stream: TextIO) -> bool:
    """Whether colors are written to the stream."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def paint(style: str, text: str, stream: TextIO | None = None) -> str:
    """The text in a style ("bold", "dim", "good", "bad", "warn", "name", "title"), for standard output if no stream is given.

    The text has to be `printable`: an escape sequence in it would be written too.
    """
    if not text or not is_colored(sys.stdout if stream is None else stream):
        return text
    return f"\x1b[{_CODES[style]}m{text}{_PLAIN}"
