"""Packages that an extra of hushvec installs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from hushvec.errors import MissingExtraError


@contextmanager
def needs_extra(feature: str, extra: str) -> Iterator[None]:
    """Around imports that a feature needs.

        with needs_extra("reading weights", "text"):
            import safetensors

    Raises:
        MissingExtraError: one of the packages is not installed; it names the feature and the extra.
    """
    try:
        yield
    except ImportError:
        raise MissingExtraError(feature, extra) from None
