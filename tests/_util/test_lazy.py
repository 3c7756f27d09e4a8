"""Names of a package that are imported at their first use."""

import sys
from types import ModuleType

import pytest

from hushvec._util.lazy import at_first_use


@pytest.fixture
def package(monkeypatch):
    """A package whose `found` is in a module below it, and whose `gone` is in another package now."""
    made = {name: ModuleType(name) for name in ("shelf", "shelf.one", "elsewhere")}
    made["shelf.one"].found = "what was looked for"
    made["elsewhere"].__all__ = ["gone", "_gone"]
    for name, module in made.items():
        monkeypatch.setitem(sys.modules, name, module)
    shelf = made["shelf"]
    shelf.__path__ = []
    shelf.__getattr__, shelf.__dir__ = at_first_use(vars(shelf), {"one": "found"}, moved=("elsewhere",))
    return shelf


def test_a_name_is_found_and_kept(package):
    assert "found" not in vars(package)
    assert package.found == vars(package)["found"] == "what was looked for"
    assert package.__all__ == ["found"]


def test_a_name_that_has_moved_says_where_it_is(package):
    with pytest.raises(ImportError) as error:
        _ = package.gone
    assert str(error.value) == "shelf has no gone: it is in elsewhere"


@pytest.mark.parametrize("name", ["_gone", "never_there"])
def test_another_name_is_no_attribute(package, name):
    with pytest.raises(AttributeError) as error:
        getattr(package, name)
    assert str(error.value) == f"module 'shelf' has no attribute {name!r}"
