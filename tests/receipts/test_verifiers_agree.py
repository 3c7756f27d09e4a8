"""hushvec's verifier and scripts/check_receipt.py, which share no code, give one answer to thousands of forged receipts and ledgers.

Agreement: the same status, or both cannot read it. One exception: hushvec rounds a Gaussian delta and the epsilon of privunit up
where the script computes them to 50 digits, so at the very boundary hushvec may refuse what the script confirms. Such a receipt
must get the script's answer from hushvec too once its epsilon and delta are MARGIN larger. The other way round nothing is allowed.
"""

import json
from collections import Counter

import pytest

import hushvec as hv
from evidence.reference.sizes import scaled
from hushvec.budget import verify_export
from hushvec.errors import ReceiptError
from hushvec.receipts import receipt_from_dict, receipt_from_json
from receipts.forgeries import SCRIPT, forged_ledger, forged_receipt, genuine, module_of

RECEIPTS, AGGREGATES, LEDGERS = scaled(12_000, 20_000), scaled(2_000, 20_000), scaled(1_600, 2_500)
MARGIN = 1e-9
UNREADABLE, BOUNDARY = "unreadable", "boundary"


def by_hushvec(text):
    try:
        return hv.verify_receipt(receipt_from_json(text)).status
    except ReceiptError:
        return UNREADABLE


def by_script(script, text):
    try:
        return script.check_receipt(script.parse(text))[0]
    except (ValueError, RecursionError):
        return UNREADABLE


def by_hushvec_a_little_above(text):
    receipt = json.loads(text)
    raised = {name: receipt[name] * (1 + MARGIN) for name in ("epsilon", "delta")}
    return hv.verify_receipt({**receipt, **raised}).status


def disagreement(script, text, ours):
    """Why the two answers do not agree, BOUNDARY for the one exception, or None."""
    theirs = by_script(script, text)
    if theirs == ours:
        return None
    if ours == "does not hold" and theirs != UNREADABLE and by_hushvec_a_little_above(text) == theirs:
        return BOUNDARY
    return f"hushvec: {ours}, script: {theirs}"


def by_hushvec_with_ledger(export, receipts):
    """(of the ledger, of the ledger with the receipts)."""
    try:
        holds = verify_export(export).holds
    except (ValueError, TypeError):
        return UNREADABLE, UNREADABLE
    try:
        return holds, hv.verify_charges([receipt_from_dict(receipt) for receipt in receipts], export).status == "holds"
    except ReceiptError:
        return holds, UNREADABLE


def by_script_with_ledger(script, export, receipts):
    try:
        holds = script.check_ledger(export) is None
    except ValueError:
        return UNREADABLE, UNREADABLE
    paid, found = set(), [holds]
    try:
        for receipt in receipts:
            status = script.check_receipt(receipt)[0]
            found.append(status != "does not hold" and holds and script.check_charge(receipt, export, paid) is None)
    except ValueError:
        return holds, UNREADABLE
    return holds, all(found)


@pytest.fixture(scope="module")
def script():
    return module_of(SCRIPT.read_text())


@pytest.fixture(scope="module")
def receipts():
    """(text, hushvec's answer) of every forgery."""
    return [(text, by_hushvec(text)) for text in map(forged_receipt, range(RECEIPTS))]


@pytest.fixture(scope="module")
def aggregates():
    """(text, hushvec's answer) of forgeries of receipts of aggregates alone: they are few among all."""
    return [(text, by_hushvec(text)) for text in (forged_receipt(seed, "aggregate") for seed in range(AGGREGATES))]


@pytest.fixture(scope="module")
def ledgers(script):
    forged = [forged_ledger(seed, script.row_hash) for seed in range(LEDGERS)]
    return [(export, receipts, by_hushvec_with_ledger(export, receipts)) for export, receipts in forged]


def test_what_is_genuine_holds(script):
    for receipts, export in genuine():
        for receipt in receipts:
            status = "holds" if receipt["is_dp_claim"] else "not a DP claim"
            assert by_script(script, json.dumps(receipt)) == by_hushvec(json.dumps(receipt)) == status
        assert by_script_with_ledger(script, export, receipts) == by_hushvec_with_ledger(export, receipts) == (True, True)


def test_forged_receipts(script, receipts):
    found = [(disagreement(script, text, ours), text[:2000]) for text, ours in receipts]
    assert [one for one in found if one[0] not in (None, BOUNDARY)] == []
    # Some are so close to the boundary that hushvec's rounding shows, or MARGIN would have been tested by nothing: about 1 %, of
    # promises that a forger moved by a part of 10^-10 and less.
    assert 0 < sum(why == BOUNDARY for why, _ in found) < RECEIPTS / 50
    # The forgeries mean something only if there are many of each answer.
    answers = Counter(ours for _, ours in receipts)
    assert min(answers[status] for status in ("holds", "does not hold", "not a DP claim", UNREADABLE)) > RECEIPTS / 50, answers


