"""What griffe needs to know about the sources of hushvec, which it reads without importing them (`extensions` in mkdocs.yml)."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import griffe

sys.path.insert(0, str(Path(__file__).parent))  # griffe loads this file by its path

import public_names

EXAMPLE = re.compile(r"^([ \t]*)Example:[ \t]*$(?=\n\1[ \t]+>>>)", re.MULTILINE)
PAGE = re.compile(r"`?\bdocs/([\w/-]+)\.md\b`?")   # a page below docs
# "> 0" begins the description of an argument: in Markdown that would be a quotation.
GREATER = re.compile(r"^([ \t]*(?:[\w*, ]+:[ ]+)?)>(?!>>)", re.MULTILINE)
CODE = re.compile(r"`([\w.]+)`")


class HushvecSources(griffe.Extension):
    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_the_site_shows_it(obj.docstring.value, obj.name)


def as_the_site_shows_it(docstring: str, own_name: str) -> str:
    """With "Examples" for "Example", as the parser calls that section, and links to pages and, once each, to public names."""
    names = public_names.names_in_texts()
    linked = {own_name}

    def with_link(match: re.Match[str]) -> str:
        name = match[1]
        if name not in names or name.rpartition(".")[2] in linked:
            return match[0]
        linked.add(name.rpartition(".")[2])
        return f"[`{name}`][{names[name]}]"

    text = GREATER.sub(r"\1\\>", EXAMPLE.sub(r"\1Examples:", docstring))
    return CODE.sub(with_link, PAGE.sub(r"[docs/\1.md](../\1.md)", text))
