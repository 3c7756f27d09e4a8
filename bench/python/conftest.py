"""Lets the tests of this folder import its modules under any import mode of pytest."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import single_thread  # noqa: E402, F401  before numpy
