"""Calls as LocalMode writes them are answered by how they are written here."""

import inspect
import re

import pytest

import hushvec as hv
from hushvec._util.keywords import moved

CALLS = (hv.dp_embedding_middleware, hv.dp_classification_middleware, hv.pii_redaction_middleware, hv.PrivacyBudget)
OBJECTS = ({"epsilon": 1.0}, {"epsilon": 1.0, "labels": ["a", "b"]}, {"patterns": ["email"]})


@pytest.mark.parametrize("function", CALLS[:3], ids=lambda one: one.__name__)
@pytest.mark.parametrize("with_budget", [False, True])
def test_an_object_of_options_is_told_to_be_names(function, with_budget):
    given = OBJECTS[CALLS.index(function)], *([hv.PrivacyBudget(10.0)] * with_budget)
    first = next(iter(inspect.signature(function).parameters))
    name, got = function.__name__, ", ".join(["dict", "PrivacyBudget"][: len(given)])
    with pytest.raises(TypeError, match=rf"^arguments of {name} must be given by name, as in {name}\({first}=\.\.\.\), got {got}$"):
        function(*given)


@pytest.mark.parametrize("function", [CALLS[0], CALLS[1], CALLS[3]], ids=lambda one: one.__name__)
def test_a_name_that_is_none_is_told_those_that_are(function):
    names = [name for name in inspect.signature(function).parameters if name != "self"]
    listed = rf"^arguments of {function.__name__} must be among {', '.join(names)}, got"
    with pytest.raises(TypeError, match=rf"{listed} collectionId$"):
        function(collectionId="notes")
    for name in names:
        camel = re.sub("_([a-z])", lambda found: found[1].upper(), name)
        if camel != name:
            with pytest.raises(TypeError, match=rf"{listed} {camel}: it is written {name}$"):
                function(**{camel: 1.0})


def test_calls_as_they_are_written_here_go_through():
    assert hv.PrivacyBudget(10.0, 1e-5).remaining() == hv.PrivacyBudget(max_epsilon=10.0).remaining() == 10.0
    redactor = hv.pii_redaction_middleware(patterns=["email"], allow_list=["a@b.org"]).redactor
    assert redactor.redact("a@b.org c@d.org").text == "a@b.org [EMAIL]"


def test_an_argument_that_has_moved_says_where_it_is_now():
    @moved({"budget": "account=Account(budget=...)"})
    def release(rows, *, account=None):
        return rows, account

    assert release(1, account=2) == (1, 2) and release(1) == (1, None)
    with pytest.raises(TypeError) as error:
        release(1, account=2, budget=3)
    title = release.__qualname__
    assert str(error.value) == f"budget must be given as account=Account(budget=...), got {title}(budget=...)"
    with pytest.raises(TypeError, match="unexpected keyword argument 'other'"):
        release(1, other=3)
