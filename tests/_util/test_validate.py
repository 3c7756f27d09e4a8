"""Checks of scalars: the last number that each accepts, the first that it refuses, and what it says then."""

import ctypes
import math
import platform
import sys
from collections.abc import Sequence

import pytest

from hushvec._util import validate

TINY = 2.0**-64
ABOVE_ONE, BELOW_ZERO = math.nextafter(1, 2), math.nextafter(0, -1)
BELOW_ONE, ABOVE_ZERO = math.nextafter(1, 0), math.nextafter(0, 1)
# a check, what it accepts, what it refuses with which words
RULES = {
    "positive": (lambda value: validate.positive("x", value), (ABOVE_ZERO, 1e308), {
        0.0: "x must be > 0, got 0.0", BELOW_ZERO: f"x must be > 0, got {BELOW_ZERO!r}",
        math.inf: "x must be finite, got inf", math.nan: "x must be finite, got nan",
    }),
    "not_negative": (lambda value: validate.not_negative("x", value), (0.0, ABOVE_ZERO), {
        BELOW_ZERO: f"x must be >= 0, got {BELOW_ZERO!r}", -math.inf: "x must be finite, got -inf",
    }),
    "probability": (lambda value: validate.probability("x", value), (ABOVE_ZERO, BELOW_ONE), {
        0.0: "x must be > 0 and < 1, got 0.0", 1.0: "x must be > 0 and < 1, got 1.0",
    }),
    "sampling_probability": (validate.sampling_probability, (TINY, 1.0), {
        0.0: "sampling_probability must be > 0, got 0.0",
        math.nextafter(TINY, 0): f"sampling_probability must be >= 2^-64, got {math.nextafter(TINY, 0)!r}",
        ABOVE_ONE: f"sampling_probability must be > 0 and <= 1, got {ABOVE_ONE!r}",
    }),
    "delta": (validate.delta, (ABOVE_ZERO, BELOW_ONE), {
        0.0: "delta must be > 0 and < 1, got 0.0", 1.0: "delta must be > 0 and < 1, got 1.0",
        -0.5: "delta must be > 0 and < 1, got -0.5",
    }),
    "delta, or zero": (lambda value: validate.delta(value, zero_allowed=True), (0.0, ABOVE_ZERO, BELOW_ONE), {
        1.0: "delta must be > 0 and < 1, got 1.0", BELOW_ZERO: f"delta must be > 0 and < 1, got {BELOW_ZERO!r}",
    }),
    "clip_norm": (validate.clip_norm, (2.0**-100, 1.0, 2.0**100), {
        0.0: "clip_norm must be > 0, got 0.0",
        2.0**-101: f"clip_norm must be in [2^-100, 2^100], got {2.0**-101!r}",
        2.0**101: f"clip_norm must be in [2^-100, 2^100], got {2.0**101!r}",
    }),
    "whole_number": (lambda value: validate.whole_number("x", value, at_least=2, at_most=4), (2, 3, 4), {
        1: "x must be >= 2, got 1", 5: "x must be <= 4, got 5",
    }),
}  # fmt: skip


@pytest.mark.parametrize("check, accepted, refused", RULES.values(), ids=RULES)
def test_the_bounds_of_a_check_are_where_its_words_say(check, accepted, refused):
    for value in accepted:
        assert check(value) == value
    for value, words in refused.items():
        with pytest.raises(ValueError) as error:
            check(value)
        assert str(error.value) == words
    for value in (True, "1", None):
        with pytest.raises(TypeError, match=f"must be a (whole )?number, got {type(value).__name__}$"):
            check(value)


@pytest.mark.skipif((sys.platform, platform.machine()) != ("linux", "x86_64"), reason="its numbers are those of x86")
@pytest.mark.parametrize("mode", [0x400, 0x800, 0xC00], ids=["down", "up", "towards zero"])
def test_every_other_rounding_mode_is_refused(mode):
    library = ctypes.CDLL(None)
    validate.rounding_to_nearest()
    try:
        library.fesetround(mode)
        with pytest.raises(RuntimeError, match=r"^floating-point numbers must be rounded to nearest in this thread"):
            validate.rounding_to_nearest()
    finally:
        library.fesetround(0)
    validate.rounding_to_nearest()


def test_an_instance_is_returned_and_anything_else_is_refused_by_its_type():
    assert validate.instance("name", "ann", str, "a str") == "ann"
    assert validate.instance("name", None, str | None, "a str or None") is None
    with pytest.raises(TypeError) as refused:
        validate.instance("name", 1, str, "a str")
    assert str(refused.value) == "name must be a str, got int"
    with pytest.raises(TypeError, match=r"^names must be a list of names, got str$"):
        validate.instance("names", "ann", Sequence, "a list of names", but=str | bytes)
