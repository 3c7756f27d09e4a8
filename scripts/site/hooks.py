"""What mkdocs calls while it builds the site (`hooks` in mkdocs.yml): documents outside docs, links, notebooks, the navigation.

Links in documents are written as they work in the repository, so that they can be read there too; here they become links of the site.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs loads this file by its path

import command_line
import notebooks
import places
import public_names
import try_page

PAGES = (".md", ".ipynb")
MERMAID = re.compile(r"^```mermaid\n.*?^```\n", re.MULTILINE | re.DOTALL)
# ![words](name_light.svg): shown on light pages, and name_dark.svg on dark ones.
PAIR = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)_light\.(svg|png)\)")


def on_config(config: Any) -> Any:
    config.nav = expanded(config.nav, Path(config.docs_dir))
    return config


def expanded(entry: Any, docs: Path) -> Any:
    """The navigation with patterns replaced by the files that match, and without "page.md?" where that page does not exist."""
    if isinstance(entry, list):
        found = [expanded(one, docs) for one in entry]
        return [one for part in found for one in (part if isinstance(part, list) else [part]) if one]
    if isinstance(entry, dict):
        return {title: found for title, one in entry.items() if (found := expanded(one, docs))}
    if "*" in entry:
        return sorted(path.relative_to(docs).with_suffix(".md").as_posix() for path in docs.glob(entry) if path.suffix in PAGES)
    if entry.endswith("?") and not (docs / entry[:-1]).exists():
        return None
    return entry.removesuffix("?").replace(".ipynb", ".md")


def on_files(files: Files, config: Any) -> Files:
    for path, page in places.ROOT_PAGES.items():
        if (places.ROOT / path).exists():
            files.append(File.generated(config, page, content=(places.ROOT / path).read_text(encoding="utf-8")))
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        files.remove(file)
        page = file.src_uri.removesuffix(".ipynb") + ".md"
        text, images = notebooks.as_markdown(json.loads(file.content_string), Path(file.src_uri).stem)
        files.append(File.generated(config, page, content=text))
        for name, content in images.items():
            files.append(File.generated(config, f"{Path(file.src_uri).parent.as_posix()}/{name}", content=content))
    for name, content in try_page.files_beside().items():
        files.append(File.generated(config, f"try/{name}", content=content))
    named: set[str] = set()
    for file in files.documentation_pages():
        named |= places.files_named_by(file.src_uri, file.content_string)
    for path in sorted(named):
        place = places.place_of(path)
        content = (places.ROOT / path).read_bytes()
        is_picture = place == f"source/{path}"
        files.append(File.generated(config, place, content=content if is_picture else source_page(path, content.decode())))
    return files


def source_page(path: str, text: str) -> str:
    """A page that shows a file of the repository."""
    language = places.LANGUAGES.get(Path(path).suffix, "text")
    fence = "`" * (max((len(run) for run in re.findall("`+", text)), default=2) + 1)
    fence = fence if len(fence) > 2 else "```"
    return f"---\nsearch:\n  exclude: true\nhide: [navigation, toc]\n---\n# {path}\n\n{fence}{language}\n{text.rstrip()}\n{fence}\n"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    place = page.file.src_uri
    if place.startswith("source/"):
        return markdown
    if place == "architecture.md":   # a diagram that is drawn needs no program from elsewhere to draw it
        drawing = (places.ROOT / "docs/assets/architecture.svg").read_text(encoding="utf-8")
        markdown = MERMAID.sub(f'<div class="diagram">\n{drawing}</div>\n', markdown)
    if place == command_line.PAGE:
        markdown = command_line.with_commands(markdown)
    if place.startswith("reference/"):   # a name is described there, and only mentioned elsewhere
        page.meta["search"] = {"boost": 2}
    names = {} if place.startswith("reference/") else public_names.names_in_texts()
    return PAIR.sub(r"![\1](\2_light.\3#only-light)![\1](\2_dark.\3#only-dark)", places.with_links_of_the_site(place, markdown, names))
