"""Mechanisms that a release does not need are imported at first use, and are there all the same."""

import subprocess
import sys

import pytest

from hushvec import mechanisms


def test_a_release_loads_none_of_them():
    code = (
        "import sys, hushvec; hushvec.privatize([1.0], epsilon=1.0); "
        "print(*[name for name in sys.modules if name.startswith('hushvec.mechanisms')])"
    )
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    assert "hushvec.mechanisms.additive" in loaded
    assert not {f"hushvec.mechanisms.{name}" for name in ("metric", "projection", "recommend")} & set(loaded)


def test_every_public_name_is_there():
    for name in mechanisms.__all__:
        assert getattr(mechanisms, name) is vars(mechanisms)[name]
        assert name in dir(mechanisms)
    assert mechanisms.MetricLaplace.__module__ == "hushvec.mechanisms.metric"


def test_others_are_not():
    with pytest.raises(AttributeError, match=r"module 'hushvec\.mechanisms' has no attribute 'Gone'"):
        mechanisms.Gone  # noqa: B018
