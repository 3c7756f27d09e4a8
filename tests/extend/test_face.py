"""What `hushvec.extend` hands on, and what it says of names that are elsewhere."""

import importlib

import pytest

import hushvec.extend

ELSEWHERE = {
    "Progress": "hushvec.extend.helpers",
    "PER": "hushvec.receipts",
    "open_store": "hushvec.budget",
    "takes_integers": "hushvec.mechanisms",
    "zcdp_epsilon": "hushvec.accounting",
}


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_name_that_is_elsewhere_says_where(name):
    with pytest.raises(ImportError) as error:
        getattr(hushvec.extend, name)
    assert str(error.value) == f"hushvec.extend has no {name}: it is in {ELSEWHERE[name]}"
    assert name in importlib.import_module(ELSEWHERE[name]).__all__


def test_the_face_is_small():
    assert len(hushvec.extend.__all__) <= 35
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = hushvec.extend.nothing
