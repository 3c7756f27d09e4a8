#!/usr/bin/env python3
"""Checks hushvec receipts, and the ledgers that they name, without hushvec: this file and the Python standard library.

    python check_receipt.py RECEIPT.json [RECEIPT.json ...] [--ledger EXPORT.json]

Prints a line for each receipt and one for the ledger. Exit code 0: all hold; 1: one does not; 2: nothing is wrong, but a receipt
makes no DP claim; 3: a file cannot be read. Guarantees are recomputed in 60-digit or rational arithmetic from docs/receipts.md and
docs/budget.md of hushvec, which describe every field. "holds" speaks of the numbers: nothing shows how given values were made.
"""

import argparse
import hashlib
import json
import math
import struct
import sys
from decimal import Decimal, getcontext
from fractions import Fraction

getcontext().prec = 60
HALF_PI_DIGITS = "1.5707963267948966192313216916397514420985846996875529104874722961539082"
LN_SQRT_2PI = (4 * Decimal(HALF_PI_DIGITS)).ln() / 2
MECHANISMS = {
    # name: norm of the sensitivity, its factor as a function of (rows of a person, dimension) squared, best grade
    "gaussian": ("l2", lambda r, d: r, "exact"),
    "empirical": ("l2", lambda r, d: r, "exact"),
    "laplacian": ("l1", lambda r, d: r * r * d, "exact"),
    "l2_laplace": ("l2", lambda r, d: r * r, "float"),
    "privunit": ("l2", lambda r, d: r * r, "exact"),
}
FIELDS = set(
    "mechanism adjacency per epsilon delta clip_norm sensitivity sensitivity_norm sigma scale cap_probability threshold grid grade "
    "key_source rounds rows dimension dtype normalize renormalize nonfinite is_dp_claim library_version notes charge projection "
    "format_version receipt_version".split()
)


class Unreadable(ValueError):
    """Not a receipt or an export at all."""


# ---- the normal law -------------------------------------------------------------------------------------------------


def log_upper_tail(x):
    """ln P(N(0, 1) > x) of a Decimal x, to about 50 digits."""
    if x < 0:
        return (1 - log_upper_tail(-x).exp()).ln()
    if x > 6:
        # Laplace's continued fraction x + 1/(x + 2/(x + ...)), from far enough inside
        value = x
        for k in range(600, 0, -1):
            value = x + k / value
        return -x * x / 2 - LN_SQRT_2PI - value.ln()
    # P(0 < N < x) = phi(0) (x - x^3/6 + x^5/40 - ...): at x = 6 the terms reach 1e7, which 60 digits have room for
    term, total, n = x, x, 0
    while abs(term) > Decimal(10) ** -58:
        n += 1
        term = -term * x * x / (2 * n)
        total += term / (2 * n + 1)
    return (Decimal("0.5") - total * (-LN_SQRT_2PI).exp()).ln()


def gaussian_delta(epsilon, sigma, square):
    """delta of Balle and Wang (2018), theorem 8, for L2 sensitivity sqrt(square)."""
    s = Decimal(sigma) / decimal(square).sqrt()
    a, b = 1 / (2 * s), Decimal(epsilon) * s
    return log_upper_tail(b - a).exp() - (Decimal(epsilon) + log_upper_tail(b + a)).exp()


def privunit_epsilon(p, threshold):
    """ln(p/(1-p)) + ln(q/(1-q)), q = Phi(threshold)."""
    above = log_upper_tail(Decimal(threshold))
    return (Decimal(p) / (1 - Decimal(p))).ln() + (1 - above.exp()).ln() - above


def decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


# ---- one receipt ----------------------------------------------------------------------------------------------------


def check_receipt(receipt):
    """(status, reasons)"""
    require_fields(receipt)
    faults = [*setting_faults(receipt), *noise_faults(receipt)]
    no_claim = []
    if receipt["grade"] == "float":
        no_claim.append("floating point: not protected")
    if receipt["key_source"] == "seed":
        no_claim.append("the key came from a seed")
    if receipt["is_dp_claim"]:
        faults += [f"is_dp_claim must be false: {reason}" for reason in no_claim]
    if faults:
        return "does not hold", faults
    if not receipt["is_dp_claim"]:
        return "not a DP claim", no_claim or ["the receipt makes none"]
    return "holds", [f"({receipt['epsilon']}, {receipt['delta']})-DP, replace-one, per {receipt['per']}"]


