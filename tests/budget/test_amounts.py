"""Exact amounts: every float64 is counted as the decimal that Python prints for it."""

import math
import operator
from decimal import Decimal
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hushvec._util.rounding import at_most
from hushvec.budget.amounts import (
    DECIMALS,
    EPSILON_DELTA,
    RHO,
    UNIT,
    amounts,
    float_down,
    float_up,
    text_of,
    units_of,
    units_of_text,
)

NAMED = [0.0, 5e-324, 2.2250738585072014e-308, 1e-5, 0.1, 0.3, 1.0, 1 / 3, 1e16, 1.7976931348623157e308]
floats = st.one_of(st.sampled_from(NAMED), st.floats(min_value=0, allow_infinity=False, allow_subnormal=True))
totals = st.one_of(st.integers(0, 10**400), st.builds(lambda a, b: units_of(a) + units_of(b), floats, floats))


@given(floats)
def test_units_are_the_printed_decimal(value):
    assert Fraction(units_of(value), UNIT) == Fraction(Decimal(repr(value)))


@given(totals)
def test_text_and_back(units):
    text = text_of(units)
    assert units_of_text(text) == units
    assert Fraction(text) == Fraction(units, UNIT)
    assert "e" not in text.lower()
    assert "." not in text or not text.endswith(("0", "."))


@given(totals)
def test_floats_round_to_their_side(units):
    up, down = float_up(units), float_down(units)
    assert units_of(down) <= units
    assert math.isinf(up) or units <= units_of(up)
    assert up in (down, math.nextafter(down, math.inf))


@given(floats)
def test_an_amount_is_shown_as_it_was_given(value):
    assert float_up(units_of(value)) == float_down(units_of(value)) == value


@pytest.mark.parametrize(
    "text", ["", "-1", "+1", "01", "1.0", "1.", ".5", "1e5", "1E-5", "nan", "1/2", " 1", "1 ", "1_0", "0." + "0" * DECIMALS + "1", "١"]
)
def test_other_spellings_are_refused(text):
    with pytest.raises(ValueError, match="shortest form"):
        units_of_text(text)


def test_ten_tenths_are_one():
    assert 10 * units_of(0.1) == units_of(1.0)
    assert reduce(operator.add, [0.1] * 10) != 1.0  # what adding floats one by one gives


@pytest.mark.parametrize("third", [Fraction(1, 3), Fraction(2, 3), np.longdouble(1) / 3])
def test_what_is_no_float_is_never_counted_below_its_value(third):
    assert amounts(EPSILON_DELTA, third, 0.0, None).epsilon >= third
    assert at_most(float(third), third) <= third


def test_kinds_of_numbers():
    assert amounts(EPSILON_DELTA, 1, 0, None).texts == ("1", "0", "")
    assert amounts(EPSILON_DELTA, np.float64(0.1), np.float32(0), 0.5).texts == ("0.1", "0", "0.5")
    assert amounts(EPSILON_DELTA, np.float32(0.1), 0.0, None).texts[0] == repr(float(np.float32(0.1)))


@given(st.floats(min_value=1e-300, max_value=1e150))
def test_pure_epsilon_in_rho_is_half_its_square_rounded_up(epsilon):
    found = Fraction(amounts(RHO, epsilon, 0.0, None).main_units, UNIT)
    exact = Fraction(repr(epsilon)) ** 2 / 2
    assert exact <= found < exact + Fraction(1, UNIT)


@pytest.mark.parametrize(
    ("arguments", "kind", "text"),
    [
        ((EPSILON_DELTA, 0.0, 0.0, None), ValueError, "epsilon must be > 0, got 0.0"),
        ((EPSILON_DELTA, -1, 0.0, None), ValueError, "epsilon must be > 0, got -1.0"),
        ((EPSILON_DELTA, math.nan, 0.0, None), ValueError, "epsilon must be finite, got nan"),
        ((EPSILON_DELTA, math.inf, 0.0, None), ValueError, "epsilon must be finite, got inf"),
        ((EPSILON_DELTA, True, 0.0, None), TypeError, "epsilon must be a number, got bool"),
        ((EPSILON_DELTA, "1", 0.0, None), TypeError, "epsilon must be a number, got str"),
        ((EPSILON_DELTA, [1.0], 0.0, None), TypeError, "epsilon must be a number, got list"),
        ((EPSILON_DELTA, None, 0.0, 1.0), TypeError, "epsilon must be given"),
        ((EPSILON_DELTA, 10**400, 0.0, None), ValueError, "epsilon must be finite"),
        ((EPSILON_DELTA, 1.0, -1e-9, None), ValueError, "delta must be > 0 and < 1, got -1e-09"),
        ((EPSILON_DELTA, 1.0, 1.0, None), ValueError, "delta must be > 0 and < 1, got 1.0"),
        ((EPSILON_DELTA, 1.0, math.nan, None), ValueError, "delta must be finite"),
        ((EPSILON_DELTA, 1.0, None, None), TypeError, "delta must be a number"),
        ((EPSILON_DELTA, 1.0, 0.0, 0.0), ValueError, "rho must be > 0, got 0.0"),
        ((EPSILON_DELTA, 1.0, 0.0, math.nan), ValueError, "rho must be finite"),
        ((RHO, None, 0.0, None), TypeError, "rho must be given"),
        ((RHO, 1.0, 1e-5, None), ValueError, "rho must be given: the budget is in rho, and a charge with delta = 1e-05"),
        ((RHO, 1.0, 0.0, -1.0), ValueError, "rho must be > 0, got -1.0"),
    ],
)
def test_bad_amounts(arguments, kind, text):
    with pytest.raises(kind, match=text.replace("(", r"\(")):
        amounts(*arguments)


def test_a_cached_number_does_not_let_a_bool_through():
    amounts(EPSILON_DELTA, 1.0, 0.0, None)
    amounts(EPSILON_DELTA, 1, 0, None)
    with pytest.raises(TypeError):
        amounts(EPSILON_DELTA, True, 0.0, None)
    with pytest.raises(TypeError):
        amounts(EPSILON_DELTA, 1.0, False, None)
