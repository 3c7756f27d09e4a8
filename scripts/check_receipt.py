#!/usr/bin/env python3
"""Checks hushvec receipts, and the ledgers that they name, without hushvec: this file and the Python standard library.

    python check_receipt.py RECEIPT.json [RECEIPT.json ...] [--ledger EXPORT.json]

Prints a line for each receipt and one for the ledger. Exit code 0: all hold; 1: one does not; 3: a file cannot be read, and no other
is wrong; 2: nothing is wrong, but a receipt makes no DP claim; 4: nothing is wrong, but this program cannot decide about a training,
whose epsilon lies between two bounds that it proves. Guarantees are recomputed in 60-digit, rational or directed arithmetic from
docs/receipts.md and docs/budget.md of hushvec, which describe every field. "holds" speaks of the numbers: nothing shows how given
values were made.
"""

import argparse
import hashlib
import json
import math
import re
import struct
import sys
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, getcontext, localcontext
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise

getcontext().prec = 60
LN_SQRT_2PI = Decimal("6.2831853071795864769252867665590057683943387987502116419498891846156328").ln() / 2
WORDS = 2**64  # the values of a uniform that laws of whole numbers divide up
LONGEST_RECEIPT, LONGEST_EXPORT = 2**20, 2**30  # characters


class Unreadable(ValueError):
    """Not a receipt or an export at all."""


# ---- fields: what the tables of docs/receipts.md ask of each


def text(value):
    return type(value) is str and not re.search("[\ud800-\udfff]", value)


def digest(value):
    return text(value) and re.fullmatch("[0-9a-f]{64}", value) is not None


def boolean(value):
    return type(value) is bool


def one_of(*accepted):
    return lambda value: any(type(value) is type(one) and value == one for one in accepted)


def number(holds):
    """A finite float64. A whole number that float64 would round is none."""
    return lambda value: type(value) in (int, float) and abs(value) <= sys.float_info.max and float(value) == value and holds(value)


def whole(least, most=2**63 - 1):
    return lambda value: type(value) is int and least <= value <= most


def whole_text(least, most):
    return lambda value: text(value) and re.fullmatch("0|[1-9][0-9]{0,19}", value) is not None and least <= int(value) <= most


def optional(rule):
    return lambda value: value is None or rule(value)


def notes(value):
    return type(value) is list and all(map(text, value))


def charge(value):
    return type(value) is dict and set(value) == set(CHARGE) and all(rule(value[name]) for name, rule in CHARGE.items())


def sample_ranges(value):
    return type(value) is list and all(map(sample_range, value))


def sample_range(value):
    return type(value) is dict and set(value) == set(RANGE) and all(rule(value[name]) for name, rule in RANGE.items()) and (
        value["first"] <= value["last"]
    )


def statistics(value):
    return type(value) is list and 1 <= len(value) <= 64 and all(map(statistic, value))


def statistic(value):
    return type(value) is dict and set(value) == set(STATISTIC) and all(rule(value[name]) for name, rule in STATISTIC.items())


