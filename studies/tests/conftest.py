"""Paths of the helpers: those of this folder, and those of the library's tests (`evidence`, `cli`)."""

import sys
from pathlib import Path

HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[1] / "tests"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
