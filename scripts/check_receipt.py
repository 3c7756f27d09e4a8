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
LN_SQRT_2PI = Decimal("6.2831853071795864769252867665590057683943387987502116419498891846156328").ln() / 2
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
SETS = dict(
    mechanism=MECHANISMS, adjacency=["replace-one"], per=["record", "release"], grade=["exact", "float"], key_source=["os", "seed"],
    rounds=[20, 12, 8], is_dp_claim=[True, False], normalize=[True, False], nonfinite=["raise"],
)  # fmt: skip


class Unreadable(ValueError):
    """Not a receipt or an export at all."""


# ---- the normal law


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
    """|ln(p/(1-p)) + ln(q/(1-q))|, q = Phi(threshold): a cap less likely than chance costs as one that is more likely."""
    above = log_upper_tail(Decimal(threshold))
    return abs((Decimal(p) / (1 - Decimal(p))).ln() + (1 - above.exp()).ln() - above)


def decimal(fraction):
    return Decimal(fraction.numerator) / Decimal(fraction.denominator)


# ---- one receipt


def check_receipt(receipt):
    """(status, reasons)"""
    require_fields(receipt)
    faults = [*setting_faults(receipt), *noise_faults(receipt)]
    no_claim = ["floating point: not protected"] * (receipt["grade"] == "float")
    no_claim += ["the key came from a seed"] * (receipt["key_source"] == "seed")
    if receipt["is_dp_claim"]:
        faults += [f"is_dp_claim must be false: {reason}" for reason in no_claim]
    if faults:
        return "does not hold", faults
    if not receipt["is_dp_claim"]:
        return "not a DP claim", no_claim or ["the receipt makes none"]
    return "holds", [f"({receipt['epsilon']}, {receipt['delta']})-DP, replace-one, per {receipt['per']}"]


def require_fields(receipt):
    if not isinstance(receipt, dict) or set(receipt) != FIELDS:
        raise Unreadable("not a receipt: fields are missing or unknown")
    if receipt["receipt_version"] != 1 or receipt["format_version"] != 1:
        raise Unreadable("receipt_version and format_version must be 1")
    optional = ("sigma", "scale", "cap_probability", "threshold", "grid")
    for name in ("epsilon", "delta", "clip_norm", "sensitivity", *optional):
        if not ((is_number(receipt[name]) and receipt[name] >= 0) or (name in optional and receipt[name] is None)):
            raise Unreadable(f"{name} must be a finite number >= 0")
    for name, least in (("rows", 0), ("dimension", 1)):
        if type(receipt[name]) is not int or receipt[name] < least:
            raise Unreadable(f"{name} must be a whole number >= {least}")
    for name, accepted in SETS.items():
        if not isinstance(receipt[name], (str, int)) or receipt[name] not in accepted:
            raise Unreadable(f"{name} must be one of {', '.join(map(str, accepted))}")
    if not (receipt["clip_norm"] > 0 and receipt["sensitivity"] > 0 and receipt["delta"] < 1):
        raise Unreadable("clip_norm and sensitivity must be > 0, delta < 1")


def is_number(value):
    return type(value) in (int, float) and abs(value) < 2.0**1023


def persons_rows(receipt):
    return max(1, receipt["rows"]) if receipt["per"] == "release" else 1


def squared_sensitivity(receipt):
    factor = MECHANISMS[receipt["mechanism"]][1](persons_rows(receipt), receipt["dimension"])
    return (2 * Fraction(receipt["clip_norm"])) ** 2 * factor


def setting_faults(receipt):
    name = receipt["mechanism"]
    norm, _, best_grade = MECHANISMS[name]
    if receipt["sensitivity_norm"] != norm:
        yield f"sensitivity_norm must be {norm}"
    if Fraction(receipt["sensitivity"]) ** 2 < squared_sensitivity(receipt):
        yield "sensitivity is stated too small"
    if (name in ("gaussian", "empirical")) != (receipt["delta"] > 0):
        yield f"delta must be > 0 for the Gaussian kinds and 0 for the others, got {receipt['delta']} for {name}"
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
        if not (0 < law[0] < 1 and law[1] <= 128):
            return [*faults, "cap_probability must be in (0, 1) and threshold in [0, 128]"]
        if persons_rows(receipt) * privunit_epsilon(*law) > Decimal(epsilon):
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
        expected = 2.0 ** (of_sigma - 3)
    else:
        if not Fraction(1, 2**60) <= clip_norm / Fraction(parameter) <= 2**30:
            yield "clip_norm / sigma must be in [2^-60, 2^30]"
        mantissa, exponent = math.frexp(receipt["clip_norm"])
        expected = 2.0 ** max(of_sigma - 6, exponent - (mantissa == 0.5) - 21)
    if grid != (expected if receipt["grade"] == "exact" else None):
        yield "grid is not the one of this noise, clip_norm and grade"


# ---- the ledger

