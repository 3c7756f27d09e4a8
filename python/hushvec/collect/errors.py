"""Exceptions of collection that a caller may want to catch by name."""

from __future__ import annotations

from hushvec.errors import HushvecError


class SketchError(HushvecError, ValueError):
    """A sketch that cannot be read, or that does not go together with another: nothing was changed."""


class MemoError(HushvecError, ValueError):
    """A memo file that cannot be read: not a memo, cut short or damaged. Nothing was reported."""
