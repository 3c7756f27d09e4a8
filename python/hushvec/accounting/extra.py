"""The only place that imports dp-accounting, at first use."""

from __future__ import annotations

import importlib
from types import ModuleType

from hushvec._util.extras import needs_extra
from hushvec.errors import MissingExtraError

EXTRA = "accounting"


def dp_accounting(feature: str) -> ModuleType:
    """The package dp_accounting with its rdp and pld parts loaded.

    Raises:
        MissingExtraError: it is not installed.
    """
    with needs_extra(feature, EXTRA):
        package = importlib.import_module("dp_accounting")
        for part in ("pld.privacy_loss_distribution", "pld.common", "rdp"):
            importlib.import_module(f"dp_accounting.{part}")
    return package


def is_installed() -> bool:
    try:
        dp_accounting("")
    except MissingExtraError:
        return False
    return True
