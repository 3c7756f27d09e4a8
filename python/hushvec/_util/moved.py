"""Old names of modules: importing one warns and returns the module under its current name. For one version, until 0.2."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from hushvec._util.renamed import warn_of_old_name

MOVED = {
    "hushvec.calibrate": "hushvec.noise.calibration",
    "hushvec.discrete": "hushvec.mechanisms.labels",
    "hushvec.label_receipt": "hushvec.receipts.labels",
    "hushvec.label_release": "hushvec.release.labels",
    "hushvec.report_receipt": "hushvec.receipts.reports",
    "hushvec.retrieval.attacks": "hushvec.audit.indexes",
    "hushvec.retrieval.attacks.membership": "hushvec.audit.indexes.membership",
    "hushvec.retrieval.attacks.shadows": "hushvec.audit.indexes.shadows",
    "hushvec.selection_receipt": "hushvec.receipts.selections",
    "hushvec.text.checkpoints": "hushvec.embedders.checkpoints",
    "hushvec.text.embedder": "hushvec.embedders.minilm",
    "hushvec.text.gtr": "hushvec.embedders.gtr",
    "hushvec.training_receipt": "hushvec.receipts.training",
}


class _MovedModule(Loader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(MOVED[spec.name])
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """The module has run under its current name; restore that spec, which the import of the old name replaced."""
        module.__spec__ = self._own_spec


class _MovedModules(MetaPathFinder):
    """Asked first: in a package under its old name, other finders would find its modules and run them a second time."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name not in MOVED:
            return None
        warn_of_old_name(f"{name} is now {MOVED[name]}; the old name goes in 0.2")
        return ModuleSpec(name, _MovedModule())


def find_moved_modules() -> None:
    """Let imports find them."""
    if not any(isinstance(finder, _MovedModules) for finder in sys.meta_path):
        sys.meta_path.insert(0, _MovedModules())


def or_moved_module(get: Callable[[str], Any]) -> Callable[[str], Any]:
    """A package's `__getattr__` that also finds `package.old_name`."""

    def get_moved(name: str) -> Any:
        return importlib.import_module(f"hushvec.{name}") if f"hushvec.{name}" in MOVED else get(name)

    return get_moved
