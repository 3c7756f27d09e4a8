"""Text from files and arguments, as a terminal may show it."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text on one line, safe for a terminal: unprintable characters are escaped, as in \\x1b, \\n or \\u202e.

    Names and texts from files and arguments go through it before they are printed: an escape sequence or a change of writing
    direction could otherwise misrepresent the text.
    """
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in text)


def say(*lines: str) -> None:
    """Print lines; each is `printable`."""
    print("\n".join(map(printable, lines)))
