"""The earlier path of `hushvec.retrieval.attacks`, for programs that import from it: its modules are the same objects."""

import sys
from importlib import import_module

for _name in ("bounds", "curves", "features", "inversion", "membership", "row_laws", "shadows", "statistics"):
    sys.modules[f"{__name__}.{_name}"] = globals()[_name] = import_module(f"hushvec.retrieval.attacks.{_name}")
