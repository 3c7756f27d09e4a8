"""Directed rounding against exact arithmetic: docs/proofs/rounding.md.

Every check passes on the library, and raises AssertionError on a function that rounds to nearest or in the wrong direction.
"""

import ast
import math
import random
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

import hushvec
from hushvec._util import rounding

PACKAGE = Path(hushvec.__file__).parent
LARGEST = math.nextafter(math.inf, 0)


def floats(count, *, low=-1060, high=1000, seed=1):
    """Floats > 0 of all sizes, whole numbers and powers of two among them."""
    rng = random.Random(seed)
    drawn = [math.ldexp(rng.random() + 0.5, rng.randint(low, high)) for _ in range(count)]
    return [*drawn, 1.0, 2.0, 3.0, 2.0**-30, math.nextafter(1.0, 2.0), math.nextafter(1.0, 0.0)]


def fractions(count, **sizes):
    """Exact values between floats, on them, and next to the middle of two."""
    for value in floats(count, **sizes):
        above = Fraction(math.nextafter(value, math.inf))
        step = above - Fraction(value)
        yield from (Fraction(value), Fraction(value) + step / 3, Fraction(value) + step / 2, Fraction(value) + step * 5 / 6)
        yield Fraction(value) / 7


def check_next_up(next_up):
    for value in floats(200):
        found = next_up(value)
        assert found > value and (value + found) / 2 in (value, found)
        for other in (3.0, 0.1, 7e-5):
            assert Fraction(next_up(value / other)) >= Fraction(value) / Fraction(other)


def check_next_down(next_down):
    check_next_up(lambda value: -next_down(-value))


def check_fraction_up(fraction_up):
    for exact in [*fractions(300), Fraction(5e-324) / 3, Fraction(LARGEST)]:
        found = fraction_up(exact)
        assert Fraction(math.nextafter(found, 0)) < exact <= Fraction(found)
    assert fraction_up(Fraction(LARGEST) + 1) == fraction_up(Fraction(10) ** 400) == math.inf
    assert fraction_up(Fraction(0)) == 0.0
    for text in ("0.1", "0.5", "1e-400", "3.3333333333333333333333333"):
        assert Fraction(math.nextafter(fraction_up(Decimal(text)), 0)) < Fraction(text) <= Fraction(fraction_up(Decimal(text)))
    assert fraction_up(Decimal("1e400")) == math.inf


def check_fraction_down(fraction_down):
    for exact in fractions(300):
        found = fraction_down(exact)
        assert Fraction(found) <= exact < Fraction(math.nextafter(found, math.inf))
    assert fraction_down(Fraction(10) ** 400) == LARGEST
    assert fraction_down(Fraction(5e-324) / 3) == 0.0


def check_float32_up(float32_up):
    for exact in fractions(300, low=-120, high=120):
        found = float32_up(exact)
        assert isinstance(found, np.float32)
        assert Fraction(float(np.nextafter(found, np.float32(0)))) < exact <= Fraction(float(found))


def check_float32_down(float32_down):
    for exact in fractions(300, low=-120, high=120):
        found = float32_down(exact)
        assert isinstance(found, np.float32)
        assert Fraction(float(found)) <= exact < Fraction(float(np.nextafter(found, np.float32(math.inf))))


def check_tensor_to_float32_down(tensor_to_float32_down):
    torch = pytest.importorskip("torch")
    values = [0.0, *floats(500, low=-140, high=120)]
    found = tensor_to_float32_down(torch.tensor(values, dtype=torch.float64))
    assert found.dtype == torch.float32
    for value, down in zip(values, found.numpy(), strict=True):
        assert float(down) <= value < float(np.nextafter(down, np.float32(math.inf)))


def check_at_least(at_least):
    for exact in fractions(100):
        found = at_least(float(exact), exact)
        assert Fraction(math.nextafter(found, 0)) < exact <= Fraction(found)


def check_at_most(at_most):
    for exact in fractions(100):
        found = at_most(float(exact), exact)
        assert Fraction(found) <= exact < Fraction(math.nextafter(found, math.inf))


def check_decimal_up(decimal_up):
    for value in floats(200):
        for digits in (1, 4, 17):
            found = decimal_up(value, digits)
            step = Fraction(10) ** (found.adjusted() + 1 - digits)
            assert len(found.as_tuple().digits) <= digits
            assert Fraction(found) - step < Fraction(value) <= Fraction(found)


def check_rounded_up(rounded_up):
    for value in floats(200):
        for digits in (1, 4, 10, 17):
            found = rounded_up(value, digits)
            assert found >= value and found == float(f"{found:.{digits - 1}e}")
            assert Fraction(found) <= Fraction(value) * (1 + Fraction(1, 10 ** (digits - 1)) + Fraction(1, 2**52))


def check_quotient_down(quotient_down):
    for numerator in floats(60, low=-500, high=500):
        for denominator in (3, 0.7, 2.0, math.sqrt(7), 1e-10, 10**20 + 1):
            found, exact = quotient_down(numerator, denominator), Fraction(numerator) / Fraction(denominator)
            assert Fraction(found) <= exact < Fraction(math.nextafter(found, math.inf))


