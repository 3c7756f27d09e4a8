"""Write float64_polynomials.hpp: minimax polynomials for the float64 lanes, with the error each leaves.

Remez exchange (Remez 1934) in 60 digits: the polynomial p of degree n whose weighted error (p - g) w has n + 2 extrema
of equal size. The coefficients are then rounded to float64, and the error written is that of the rounded ones.

Run:  python make_float64_polynomials.py > float64_polynomials.hpp        (needs mpmath)
"""

from mpmath import cospi, log, log1p, lu_solve, matrix, mp, mpf, nstr, pi, polyval, sinpi, sqrt

mp.dps = 60

POINTS_PER_EXTREMUM = 60
LEVELLED = mpf("1.001")           # largest over smallest extremum
ROUNDS = 40
SMALLEST_WEIGHT = mpf("1e-9")     # where w vanishes, the exchange still needs a number
NEXT_TO_ZERO = mpf("1e-20")       # where the quotients below would cancel: their limit at 0 serves

# f from words: 3/4 u is taken from the first word alone, at least 2^20, which widens the interval by less than 2^-20.
LOG_END = mpf(1) / 3 + mpf(2) ** -20


def extremum_points(low, high, count):
    return [(low + high) / 2 - (high - low) / 2 * mp.cos(pi * i / (count - 1)) for i in range(count)]


def alternating(points, errors):
    """The point of largest error in each stretch of one sign."""
    chosen = []
    for point, error in zip(points, errors, strict=True):
        if chosen and (error > 0) == (chosen[-1][1] > 0):
            chosen[-1] = max(chosen[-1], (point, error), key=lambda pair: abs(pair[1]))
        else:
            chosen.append((point, error))
    return chosen


def minimax(function, weight, degree, low, high):
    """Coefficients, lowest first, of the polynomial of that degree with the least weighted error on [low, high]."""
    count = degree + 2
    exchange = extremum_points(low, high, count)
    grid = extremum_points(low, high, POINTS_PER_EXTREMUM * count)
    for _ in range(ROUNDS):
        system = matrix(count, count)
        for row, x in enumerate(exchange):
            for power in range(degree + 1):
                system[row, power] = x**power
            system[row, degree + 1] = (-1) ** row / weight(x)
        coefficients = list(lu_solve(system, matrix([function(x) for x in exchange])))[:-1]
        extrema = alternating(grid, [(polyval(coefficients[::-1], x) - function(x)) * weight(x) for x in grid])
        while len(extrema) > count:
            extrema.pop(0 if abs(extrema[0][1]) < abs(extrema[-1][1]) else -1)
        if len(extrema) < count:
            raise ArithmeticError(f"{len(extrema)} extrema, {count} needed")
        exchange = [point for point, _ in extrema]
        sizes = [abs(error) for _, error in extrema]
        if max(sizes) < LEVELLED * min(sizes):
            return coefficients
    raise ArithmeticError("the exchange did not settle")


def log_remainder(f):
    """(-2 ln(1 + f) + 2 f) / f^2"""
    return (2 * f - 2 * log1p(f)) / f**2 if abs(f) > NEXT_TO_ZERO else mpf(1)


def log_weight(f):
    """Relative to -2 ln u, which is -2 ln(1 + f) where f < 0 and at least 2 ln 2 more where f > 0."""
    if abs(f) < NEXT_TO_ZERO:
        return SMALLEST_WEIGHT
    value = -2 * log1p(f) + (2 * log(2) if f > 0 else 0)
    return max(f**2 / value, SMALLEST_WEIGHT)


def sine_quotient(w2):
    """sin(pi w) / w"""
    return sinpi(sqrt(w2)) / sqrt(w2) if w2 > NEXT_TO_ZERO else +pi


def cosine_quotient(w2):
    """(cos(pi w) - 1) / w^2"""
    return (cospi(sqrt(w2)) - 1) / w2 if w2 > NEXT_TO_ZERO else -(pi**2) / 2


POLYNOMIALS = (
    (
        "kLogRemainder",
        "(-2 ln(1 + f) + 2 f) / f^2, |f| <= 1/3 + 2^-20: error of f^2 p relative to -2 ln u",
        minimax(log_remainder, log_weight, 19, -LOG_END, LOG_END),
        log_remainder,
        log_weight,
        (-LOG_END, LOG_END),
    ),
    (
        "kSineQuotient",
        "sin(pi w) / w in w^2, |w| <= 1/4: relative error",
        minimax(sine_quotient, lambda w2: 1 / pi, 6, mpf(0), mpf(1) / 16),
        sine_quotient,
        lambda w2: 1 / sine_quotient(w2),
        (mpf(0), mpf(1) / 16),
    ),
    (
        "kCosineQuotient",
        "(cos(pi w) - 1) / w^2 in w^2, |w| <= 1/4: absolute error of w^2 p",
        minimax(cosine_quotient, lambda w2: max(w2, SMALLEST_WEIGHT), 6, mpf(0), mpf(1) / 16),
        cosine_quotient,
        lambda w2: w2,
        (mpf(0), mpf(1) / 16),
    ),
)


def write():
    print("// Minimax polynomials of the float64 lanes. Written by make_float64_polynomials.py; do not edit.")
    print("//")
    print("// Coefficients from the constant up. Errors are those of the rounded coefficients in exact arithmetic.")
    print("#pragma once\n\nnamespace hushvec {")
    for name, meaning, coefficients, function, weight, ends in POLYNOMIALS:
        rounded = [float(c) for c in coefficients]
        grid = extremum_points(*ends, 4001)
        error = max(abs((polyval(rounded[::-1], x) - function(x)) * weight(x)) for x in grid)
        print(f"\n// {meaning} at most 2^{nstr(log(error, 2), 4)}")
        print(f"inline constexpr double {name}[] = {{")
        for i in range(0, len(rounded), 4):
            print("    " + ", ".join(c.hex() for c in rounded[i : i + 4]) + ",")
        print("};")
    print("\n}  // namespace hushvec")


if __name__ == "__main__":
    write()
