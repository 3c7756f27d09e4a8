"""Functions of the compiled core as Python calls them: keywords, defaults, what is refused and how."""

import inspect

import numpy as np
import pytest

from hushvec._native import _core


def rows():
    return np.full((2, 3), 2.0, dtype=np.float32)


def test_arguments_by_place_and_by_name_and_by_default_are_the_same():
    x = rows()
    results = [np.empty_like(x) for _ in range(4)]
    _core.clip(x, 1.0, results[0])
    _core.clip(x, 1.0, results[1], True)
    _core.clip(x, out=results[2], clip_norm=1.0)
    _core.clip(**{"out_" + "is_fresh": False, "out": results[3], "x": x, "clip_" + "norm": 1})   # names that no program interned
    assert np.allclose(np.linalg.norm(results[0], axis=1), 1.0)
    assert all(np.array_equal(result, results[0]) for result in results)


def test_signature_is_what_inspect_reads():
    assert str(inspect.signature(_core.clip)) == "(x, clip_norm, out, out_is_fresh=False)"
    assert str(inspect.signature(_core.Generator._reserve_for_device)) == "(self, nonces=1)"


@pytest.mark.parametrize(
    "given, named, words",
    [
        ((), {}, "x is missing"),
        ((1, 2.0), {}, "out is missing"),
        ((1, 2.0, 3, True, 5), {}, "at most 4 are taken, got 5"),
        ((1, 2.0, 3), {"x": 1}, "one is given twice"),
        ((1, 2.0, 3), {"norm": 1}, "there is none named norm"),
        ((1, "2.0", 3), {}, "clip_norm must not be str"),
        ((1, 2.0, 3, None), {"out_is_fresh": True}, "one is given twice"),
        ((1, None, 3), {}, "clip_norm must not be NoneType"),
    ],
)
def test_wrong_arguments_are_type_errors(given, named, words):
    with pytest.raises(TypeError) as caught:
        _core.clip(*given, **named)
    assert str(caught.value) == f"clip(): incompatible function arguments: {words}"


def test_exceptions_of_the_core_are_those_of_python():
    with pytest.raises(ValueError, match="clip_norm"):
        _core.clip(rows(), -1.0, rows())
    with pytest.raises(TypeError, match="x must be a numpy array"):
        _core.clip("rows", 1.0, rows())
    with pytest.raises(ValueError, match="cipher must be"):
        _core.Generator(cipher="rot13")