def check_product_up(product_up):
    values = floats(60, low=-300, high=300)
    for first, second in zip(values, reversed(values), strict=True):
        for third in (Fraction(1, 3), 7, 0.1):
            found, exact = product_up(first, second, third), Fraction(first) * Fraction(second) * Fraction(third)
            assert Fraction(math.nextafter(found, 0)) < exact <= Fraction(found)
    assert product_up() == 1.0 and product_up(0.0, 3) == 0.0 and product_up(1e300, 1e300) == math.inf


def check_root_up(root_up):
    for square in fractions(200, low=-900, high=1000):
        found = root_up(square)
        assert Fraction(math.nextafter(math.nextafter(found, 0), 0)) ** 2 < square <= Fraction(found) ** 2
    assert root_up(Fraction(4)) == 2.0


def check_products_up(products_up):
    rng = random.Random(4)
    for count in (1, 2, 9):
        pairs = [(Decimal(rng.random()) / 3, Decimal(rng.random()) * 7) for _ in range(count)]
        exact = sum(Fraction(first) * Fraction(second) for first, second in pairs)
        assert exact <= Fraction(products_up(pairs)) <= exact * (1 + Fraction(count, 10**78))
    assert products_up([]) == 0 and products_up([(Decimal("-0.0"), Decimal(3))]) == 0


def check_decimal_root_up(decimal_root_up):
    for square in fractions(200, low=-300, high=300):
        exact = Decimal(square.numerator) / Decimal(square.denominator)   # any 28 digits
        found = decimal_root_up(exact)
        assert Fraction(math.nextafter(found, 0)) ** 2 < Fraction(exact) <= Fraction(found) ** 2
    assert decimal_root_up(Decimal(2)) == 1.4142135623730951 and decimal_root_up(Decimal(4)) == 2.0


def check_log_ratio_up(log_ratio_up):
    rng = random.Random(2)
    pairs = [(2**64 - 1, 1), (2**63 + 1, 2**63 - 1), (2**128, 2**128 - 1), (7, 3)]
    pairs += [(rng.randint(2**60, 2**64), rng.randint(1, 2**60 - 1)) for _ in range(50)]
    with mpmath.workdps(200):
        for numerator, denominator in pairs:
            for times in (1, 3, 10**6):
                exact = times * mpmath.log(mpmath.mpf(numerator) / denominator)
                found = mpmath.mpf(str(log_ratio_up(numerator, denominator, times=times)))
                # relative to 1 / (ratio - 1): the quotient keeps 80 digits, its distance from 1 fewer
                slack = mpmath.mpf(10) ** -77 * (1 + mpmath.mpf(denominator) / (numerator - denominator))
                assert exact < found <= exact * (1 + slack)
    assert log_ratio_up(5, 5) == log_ratio_up(3, 5) == 0


def check_sum_up(sum_up):
    rng = random.Random(3)
    for _ in range(200):
        terms = [(math.ldexp(rng.random(), rng.randint(-60, 60)), rng.choice([1, 1, 1, 10**6])) for _ in range(rng.randint(1, 9))]
        found, exact = sum_up(terms), sum(Fraction(value) * count for value, count in terms)
        assert Fraction(math.nextafter(found, 0)) < exact <= Fraction(found)
    assert sum_up([(1.0, 1), (math.inf, 1)]) == sum_up([(LARGEST, 1), (LARGEST, 1)]) == math.inf
    assert sum_up([]) == 0.0


def check_up(up):
    for value in floats(200):
        for sign in (1, -1):
            for units in (0, 1, 8, 64):
                found, exact = up(sign * value, units=units), Fraction(sign * value)
                assert exact + Fraction(units, 2**53) * abs(exact) <= Fraction(found)
                assert Fraction(found) <= exact + Fraction(units + 4, 2**53) * abs(exact) + Fraction(5e-324) * 2
            found = up(sign * value, units=5, of=1e3)
            assert Fraction(sign * value) + Fraction(5, 2**53) * 1000 <= Fraction(found)
    assert up(math.inf) == math.inf and up(-math.inf) == -LARGEST


def check_down(down):
    check_up(lambda value, **options: -down(-value, **options))


def check_exp_up(exp_up):
    rng = random.Random(4)
    exponents = [rng.uniform(-700, 700) for _ in range(300)] + [rng.uniform(-1, 1) for _ in range(300)] + [0.0, 708.9]
    with mpmath.workdps(60):
        for exponent in exponents:
            moved = mpmath.mpf(exponent) + 8 * mpmath.mpf(2) ** -53 * abs(exponent)
            assert mpmath.exp(moved) <= exp_up(exponent) <= mpmath.exp(moved) * (1 + 1e-12)
    assert exp_up(709.0) == math.inf and 0 < exp_up(-800.0) < 1e-300