ROW = "sequence period kind time_us charge_id purpose policy epsilon delta rho total_epsilon total_delta total_rho".split()
ROW += ["previous_hash", "entry_hash"]


def row_hash(key, row):
    return hashlib.sha256("\n".join(("hushvec-budget/1", key, *(str(row[name]) for name in ROW[:-1]))).encode()).hexdigest()


def check_ledger(export):
    """The reason why the chain does not hold, or None."""
    if not isinstance(export, dict) or export.get("budget_export_version") != 1 or not export.get("rows"):
        raise Unreadable("not an export of a ledger, version 1")
    key, previous, period, ids, spent = export["budget_key"], "0" * 64, 0, set(), {}
    for number, row in enumerate(export["rows"], 1):
        if not isinstance(row, dict) or set(row) != set(ROW) or any("\n" in str(value) for value in row.values()):
            return f"row {number}: fields are missing, unknown or hold a line break"
        if row["sequence"] != number or row["previous_hash"] != previous or row["entry_hash"] != row_hash(key, row):
            return f"row {number}: it does not follow from the row before"
        if number == 1:
            if row["kind"] != "open":
                return "row 1: the ledger is not opened"
            names = ("rho",) if row["rho"] else ("epsilon", "delta")
            limits, blocks = {name: Fraction(row[name]) for name in names}, row["policy"] == "block"
        elif row["kind"] == "reset":
            period, ids, spent = period + 1, set(), {}
        elif row["kind"] != "charge" or row["charge_id"] in ids:
            return f"row {number}: neither a reset nor a new charge"
        else:
            ids.add(row["charge_id"])
            spent = {name: spent.get(name, 0) + Fraction(row[name]) for name in names}
            if any(Fraction(row[name]) < 0 for name in names) or any(spent[name] > limits[name] for name in names if blocks):
                return f"row {number}: the budget is overspent"
        if row["period"] != period or any(Fraction(row[f"total_{name}"]) != spent.get(name, 0) for name in names):
            return f"row {number}: period or totals are not what the rows add up to"
        previous = row["entry_hash"]
    if export["ledger"] != export["rows"][0]["entry_hash"] or export["head"] != {"rows": number, "entry_hash": previous}:
        return "the export's own head and identity are not those of its rows"
    return None


def check_charge(receipt, export):
    """The reason why the ledger did not pay for the receipt, or None."""
    charge, rows = receipt["charge"], export["rows"]
    if charge is None:
        return "the receipt names no charge"
    if charge["ledger"] != export["ledger"]:
        return "the receipt names another ledger"
    row = rows[charge["sequence"] - 1] if 2 <= charge["sequence"] <= len(rows) else rows[0]
    if row["kind"] != "charge" or any(row[name] != charge[name] for name in ("charge_id", "entry_hash")):
        return "the ledger has no such charge"
    if rows[0]["rho"]:
        enough = Decimal(row["rho"]) >= needed_rho(receipt)
    else:
        enough = all(Fraction(row[name]) >= Fraction(repr(receipt[name])) for name in ("epsilon", "delta"))
    return None if enough else "the charge is smaller than what the receipt promises"


def needed_rho(receipt):
    """Gaussian: sensitivity^2 / (2 sigma^2) (Bun and Steinke 2016); pure: epsilon tanh(epsilon/2), docs/proofs/zcdp.md."""
    if receipt["mechanism"] in ("gaussian", "empirical"):
        return decimal(squared_sensitivity(receipt) / (2 * Fraction(receipt["sigma"]) ** 2))
    epsilon = Decimal(receipt["epsilon"])
    return epsilon * (1 - (-epsilon).exp()) / (1 + (-epsilon).exp())


# ---- the command


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("receipts", nargs="+", metavar="RECEIPT")
    parser.add_argument("--ledger", metavar="EXPORT", help="what `hushvec budget export` wrote")
    options = parser.parse_args()
    statuses = []
    try:
        export = read(options.ledger) if options.ledger else None
        if export is not None:
            reason = check_ledger(export)
            statuses.append("does not hold" if reason else "holds")
            print(f"{options.ledger}: {statuses[-1]}{': ' + reason if reason else ''}")
        paid = set()
        for path in options.receipts:
            receipt = read(path)
            status, reasons = check_receipt(receipt)
            reason = check_charge(receipt, export) if export is not None and status != "does not hold" else None
            if reason is None and export is not None and receipt["charge"]["sequence"] in paid:
                reason = "another receipt names the same charge"
            if reason is not None:
                status, reasons = "does not hold", [reason]
            paid.add(receipt["charge"] and receipt["charge"]["sequence"])
            statuses.append(status)
            print(f"{path}: {status}: {'; '.join(reasons)}")
    except (OSError, RecursionError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        print(f"check_receipt: {' '.join(str(error).split()) or type(error).__name__}", file=sys.stderr)
        return 3
    return 1 if "does not hold" in statuses else 2 if "not a DP claim" in statuses else 0


if __name__ == "__main__":
    sys.exit(main())
