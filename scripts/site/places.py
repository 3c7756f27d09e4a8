"""Where a file of the repository is on the site."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Documents outside docs that are pages of the site.
ROOT_PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "bench/README.md": "bench.md",
    "bench/cuda/README.md": "bench_cuda.md",
    "studies/README.md": "studies_package.md",
    "tests/README.md": "tests.md",
}
IMAGES = (".svg", ".png", ".jpg", ".gif")
LANGUAGES = {".py": "python", ".cpp": "cpp", ".hpp": "cpp", ".sh": "bash", ".yml": "yaml", ".toml": "toml", ".json": "json"}

# What may hold a link in running text. Fences and headings come first, so that nothing in them is one.
TOKEN = re.compile(
    r"^(?P<fence>```+|~~~+).*?^(?P=fence)[ \t]*$"
    r"|^\#{1,6}[ ][^\n]*$"
    r"|(?P<open>!?\[(?:[^\[\]]|\[[^\]]*\])*\]\()(?P<target>[^()\s]+)(?P<close>(?:\s+\"[^\"]*\")?\))"
    r"|``.+?``|`(?P<code>[^`\n]+)`",
    re.MULTILINE | re.DOTALL,
)
# A program named in running text: `examples/private_search.py`.
PROGRAM = re.compile(r"(?:examples|scripts|studies|bench)/[\w./-]+\.(?:py|cpp|sh)")


def repository_path(page: str) -> str:
    """The file that a page of the site is made from."""
    for path, place in ROOT_PAGES.items():
        if place == page:
            return path
    return f"docs/{page}"


def place_of(path: str) -> str | None:
    """The page or file of the site that shows this file or folder of the repository; None if there is no such file."""
    if path in ROOT_PAGES:
        return ROOT_PAGES[path]
    if path == "README.md":
        return "index.md"
    if path.startswith("docs/"):
        place = path.removeprefix("docs/")
        if (ROOT / path).is_dir():
            return next((page for page in (f"{place}/index.md", f"{place}.md") if (ROOT / "docs" / page).exists()), None)
        return place.replace(".ipynb", ".md") if (ROOT / path).exists() else None
    if not (ROOT / path).is_file():
        return None
    return f"source/{path}" if path.endswith(IMAGES) else f"source/{path}.md"


def target_of(page: str, link: str) -> tuple[str, str] | None:
    """(path in the repository, fragment) of a relative link of a page; None for links to elsewhere."""
    path, hash_sign, fragment = link.partition("#")
    if not path or re.match(r"[a-z]+:|/", link):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(repository_path(page)), path)), hash_sign + fragment


def files_named_by(page: str, text: str) -> set[str]:
    """Files of the repository outside docs that the page links to, or names as programs."""
    found = set()
    for match in TOKEN.finditer(text):
        if match["target"] and (target := target_of(page, match["target"])):
            found.add(target[0])
        elif match["code"] and PROGRAM.fullmatch(match["code"]):
            found.add(match["code"])
    return {path for path in found if (place := place_of(path)) and place.startswith("source/")}


def with_links_of_the_site(page: str, text: str, names: dict[str, str]) -> str:
    """The text with links that lead to where files are on the site, and links from names of programs and of the API.

    Args:
        page: its path below docs.
        text: Markdown, with links as they work in the repository.
        names: public name, as texts write it -> identifier in the reference.
    """
    linked = set()

    def replaced(match: re.Match[str]) -> str:
        if match["target"]:
            return link_of_the_site(page, match)
        code = match["code"]
        if code is None:
            return match[0]
        if PROGRAM.fullmatch(code) and (place := place_of(code)):
            return f"[`{code}`]({posixpath.relpath(place, posixpath.dirname(page) or '.')})"
        name = code.removesuffix("()")
        if name in names and name not in linked:   # once on a page: more would be noise
            linked.add(name)
            return f"[`{code}`][{names[name]}]"
        return match[0]

    return TOKEN.sub(replaced, text)


def link_of_the_site(page: str, match: re.Match[str]) -> str:
    target = target_of(page, match["target"])
    place = place_of(target[0]) if target else None
    if target is None or place is None:
        return match[0]   # elsewhere, or broken: mkdocs says so
    return match["open"] + posixpath.relpath(place, posixpath.dirname(page) or ".") + target[1] + match["close"]