def check_raised(raised):
    for bound in (1.0, 0.1, 1e-300, 1e300):
        for start in (bound, math.nextafter(bound, 0), bound * (1 - 2**-40)):
            found = raised(lambda value, bound=bound: value >= bound, start)
            assert bound <= found <= bound * (1 + 2**-38)
    assert raised(lambda value: True, 0.3) == 0.3


def check_smallest(smallest):
    for bound in (5e-324, 1e-300, 0.1, 1.0, 1e300):
        for upper in (bound, 2 * bound, math.inf):
            found = smallest(lambda value, bound=bound: value >= bound, upper)
            assert bound <= found <= bound * (1 + 2**-51) + 5e-324
    assert smallest(lambda value: True, math.inf) == 0.0
    assert smallest(lambda value: False, math.inf) == math.inf


def check_largest(largest):
    for bound in (0.0, 5e-324, 1e-300, 0.1, 1.0, 7.9):
        assert largest(lambda value, bound=bound: value <= bound, 8.0) == bound


def check_total(total):
    for values in ([1e16, 1.0, 1e-16], [1e16, 1.0], [0.1] * 10, floats(50, high=900)):
        assert total(values) == float(sum(map(Fraction, values)))
    assert total([LARGEST, LARGEST]) == math.inf


CHECKS = {name.removeprefix("check_"): check for name, check in list(globals().items()) if name.startswith("check_")}


@pytest.mark.parametrize("name", CHECKS)
def test_against_exact_arithmetic(name):
    check = CHECKS[name]
    check(getattr(rounding, name))


WRONG = {
    "next_up": lambda value: value,
    "next_down": lambda value: rounding.next_up(value),
    "fraction_up": lambda exact: float(exact) if exact < 10**300 else math.inf,
    "fraction_down": lambda exact: float(exact) if exact < 10**300 else LARGEST,
    "float32_up": lambda exact: np.float32(float(exact)),
    "float32_down": lambda exact: np.float32(float(exact)),
    "tensor_to_float32_down": lambda values: values.float(),
    "at_least": lambda converted, value: converted,
    "at_most": lambda converted, value: converted,
    "decimal_up": lambda value, digits: Decimal(f"{value:.{digits - 1}e}"),
    "rounded_up": lambda value, digits: float(f"{value:.{digits - 1}e}"),
    "quotient_down": lambda numerator, denominator: numerator / denominator,
    "product_up": lambda *factors: float(math.prod(map(Fraction, factors))) if max(factors, default=1) < 1e299 else math.inf,
    "root_up": lambda square: math.sqrt(square),
    "products_up": lambda pairs: sum((first * second for first, second in pairs), Decimal(0)),
    "decimal_root_up": lambda square: float(square.sqrt()),
    "log_ratio_up": lambda numerator, denominator, times=1: max(Decimal(0), Decimal(numerator) / denominator).ln() * times,
    "total": sum,
    "sum_up": lambda terms: rounding.total(value * count for value, count in terms),
    "up": lambda value, units=8, of=None: value + units * 2**-54 * abs(of or value),
    "down": lambda value, units=8, of=None: rounding.up(value, units=units, of=of),
    "exp_up": lambda exponent: math.exp(exponent) if exponent < 709 else math.inf,
    "raised": lambda holds, value: value,
    "smallest": lambda holds, upper: rounding.next_down(rounding.smallest(holds, upper)),
    "largest": lambda holds, upper: rounding.next_up(rounding.largest(holds, upper)),
}


@pytest.mark.parametrize("name", CHECKS)
def test_the_wrong_direction_is_noticed(name):
    with pytest.raises(AssertionError):
        CHECKS[name](WRONG[name])


def test_every_function_is_checked():
    tree = ast.parse(Path(rounding.__file__).read_text())
    assert {node.name for node in tree.body if isinstance(node, ast.FunctionDef)} == set(CHECKS) == set(WRONG)


def test_logarithms_do_not_depend_on_the_decimal_context_of_the_thread():
    import decimal

    with decimal.localcontext() as context:
        context.prec, context.rounding = 3, decimal.ROUND_FLOOR
        check_log_ratio_up(rounding.log_ratio_up)
        check_rounded_up(rounding.rounded_up)


# The brackets of Gumbel noise have a number of digits of their own, and their margin beside them.
ROUNDS_BY_HAND = {"mechanisms/top_k.py"}


def names_in(tree):
    """(line, name) of every variable, attribute and import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute):
            yield node.lineno, getattr(node, "id", None) or node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, alias.name) for alias in node.names)


def test_nothing_else_rounds_by_hand():
    by_hand = {"nextafter", "ROUND_CEILING", "ROUND_FLOOR", "ROUND_UP", "ROUND_DOWN", "localcontext", "getcontext"}
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        where, text = str(path.relative_to(PACKAGE)), path.read_text()
        if where not in {"_util/rounding.py", *ROUNDS_BY_HAND} and any(name in text for name in by_hand):
            found += [f"{where}:{line}: {name}" for line, name in names_in(ast.parse(text)) if name in by_hand]
    assert found == [], "hushvec._util.rounding is the place for it"