def test_forged_aggregates(script, aggregates):
    found = [(disagreement(script, text, ours), text[:2000]) for text, ours in aggregates]
    assert [one for one in found if one[0] not in (None, BOUNDARY)] == []
    answers = Counter(ours for _, ours in aggregates)
    assert min(answers[status] for status in ("holds", "does not hold", "not a DP claim", UNREADABLE)) > AGGREGATES / 50, answers


def test_forged_ledgers(script, ledgers):
    for seed, (export, receipts, ours) in enumerate(ledgers):
        assert by_script_with_ledger(script, export, receipts) == ours, seed
    answers = Counter(ours for _, _, ours in ledgers)
    assert min(answers[one] for one in ((True, True), (True, False), (False, False), (UNREADABLE, UNREADABLE))) > LEDGERS / 50, answers


# Ways in which a checker was, or could be, laxer than its page: (what the script has, what it has instead).
LAX_WITH_RECEIPTS = {
    "fields may be there twice": ("if len(dict(pairs)) != len(pairs):", "if False:"),
    "numbers may be infinite": ("abs(value) <= sys.float_info.max and float(value) == value and", "value == value and"),
    "any dtype": ('"dtype": one_of("float32", "float64", "float16", "bfloat16", "int64", "int32")', '"dtype": lambda value: True'),
    "floats may have discrete noise": ('if (mechanism in INTEGERS) != (receipt["dtype"] in ("int64", "int32")):', "if False:"),
    "any delta of discrete noise": ("if discrete_gaussian_delta(epsilon, parameter, square, numbers) >", "if 0 >"),
    "any renormalize": ('"renormalize": boolean', '"renormalize": lambda value: True'),
    "any projection": ('"projection": optional(digest)', '"projection": lambda value: True'),
    "any library_version": ('"library_version": text, "adjacency"', '"library_version": lambda value: True, "adjacency"'),
    "any notes": ("return type(value) is list and all(map(text, value))", "return True"),
    "any kinds inside the charge": ("and all(rule(value[name]) for name, rule in CHARGE.items())", ""),
    "half a surrogate pair": ('and not re.search("[\\ud800-\\udfff]", value)', ""),
    "a claim may be 1, a version true": ("type(value) is type(one) and value == one", "value == one"),
    "is_dp_claim may be 1": ("return type(value) is bool", "return value in (True, False)"),
    "whole numbers may be flags": ("return lambda value: type(value) is int and", "return lambda value: isinstance(value, int) and"),
    "a cap less likely than chance is free": ("return abs(decimal(", "return (decimal("),
    "any cap probability": ("(p * 2**53).denominator != 1", "False"),
    "any cells": ('(mechanism in ("unary", "bloom") and cells != 2)', "False"),
    "odd cells for hadamard": ('mechanism == "hadamard" and cells & (cells - 1)', "False"),
    "memos of many people": ('(words != 1 or receipt["memoised"])', "words != 1"),
    "sensitivity as stated": ('if Fraction(receipt["sensitivity"]) ** 2 < squared_sensitivity(receipt):', "if False:"),
    "epsilon a little too small": ("Fraction(epsilon)) ** 2 < square", "Fraction(epsilon)) ** 2 < square * (1 - Fraction(1, 10**6))"),
    "noise below the multiplier": (
        'elif Fraction(receipt["sigma"]) < Fraction(receipt["noise_multiplier"]) * clip_norm * stretch:', "elif False:"
    ),
    "a band forgotten": ("zip(coefficients[1:], reversed(column))", "zip(coefficients[1:-1], reversed(column))"),
    "one participation": ("participations = range(min(max_participations, -(-steps // min_separation)))", "participations = [0]"),
    "correlated steps of another run": ('receipt["planned_steps"] != correlated["steps"]', "False"),
    "batches cost as examples": ('if receipt["clipping"] == "batch":', "if False:"),
    "steps beyond the plan": ('receipt["steps"] > receipt["planned_steps"]', "False"),
    "rounds of another cipher": ('if receipt["rounds"] != ROUNDS[cipher]:', "if False:"),
    "the format version of another cipher": ('not in (2 if cipher == "aes256" else 1, 3 if exact or', "not in (1, 2, 3 if exact or"),
    "version 3 of what has none": ('3 if exact or receipt.get("correlation", 0) is None else 0', "3"),
    "version 3 of correlated noise": ('receipt.get("correlation", 0) is None', '"correlation" in receipt'),
    "no version 3 of sums": (' or receipt.get("correlation", 0) is None else 0', " else 0"),
    "version 3 on the grid of versions 1 and 2": ('integers or receipt["format_version"] == 3 else 6', "integers else 6"),
    "any saturation of int8 values": ('receipt["saturation_probability"] < saturation(receipt) * (1 - 1e-9)', "False"),
    "int8 values on the grid of others": (
        '(3 if integers or receipt["format_version"] == 3 else 6), (6 if integers else 21)', "6, 21"
    ),
    "unit rows of int8 values": ('if receipt["renormalize"]:', "if False:"),
    "any ends of int8 values": ("type(value) is list and value == [-127, 127] and {*map(type, value)} == {int}", "True"),
    "labels with the model's scores": ('* (receipt.get("scores") == "source")', "* False"),
}
LAX_WITH_AGGREGATES = {
    "half of what a replaced row moves": ("(length + length) ** 2", "(length + length) ** 2 / 2"),
    "a replaced row stays in its group": ("max(within, appears + appears)", "within"),
    "a replaced row changes its group": ("max(within, appears + appears)", "appears + appears"),
    "counts are free": ("appears, within = length**2 + of_count,", "appears, within = length**2,"),
    "moments cost as sums": ("(length * Fraction(one[\"clip_norm\"])) ** 2", "length**2"),
    "replaced moments cost as added ones": ("return appears + appears if replaced else appears", "return appears"),
    "one row of each person": (' * receipt["rows_per_person"] ** 2', ""),
    "rows add up without their squares": ('receipt["rows_per_person"] ** 2', 'receipt["rows_per_person"]'),
    "a multiplier a little too large": ('["noise_multiplier"]) ** 2 > 1:', '["noise_multiplier"]) ** 2 > 1 + 1e-12:'),
    "any number of rows": ('not (receipt["adjacency"] == "replace-one" and receipt["rows_per_person"] == 1)', "False"),
    "any noise of statistics": ("fits[kind] and all(map(usable, noises))", "fits[kind]"),
    "sums may lack their noise": ('"sums": all(has_rows),', '"sums": has_rows[0],'),
    "moments of several groups": ('and one["groups"] == 1', ""),
    "moments with counts": ('all(has_rows) and one["count_sigma"] is None', "all(has_rows)"),
    "counts with rows": ('not any(has_rows) and one["count_sigma"] is not None', 'one["count_sigma"] is not None'),
    "more fields of a statistic": ("set(value) == set(STATISTIC)", "set(value) >= set(STATISTIC)"),
    "any number of statistics": ("type(value) is list and 1 <= len(value) <= 64", "type(value) is list"),
}
LAX_WITH_LEDGERS = {
    "amounts may be quotients": ("(0|[1-9][0-9]{0,999})(\\.[0-9]{0,323}[1-9])?", "[0-9./]+"),
    "any policy": (' and row["policy"] in ("block", "warn", "block per person")', ""),
    "any id beside the charge": ('for name in ("charge_id", "entry_hash")', 'for name in ("entry_hash",)'),
    "one charge for several receipts": ('if named["sequence"] in paid:', "if False:"),
    "sums are not compared": ("any(spent[name] > limits[name] for name in names)", "False"),
    "the version may be true": ("type(value) is type(one) and value == one", "value == one"),
    "carriage returns": ('for end in "\\r\\n"', 'for end in "\\n"'),
}  # fmt: skip


def mutant_of(before, after):
    source = SCRIPT.read_text()
    assert source.count(before) == 1, before
    return module_of(source.replace(before, after))


@pytest.mark.parametrize("laxity", LAX_WITH_RECEIPTS)
def test_a_laxer_script_is_caught(laxity, receipts):
    mutant = mutant_of(*LAX_WITH_RECEIPTS[laxity])
    assert any(disagreement(mutant, text, ours) not in (None, BOUNDARY) for text, ours in receipts)


@pytest.mark.parametrize("laxity", LAX_WITH_AGGREGATES)
def test_a_script_laxer_with_aggregates_is_caught(laxity, aggregates):
    mutant = mutant_of(*LAX_WITH_AGGREGATES[laxity])
    assert any(disagreement(mutant, text, ours) not in (None, BOUNDARY) for text, ours in aggregates)


@pytest.mark.parametrize("laxity", LAX_WITH_LEDGERS)
def test_a_script_laxer_with_ledgers_is_caught(laxity, ledgers):
    mutant = mutant_of(*LAX_WITH_LEDGERS[laxity])
    assert any(by_script_with_ledger(mutant, export, receipts) != ours for export, receipts, ours in ledgers)
