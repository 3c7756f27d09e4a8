"""The site: every page is in the navigation, every public name in the reference, and the built pages link and load what exists."""

import ast
import functools
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
SOURCES = ROOT / "python" / "hushvec"
INTEGRATIONS = sorted(path for path in (SOURCES / "integrations").glob("[a-z]*.py"))
# Packages whose names are not for users: what is in them is described where users import it.
NOT_FOR_USERS = ("_util", "_native", "cli")
# Pages link to what a source distribution leaves out.
is_whole = (ROOT / "studies").exists() and (ROOT / "bench" / "results").exists()
whole = pytest.mark.skipif(not is_whole, reason="a source distribution has no studies and results")


# ---- the reference


def public_names():
    """"module.name" of each name in a module's `__all__`, and of the classes and functions of errors and integrations."""
    for path in sorted(SOURCES.rglob("*.py")):
        parts = path.relative_to(SOURCES).with_suffix("").parts
        if parts[0] in NOT_FOR_USERS:
            continue
        module = ".".join(("hushvec", *(part for part in parts if part != "__init__")))
        tree = ast.parse(path.read_text())
        listed = [node.value for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"]
        if listed:
            yield from (f"{module}.{ast.literal_eval(name)}" for name in listed[0].elts)
        elif path in INTEGRATIONS or parts == ("errors",):
            defined = [node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)]
            yield from (f"{module}.{name}" for name in defined if not name.startswith("_"))


def described_names():
    """Identifiers of the directives in docs/reference, with their page."""
    for page in sorted(REFERENCE.glob("*.md")):
        for identifier in re.findall(r"^::: (hushvec[\w.]*)$", page.read_text(), re.MULTILINE):
            yield identifier, page.name


@functools.cache
def defined_at(identifier):
    """Where a name is defined, as "module.name": several packages may offer one object."""
    module, _, name = identifier.rpartition(".")
    tree = ast.parse(source_of(module).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and name in [one.asname or one.name for one in node.names]:
            original = next(one.name for one in node.names if (one.asname or one.name) == name)
            return defined_at(f"{node.module}.{original}")
    return identifier


def source_of(module):
    path = SOURCES.joinpath(*module.split(".")[1:])
    candidates = (path / "__init__.py", path.with_suffix(".py"), path.with_suffix(".pyi"))
    return next(one for one in candidates if one.is_file())


def test_every_public_name_is_in_the_reference():
    described = {defined_at(identifier) for identifier, _ in described_names()}
    assert [name for name in public_names() if defined_at(name) not in described] == []


def test_the_reference_describes_each_thing_once_and_nothing_private():
    public = {defined_at(name) for name in public_names()}
    found = [defined_at(identifier) for identifier, _ in described_names()]
    assert sorted(found) == sorted(set(found))
    assert set(found) <= public


def test_a_name_is_found_where_it_is_defined():
    """The same object, by any of the paths that users import it from."""
    assert defined_at("hushvec.PrivacyBudget") == defined_at("hushvec.budget.PrivacyBudget") == "hushvec.budget.ledger.PrivacyBudget"
    assert defined_at("hushvec.text.Rewriter") == "hushvec.text.rewriting.rewriter.Rewriter"
    assert len(set(public_names())) > 250


# ---- the pages


def navigation():
    """Every page that mkdocs.yml names, with patterns and optional pages as they are written."""
    text = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    return [entry.removesuffix("?") for entry in re.findall(r"[\w/.*-]+(?:\.(?:md|ipynb)\??|/\*)$", text, re.MULTILINE)]


def test_every_page_is_in_the_navigation():
    entries = navigation()
    listed = {path for entry in entries for path in DOCS.glob(entry)}
    pages = {path for ending in ("md", "ipynb") for path in DOCS.rglob(f"*.{ending}")}
    assert sorted(path.relative_to(DOCS).as_posix() for path in pages - listed) == []


def test_the_navigation_names_no_page_twice():
    entries = navigation()
    assert sorted(entries) == sorted(set(entries))


@whole
def test_links_between_pages_lead_somewhere():
    """Links as they are read in the repository."""
    broken = []
    for page in [*DOCS.rglob("*.md"), ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", ROOT / "ARCHITECTURE.md"]:
        text = re.sub(r"^```.*?^```|`[^`\n]+`", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^()\s]+)\)", text):
            path = link.partition("#")[0]
            if path and not re.match(r"[a-z]+:", link) and not (page.parent / path).exists():
                broken.append(f"{page.relative_to(ROOT)}: {link}")
    assert broken == []


