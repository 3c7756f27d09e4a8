"""The comparison of public names and releases finds what is gone, changed, or has other bits."""

import copy

import pytest

from scripts.test_loop_scripts import script

surface = script("public_surface")

NOW = {"names": {"hushvec": surface.names_of(surface.hv)}, "releases": {name: surface.RELEASES[name]() for name in ("clip", "sigma")}}


@pytest.fixture
def before():
    return copy.deepcopy(NOW)


def test_nothing_differs_from_itself(before):
    assert surface.differences(before, NOW) == []


def test_a_name_that_is_gone(before):
    before["names"]["hushvec"]["no_such_name"] = "(x)"
    assert surface.differences(before, NOW) == ["hushvec.no_such_name is gone"]


def test_another_default_is_another_signature(before):
    shape = before["names"]["hushvec"]["clip_and_noise"]
    before["names"]["hushvec"]["clip_and_noise"] = shape.replace("exact=True", "exact=False")
    assert surface.differences(before, NOW) == [
        f"hushvec.clip_and_noise was {shape.replace('exact=True', 'exact=False')}\n    and is {shape}"
    ]


def test_other_bits(before):
    before["releases"]["clip"] = "0" * 64
    assert surface.differences(before, NOW) == ["the release 'clip' has other bits"]
