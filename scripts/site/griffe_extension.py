"""What griffe needs to know about the sources of hushvec, which it reads without importing them (`extensions` in mkdocs.yml)."""

from __future__ import annotations

import ast
import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"^([ \t]*)Example:[ \t]*$(?=\n\1[ \t]+>>>)", re.MULTILINE)


class HushvecSources(griffe.Extension):
    def on_module_members(self, *, node: Any, mod: griffe.Module, **_: Any) -> None:
        """Names that a package imports at first use (hushvec._util.lazy) are names of that package."""
        for call in ast.walk(node) if isinstance(node, ast.Module) else ():
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "at_first_use":
                for name, module in ast.literal_eval(call.args[1]).items():
                    if name not in mod.members:
                        full = module if module.startswith("hushvec.") else f"{mod.path}.{module}"
                        mod.set_member(name, griffe.Alias(name, f"{full}.{name}"))

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """The parser knows sections named "Examples", not "Example"."""
        if obj.docstring:
            obj.docstring.value = EXAMPLE.sub(r"\1Examples:", obj.docstring.value)
