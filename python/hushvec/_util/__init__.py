"""Helpers for every layer: checks of arguments, lines of text, atomic files, progress. Private to hushvec.

What the packages above the core may use: these modules as a whole, and what other modules have in their `__all__`.
"""

__all__ = ["lines", "os_files", "publish", "validate"]
