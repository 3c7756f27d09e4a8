"""Text from files and arguments, as a terminal may show it."""

from __future__ import annotations

from hushvec._util.display import printable as printable


def say(*lines: str) -> None:
    """Print lines; each is `printable`."""
    print("\n".join(map(printable, lines)))
