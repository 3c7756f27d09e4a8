"""Names of a package that are imported at their first use."""

import builtins
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
    vars(shelf).update(__builtins__=builtins, at_first_use=at_first_use)
    exec("with at_first_use(globals(), moved=('elsewhere',)):\n    from shelf.one import found", vars(shelf))
    return shelf


def test_a_name_is_found_and_kept(package):
    assert "found" not in vars(package)
    assert package.found == vars(package)["found"] == "what was looked for"
    assert "found" in dir(package)


def test_imports_of_others_do_not_wait(package):
    before = builtins.__import__
    with pytest.raises(ModuleNotFoundError), at_first_use(vars(package)):
        from shelf.two import found  # noqa: F401 - by this module, as by another thread
    assert builtins.__import__ is before


def test_a_name_that_has_moved_says_where_it_is(package):
    with pytest.raises(ImportError) as error:
        _ = package.gone
    assert str(error.value) == "shelf has no gone: it is in elsewhere"


@pytest.mark.parametrize("name", ["_gone", "never_there"])
def test_another_name_is_no_attribute(package, name):
    with pytest.raises(AttributeError) as error:
        getattr(package, name)
    assert str(error.value) == f"module 'shelf' has no attribute {name!r}"
