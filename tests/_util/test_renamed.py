"""Arguments and classes under their old names: they warn, and mean the new ones."""

import importlib
import inspect

import pytest

from hushvec._util.renamed import renamed_arguments


@renamed_arguments(whitelist="allow_list")
def words(text, *, allow_list=()):
    return text, allow_list


def test_the_old_name_warns_and_is_passed_on():
    with pytest.warns(DeprecationWarning, match=r"^whitelist is now allow_list; the old name goes in 0.2$"):
        assert words("a", whitelist=["b"]) == ("a", ["b"])


@renamed_arguments(max_len="max_length")
def pieces(*, max_length=32, generator=None):
    return max_length


@pytest.mark.parametrize("old", [{"max_len": 8}])
def test_the_warning_is_about_the_line_of_the_caller(old):
    """Python shows a DeprecationWarning by default only where it is about the program itself."""
    with pytest.warns(DeprecationWarning, match="the old name goes in 0.2$") as caught:
        pieces(**old)
    assert [warning.filename for warning in caught] == [__file__]


def test_the_new_name_does_not_warn(recwarn):
    assert words("a", allow_list=["b"]) == ("a", ["b"])
    assert not recwarn.list


def test_both_names_are_refused():
    with pytest.raises(TypeError, match=r"^allow_list must be given once, got whitelist as well, which is its old name$"):
        words("a", whitelist=[], allow_list=[])


def test_the_signature_shows_the_new_name():
    assert list(inspect.signature(words).parameters) == ["text", "allow_list"]


@pytest.mark.parametrize("package, new", [("hushvec.audit", "EpsilonEstimate"), ("hushvec.collect", "WordFrequencies")])
def test_renamed_classes(package, new):
    module = importlib.import_module(package)
    with pytest.warns(DeprecationWarning, match=rf"^Estimate is now {new}; the old name goes in 0\.2$"):
        assert module.Estimate is getattr(module, new)
    assert "Estimate" not in module.__all__ and new in module.__all__
    with pytest.raises(AttributeError, match=f"^module '{package}' has no attribute 'nothing'$"):
        module.nothing  # noqa: B018