def require_fields(receipt):
    if not isinstance(receipt, dict) or set(receipt) != FIELDS:
        names = sorted(FIELDS ^ set(receipt)) if isinstance(receipt, dict) else []
        raise Unreadable(f"fields are missing or unknown: {', '.join(names)[:200]}")
    if receipt["receipt_version"] != 1 or receipt["format_version"] != 1:
        raise Unreadable("receipt_version and format_version must be 1")
    for name in ("epsilon", "delta", "clip_norm", "sensitivity", "sigma", "scale", "cap_probability", "threshold", "grid"):
        optional = name in ("sigma", "scale", "cap_probability", "threshold", "grid")
        if not (is_number(receipt[name]) and receipt[name] >= 0 or optional and receipt[name] is None):
            raise Unreadable(f"{name} must be a finite number >= 0")
    for name, least in (("rows", 0), ("dimension", 1)):
        if type(receipt[name]) is not int or receipt[name] < least:
            raise Unreadable(f"{name} must be a whole number >= {least}")
    sets = {
        "mechanism": MECHANISMS,
        "adjacency": ["replace-one"],
        "per": ["record", "release"],
        "grade": ["exact", "float"],
        "key_source": ["os", "seed"],
        "rounds": [20, 12, 8],
        "is_dp_claim": [True, False],
        "normalize": [True, False],
        "nonfinite": ["raise"],
    }
    for name, accepted in sets.items():
        if not isinstance(receipt[name], (str, int)) or receipt[name] not in accepted:
            raise Unreadable(f"{name} must be one of {', '.join(map(str, accepted))}")
    if not (receipt["clip_norm"] > 0 and receipt["sensitivity"] > 0 and receipt["delta"] < 1):
        raise Unreadable("clip_norm and sensitivity must be > 0, delta < 1")


def is_number(value):
    return type(value) in (int, float) and abs(value) < 1e400 and math.isfinite(value)


def persons_rows(receipt):
    return max(1, receipt["rows"]) if receipt["per"] == "release" else 1


def squared_sensitivity(receipt):
    factor = MECHANISMS[receipt["mechanism"]][1](persons_rows(receipt), receipt["dimension"])
    return (2 * Fraction(receipt["clip_norm"])) ** 2 * factor


def setting_faults(receipt):
    name = receipt["mechanism"]
    norm, _, best_grade = MECHANISMS[name]
    gaussian = name in ("gaussian", "empirical")
    if receipt["sensitivity_norm"] != norm:
        yield f"sensitivity_norm must be {norm}"
    if Fraction(receipt["sensitivity"]) ** 2 < squared_sensitivity(receipt):
        yield "sensitivity is stated too small"
    if gaussian != (receipt["delta"] > 0):
        yield f"delta must be {'> 0' if gaussian else '0'} for {name}"
    if receipt["grade"] == "exact" and best_grade == "float":
        yield f"{name} has no exact grade"
    if name == "privunit" and not receipt["normalize"]:
        yield "normalize must be true for privunit"
    if name != "privunit" and receipt["normalize"] and receipt["clip_norm"] != 1:
        yield "clip_norm must be 1 with normalize"


def noise_faults(receipt):
    name, epsilon = receipt["mechanism"], receipt["epsilon"]
    uses_scale = name in ("laplacian", "l2_laplace")
    parameter = receipt["scale" if uses_scale else "sigma"]
    if parameter is None or receipt["sigma" if uses_scale else "scale"] is not None:
        return ["exactly one of sigma and scale must be given, the one of the mechanism"]
    law = (receipt["cap_probability"], receipt["threshold"])
    if (name == "privunit") != (law != (None, None)) or (name == "privunit" and None in law):
        return ["cap_probability and threshold belong to privunit, both of them"]
    faults = list(grid_faults(receipt, parameter))
    if name == "privunit":
        p, threshold = law
        if not (0 < p < 1 and threshold <= 128):
            return [*faults, "cap_probability must be in (0, 1) and threshold in [0, 128]"]
        if persons_rows(receipt) * privunit_epsilon(p, threshold) > Decimal(epsilon):
            faults.append("cap_probability and threshold give a larger epsilon")
    elif uses_scale:
        if (Fraction(parameter) * Fraction(epsilon)) ** 2 < squared_sensitivity(receipt):
            faults.append("the noise gives a larger epsilon")
    elif gaussian_delta(epsilon, parameter, squared_sensitivity(receipt)) > Decimal(receipt["delta"]):
        faults.append("the noise gives a larger delta")
    return faults


def grid_faults(receipt, parameter):
    clip_norm, grid = Fraction(receipt["clip_norm"]), receipt["grid"]
    if not 2.0**-100 <= parameter <= 2.0**100 or struct.unpack("f", struct.pack("f", parameter))[0] != parameter:
        yield "sigma or scale must be a float32 in [2^-100, 2^100]"
        return
    of_sigma = math.frexp(parameter)[1] - 1
    if receipt["mechanism"] == "privunit":
        expected = 2.0 ** (of_sigma - 4)
    else:
        if not Fraction(1, 2**60) <= clip_norm / Fraction(parameter) <= 2**30:
            yield "clip_norm / sigma must be in [2^-60, 2^30]"
        mantissa, exponent = math.frexp(receipt["clip_norm"])
        expected = 2.0 ** max(of_sigma - 6, exponent - (mantissa == 0.5) - 21)
    if grid != (expected if receipt["grade"] == "exact" else None):
        yield "grid is not the one of this noise, clip_norm and grade"
