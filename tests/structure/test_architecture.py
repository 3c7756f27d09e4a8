"""ARCHITECTURE.md names rooms and files that exist, and leaves out no room."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "ARCHITECTURE.md").read_text()
# Where a path in the text may begin; a name alone may be of any folder.
PLACES = [ROOT, ROOT / "python/hushvec", ROOT / "cpp/src/lanes", ROOT / "python/hushvec/retrieval", ROOT / "tests/retrieval"]
TOKENS = sorted(set(re.findall(r"`([^`\s]+)`", TEXT)))
PATHS = [token for token in TOKENS if "NAME" not in token and ("/" in token or re.search(r"\.(py|hpp|cpp|md|toml)$", token))]
# Words of code that Python or C++ defines: snake_case, _CONSTANTS, ClassNames.
NAMES = re.findall(r"`(_?[a-z]+(?:_[a-z]+)+|_?[A-Z]+(?:_[A-Z]+)*|[A-Z][a-z]+[A-Za-z]*)`", TEXT)
LINKS = re.findall(r"\]\(([^)#]+)\)", TEXT)


def test_paths_exist():
    assert [path for path in PATHS if not any((place / path).exists() for place in PLACES)] == []


def test_links_lead_somewhere():
    assert [path for path in LINKS if not (ROOT / path).exists()] == []


def rooms(folder):
    return sorted(path.name for path in (ROOT / folder).iterdir() if path.is_dir() and any(path.glob("*.[chp]*")))


@pytest.mark.parametrize("room", [name for name in rooms("python/hushvec") if name != "__pycache__"])
def test_every_package_is_on_the_map(room):
    assert f"| `{room}/` |" in TEXT


@pytest.mark.parametrize("room", rooms("cpp/src"))
def test_every_folder_of_the_core_is_on_the_map(room):
    assert f"`cpp/src/{room}`" in TEXT


@pytest.mark.parametrize("name", sorted({*NAMES} - {"NAME"}))
def test_names_are_defined(name):
    sources = [*(ROOT / "python").rglob("*.py"), *(ROOT / "cpp").rglob("*.hpp"), *(ROOT / "tests").rglob("*.py")]
    assert any(re.search(rf"\b{name}\b", path.read_text()) for path in sources)