def test_the_drawing_of_the_architecture_has_the_rooms_of_the_diagram():
    diagram = re.search(r"```mermaid\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text(), re.DOTALL)[1]
    drawing = (DOCS / "assets" / "architecture.svg").read_text()
    rooms = re.sub(r"subgraph \w+ |flowchart TB|\bend\b|-->|&|\btop --> release\b|\w+\[\"|\"\]|[\[\]]", "\n", diagram)
    words = {line.strip() for line in rooms.splitlines() if line.strip()} - {"top", "native", "bindings", "core"}
    assert words <= set(re.findall(r">([^<>]+)</text>", drawing))


# ---- the site as built


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built strictly: a broken link, anchor or reference fails."""
    if importlib.util.find_spec("mkdocs") is None or importlib.util.find_spec("mkdocstrings") is None:
        pytest.skip("mkdocs is not installed: pip install --group docs")
    if not is_whole:
        pytest.skip("a source distribution has no studies and results")
    folder = tmp_path_factory.mktemp("site")
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])   # mkdocstrings looks for ruff there
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    environment = {**os.environ, "PATH": path, "NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    yield folder
    shutil.rmtree(folder)


# What a browser loads by itself: tag -> attribute.
LOADED = {"img": "src", "script": "src", "iframe": "src", "source": "src", "video": "src", "embed": "src", "object": "data"}


class Page(HTMLParser):
    """What a page has: ids, links to follow, and what is loaded."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag == "link" and given.get("rel") not in ("canonical", "next", "prev"):
            self.loaded.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])


@pytest.fixture(scope="module")
def pages(site):
    return {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}


def is_elsewhere(link):
    return bool(urlsplit(link).scheme or urlsplit(link).netloc)


def test_links_and_anchors_of_the_site_exist(site, pages):
    broken = []
    for path, page in pages.items():
        base = site if path.name == "404.html" else path.parent   # the page of errors has links from the root
        for link in [*page.links, *page.loaded]:
            if is_elsewhere(link):
                continue
            target, fragment = unquote(urlsplit(link).path), unquote(urlsplit(link).fragment)
            file = ((site / target.lstrip("/")) if target.startswith("/") else (base / target)).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            is_place = not fragment or fragment.startswith(("__", "only-")) or file not in pages or fragment in pages[file].ids
            if not (file.is_file() and is_place):
                broken.append(f"{path.relative_to(site)}: {link}")
    assert len(pages) > 90
    assert broken == []


def test_the_home_page_is_its_own(site):
    title = (ROOT / "docs" / "index.md").read_text(encoding="utf-8").partition("# ")[2].partition("\n")[0]
    home = (site / "index.html").read_text(encoding="utf-8")
    assert f">{title}" in home
    assert "start/index.html" in home


def test_no_page_loads_anything_from_elsewhere(site, pages):
    """Scripts, styles, fonts, pictures and frames are files of the site."""
    assert [f"{path.relative_to(site)}: {link}" for path, page in pages.items() for link in page.loaded if is_elsewhere(link)] == []
    styles = {path.name: path.read_text(encoding="utf-8") for path in site.rglob("*.css")}
    assert [name for name, text in styles.items() if re.search(r"(url\(|@import)\s*['\"]?(https?:)?//", text)] == []


def test_no_page_asks_the_theme_to_load_a_program_from_elsewhere(pages):
    """The theme's script fetches mermaid for diagrams, and the numbers of a repository's page for a link to it."""
    for path in pages:
        text = path.read_text(encoding="utf-8")
        assert 'class="mermaid"' not in text, path
        assert 'data-md-component="source"' not in text, path


def test_every_public_name_has_an_anchor(site, pages):
    anchors = {one for path, page in pages.items() if path.parent.name == "reference" for one in page.ids}
    assert [identifier for identifier, _ in described_names() if identifier not in anchors] == []


def test_the_commands_are_on_their_page(site, pages):
    anchors = pages[site / "reference" / "command_line.html"].ids
    assert {"hushvec-demo", "hushvec-retrieve-build", "hushvec-budget-create"} <= anchors


def test_docstrings_leave_no_marks_behind(pages):
    """A section that the parser does not know, or a prompt outside of code, is shown as it is written."""
    for path in pages:
        if path.parent.name == "reference":
            text = re.sub(r"<(code|pre)\b.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
            found = re.findall(r"<p>[^<]*(?:&gt;&gt;&gt;|\b(?:Args|Raises|Returns|Yields|Examples?|Attributes):\s*\n)[^<]*", text)
            assert found == [], path.name
            assert "<blockquote" not in text, path.name   # "> 0" is a condition here


def test_a_page_is_found_by_its_words(site):
    text = (site / "search" / "search_index.js").read_text(encoding="utf-8")
    assert "start/epsilon.html" in text
    assert "source/examples" not in text
    index = json.loads(text[text.index("{") : text.rindex("}") + 1])
    words = re.split(index["config"]["separator"], "(hushvec.privatize) of 2.14")
    assert [word for word in words if word] == ["hushvec", "privatize", "of", "2.14"]
    found = {entry["location"] for entry in index["docs"] if "federated" in entry["title"].lower()}
    assert {"federated.html", "reference/federated.html"} <= found
    boosts = {entry["location"]: entry.get("boost") for entry in index["docs"]}
    assert boosts["reference/release.html#hushvec.privatize"] == 2
    assert {boost for place, boost in boosts.items() if not place.startswith("reference/")} == {None}