def correlation(value):
    known = type(value) is dict and set(value) == set(CORRELATION) and all(rule(value[name]) for name, rule in CORRELATION.items())
    return known and value["max_participations"] <= -(-value["steps"] // value["min_separation"])


def coefficients(value):
    """c_0 = 1 and at most 31 more in [-1, 0], numbers of float32 whose magnitudes sum to at most 16."""
    plain = type(value) is list and 1 <= len(value) <= 32 and all(type(one) is float and repr(one) != "-0.0" for one in value)
    bounded = plain and value[0] == 1 and sum(map(abs, value)) <= 16
    return bounded and all(-1 <= one <= 0 and struct.unpack("f", struct.pack("f", one))[0] == one for one in value[1:])


positive, finite = number(lambda value: value > 0), number(lambda value: True)
LARGEST_FLOAT = Fraction(sys.float_info.max)
ROUNDS = {"aes256": 14, "chacha20": 20, "chacha12": 12, "chacha8": 8}
RANGE = {"process": lambda value: text(value) and re.fullmatch("[0-9a-f]{32}", value) is not None, "first": whole(1), "last": whole(1)}
CORRELATION = {
    "coefficients": coefficients, "steps": whole(1, 2**20), "min_separation": whole(1), "max_participations": whole(1),
}  # fmt: skip
CHARGE = {"ledger": digest, "sequence": whole(2), "charge_id": text, "entry_hash": digest}
SHARED = {
    "receipt_version": one_of(1), "format_version": one_of(1, 2, 3), "library_version": text, "adjacency": one_of("replace-one"),
    "epsilon": positive, "delta": number(lambda value: 0 <= value < 1), "grade": one_of("exact"), "key_source": one_of("os", "seed"),
    "cipher": one_of(*ROUNDS), "rounds": one_of(*ROUNDS.values()), "is_dp_claim": boolean, "notes": notes, "charge": optional(charge),
}  # fmt: skip
PER = one_of("record", "release")
INTEGERS = ("discrete_gaussian", "discrete_laplacian")  # of whole numbers
VECTORS = {
    **SHARED, "per": PER, "mechanism": one_of("gaussian", "empirical", "laplacian", "l2_laplace", "privunit", *INTEGERS),
    "epsilon": number(lambda value: value >= 0), "clip_norm": number(lambda value: 2.0**-100 <= value <= 2.0**100),
    "sensitivity": positive, "sensitivity_norm": one_of("l1", "l2"), "sigma": optional(positive), "scale": optional(positive),
    "cap_probability": optional(number(lambda value: 0 < value < 1)), "threshold": optional(number(lambda value: 0 <= value <= 128)),
    "grid": optional(positive), "grade": one_of("exact", "float"), "rows": whole(0), "dimension": whole(1),
    "dtype": one_of("float32", "float64", "float16", "bfloat16", "int64", "int32"), "normalize": boolean, "renormalize": boolean,
    "nonfinite": one_of("raise"), "projection": optional(digest),
}  # fmt: skip
INT8 = {  # fields that receipts of int8 values have besides
    "dtype": one_of("int8"), "saturation": lambda value: type(value) is list and value == [-127, 127] and {*map(type, value)} == {int},
    "saturation_probability": number(lambda value: 0 < value <= 1),
}  # fmt: skip
LABELS = {
    **SHARED, "receipt_kind": one_of("labels"), "per": PER, "mechanism": one_of("randomized_response"),
    "label_count": whole(2, 2**24), "labels_digest": digest, "truth_values": whole_text(1, WORDS - 1),
    "other_values": whole_text(1, WORDS - 1), "answers": whole(0), "scores": one_of("none", "uniform", "source"),
    "codebook": optional(digest),
}  # fmt: skip
SELECTION = {
    **SHARED, "receipt_kind": one_of("selection"), "mechanism": one_of("gumbel_top_k"), "selections": whole(1), "picks": whole(1),
    "candidates": whole(1), "score_low": finite, "score_high": finite, "sensitivity": positive, "epsilon_per_pick": positive,
}  # fmt: skip
REPORTS = {
    **SHARED, "receipt_kind": one_of("reports"), "per": PER, "mechanism": one_of("k_rr", "unary", "hadamard", "bloom"),
    "dictionary_digest": digest, "reports": whole(0), "words_of_one": whole(1), "memoised": boolean, "cells": whole(2, 2**24),
    "truth_values": whole_text(1, WORDS), "other_values": whole_text(0, WORDS - 1), "hashes": whole(0),
    "one_values": whole_text(0, WORDS), "zero_values": whole_text(0, WORDS - 1),
}  # fmt: skip
TRAINING = {
    **SHARED, "receipt_kind": one_of("training"), "mechanism": one_of("dp_sgd"), "adjacency": one_of("add-remove", "replace-one"),
    "epsilon": optional(number(lambda value: value >= 0)), "delta": number(lambda value: 0 < value < 1), "steps": whole(0, 2**40 - 1),
    "planned_steps": optional(whole(1)), "samples": optional(sample_ranges), "correlation": optional(correlation),
    "sampling_probability": number(lambda value: 2.0**-64 <= value <= 1),
    "noise_multiplier": number(lambda value: value >= 0), "sigma": number(lambda value: value >= 0), "sensitivity": positive,
    "clip_norm": number(lambda value: 2.0**-100 <= value <= 2.0**100), "expected_batch_size": positive, "resumed": whole(0),
    "clipping": one_of("auto", "exact", "estimated", "batch"), "theorem": text, "grade": one_of("exact", "float"),
}  # fmt: skip
STATISTIC = {
    "statistic": one_of("sums", "counts", "moments"), "purpose": text, "groups": whole(1), "dimension": whole(0),
    "clip_norm": optional(number(lambda value: 2.0**-100 <= value <= 2.0**100)), "sigma": optional(positive),
    "count_sigma": optional(positive), "repeats": whole(1),
}  # fmt: skip
AGGREGATE = {
    **SHARED, "receipt_kind": one_of("aggregate"), "mechanism": one_of("gaussian"), "adjacency": one_of("add-remove", "replace-one"),
    "rows_per_person": whole(1), "rows_bound": one_of("people", "promised"), "epsilon": number(lambda value: value >= 0),
    "delta": number(lambda value: 0 < value < 1), "noise_multiplier": positive, "statistics": statistics, "rows": optional(whole(0)),
}  # fmt: skip


def require(what, fields, rules):
    if type(fields) is not dict or set(fields) != set(rules):
        raise Unreadable(f"{what} has a field too many or too few, or is no object")
    for name, rule in rules.items():
        if not rule(fields[name]):
            raise Unreadable(f"{name} of {what} is out of its values: {fields[name]!r:.60}")


# ---- one receipt


def check_receipt(receipt):
    """(status, reasons)"""
    kind = receipt.get("receipt_kind", "vectors") if type(receipt) is dict else None
    if type(kind) is not str or kind not in KINDS:
        raise Unreadable("not a receipt of any kind")
    rules, faults_of, _ = KINDS[kind]
    rules = {**rules, **INT8} if kind == "vectors" and receipt.get("dtype") == "int8" else rules
    if kind == "training":  # older ones do not name them
        receipt = {"samples": [] if receipt.get("sampling_probability") == 1 else None, "correlation": None, **receipt}
    require("the receipt", receipt, rules)
    faults = [*cipher_faults(receipt), *faults_of(receipt)]
    no_claim = ["floating point: not protected"] * (receipt["grade"] == "float")
    no_claim += ["the key came from a seed"] * (receipt["key_source"] == "seed")
    no_claim += ["the model's own scores show which labels are true"] * (receipt.get("scores") == "source")
    no_claim += ["there is no noise"] * (receipt.get("noise_multiplier") == 0)
    if receipt["is_dp_claim"]:
        faults += [f"is_dp_claim must be false: {reason}" for reason in no_claim]
    if faults:
        return "does not hold", faults
    if not receipt["is_dp_claim"]:
        return "not a DP claim", no_claim or ["the receipt makes none"]
    doubt = training_doubt(receipt) if kind == "training" else None
    if doubt is not None:
        return "undecided", [doubt]
    return "holds", [f"({receipt['epsilon']}, {receipt['delta']})-DP, {receipt['adjacency']}, {kind}"]


def cipher_faults(receipt):
    cipher = receipt["cipher"]
    if receipt["rounds"] != ROUNDS[cipher]:
        yield f"rounds are not those of {cipher}"
    exact = "grid" in receipt and receipt["mechanism"] in (*GAUSSIANS, "laplacian") and receipt["grade"] == "exact"
    if receipt["format_version"] not in (2 if cipher == "aes256" else 1, 3 if exact or receipt.get("correlation", 0) is None else 0):
        yield f"format_version is not that of {cipher}"


def of_one_person(receipt, rows):
    return max(1, receipt[rows]) if receipt["per"] == "release" else 1


def decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


# ---- vectors

GAUSSIANS = ("gaussian", "empirical")
OF_LENGTH = (*GAUSSIANS, "discrete_gaussian")  # what a person's rows cost follows from their L2 distance together
LARGEST_SUMMED = 512


def vector_faults(receipt):
    mechanism = receipt["mechanism"]
    if receipt["sensitivity_norm"] != ("l1" if mechanism in ("laplacian", "discrete_laplacian") else "l2"):
        yield "sensitivity_norm is not the mechanism's"
    if Fraction(receipt["sensitivity"]) ** 2 < squared_sensitivity(receipt):
        yield "sensitivity is stated too small"
    if (mechanism in OF_LENGTH) != (receipt["delta"] > 0):
        yield f"delta must be > 0 for the Gaussian kinds and 0 for the others, got {receipt['delta']} for {mechanism}"
    if receipt["grade"] == "exact" and mechanism == "l2_laplace":
        yield "l2_laplace has no exact grade"
    if not receipt["normalize"] if mechanism == "privunit" else receipt["normalize"] and receipt["clip_norm"] != 1:
        yield "normalize must be true for privunit, and clip_norm 1 with normalize for the others"
    if (mechanism in INTEGERS) != (receipt["dtype"] in ("int64", "int32")):
        yield "dtype must be int64 or int32 for discrete noise, and neither for other noise"
    if mechanism in INTEGERS and (receipt["normalize"] or receipt["renormalize"] or receipt["projection"] is not None):
        yield "normalize and renormalize must be false and projection be null for discrete noise"
    used, other = ("scale", "sigma") if mechanism in ("laplacian", "l2_laplace", "discrete_laplacian") else ("sigma", "scale")
    law = (receipt["cap_probability"], receipt["threshold"])
    if receipt[used] is None or receipt[other] is not None:
        yield f"{used} must be given and {other} be null for {mechanism}"
    elif None in law if mechanism == "privunit" else law != (None, None):
        yield "cap_probability and threshold must be given for privunit, and be null for the others"
    else:
        yield from grid_faults(receipt, receipt[used])
        yield from noise_faults(receipt, receipt[used])
        if receipt["dtype"] == "int8":
            yield from int8_faults(receipt)


def squared_sensitivity(receipt):
    rows = of_one_person(receipt, "rows")
    factors = {"laplacian": rows**2 * receipt["dimension"], "l2_laplace": rows**2, "privunit": rows**2, "discrete_laplacian": rows**2}
    factor = rows if receipt["mechanism"] in OF_LENGTH else factors[receipt["mechanism"]]
    return (2 * Fraction(receipt["clip_norm"])) ** 2 * factor


def usable(parameter):
    """Whether it is a float32 of the size that noise may have."""
    return 2.0**-100 <= parameter <= 2.0**100 and struct.unpack("f", struct.pack("f", parameter))[0] == parameter


def grid_faults(receipt, parameter):
    clip_norm, grid = Fraction(receipt["clip_norm"]), receipt["grid"]
    if receipt["mechanism"] in INTEGERS:
        if not (2.0**-6 <= parameter <= 2.0**40 and clip_norm >= 1 and grid == 1 and receipt["grade"] == "exact"):
            yield "sigma or scale must be in [2^-6, 2^40], clip_norm >= 1, grid 1 and grade exact for discrete noise"
        return
    if not usable(parameter):
        yield "sigma or scale must be a float32 in [2^-100, 2^100]"
        return
    of_sigma = math.frexp(parameter)[1] - 1
    directions, integers = receipt["mechanism"] == "privunit", receipt["dtype"] == "int8"
    if directions:
        bits = [bits for bits in (3, 2, 1, 0) if not integers or receipt["threshold"] * 2 ** (bits + 1) <= 64]
        if not bits:
            yield "threshold must be at most 32 for int8 values"
        expected = 2.0 ** (of_sigma - max(bits, default=0))
    else:
        if not Fraction(1, 2**60) <= clip_norm / Fraction(parameter) <= 2**30:
            yield "clip_norm / sigma must be in [2^-60, 2^30]"
        mantissa, exponent = math.frexp(receipt["clip_norm"])
        of_noise, of_norm = (3 if integers or receipt["format_version"] == 3 else 6), (6 if integers else 21)
        expected = 2.0 ** max(of_sigma - of_noise, exponent - (mantissa == 0.5) - of_norm)
        if integers and parameter < expected:
            yield "the noise is too small for int8 values"
    if grid != (expected if receipt["grade"] == "exact" else None):
        yield "grid is not the one of this noise, clip_norm and grade"


def int8_faults(receipt):
    if receipt["mechanism"] not in (*GAUSSIANS, "privunit") or receipt["grade"] != "exact":
        yield "only exact Gaussian and privunit releases have int8 values"
        return
    if receipt["grid"] is None:
        return  # a fault of the grid
    if receipt["renormalize"]:
        yield "renormalize must be false for int8"
    if receipt["saturation_probability"] < saturation(receipt) * (1 - 1e-9):
        yield "saturation_probability is stated too small"


def saturation(receipt):
    """At least the expected share of a row's values beyond +-127: docs/proofs/saturation.md. No privacy claim, so in floats."""
    end, t = 127.5 * receipt["grid"] / receipt["sigma"], receipt["threshold"]

    def tail(x):
        return math.erfc(x / math.sqrt(2)) / 2

    def beyond(x):
        return tail(end - x) + tail(end + x) if x < end else 1.0

    def beyond_of_share(share):
        if receipt["mechanism"] != "privunit":
            return beyond(share * receipt["clip_norm"] / receipt["sigma"])
        lengths = [(t + 8) * i / 128 for i in range(129)]
        excess = [max(0.0, length - t) for length in lengths]
        p = receipt["cap_probability"]
        longer = [p * math.exp(-x * (t + x / 2)) + (1 - p) * min(1, 4 * tail(length)) for x, length in zip(excess, lengths)]
        values = [beyond(share * length) for length in lengths]
        rises = (b - a for a, b in pairwise(values))
        return values[0] + sum(rise * chance for rise, chance in zip(rises, longer)) + (1 - values[-1]) * longer[-1]

    worst, d = beyond_of_share(1), receipt["dimension"]
    bound = min(worst, *(beyond_of_share(i / 16) + min(1, (16 / i) ** 2 / d) * worst for i in range(1, 16)))
    return min(1.0, max(bound, 2.0**-64))


def noise_faults(receipt, parameter):
    mechanism, epsilon, square = receipt["mechanism"], receipt["epsilon"], squared_sensitivity(receipt)
    if mechanism == "privunit":
        p = Fraction(receipt["cap_probability"])
        if (p * 2**53).denominator != 1:
            yield "cap_probability must be a multiple of 2^-53"
        elif of_one_person(receipt, "rows") * privunit_epsilon(p, receipt["threshold"]) > Decimal(epsilon):
            yield "cap_probability and threshold give a larger epsilon"
    elif mechanism == "discrete_gaussian":
        numbers = of_one_person(receipt, "rows") * receipt["dimension"]
        if discrete_gaussian_delta(epsilon, parameter, square, numbers) > Decimal(receipt["delta"]):
            yield "the noise gives a larger delta"
    elif mechanism not in GAUSSIANS:
        if (Fraction(parameter) * Fraction(epsilon)) ** 2 < square:
            yield "the noise gives a larger epsilon"
    elif gaussian_delta(epsilon, parameter, square) > Decimal(receipt["delta"]):
        yield "the noise gives a larger delta"


def gaussian_delta(epsilon, sigma, square):
    """delta of Balle and Wang (2018), theorem 8, for L2 sensitivity sqrt(square)."""
    s = Decimal(sigma) / decimal(square).sqrt()
    with localcontext() as context:
        context.prec += max(0, s.adjusted())  # delta is about 1 / s of the two terms
        a, b = 1 / (2 * s), Decimal(epsilon) * s
        return log_upper_tail(b - a).exp() - (Decimal(epsilon) + log_upper_tail(b + a)).exp()


def discrete_gaussian_delta(epsilon, sigma, square, numbers):
    """The smallest of the bounds of docs/proofs/discrete_gaussian.md, for so many whole numbers of L2 sensitivity sqrt(square)."""
    e, s, rho = Decimal(epsilon), Decimal(sigma), decimal(square / (2 * Fraction(sigma) ** 2))
    bounds = [concentrated_delta(e, rho)]
    if numbers == 1 and sigma <= LARGEST_SUMMED:
        bounds.append(summed_delta(e, s, max(1, math.isqrt(math.floor(square)))))
    elif (excess := numbers * ((1 + 1 / (2 * s)) / s) ** 2 / 8) <= 1:
        far = max(Decimal(2) ** -900, Decimal(2) ** -24 * gaussian_delta(epsilon, sigma, square))
        radius = Decimal(numbers).sqrt() + (-2 * far.ln()).sqrt() + decimal(square).sqrt() / s
        shifted = e - (radius / s) ** 2 / 8
        delta = gaussian_delta(max(Decimal(0), shifted), sigma, square) + max(Decimal(0), -shifted)
        bounds.append(delta * excess.exp() + far)
    return min(bounds)


def concentrated_delta(epsilon, rho):
    """The least of exp((a - 1)(rho a - epsilon)) (1 - 1/a)^a / (a - 1) over a > 1, whose derivative changes its sign once."""
    low, high = Decimal(-40), Decimal(110)  # exponents of 2 of a - 1
    while high - low > Decimal(10) ** -12:
        middle = (low + high) / 2
        excess = Decimal(2) ** middle
        grows = (2 * excess + 1) * rho - epsilon - (1 + 1 / excess).ln() >= 0
        low, high = (low, middle) if grows else (middle, high)
    a = 1 + Decimal(2) ** high
    logarithm = (a - 1) * (rho * a - epsilon) + a * (1 - 1 / a).ln() - (a - 1).ln()
    return logarithm.exp() if logarithm < 0 else Decimal(1)


def summed_delta(epsilon, s, distance):
    """The sum of max(0, p(k) - e^epsilon p(k + distance)) over whole k: Canonne, Kamath, Steinke (2020), theorem 7."""
    end, step = math.ceil(37 * s) + 3, (-1 / (s * s)).exp()
    weights, ratio = [Decimal(1)], (-1 / (2 * s * s)).exp()  # w(k + 1) = w(k) ratio, and ratio falls by step
    for _ in range(end):
        weights.append(weights[-1] * ratio)
        ratio *= step
    start = math.floor(epsilon * s * s / distance - Decimal(distance) / 2) + 1  # the first k that counts
    first = sum((weights[abs(k)] for k in range(max(start, -end), end + 1)), Decimal(0))
    second = sum((weights[abs(k)] for k in range(max(start + distance, -end), end + 1)), Decimal(0))
    return (first - epsilon.exp() * second if second else first) / (2 * sum(weights) - 1)


def privunit_epsilon(p, threshold):
    """|ln(p/(1-p)) + ln(q/(1-q))|, q = Phi(threshold): a cap less likely than chance costs as one that is more likely."""
    above = log_upper_tail(Decimal(threshold))
    return abs(decimal(p / (1 - p)).ln() + (1 - above.exp()).ln() - above)


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
    while abs(term) > Decimal(10) ** (2 - getcontext().prec):
        n += 1
        term = -term * x * x / (2 * n)
        total += term / (2 * n + 1)
    return (Decimal("0.5") - total * (-LN_SQRT_2PI).exp()).ln()


# ---- labels, selections, reports


def log_ratio(numerator, denominator):
    return (Decimal(numerator) / Decimal(denominator)).ln()


def law_faults(receipt, cells):
    """Of T values of 2^64 for the truth and M for each other outcome."""
    truth, other = int(receipt["truth_values"]), int(receipt["other_values"])
    if receipt["delta"] != 0:
        yield "delta must be 0"
    if truth + (cells - 1) * other != WORDS or truth < other:
        yield "truth_values and other_values must add up to 2^64 over all outcomes, and truth_values be the larger"


def label_faults(receipt):
    yield from law_faults(receipt, receipt["label_count"])
    ratio = log_ratio(receipt["truth_values"], receipt["other_values"])
    if of_one_person(receipt, "answers") * ratio > Decimal(receipt["epsilon"]):
        yield "the law gives a larger epsilon"


def selection_faults(receipt):
    if receipt["delta"] != 0:
        yield "delta must be 0"
    if receipt["picks"] > receipt["candidates"]:
        yield "picks must be at most candidates"
    if receipt["score_low"] >= receipt["score_high"]:
        yield "score_low must be < score_high"
    if 2 * Fraction(receipt["sensitivity"]) < Fraction(receipt["score_high"]) - Fraction(receipt["score_low"]):
        yield "sensitivity is below half of the range of scores"
    if receipt["selections"] * receipt["picks"] * Fraction(receipt["epsilon_per_pick"]) > Fraction(receipt["epsilon"]):
        yield "the picks cost a larger epsilon"


def report_faults(receipt):
    mechanism, cells, reports, words = (receipt[name] for name in ("mechanism", "cells", "reports", "words_of_one"))
    one, zero, hashes = int(receipt["one_values"]), int(receipt["zero_values"]), receipt["hashes"]
    faults = list(law_faults(receipt, cells))
    if (mechanism in ("unary", "bloom") and cells != 2) or (mechanism == "hadamard" and cells & (cells - 1)):
        faults.append("cells must be 2 for unary and bloom, and a power of two for hadamard")
    if mechanism != "bloom" and (hashes, one, zero) != (0, 0, 0):
        faults.append("hashes, one_values and zero_values must be 0")
    if mechanism == "bloom" and (hashes < 1 or one <= zero or (zero == 0) != (one == WORDS)):
        faults.append("hashes must be >= 1, and one_values > zero_values > 0, or 2^64 and 0")
    if receipt["other_values"] == "0" and (mechanism != "bloom" or receipt["memoised"] or zero == 0):
        faults.append("other_values must be >= 1 but for bloom with an instantaneous response and without a memo")
    if receipt["per"] == "record" and (words != 1 or receipt["memoised"]):
        faults.append("words_of_one must be 1, and nothing memoised, where every report is another person's")
    if receipt["per"] == "release" and not receipt["memoised"] and words < reports:
        faults.append("words_of_one must be at least the reports of the person")
    if not faults and words * report_epsilon(receipt, one, zero) > Decimal(receipt["epsilon"]):
        faults.append("the law gives a larger epsilon")
    return faults


def report_epsilon(receipt, one, zero):
    """Of one word: docs/proofs/rappor.md, claims 1 and 2, for Bloom filters."""
    truth, other, hashes = int(receipt["truth_values"]), int(receipt["other_values"]), receipt["hashes"]
    if receipt["mechanism"] != "bloom":
        return log_ratio(truth, other)
    if receipt["memoised"] or one == WORDS:
        return 2 * hashes * log_ratio(truth, other)
    q, p = truth * one + other * zero, other * one + truth * zero  # of 2^128
    return hashes * log_ratio(q * (WORDS**2 - p), p * (WORDS**2 - q))


# ---- aggregates


def aggregate_faults(receipt):
    if receipt["rows"] is not None and not (receipt["adjacency"] == "replace-one" and receipt["rows_per_person"] == 1):
        yield "rows must be null where their number is private"
    if not all(map(consistent, receipt["statistics"])):
        yield "a statistic has a field that its kind has not, lacks one that it has, or has noise that is no float32"
        return
    # In units of its noise, a person moves everything together by this length, the root of a sum of squares.
    replaced = receipt["adjacency"] == "replace-one"
    square = sum(squared_move(one, replaced) * one["repeats"] for one in receipt["statistics"]) * receipt["rows_per_person"] ** 2
    if square * Fraction(receipt["noise_multiplier"]) ** 2 > 1:
        yield "noise_multiplier is stated too large"
    elif gaussian_delta(receipt["epsilon"], receipt["noise_multiplier"], Fraction(1)) > Decimal(receipt["delta"]):
        yield "the noise gives a larger delta"


def consistent(one):
    kind, noises = one["statistic"], [one[name] for name in ("sigma", "count_sigma") if one[name] is not None]
    has_rows = (one["dimension"] > 0, one["clip_norm"] is not None, one["sigma"] is not None)
    fits = {
        "sums": all(has_rows),
        "counts": not any(has_rows) and one["count_sigma"] is not None,
        "moments": all(has_rows) and one["count_sigma"] is None and one["groups"] == 1,
    }
    return fits[kind] and all(map(usable, noises))


def squared_move(one, replaced):
    """How far one row moves a statistic: its own appearance, or the farther of a move within a group and one between groups."""
    of_count = Fraction(1, 1) / Fraction(one["count_sigma"]) ** 2 if one["count_sigma"] is not None else Fraction(0)
    length = Fraction(one["clip_norm"] or 0) / Fraction(one["sigma"] or 1)
    if one["statistic"] == "moments":  # |xx' - yy'|^2 = |x|^4 + |y|^4 - 2 <x, y>^2
        appears = (length * Fraction(one["clip_norm"])) ** 2
        return appears + appears if replaced else appears
    appears, within = length**2 + of_count, (length + length) ** 2
    return max(within, appears + appears) if replaced else appears


# ---- training


def training_faults(receipt):
    factor, clip_norm = sensitivity_factor(receipt), Fraction(receipt["clip_norm"])
    if Fraction(receipt["sensitivity"]) < factor * clip_norm:
        yield "sensitivity is stated too small"
    correlated = receipt["correlation"]
    stretch = Fraction(1) if correlated is None else correlated_sensitivity(**correlated)
    if stretch > LARGEST_FLOAT:
        yield "the sensitivity of the correlation is beyond every float"
    elif Fraction(receipt["sigma"]) < Fraction(receipt["noise_multiplier"]) * clip_norm * stretch:
        yield "sigma is below noise_multiplier times clip_norm, and the sensitivity of a correlation"
    if correlated is not None and (receipt["planned_steps"] != correlated["steps"] or receipt["sampling_probability"] != 1):
        yield "steps of correlated noise must be those of its schedule, without sampling"
    if receipt["planned_steps"] is not None and receipt["steps"] > receipt["planned_steps"]:
        yield "more steps were taken than planned"
    drawn = None if receipt["samples"] is None else sum(one["last"] - one["first"] + 1 for one in receipt["samples"])
    if drawn is not None and drawn < receipt["steps"] and receipt["sampling_probability"] < 1:
        yield "there are more steps than samples"
    if receipt["epsilon"] is None or (receipt["noise_multiplier"] == 0 and receipt["steps"] > 0):
        if receipt["noise_multiplier"] > 0 or receipt["epsilon"] is not None:
            yield "epsilon must be null where there is no noise, and only there"
    elif steps_delta(receipt, receipt["epsilon"], upper=False) > Decimal(receipt["delta"]):
        yield "the noise gives a larger delta"


def sensitivity_factor(receipt):
    """Sensitivity of a step in clip norms: docs/proofs/dp_sgd.md."""
    replaced = receipt["adjacency"] == "replace-one"
    if receipt["clipping"] == "batch":
        return 4 if replaced and receipt["sampling_probability"] < 1 else 2
    return 2 if replaced else 1


def correlated_sensitivity(coefficients, steps, min_separation, max_participations):
    """Of C in L2, the float above: its columns, made non-increasing, min_separation apart (docs/proofs/correlated_noise.md)."""
    participations = range(min(max_participations, -(-steps // min_separation)))
    with localcontext(Context(prec=60, rounding=ROUND_CEILING, Emin=-(10**9), Emax=10**9)):
        column = [Decimal(1)]
        for _ in range(steps - 1):
            column.append(sum((Decimal(-weight) * entry for weight, entry in zip(coefficients[1:], reversed(column))), Decimal(0)))
        highest = list(accumulate(reversed(column), max))[::-1]
        sums = [sum(highest[step - i * min_separation] for i in participations if i * min_separation <= step) for step in range(steps)]
        root = (square := sum(one * one for one in sums)).sqrt()
        exact = Fraction(root if Fraction(root) ** 2 >= Fraction(square) else root.next_plus())
    nearest = float(min(exact, LARGEST_FLOAT))
    above = nearest if nearest >= exact else math.nextafter(nearest, math.inf)
    return exact if math.isinf(above) else Fraction(above)


def releases_of(receipt):
    """How often the loss of a step counts: once for all of them where their noise is correlated."""
    return receipt["steps"] if receipt.get("correlation") is None else min(receipt["steps"], 1)


def training_doubt(receipt):
    """Why this program does not confirm a promise that it did not refute, or None."""
    delta, low, high = Decimal(receipt["delta"]), Decimal(receipt["epsilon"]), Decimal(2) ** 20
    if any(steps_delta(receipt, low, True, fineness) <= delta for fineness in FINENESS):
        return None
    if steps_delta(receipt, high, True, FINENESS[-1]) > delta:
        return "the noise is too small, or the steps are too many, for this program's grid"
    while high - low > high / 10**7:
        middle = (low + high) / 2
        low, high = (low, middle) if steps_delta(receipt, middle, True, FINENESS[-1]) <= delta else (middle, high)
    return f"({receipt['epsilon']}, {receipt['delta']})-DP is not refuted; this program proves ({high:.6g}, {receipt['delta']})-DP"


def steps_delta(receipt, epsilon, upper, fineness=1):
    """A bound of delta at this epsilon for all steps together, from above or from below; the exact one without sampling."""
    steps, noise, chance = releases_of(receipt), receipt["noise_multiplier"], Decimal(receipt["sampling_probability"])
    if steps == 0:
        return Decimal(0)
    if chance == 1:
        return gaussian_delta(epsilon, noise, Fraction(sensitivity_factor(receipt) ** 2 * steps))
    deviation = Decimal(noise) / (2 if receipt["clipping"] == "batch" else 1)  # in lengths of the vector that is sampled
    tiny = Decimal(receipt["delta"]) * UNIT < 10**4 * steps  # what may be cut at each step is below the unit of masses
    if tiny or deviation < Decimal("0.05") or deviation > 10**15 * chance or (upper and steps > MOST_STEPS):
        return Decimal(upper)  # no grid for such losses
    # From below, the first steps alone prove what they prove.
    key = (receipt["adjacency"] == "replace-one", deviation, chance, min(steps, MOST_STEPS), receipt["delta"], upper)
    try:
        return max(law.delta(epsilon) for law in laws_of_steps(*key, fineness))
    except ArithmeticError:  # numbers beyond those of the grid
        return Decimal(upper)


# ---- k steps of a Poisson-sampled Gaussian
#
# One step is no worse than P = (1-q) N(0) + q N(1) against Q = N(0), in both directions, or under replace-one against
# Q = (1-q) N(0) + q N(-1) (docs/proofs/subsampling.md). What matters of P and Q is the curve H(x) = P(A) - x Q(A), A where P's
# density is above x times Q's: it is convex and falls from 1 at x = 0. Every convex curve above it, with corners at x = e^loss for
# losses on a grid, is that of a law of losses that is worse; every such curve below it, and not below max(0, 1 - x), is that of a
# law that is better. The steps of such laws are composed in whole numbers, rounded up or down, so that both bounds are proofs
# (Blackwell 1953; Zhu, Dong, Wang 2022; Doroshenko and others 2022).

LAWS = {}  # of trainings that were asked for
UNIT = 10**30  # what a probability is a whole number of
LONG = Context(prec=10**9, Emax=10**12, Emin=-(10**12))
POINTS = 2000  # at which H is computed
FINENESS = (1, 3, 9)  # of grids, until one proves what is stated, which is what hushvec's finer one finds for 1/4096 less noise
MOST_STEPS = 2**20  # a law of more takes too long


class Law:
    """A loss that is start + i h with probability masses[i] / UNIT, and infinite with probability lost / UNIT."""

    def __init__(self, h, start, masses, lost, upper, steps=1):
        self.h, self.start, self.masses, self.lost, self.upper, self.steps = h, start, masses, lost, upper, steps

    def then(self, other, tail):
        """Both, one after the other. Ends below tail together go to a larger loss in bounds from above, else they are left out."""
        masses, lost = products(self.masses, other.masses, self.upper), self.lost + other.lost
        begin, end = short_of(masses, tail), len(masses) - short_of(masses[::-1], tail)
        low, top, masses = sum(masses[:begin]), sum(masses[end:]), masses[begin:end]
        if self.upper:
            masses[0] += low
            lost += top
        return Law(self.h, self.start + other.start + begin * self.h, masses, lost, self.upper, self.steps + other.steps)

    def delta(self, epsilon):
        total, first = Decimal(self.lost), max(0, math.floor((Decimal(epsilon) - self.start) / self.h) + 1)
        growth, shrinks = (Decimal(epsilon) - self.start - first * self.h).exp(), (-self.h).exp()
        for mass in self.masses[first:]:
            total += mass * (1 - growth)
            growth *= shrinks
        return total / UNIT


def short_of(masses, tail):
    """How many of the first masses are below tail together; never half of them."""
    count, together = 0, masses[0]
    while together < tail and 2 * count < len(masses) - 2:
        count += 1
        together += masses[count]
    return count


def products(left, right, upper):
    """Sums of products along i + j, each divided by UNIT: one multiplication of numbers that have them as groups of digits."""
    group, count = 72, len(left) + len(right) - 1  # 30 + 30 digits, and 12 for up to 10^12 of them
    factors = (Decimal("".join(f"{mass:0{group}d}" for mass in masses)) for masses in (left, right))
    digits = f"{LONG.multiply(*factors):f}".zfill(count * group)
    sums = (int(digits[i : i + group]) for i in range(0, len(digits), group))
    return [-(-one // UNIT) if upper else one // UNIT for one in sums]


def laws_of_steps(replaced, deviation, chance, steps, delta, upper, fineness):
    """Of removal and of addition, which mirror each other under replace-one."""
    share = Decimal(delta) / (10**4 * steps)  # of delta, what lies beyond the grid may cost at each step
    reach = 1 + deviation * (-2 * share.ln()).sqrt()
    curve = curve_of(reach, replaced, deviation, chance)
    variance = min(math.expm1(min(700, 1 / deviation**2)) * float(chance) ** 2, float(1 / deviation**2 + 1 / deviation**4))
    variance *= 4 if replaced else 1
    spread, width = 16 * math.sqrt(steps * variance) + steps * variance, float(curve[-1][0].ln() - curve[0][0].ln())
    h = Decimal(max(math.sqrt(variance / fineness) / (24 if upper else 8), width / 8000 / fineness, spread / 20000 / fineness))
    mirrored = [(1 / x, 1 - q, 1 - p) for x, p, q in reversed(curve)]
    key = (replaced, deviation, chance, steps, delta, upper, h)
    if key not in LAWS:
        laws = [(law_above if upper else law_below)(points, h) for points in ([curve] if replaced else [curve, mirrored])]
        LAWS[key] = [power(law, steps, max(1, int(share * UNIT))) for law in laws]
    return LAWS[key]


@lru_cache(maxsize=4)  # bounds from above and from below ask for the same one
def curve_of(reach, replaced, deviation, chance):
    """At points of the noise: the quotient x of P's and Q's densities, and what P and Q have beyond."""
    step, curve = 2 * reach / POINTS, []
    means = (0, 1, -1) if replaced else (0, 1, 0)
    tails = {mean: upper_tails((reach - mean) / deviation, step / deviation) for mean in {*means}}
    for i in range(POINTS + 1):
        tail = [tails[mean][POINTS - i] for mean in means]
        at = [(mean * (2 * (step * i - reach) - mean) / (2 * deviation**2)).exp() for mean in means]
        p_at, q_at, p, q = ((1 - chance) * law[0] + chance * law[mean] for law in (at, tail) for mean in (1, 2))
        curve.append((p_at / q_at, p, q))
    return curve


def upper_tails(x, step):
    """P(N(0, 1) > x) there and at so many steps below."""
    tails, least = [log_upper_tail(x).exp()], step * Decimal(10) ** -50
    for _ in range(POINTS):
        # P(x - step < N < x) is phi(x) times the sum of step^k He_(k-1)(x) / k!, with Hermite's polynomials: a Taylor series.
        before, term, total, k = Decimal(0), step, step, 1
        while abs(term) > least or abs(before) > least:
            before, term, k = term, (x * step * term - step * step * before * (k - 1) / k) / (k + 1), k + 1
            total += term
        tails.append(tails[-1] + (-x * x / 2 - LN_SQRT_2PI).exp() * total)
        x -= step
    return tails


def law_above(points, h):
    """The law of the curve of chords between the points of H, taken at the grid."""
    known = [(Decimal(0), Decimal(1)), *((x, p - x * q) for x, p, q in points)]
    start, knots, place = known[1][0].ln(), [], 1
    while place < len(known):
        x = (start + len(knots) * h).exp()
        while place < len(known) and known[place][0] < x:
            place += 1
        (x0, y0), (x1, y1) = known[place - 1], known[min(place, len(known) - 1)]
        knots.append((x, y0 + (y1 - y0) * (x - x0) / (x1 - x0) if place < len(known) else y1))
    return law_of_curve(knots, h, start, upper=True)


def law_below(points, h):
    """The law of a curve whose every chord lies below one tangent p - x q of H. Its first part is 1 - x."""
    lines = [(p, q) for _, p, q in points]
    place = next((i for i, (x, _, _) in enumerate(points) if x.ln() > points[0][0].ln() + h), POINTS)
    p, q = lines[place]
    start = ((1 - p) / (1 - q)).ln()  # where this tangent meets 1 - x
    knots = [(start.exp(), 1 - start.exp())]
    while True:
        x, y = knots[-1]
        while place + 1 < len(lines) and lines[place + 1][0] - x * lines[place + 1][1] >= y:
            place += 1
        x = (start + len(knots) * h).exp()
        y = lines[place][0] - x * lines[place][1]
        if y <= max(0, 1 - x):
            # From here on 0. The corner before comes down too: a chord from it to 0 could be above H.
            return law_of_curve([*knots[:-1], (knots[-1][0], max(Decimal(0), 1 - knots[-1][0]))], h, start, upper=False)
        knots.append((x, y))


def law_of_curve(knots, h, start, upper):
    """The law whose curve has corners at the knots: at x it has the mass x times the change of slope."""
    corners = convex([(Decimal(0), Decimal(1), None), *((x, y, i) for i, (x, y) in enumerate(knots))])
    slopes = [(y1 - y0) / (x1 - x0) for (x0, y0, _), (x1, y1, _) in pairwise(corners)] + [Decimal(0)]
    masses, rounding = [0] * len(knots), ROUND_CEILING if upper else ROUND_FLOOR
    for (x, _, i), before, after in zip(corners[1:], slopes, slopes[1:]):
        # One unit beyond the rounding: the operations before it have lost less than 10^-35.
        masses[i] = max(0, int((x * (after - before) * UNIT).to_integral_value(rounding)) + (1 if upper else -1))
    return Law(h, start, masses, int(knots[-1][1] * UNIT) + 1 if upper else 0, upper)


def convex(points):
    """The corners of the largest convex curve that is nowhere above the points, which are in order."""
    corners = []
    for x, y, i in points:
        while len(corners) > 1:
            (x0, y0, _), (x1, y1, _) = corners[-2:]
            if (y1 - y0) * (x - x0) <= (y - y0) * (x1 - x0):
                break
            corners.pop()
        corners.append((x, y, i))
    return corners


def power(law, steps, tail):
    """So many steps of one law: squares of it, multiplied."""
    found = None
    while True:
        if steps & 1:
            found = law if found is None else found.then(law, tail * (found.steps + law.steps))
        steps >>= 1
        if not steps:
            return found
        law = law.then(law, 2 * tail * law.steps)


# ---- what a ledger in rho must have charged


def pure_rho(receipt):
    """epsilon tanh(epsilon/2), docs/proofs/zcdp.md."""
    epsilon = Decimal(receipt["epsilon"])
    return epsilon * (1 - (-epsilon).exp()) / (1 + (-epsilon).exp())


@lru_cache(maxsize=1024)
def varied_rho(epsilon, variation):
    """The largest D_a / a, which has one maximum, of a loss that is epsilon, 0 or -epsilon: docs/proofs/zcdp.md, claim 4."""
    if epsilon == 0:
        return Decimal(0)
    sinh = lambda x: (x.exp() - (-x).exp()) / 2
    weight, half = 2 * variation / sinh(epsilon / 2), epsilon / 2

    def of_order(beyond):
        return (1 + weight * sinh((1 + beyond) * half) * sinh(beyond * half)).ln() / (beyond * (1 + beyond))

    low, high = Decimal(2) ** -40, 300 / epsilon
    for _ in range(80):
        left, right = low + (high - low) / 3, high - (high - low) / 3
        low, high = (left, high) if of_order(left) < of_order(right) else (low, right)
    return max(of_order(low), epsilon * variation)


def answers_rho(receipt, answers, share=1):
    """Of so many answers about one person by the law, and by the stated epsilon where there is one; share of T - M tells two apart."""
    truth, other = int(receipt["truth_values"]), int(receipt["other_values"])
    epsilon = Decimal(receipt["epsilon"]) if answers == 1 else log_ratio(truth, other)
    return answers * varied_rho(epsilon, decimal(share * Fraction(truth - other, WORDS)))


def label_rho(receipt):
    return answers_rho(receipt, of_one_person(receipt, "answers"))


def report_rho(receipt):
    if receipt["mechanism"] == "bloom" or receipt["words_of_one"] == 0:
        return pure_rho(receipt)
    return answers_rho(receipt, receipt["words_of_one"], Fraction(1, 2) if receipt["mechanism"] == "unary" else 1)


def vector_rho(receipt):
    """Gaussian, discrete or not: sensitivity^2 / (2 sigma^2) (Bun and Steinke 2016; Canonne, Kamath and Steinke 2020)."""
    rows = of_one_person(receipt, "rows")
    if receipt["mechanism"] == "privunit":
        p, epsilon = Decimal(receipt["cap_probability"]), Decimal(receipt["epsilon"]) / rows
        likelier = p > log_upper_tail(Decimal(receipt["threshold"])).exp()
        return rows * varied_rho(epsilon, p * (1 - (-epsilon).exp())) if likelier else pure_rho(receipt)
    if receipt["mechanism"] == "laplacian" and receipt["dimension"] == 1:
        epsilon = decimal(2 * Fraction(receipt["clip_norm"]) / Fraction(receipt["scale"]))
        return rows * varied_rho(epsilon, 1 - (-epsilon / 2).exp())
    if receipt["mechanism"] not in OF_LENGTH:
        return pure_rho(receipt)
    return decimal(squared_sensitivity(receipt) / (2 * Fraction(receipt["sigma"]) ** 2))


def selection_rho(receipt):
    return decimal(receipt["selections"] * receipt["picks"] * Fraction(receipt["epsilon_per_pick"]) ** 2 / 8)


def aggregate_rho(receipt):
    """Of one Gaussian of this multiplier, which all statistics together are no worse than."""
    return decimal(1 / (2 * Fraction(receipt["noise_multiplier"]) ** 2))


def training_rho(receipt):
    if receipt["steps"] == 0:
        return Decimal(0)  # without noise, too: there is nothing to divide by
    return decimal(releases_of(receipt) * (sensitivity_factor(receipt) / Fraction(receipt["noise_multiplier"])) ** 2 / 2)


KINDS = {
    "vectors": (VECTORS, vector_faults, vector_rho),
    "labels": (LABELS, label_faults, label_rho),
    "selection": (SELECTION, selection_faults, selection_rho),
    "reports": (REPORTS, report_faults, report_rho),
    "training": (TRAINING, training_faults, training_rho),
    "aggregate": (AGGREGATE, aggregate_faults, aggregate_rho),
}


# ---- the ledger

NUMBERS = ["sequence", "period", "time_us"]
ROW = ["sequence", "period", "kind", "time_us", "charge_id", "purpose", "policy", "epsilon", "delta", "rho"]
ROW += ["total_epsilon", "total_delta", "total_rho", "previous_hash", "entry_hash"]
HEAD = {"rows": whole(1, math.inf), "entry_hash": text}


def row_hash(key, row):
    return hashlib.sha256("\n".join(("hushvec-budget/1", key, *(str(row[name]) for name in ROW[:-1]))).encode()).hexdigest()


def amount(written):
    """The exact value of decimal text, or None."""
    return Fraction(written) if re.fullmatch(r"(0|[1-9][0-9]{0,999})(\.[0-9]{0,323}[1-9])?", written) else None


def people(written):
    """The hashes of the people of a charge, each as often as it was charged; [] for everyone, None for what is no such text."""
    found = [written[place : place + 32] for place in range(0, len(written), 32)]
    return found if all(re.fullmatch("[0-9a-f]{32}", one) for one in found) and found == sorted(found) else None


def check_ledger(export):
    """The reason why the chain does not hold, or None."""
    anything = {"head": lambda value: True, "rows": lambda value: type(value) is list}
    require("the export", export, {
        "budget_export_version": one_of(1), "library_version": text, "budget_key": text, "ledger": text, **anything
    })  # fmt: skip
    require("the head", export["head"], HEAD)
    for row in export["rows"]:
        require("a row", row, dict.fromkeys(ROW, lambda value: True))
    reason = next(wrong_rows(export["budget_key"], export["rows"]), None)
    if reason is not None:
        return reason
    rows = export["rows"]
    end = {"rows": len(rows), "entry_hash": rows[-1]["entry_hash"]}
    if export["ledger"] != rows[0]["entry_hash"] or export["head"] != end:
        return "the export's own head and identity are not those of its rows"
    return None


def wrong_rows(key, rows):
    """docs/budget.md, "Export", rules 1 to 4. The first reason counts: what follows a wrong row is not meant to be asked for."""
    if not rows:
        yield "there are no rows"
    previous, period, ids, spent, names, limits = "0" * 64, 0, set(), {}, (), {}
    everyone, most, own = {}, {}, {}  # what all have lost, and beside that: the most that anybody has, and what each has
    for number, row in enumerate(rows, 1):
        kinds_hold = all(type(row[name]) is int if name in NUMBERS else text(row[name]) for name in ROW)
        if not kinds_hold or any(end in f"{key}{value}" for value in row.values() for end in "\r\n"):
            yield f"row {number}: a field is of the wrong kind or holds a line break"
        if row["sequence"] != number or row["previous_hash"] != previous or row["entry_hash"] != row_hash(key, row):
            yield f"row {number}: it does not follow from the row before"
        if number == 1:
            names = ("rho",) if row["rho"] else ("epsilon", "delta")
            limits = {name: amount(row[name]) for name in names}
            others = [row[name] for name in ("epsilon", "delta", "rho") if name not in names]
            opens = row["kind"] == "open" and row["policy"] in ("block", "warn", "block per person")
            if not opens or None in limits.values() or any(others):
                yield "row 1: the ledger is not opened"
            spent = everyone = most = dict.fromkeys(names, Fraction(0))
        else:
            amounts = {name: amount(row[name]) for name in ("epsilon", "delta", "rho") if row[name]}
            named = people(row["policy"]) if rows[0]["policy"] == "block per person" and row["kind"] == "charge" else []
            if (row["policy"] and not named) or None in amounts.values():
                yield f"row {number}: policy is neither empty nor hashes of people in order, or an amount is no decimal text"
            if row["kind"] == "reset" and not amounts:
                period, ids, own = period + 1, set(), {}
                spent = everyone = most = dict.fromkeys(names, Fraction(0))
            elif row["kind"] == "charge" and row["charge_id"] not in ids and amounts.keys() >= {*names} and amounts[names[0]] > 0:
                ids.add(row["charge_id"])
                for one in named:
                    own[one] = {name: own.get(one, {}).get(name, 0) + amounts[name] for name in names}
                if named:
                    most = {name: max(most[name], *(own[one][name] for one in named)) for name in names}
                else:
                    everyone = {name: everyone[name] + amounts[name] for name in names}
                spent = {name: everyone[name] + most[name] for name in names}
            else:
                yield f"row {number}: neither a reset nor a new charge"
            if rows[0]["policy"] != "warn" and any(spent[name] > limits[name] for name in names):
                yield f"row {number}: the budget is overspent"
        others = [row[f"total_{name}"] for name in ("epsilon", "delta", "rho") if name not in names]
        if row["period"] != period or any(others) or any(amount(row[f"total_{name}"]) != spent[name] for name in names):
            yield f"row {number}: period or totals are not what the rows add up to"
        previous = row["entry_hash"]


def check_samples(receipt, sampled):
    """The reason why charges of epsilon and delta do not add up, or None. `sampled` has the samples of other trainings, and whether
    they gained from them: those that did not count where theirs are not known."""
    gains = receipt.get("sampling_probability", 1) < 1
    if not (gains or receipt.get("samples", ()) is None) or receipt["steps"] == 0:
        return None
    sampled.append((receipt["samples"], gains))
    if len(sampled) > 1 and any(samples is None for samples, _ in sampled) and any(gained for _, gained in sampled):
        return "its samples are not known to be independent of those of other trainings (--independent-samples says that they are)"
    if gains and any(overlap(one, other) for others, _ in sampled[:-1] for other in others or () for one in receipt["samples"]):
        return "it may rest on samples of another training (--independent-samples says that it does not)"
    return None


def overlap(one, other):
    return one["process"] == other["process"] and one["first"] <= other["last"] and other["first"] <= one["last"]


def rows_of_a_person(receipt):
    """Of how many rows of a person the receipt speaks, math.inf for all; None where it is per record and has no more than one."""
    kind = receipt.get("receipt_kind", "vectors")
    if kind == "aggregate":
        return math.inf if receipt["rows_bound"] == "people" else receipt["rows_per_person"]
    if kind == "training":
        return math.inf if any(note.startswith("an example is a client with all of its data") for note in receipt["notes"]) else 1
    rows = receipt.get({"vectors": "rows", "labels": "answers", "reports": "reports"}.get(kind), 2)
    return math.inf if receipt.get("per") == "release" else 1 if rows > 1 else None


def check_units(receipt, units):
    """For whom the charges add up, if receipts are about different units, or "". `units` has those of the receipts before."""
    units |= {receipt["adjacency"], rows_of_a_person(receipt) or receipt["adjacency"]}
    counts = [unit for unit in units if type(unit) is not str]
    if len(units) - len(counts) > 1:
        return "with the receipts before it is about different adjacencies, so charges have no sum"
    most = "one row" if 1 in counts else f"at most {min(counts, default=1)} rows of a person"
    return f"with the receipts before it is about different units, so charges add up for {most} alone" * (len(counts) > 1)


def check_charge(receipt, export, paid):
    """The reason why the ledger did not pay for the receipt, or None. `paid` has the rows that paid for others."""
    named, rows = receipt["charge"], export["rows"]
    if named is None:
        return "the receipt names no charge"
    if named["ledger"] != export["ledger"]:
        return "the receipt names another ledger"
    row = rows[named["sequence"] - 1] if named["sequence"] <= len(rows) else rows[0]
    if row["kind"] != "charge" or any(row[name] != named[name] for name in ("charge_id", "entry_hash")):
        return "the ledger has no such charge"
    if named["sequence"] in paid:
        return "another receipt names the same charge"
    paid.add(named["sequence"])
    if row["policy"]:
        count = {"vectors": "rows", "labels": "answers"}.get(receipt.get("receipt_kind", "vectors"))
        if count is None or len(people(row["policy"])) < (receipt[count] if receipt["per"] == "record" else 1):
            return "the charge is one to fewer people than the release is about, or whom it is about is not in the receipt"
    if receipt["epsilon"] is None:
        return "the receipt promises nothing that a charge could pay for"
    if rows[0]["rho"]:
        enough = Fraction(row["rho"]) >= Fraction(KINDS[receipt.get("receipt_kind", "vectors")][2](receipt))
    else:
        enough = all(Fraction(row[name]) >= Fraction(repr(receipt[name])) for name in ("epsilon", "delta"))
    return None if enough else "the charge is smaller than what the receipt promises"


# ---- the command


def distinct(pairs):
    if len(dict(pairs)) != len(pairs):
        raise Unreadable("an object has a field twice")
    return dict(pairs)


def refuse(constant):
    raise Unreadable(f"numbers must be finite, got {constant}")


def parse(content, longest=LONGEST_RECEIPT):
    if len(content) > longest:
        raise Unreadable(f"more than {longest} characters")
    return json.loads(content, object_pairs_hook=distinct, parse_constant=refuse)


def read(path, longest=LONGEST_RECEIPT):
    with open(path, encoding="utf-8", newline="") as file:
        return parse(file.read(longest + 1), longest)


def printable(message):
    """What is not printable, such as an escape sequence that would steer the terminal, is spelled out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in message)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("receipts", nargs="+", metavar="RECEIPT")
    parser.add_argument("--ledger", metavar="EXPORT", help="what `hushvec budget export` wrote")
    parser.add_argument("--independent-samples", action="store_true", help="your word that trainings drew samples of their own")
    options = parser.parse_args()
    export, statuses, paid, sampled, units = None, [], set(), [], set()
    for path in [options.ledger] * bool(options.ledger) + options.receipts:
        try:
            if path is options.ledger and not statuses:
                export = read(path, LONGEST_EXPORT)
                reason = check_ledger(export)
                status, reasons = ("does not hold", [reason]) if reason else ("holds", ["the rows follow from each other"])
            else:
                receipt = read(path)
                status, reasons = check_receipt(receipt)
                if statuses[:1] == ["holds"] and export is not None and status != "does not hold":
                    reason = check_charge(receipt, export, paid)
                    if not (reason or export["rows"][0]["rho"] or options.independent_samples):
                        reason = check_samples(receipt, sampled)
                    reasons += filter(None, [check_units(receipt, units)])
                    status, reasons = (status, reasons) if reason is None else ("does not hold", [reason])
            statuses.append(status)
            print(printable(f"{path}: {status}: {'; '.join(reasons)}"), flush=True)
        except (OSError, RecursionError, ValueError, ArithmeticError) as error:
            statuses.append("unreadable")
            what = " ".join(str(error).split()) or type(error).__name__
            print(f"check_receipt: {printable(f'{path}: {what}')}", file=sys.stderr)
    codes = {"does not hold": 1, "unreadable": 3, "not a DP claim": 2, "undecided": 4, "holds": 0}
    return next(code for status, code in codes.items() if status in statuses)


if __name__ == "__main__":
    sys.exit(main())
