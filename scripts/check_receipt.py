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
import re
import struct
import sys
from decimal import Decimal, getcontext
from fractions import Fraction

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


positive, finite = number(lambda value: value > 0), number(lambda value: True)
CHARGE = {"ledger": digest, "sequence": whole(2), "charge_id": text, "entry_hash": digest}
SHARED = {
    "receipt_version": one_of(1), "format_version": one_of(1), "library_version": text, "adjacency": one_of("replace-one"),
    "epsilon": positive, "delta": number(lambda value: 0 <= value < 1), "grade": one_of("exact"), "key_source": one_of("os", "seed"),
    "rounds": one_of(20, 12, 8), "is_dp_claim": boolean, "notes": notes, "charge": optional(charge),
}  # fmt: skip
PER = one_of("record", "release")
VECTORS = {
    **SHARED, "per": PER, "mechanism": one_of("gaussian", "empirical", "laplacian", "l2_laplace", "privunit"),
    "epsilon": number(lambda value: value >= 0), "clip_norm": number(lambda value: 2.0**-100 <= value <= 2.0**100),
    "sensitivity": positive, "sensitivity_norm": one_of("l1", "l2"), "sigma": optional(positive), "scale": optional(positive),
    "cap_probability": optional(number(lambda value: 0 < value < 1)), "threshold": optional(number(lambda value: 0 <= value <= 128)),
    "grid": optional(positive), "grade": one_of("exact", "float"), "rows": whole(0), "dimension": whole(1),
    "dtype": one_of("float32", "float64", "float16", "bfloat16"), "normalize": boolean, "renormalize": boolean,
    "nonfinite": one_of("raise"), "projection": optional(digest),
}  # fmt: skip
LABELS = {
    **SHARED, "receipt_kind": one_of("labels"), "per": PER, "mechanism": one_of("randomized_response"),
    "label_count": whole(2, 2**24), "labels_digest": digest, "truth_values": whole_text(1, WORDS - 1),
    "other_values": whole_text(1, WORDS - 1), "answers": whole(0), "scores": one_of("none", "uniform", "source"),
}  # fmt: skip
SELECTION = {
    **SHARED, "receipt_kind": one_of("selection"), "mechanism": one_of("gumbel_top_k"), "selections": whole(1), "picks": whole(1),
    "candidates": whole(1), "score_low": finite, "score_high": finite, "sensitivity": positive, "epsilon_per_pick": positive,
}  # fmt: skip
REPORTS = {
    **SHARED, "receipt_kind": one_of("reports"), "per": PER, "mechanism": one_of("k_rr", "unary", "hadamard", "bloom"),
    "dictionary_digest": digest, "reports": whole(0), "words_of_one": whole(1), "memoised": boolean, "cells": whole(2, 2**24),
    "truth_values": whole_text(1, WORDS - 1), "other_values": whole_text(1, WORDS - 1), "hashes": whole(0),
    "one_values": whole_text(0, WORDS), "zero_values": whole_text(0, WORDS - 1),
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
    require("the receipt", receipt, rules)
    faults = list(faults_of(receipt))
    no_claim = ["floating point: not protected"] * (receipt["grade"] == "float")
    no_claim += ["the key came from a seed"] * (receipt["key_source"] == "seed")
    no_claim += ["the model's own scores show which labels are true"] * (receipt.get("scores") == "source")
    if receipt["is_dp_claim"]:
        faults += [f"is_dp_claim must be false: {reason}" for reason in no_claim]
    if faults:
        return "does not hold", faults
    if not receipt["is_dp_claim"]:
        return "not a DP claim", no_claim or ["the receipt makes none"]
    return "holds", [f"({receipt['epsilon']}, {receipt['delta']})-DP, {receipt['adjacency']}, {kind}"]


def of_one_person(receipt, rows):
    return max(1, receipt[rows]) if receipt["per"] == "release" else 1


def decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


# ---- vectors

GAUSSIANS = ("gaussian", "empirical")


def vector_faults(receipt):
    mechanism = receipt["mechanism"]
    if receipt["sensitivity_norm"] != ("l1" if mechanism == "laplacian" else "l2"):
        yield "sensitivity_norm is not the mechanism's"
    if Fraction(receipt["sensitivity"]) ** 2 < squared_sensitivity(receipt):
        yield "sensitivity is stated too small"
    if (mechanism in GAUSSIANS) != (receipt["delta"] > 0):
        yield f"delta must be > 0 for the Gaussian kinds and 0 for the others, got {receipt['delta']} for {mechanism}"
    if receipt["grade"] == "exact" and mechanism == "l2_laplace":
        yield "l2_laplace has no exact grade"
    if not receipt["normalize"] if mechanism == "privunit" else receipt["normalize"] and receipt["clip_norm"] != 1:
        yield "normalize must be true for privunit, and clip_norm 1 with normalize for the others"
    used, other = ("scale", "sigma") if mechanism in ("laplacian", "l2_laplace") else ("sigma", "scale")
    law = (receipt["cap_probability"], receipt["threshold"])
    if receipt[used] is None or receipt[other] is not None:
        yield f"{used} must be given and {other} be null for {mechanism}"
    elif None in law if mechanism == "privunit" else law != (None, None):
        yield "cap_probability and threshold must be given for privunit, and be null for the others"
    else:
        yield from grid_faults(receipt, receipt[used])
        yield from noise_faults(receipt, receipt[used])


def squared_sensitivity(receipt):
    rows = of_one_person(receipt, "rows")
    factor = {"gaussian": rows, "empirical": rows, "laplacian": rows**2 * receipt["dimension"]}.get(receipt["mechanism"], rows**2)
    return (2 * Fraction(receipt["clip_norm"])) ** 2 * factor


def grid_faults(receipt, parameter):
    clip_norm, grid = Fraction(receipt["clip_norm"]), receipt["grid"]
    if not 2.0**-100 <= parameter <= 2.0**100 or struct.unpack("f", struct.pack("f", parameter))[0] != parameter:
        yield "sigma or scale must be a float32 in [2^-100, 2^100]"
        return
    of_sigma = math.frexp(parameter)[1] - 1
    if receipt["mechanism"] == "privunit":
        expected = 2.0 ** (of_sigma - 3)
    else:
        if not Fraction(1, 2**60) <= clip_norm / Fraction(parameter) <= 2**30:
            yield "clip_norm / sigma must be in [2^-60, 2^30]"
        mantissa, exponent = math.frexp(receipt["clip_norm"])
        expected = 2.0 ** max(of_sigma - 6, exponent - (mantissa == 0.5) - 21)
    if grid != (expected if receipt["grade"] == "exact" else None):
        yield "grid is not the one of this noise, clip_norm and grade"


def noise_faults(receipt, parameter):
    mechanism, epsilon, square = receipt["mechanism"], receipt["epsilon"], squared_sensitivity(receipt)
    if mechanism == "privunit":
        p = Fraction(receipt["cap_probability"])
        if (p * 2**53).denominator != 1:
            yield "cap_probability must be a multiple of 2^-53"
        elif of_one_person(receipt, "rows") * privunit_epsilon(p, receipt["threshold"]) > Decimal(epsilon):
            yield "cap_probability and threshold give a larger epsilon"
    elif mechanism not in GAUSSIANS:
        if (Fraction(parameter) * Fraction(epsilon)) ** 2 < square:
            yield "the noise gives a larger epsilon"
    elif gaussian_delta(epsilon, parameter, square) > Decimal(receipt["delta"]):
        yield "the noise gives a larger delta"


def gaussian_delta(epsilon, sigma, square):
    """delta of Balle and Wang (2018), theorem 8, for L2 sensitivity sqrt(square)."""
    s = Decimal(sigma) / decimal(square).sqrt()
    a, b = 1 / (2 * s), Decimal(epsilon) * s
    return log_upper_tail(b - a).exp() - (Decimal(epsilon) + log_upper_tail(b + a)).exp()


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
    while abs(term) > Decimal(10) ** -58:
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


# ---- what a ledger in rho must have charged


def pure_rho(receipt):
    """epsilon tanh(epsilon/2), docs/proofs/zcdp.md."""
    epsilon = Decimal(receipt["epsilon"])
    return epsilon * (1 - (-epsilon).exp()) / (1 + (-epsilon).exp())


def vector_rho(receipt):
    """Gaussian: sensitivity^2 / (2 sigma^2) (Bun and Steinke 2016)."""
    if receipt["mechanism"] not in GAUSSIANS:
        return pure_rho(receipt)
    return decimal(squared_sensitivity(receipt) / (2 * Fraction(receipt["sigma"]) ** 2))


def selection_rho(receipt):
    return decimal(receipt["selections"] * receipt["picks"] * Fraction(receipt["epsilon_per_pick"]) ** 2 / 8)


KINDS = {
    "vectors": (VECTORS, vector_faults, vector_rho),
    "labels": (LABELS, label_faults, pure_rho),
    "selection": (SELECTION, selection_faults, selection_rho),
    "reports": (REPORTS, report_faults, pure_rho),
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
            if row["kind"] != "open" or row["policy"] not in ("block", "warn") or None in limits.values() or any(others):
                yield "row 1: the ledger is not opened"
            spent = dict.fromkeys(names, Fraction(0))
        else:
            amounts = {name: amount(row[name]) for name in ("epsilon", "delta", "rho") if row[name]}
            if row["policy"] or None in amounts.values():
                yield f"row {number}: policy is not empty, or an amount is no decimal text"
            if row["kind"] == "reset" and not amounts:
                period, ids, spent = period + 1, set(), dict.fromkeys(names, Fraction(0))
            elif row["kind"] == "charge" and row["charge_id"] not in ids and amounts.keys() >= {*names} and amounts[names[0]] > 0:
                ids.add(row["charge_id"])
                spent = {name: spent[name] + amounts[name] for name in names}
            else:
                yield f"row {number}: neither a reset nor a new charge"
            if rows[0]["policy"] == "block" and any(spent[name] > limits[name] for name in names):
                yield f"row {number}: the budget is overspent"
        others = [row[f"total_{name}"] for name in ("epsilon", "delta", "rho") if name not in names]
        if row["period"] != period or any(others) or any(amount(row[f"total_{name}"]) != spent[name] for name in names):
            yield f"row {number}: period or totals are not what the rows add up to"
        previous = row["entry_hash"]


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
    options = parser.parse_args()
    statuses, paid = [], set()
    try:
        export = read(options.ledger, LONGEST_EXPORT) if options.ledger else None
        if export is not None:
            reason = check_ledger(export)
            statuses.append("does not hold" if reason else "holds")
            print(printable(f"{options.ledger}: {statuses[-1]}{': ' + reason if reason else ''}"))
        for path in options.receipts:
            receipt = read(path)
            status, reasons = check_receipt(receipt)
            if statuses[:1] == ["holds"] and export is not None and status != "does not hold":
                reason = check_charge(receipt, export, paid)
                status, reasons = (status, reasons) if reason is None else ("does not hold", [reason])
            statuses.append(status)
            print(printable(f"{path}: {status}: {'; '.join(reasons)}"))
    except (OSError, RecursionError, ValueError, ArithmeticError) as error:
        print(f"check_receipt: {printable(' '.join(str(error).split()) or type(error).__name__)}", file=sys.stderr)
        return 3
    return 1 if "does not hold" in statuses else 2 if "not a DP claim" in statuses else 0


if __name__ == "__main__":
    sys.exit(main())
