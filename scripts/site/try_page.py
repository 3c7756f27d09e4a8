"""The page on which readers try hushvec in their browser: docs/try, and what it loads from elsewhere in the repository.

    python scripts/site/try_page.py build/try      # the page alone, for any file server; `make try` builds the module and serves it
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "try"
PACKAGE = ROOT / "js" / "src"
DATA = ("private_notes.txt", "public_sentences.txt", "minilm.npy")
# What browsers cannot resolve without a bundler, and what takes its place (`imports` in js/package.json).
PLATFORM, BROWSER = b"'#platform'", b"'./browser.js'"
LINKS = re.compile(rb"\n *<nav .*?</nav>")   # to the rest of the site


def files_beside() -> dict[str, bytes]:
    """Path below the page -> content, of what docs/try does not have; without `hushvec.wasm` where `make web` has not built it."""
    found = {f"hushvec/{path.name}": path.read_bytes().replace(PLATFORM, BROWSER) for path in sorted(PACKAGE.glob("*.js"))}
    del found["hushvec/node.js"]
    if (module := PACKAGE / "hushvec.wasm").exists():
        found["hushvec/hushvec.wasm"] = module.read_bytes()
    found |= {name: (ROOT / "python/hushvec/data" / name).read_bytes() for name in DATA}
    return found | {"logo.svg": (ROOT / "docs/assets/logo.svg").read_bytes()}


def write(folder: Path) -> None:
    """Write the page alone."""
    own = {path.name: path.read_bytes() for path in PAGE.iterdir()}
    own["index.html"] = LINKS.sub(b"", own["index.html"])
    for name, content in {**own, **files_beside()}.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
