"""Which names the pages in docs/reference describe."""

from __future__ import annotations

import re
from functools import cache

import places

DIRECTIVE = re.compile(r"^::: (hushvec[\w.]*)\s*$", re.MULTILINE)
# A name that is no ordinary word, in code: CamelCase or snake_case, and these.
A_NAME = re.compile(r"[A-Z]\w*[a-z]\w*|[a-z]\w*_\w+|privatize|recommend")


def described() -> dict[str, str]:
    """Identifier -> its page below docs, in the order of the directives."""
    pages = sorted((places.ROOT / "docs/reference").glob("*.md"))
    return {name: f"reference/{page.name}" for page in pages for name in DIRECTIVE.findall(page.read_text(encoding="utf-8"))}


@cache
def names_in_texts() -> dict[str, str]:
    """A name as texts write it -> its identifier; without names that several modules have, unless one is of `hushvec` itself."""
    meant: dict[str, set[str]] = {}
    for identifier in described():
        name = identifier.rpartition(".")[2]
        texts = {identifier} | ({name} if A_NAME.fullmatch(name) else set())
        for text in texts | ({f"hv.{name}"} if identifier == f"hushvec.{name}" else set()):
            meant.setdefault(text, set()).add(identifier)
    return {
        text: f"hushvec.{text}" if f"hushvec.{text}" in found else next(iter(found))
        for text, found in meant.items()
        if len(found) == 1 or f"hushvec.{text}" in found
    }
