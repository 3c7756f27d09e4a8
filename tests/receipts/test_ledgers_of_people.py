"""Ledgers that count by person: hushvec and scripts/check_receipt.py, which share no code, give one answer to each."""

import json
import random
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

import hushvec as hv
from evidence.reference.sizes import scaled
from hushvec.budget import verify_export
from hushvec.budget.chain import export_of
from hushvec.budget.rows import FIELDS, entry_hash
from receipts.forgeries import SCRIPT, aggregate_receipt, module_of

LEDGERS = scaled(600, 6000)
PEOPLE = [digit * 32 for digit in "3a7f"]
ZERO = (Fraction(0), Fraction(0))
ROWS = np.eye(4, 8, dtype=np.float32)


def text(value):
    return f"{float(value):.5f}".rstrip("0").rstrip(".") or "0"


def total_of(everyone, own):
    return [everyone[part] + max([Fraction(0), *(each[part] for each in own.values())]) for part in (0, 1)]


FLAWS = ("none", "none", "everyone", "twice", "order", "case", "short", "removed", "added", "reset", "policy", "total")


def forged(seed):
    """(export, whether it holds; None where both may say either, if they agree) of a random ledger with perhaps one flaw, sealed."""
    rng = random.Random(seed)
    flaw, limit = rng.choice(FLAWS), (Fraction(rng.choice([2, 3])), Fraction(3, 10**5))
    rows, everyone, own, period, over = [], ZERO, {}, 0, False
    previous = "0" * 64
    chosen = rng.randrange(8)  # the row with the flaw

    def add(kind, policy, amounts, totals):
        nonlocal previous
        given = (kind, 7, f"id-{len(rows)}", "", policy, *amounts, "", *totals, "", previous)
        row = ("k", len(rows) + 1, period, *given, "")
        rows.append((*row[:-1], entry_hash(row)))
        previous = rows[-1][-1]

    add("open", "block" if flaw == "policy" else "block per person", map(text, limit), ("0", "0"))
    for number in range(rng.randint(2, 8)):
        here = number == chosen
        if rng.random() < 0.1:
            everyone, own, period = ZERO, {}, period + 1
            add("reset", PEOPLE[0] if flaw == "reset" and here else "", ("", ""), ("0", "0"))
            continue
        named = rng.choices(PEOPLE, k=rng.randint(0, 4))
        amount = (Fraction(rng.choice([1, 2]), 4), Fraction(rng.choice([0, 1]), 10**5))
        counted = set(named) if flaw == "twice" and here else named
        for one in counted:
            own[one] = tuple(a + b for a, b in zip(own.get(one, ZERO), amount))
        if not named:
            everyone = tuple(a + b for a, b in zip(everyone, amount))
        total = total_of(ZERO if flaw == "everyone" and here else everyone, own)
        total[0] += Fraction(1, 4) * (flaw == "total" and here)
        over = over or any(a > b for a, b in zip(total_of(everyone, own), limit))
        written = sorted(named)
        if here and written:
            written = {
                "order": written[::-1],
                "case": [one.upper() for one in written],
                "short": [*written[:-1], written[-1][1:]],
                "removed": written[1:],
                "added": sorted([*written, rng.choice(PEOPLE)]),
            }.get(flaw, written)
        add("charge", "".join(written), map(text, amount), map(text, total))
    return json.loads(json.dumps(export_of("k", rows))), not over if flaw == "none" else None


def both(script, export):
    return verify_export(export).holds, script.check_ledger(export) is None


@pytest.fixture(scope="module")
def script():
    return module_of(SCRIPT.read_text())


@pytest.fixture(scope="module")
def ledgers():
    assert FIELDS[2] == "period"
    return [forged(seed) for seed in range(LEDGERS)]


def test_both_say_the_same_and_what_is_true(script, ledgers):
    answers = Counter()
    for export, holds in ledgers:
        ours, theirs = both(script, export)
        assert ours == theirs
        assert holds in (None, ours), verify_export(export)
        answers[holds, ours] += 1
    assert min(answers[pair] for pair in [(True, True), (False, False), (None, False)]) > LEDGERS / 50, answers


LAX = {
    "everyone counts for nobody": ("everyone[name] + most[name] for name", "most[name] for name"),
    "twice is once": ("for one in named:\n                    own", "for one in set(named):\n                    own"),
    "people in any order": (" and found == sorted(found)", ""),
    "any text of people": ('re.fullmatch("[0-9a-f]{32}", one)', "True"),
    "people of any ledger": ('if rows[0]["policy"] == "block per person" and row["kind"] == "charge" else', "if True else"),
    "people stay over a reset": ("period, ids, own = period + 1, set(), {}", "period, ids = period + 1, set()"),
    "only a whole ledger is overspent": ('if rows[0]["policy"] != "warn" and', 'if rows[0]["policy"] == "block" and'),
}


@pytest.mark.parametrize("laxity", LAX)
def test_a_laxer_script_is_caught(laxity, ledgers):
    before, after = LAX[laxity]
    source = SCRIPT.read_text()
    assert source.count(before) == 1, laxity
    mutant = module_of(source.replace(before, after))
    assert any(len(set(both(mutant, export))) == 2 for export, _ in ledgers)


def charged(script, receipts, export):
    """(by hushvec, by the script) whether a ledger pays for receipts."""
    paid, fields = set(), [json.loads(receipt.to_json()) for receipt in receipts]
    theirs = script.check_ledger(export) is None and all(script.check_charge(one, export, paid) is None for one in fields)
    return hv.verify_charges(receipts, export).status == "holds", theirs


def test_a_charge_pays_for_as_many_rows_as_it_has_people(script):
    budget = hv.PrivacyBudget(99.0, per_person=True)
    release = hv.privatize(ROWS, epsilon=8.0, budget=budget, people=["anna", "ben", "anna", 7])
    one = hv.privatize(ROWS, epsilon=8.0, per="release", budget=budget, people=["anna"])
    everyone = hv.privatize(ROWS, epsilon=8.0, budget=budget)
    receipts = [release.receipt, one.receipt, everyone.receipt]
    assert charged(script, receipts, budget.export()) == (True, True)
    assert [budget.consumed(name) for name in ("anna", "ben", "7", "cleo")] == [32.0, 16.0, 16.0, 8.0]
    few = budget.consume(8.0, 1e-5, people=["anna", "ben", 7])
    entry = hv.LedgerEntry.of(few)
    short = hv.receipts.receipt_from_dict({**release.receipt.to_dict(), "charge": vars(entry)})
    assert charged(script, [short], budget.export()) == (False, False)
    assert hv.verify_charges([short], budget.export()).reasons == (
        "receipt 1: the charge named, row 5, is of 3 people, the release of 4 rows",
    )


def test_a_charge_of_people_does_not_pay_for_what_names_no_rows(script):
    budget = hv.PrivacyBudget(99.0, 0.5, per_person=True)
    receipt = aggregate_receipt()
    entry = hv.LedgerEntry.of(budget.consume(receipt.epsilon, receipt.delta, people=["anna"]))
    receipt = hv.receipts.receipt_from_dict({**receipt.to_dict(), "charge": vars(entry)})
    assert charged(script, [receipt], budget.export()) == (False, False)
    assert hv.verify_charges([receipt], budget.export()).reasons == (
        "receipt 1: the charge named, row 2, is of some people, and whom the release is about is not in its receipt",
    )
