"""How large a test run is: HUSHVEC_TEST_SCALE=full asks for the large one."""

import os

SCALE = os.environ.get("HUSHVEC_TEST_SCALE", "default")
if SCALE not in ("default", "full"):
    raise ValueError(f"HUSHVEC_TEST_SCALE must be 'default' or 'full', got {SCALE!r}")


def scaled(default, full):
    """The size for this run."""
    return full if SCALE == "full" else default
