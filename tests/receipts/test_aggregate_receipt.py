"""Receipts of aggregates: the formulas of mu, JSON there and back, what does not hold, what cannot be read, and who pays."""

import dataclasses
import json
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import hushvec as hv
from cli.command import hushvec_here
from hushvec.accounting import GaussianDP, compose
from hushvec.errors import ReceiptError
from hushvec.receipts import AggregateReceipt, AggregateStatistic, receipt_from_dict, receipt_from_json
from hushvec.receipts.aggregates import squared_mu
from receipts.forgeries import COUNTS, MOMENTS, SCRIPT, SUMS, aggregate_receipt, module_of

REPLACED = {"adjacency": "replace-one"}
PLAIN = dataclasses.replace(SUMS, count_sigma=None)
RELEASES = [
    {},
    {"rows_per_person": 3, "rows_bound": "promised"},
    {**REPLACED, "rows": 10_003},
    {**REPLACED, "rows_per_person": 2**40},
    {"statistics": (PLAIN,)},
    {"statistics": (MOMENTS, PLAIN, COUNTS, MOMENTS), "delta": 1e-9},
    {"statistics": (COUNTS,) * 64, **REPLACED, "rows": 0},
    {"statistics": (dataclasses.replace(SUMS, clip_norm=2.0**-100, sigma=2.0**100, count_sigma=None),), "delta": 5e-324},
    {"statistics": (dataclasses.replace(MOMENTS, clip_norm=2.0**-100, sigma=2.0**100),), "epsilon": 0.0},
]


@pytest.fixture(scope="module")
def checker():
    return module_of(SCRIPT.read_text())


def statuses(checker, receipt):
    """(hushvec's answer, that of the program that shares no code with it)."""
    return hv.verify_receipt(receipt).status, checker.check_receipt(json.loads(receipt.to_json()))[0]


# ---- mu


@pytest.mark.parametrize(
    ("statistic", "added", "replaced"),
    [
        # C = 2, s = 4, t = 8: C^2/s^2 = 1/4, 1/t^2 = 1/64, C^4/s^2 = 1
        (("sums", "", 5, 3, 2.0, 4.0, 8.0), "17/64", "1"),
        (("sums", "", 5, 3, 2.0, 4.0, None), "1/4", "1"),
        (("sums", "", 5, 3, 2.0, 4.0, 1.0), "5/4", "5/2"),  # a change of the group is the worst case
        (("counts", "", 5, 0, None, None, 8.0), "1/64", "1/32"),
        (("moments", "", 1, 3, 2.0, 4.0, None), "1", "2"),
    ],
)
def test_mu_of_one_statistic(statistic, added, replaced):
    one = AggregateStatistic(*statistic)
    for rows in (1, 2, 3, 10**6):
        assert squared_mu([one], "add-remove", rows) == rows**2 * Fraction(added)
        assert squared_mu((one,), "replace-one", rows) == rows**2 * Fraction(replaced)


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
def test_squares_add_up(adjacency):
    together = (SUMS, COUNTS, MOMENTS, COUNTS)
    assert squared_mu(together, adjacency, 7) == sum(squared_mu([one], adjacency, 7) for one in together)
    assert squared_mu((), adjacency, 1) == 0


@pytest.mark.parametrize("adjacency", ["add-remove", "replace-one"])
@pytest.mark.parametrize("one", [SUMS, PLAIN, COUNTS, MOMENTS, dataclasses.replace(SUMS, count_sigma=1.0)], ids=str)
def test_no_person_moves_farther_and_one_moves_as_far(one, adjacency):
    """Against arrays made with numpy: the most that one row among many directions and groups moves them, in units of the noise."""
    rng, (groups, d) = np.random.default_rng(5), (3, 4)
    clip_norm = one.clip_norm or 1.0
    rows = [clip_norm * row / np.linalg.norm(row) for row in [*rng.normal(size=(20, d)), *np.eye(d), *-np.eye(d)]]

    def units(row, group):
        sums, counts = np.zeros((groups, d)), np.zeros(groups)
        sums[group], counts[group] = row, 1
        if one.statistic == "moments":
            off_diagonal = np.where(np.eye(d) == 1, 1, math.sqrt(2)) / one.sigma
            return (np.outer(row, row) * off_diagonal)[np.triu_indices(d)]
        parts = [sums.ravel() / one.sigma] if one.statistic == "sums" else []
        return np.concatenate([*parts, *([counts / one.count_sigma] if one.count_sigma else [])])

    states = [units(row, group) for row in rows for group in range(groups)]
    moves = states if adjacency == "add-remove" else [a - b for a in states for b in states]
    farthest = max(float(np.sum(move**2)) for move in moves)
    assert farthest == pytest.approx(float(squared_mu([one], adjacency, 1)), rel=1e-12)


def test_mu_is_not_computed_of_what_contradicts_itself():
    with pytest.raises(ValueError, match=r"statistics\[1\]: count_sigma must be given for counts, got null"):
        squared_mu([SUMS, dataclasses.replace(COUNTS, count_sigma=None)], "add-remove", 1)
    with pytest.raises(ValueError, match="adjacency must be"):
        squared_mu([SUMS], "swap", 1)
    with pytest.raises(ValueError, match="rows_per_person must be >= 1, got 0"):
        squared_mu([SUMS], "add-remove", 0)


# ---- what holds


@pytest.mark.parametrize("settings", RELEASES, ids=range(len(RELEASES)))
def test_receipts_hold_there_and_back(checker, settings):
    receipt = aggregate_receipt(**settings)
    assert statuses(checker, receipt) == ("holds", "holds")
    assert receipt_from_json(receipt.to_json()) == AggregateReceipt.from_dict(json.loads(receipt.to_json())) == receipt
    assert receipt_from_dict(receipt.to_dict()) == receipt
    assert list(receipt.to_dict())[:9] == [
        "mechanism", "adjacency", "rows_per_person", "rows_bound", "epsilon", "delta", "noise_multiplier", "statistics", "rows",
    ]  # fmt: skip


@pytest.mark.parametrize("settings", RELEASES, ids=range(len(RELEASES)))
def test_the_largest_multiplier_that_holds_is_the_exact_one(checker, settings):
    receipt = aggregate_receipt(**settings)
    larger = dataclasses.replace(receipt, noise_multiplier=math.nextafter(receipt.noise_multiplier, math.inf))
    assert statuses(checker, larger) == ("does not hold", "does not hold")
    assert re.match(r"noise_multiplier must be <= 1 / mu, got .*: the statistics give mu = ", hv.verify_receipt(larger).reasons[0])
    smaller = dataclasses.replace(receipt, noise_multiplier=receipt.noise_multiplier * 0.99, epsilon=receipt.epsilon * 1.1 + 1e-90)
    assert statuses(checker, smaller) == ("holds", "holds")


@pytest.mark.parametrize("rows", [1, 3])
def test_delta_is_that_of_one_gaussian(checker, rows):
    """Against mpmath at 50 digits."""
    receipt = aggregate_receipt(rows_per_person=rows)
    with mpmath.workdps(50):
        s, epsilon = mpmath.mpf(receipt.noise_multiplier), mpmath.mpf(receipt.epsilon)
        exact = mpmath.ncdf(0.5 / s - epsilon * s) - mpmath.exp(epsilon) * mpmath.ncdf(-0.5 / s - epsilon * s)
    for margin, status in ((1e-9, "holds"), (-1e-9, "does not hold")):
        changed = dataclasses.replace(receipt, delta=float(exact) * (1 + margin))
        assert statuses(checker, changed) == (status, status)


def test_the_script_has_digits_for_noise_of_any_size(checker):
    """At epsilon = 0 delta is erf(1 / (s sqrt 8)): 0.3989 / s for large s, which 60 digits of its two terms would not have shown."""
    for multiplier in (1e30, 1e60, 1e90):
        delta = checker.gaussian_delta(0.0, multiplier, Fraction(1))
        assert float(delta) == pytest.approx(1 / math.sqrt(2 * math.pi) / multiplier, rel=1e-12)
        assert float(delta) == pytest.approx(hv.gaussian_delta(0.0, multiplier), rel=1e-12)


def test_the_loss_is_one_gaussian():
    receipt = aggregate_receipt()
    assert receipt.loss == GaussianDP(noise_multiplier=receipt.noise_multiplier, adjacency="add-remove")
    assert receipt.loss.epsilon(receipt.delta) == receipt.epsilon == compose([receipt], delta=receipt.delta).epsilon
    assert receipt.rho == pytest.approx(float(squared_mu(receipt.statistics, "add-remove", 1)) / 2, rel=1e-12)
    both = compose([receipt, receipt], delta=1e-5).epsilon
    twice = aggregate_receipt(statistics=receipt.statistics * 2).epsilon
    assert both == pytest.approx(twice, rel=1e-9)


# ---- what does not


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"epsilon": 1.0}, "noise_multiplier = .* gives delta = .* at epsilon = 1.0, more than the 1e-05 stated; .* it gives epsilon"),
        ({"delta": 1e-6}, "gives delta ="),
        ({"noise_multiplier": 3.7}, r"noise_multiplier must be <= 1 / mu, got 3.7: the statistics give mu = 0.270902"),
        ({"noise_multiplier": 1e300}, "the statistics give mu = 0.270902"),
        ({"noise_multiplier": 5e-324}, "gives delta = 1 at epsilon"),
        ({"adjacency": "replace-one"}, "the statistics give mu = 0.493"),
        ({"rows_per_person": 2}, "the statistics give mu = 0.541805"),
        ({"rows_per_person": 2**62}, "the statistics give mu = "),
        ({"statistics": (SUMS, COUNTS, COUNTS)}, "the statistics give mu = "),
        ({"statistics": (dataclasses.replace(SUMS, clip_norm=2.0), COUNTS)}, "the statistics give mu = "),
        ({"rows": 5}, "rows must be null except for replace-one with rows_per_person = 1, got 5"),
        ({"rows": 5, "adjacency": "replace-one", "rows_per_person": 2}, "rows must be null except for replace-one"),
        ({"key_source": "seed"}, "is_dp_claim must be false: key from a user-given seed"),
        ({"rounds": 14}, "rounds must be 20 for chacha20, got 14"),
    ],
)
def test_what_does_not_follow_does_not_hold(checker, change, reason):
    changed = dataclasses.replace(aggregate_receipt(), **change)
    assert statuses(checker, changed) == ("does not hold", "does not hold")
    assert re.search(reason, hv.verify_receipt(changed).reasons[0]), hv.verify_receipt(changed).reasons


@pytest.mark.parametrize(
    ("one", "change", "reason"),
    [
        (SUMS, {"dimension": 0}, "dimension must be >= 1 for sums, got 0"),
        (SUMS, {"clip_norm": None}, "clip_norm must be given for sums, got null"),
        (SUMS, {"sigma": None}, "sigma must be given for sums, got null"),
        (SUMS, {"sigma": 0.1}, "sigma must be a float32 in [2^-100, 2^100], got 0.1"),
        (SUMS, {"count_sigma": 2.0**101}, f"count_sigma must be a float32 in [2^-100, 2^100], got {2.0**101!r}"),
        (SUMS, {"sigma": 2.0**-101}, f"sigma must be a float32 in [2^-100, 2^100], got {2.0**-101!r}"),
        (COUNTS, {"dimension": 3}, "dimension must be 0 for counts, got 3"),
        (COUNTS, {"clip_norm": 1.0}, "clip_norm must be null for counts, got 1.0"),
        (COUNTS, {"sigma": 1.0}, "sigma must be null for counts, got 1.0"),
        (COUNTS, {"count_sigma": None}, "count_sigma must be given for counts, got null"),
        (COUNTS, {"count_sigma": math.nextafter(9.5, 0)}, "count_sigma must be a float32 in [2^-100, 2^100], got 9.499999999999998"),
        (MOMENTS, {"groups": 2}, "groups must be 1 for moments, got 2"),
        (MOMENTS, {"dimension": 0}, "dimension must be >= 1 for moments, got 0"),
        (MOMENTS, {"clip_norm": None}, "clip_norm must be given for moments, got null"),
        (MOMENTS, {"sigma": None}, "sigma must be given for moments, got null"),
        (MOMENTS, {"count_sigma": 1.0}, "count_sigma must be null for moments, got 1.0"),
    ],
)  # fmt: skip
def test_a_statistic_that_contradicts_itself(checker, one, change, reason):
    """The fault is named, and mu of the rest is not computed."""
    changed = dataclasses.replace(aggregate_receipt(), statistics=(MOMENTS, dataclasses.replace(one, **change)))
    assert statuses(checker, changed) == ("does not hold", "does not hold")
    assert hv.verify_receipt(changed).reasons == (f"statistics[1]: {reason}",)
    str(changed)


def test_what_claims_nothing(checker):
    for change in ({}, {"key_source": "seed"}):
        silent = dataclasses.replace(aggregate_receipt(), is_dp_claim=False, **change)
        assert statuses(checker, silent) == ("not a DP claim", "not a DP claim")
        assert "would hold with a secret key" in hv.verify_receipt(silent).reasons[-1]


# ---- what cannot be read


@pytest.mark.parametrize(
    "change",
    [
        {"mechanism": "laplacian"}, {"adjacency": "swap"}, {"rows_per_person": 0}, {"rows_per_person": 1.0}, {"rows_bound": "ids"},
        {"epsilon": -1.0}, {"epsilon": None}, {"delta": 0.0}, {"delta": 1.0}, {"noise_multiplier": 0.0}, {"noise_multiplier": None},
        {"statistics": []}, {"statistics": None}, {"statistics": {}}, {"statistics": [None]}, {"statistics": [{}]}, {"rows": -1},
        {"rows": True}, {"grade": "float"}, {"receipt_version": 2}, {"receipt_kind": "aggregates"}, {"surprise": 1}, {"notes": "none"},
        {"statistics": [dataclasses.asdict(COUNTS)] * 65},
        *({"statistics": [{**dataclasses.asdict(SUMS), **change}]} for change in (
            {"statistic": "means"}, {"purpose": None}, {"groups": 0}, {"dimension": -1}, {"dimension": 1.0}, {"clip_norm": 0.0},
            {"clip_norm": 2.0**101}, {"sigma": 0.0}, {"sigma": "1"}, {"count_sigma": -1.0}, {"count_sigma": True}, {"surprise": 1},
        )),
    ],
    ids=lambda change: str(change)[:60],
)  # fmt: skip
def test_what_cannot_be_read(checker, change):
    fields = {**json.loads(aggregate_receipt().to_json()), **change}
    with pytest.raises(ReceiptError):
        AggregateReceipt.from_json(json.dumps(fields))
    with pytest.raises(checker.Unreadable):
        checker.check_receipt(fields)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(AggregateReceipt)])
def test_no_field_may_be_missing(checker, name):
    fields = {field: value for field, value in aggregate_receipt().to_dict().items() if field != name}
    if name == "cipher":   # read from rounds
        fields["rounds"] = 14
    with pytest.raises(ReceiptError, match=f"receipt must have the field '{name}'"):
        AggregateReceipt.from_dict(fields)
    with pytest.raises(checker.Unreadable):
        checker.check_receipt(fields)


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(AggregateStatistic)])
def test_no_field_of_a_statistic_may_be_missing(checker, name):
    fields = aggregate_receipt().to_dict()
    del fields["statistics"][1][name]
    with pytest.raises(ReceiptError, match="statistics must be a list of objects with statistic, purpose, groups"):
        AggregateReceipt.from_dict(fields)
    with pytest.raises(checker.Unreadable):
        checker.check_receipt(fields)


# ---- who pays, and how it looks


@pytest.mark.parametrize("in_rho", [False, True])
def test_a_ledger_pays_for_it(checker, in_rho):
    budget = hv.PrivacyBudget(max_rho=10.0) if in_rho else hv.PrivacyBudget(100.0, 0.1)
    receipt = aggregate_receipt()
    charge = budget.consume(receipt.epsilon, receipt.delta, rho=receipt.rho)
    paid = dataclasses.replace(receipt, charge=hv.receipts.LedgerEntry.of(charge))
    export = json.loads(json.dumps(budget.export()))
    assert hv.verify_charges([paid], export).status == "holds"
    assert checker.check_ledger(export) is None and checker.check_charge(paid.to_dict(), export, set()) is None
    dearer = dataclasses.replace(aggregate_receipt(statistics=(SUMS, COUNTS, MOMENTS)), charge=paid.charge)
    assert "is smaller than what it promises" in hv.verify_charges([dearer], export).reasons[0]
    assert checker.check_charge(dearer.to_dict(), export, set()) == "the charge is smaller than what the receipt promises"
    # A charge of all but a little of rho is too small for both programs.
    if in_rho:
        multiplier = receipt.noise_multiplier * (1 - 1e-9)
        dearer = aggregate_receipt(noise_multiplier=multiplier, epsilon=receipt.epsilon * 1.01)
        dearer = dataclasses.replace(dearer, charge=paid.charge)
        assert hv.verify_charges([dearer], export).status == "does not hold"
        assert checker.check_charge(dearer.to_dict(), export, set()) is not None


def words(text):
    return " ".join(str(text).split())


def test_it_prints_what_was_released():
    receipt = aggregate_receipt(statistics=(SUMS, COUNTS, MOMENTS), rows_per_person=3)
    shown = words(receipt)
    assert str(receipt).startswith("Receipt of aggregates\n")
    assert "for one person (at most 3 rows), add-remove" in shown
    assert "sums of each class: 77 x 384, clipped to length 1 (L2), noise sigma 4.25; counts with sigma 12" in shown
    assert "people of each class: 77 groups, counts with sigma 9.5" in shown
    assert "second moments: 384 x 384, clipped to length 0.5 (L2), noise sigma 3.5" in shown
    assert "at most 3 rows: ids of people were given, further rows were dropped" in shown and "PROMISED" not in shown
    reason = hv.verify_receipt(receipt).reasons[0]
    assert reason.endswith("1e-05)-DP under addition or removal of one person (at most 3 rows) follows from the noise")
    promised = aggregate_receipt(rows_bound="promised", adjacency="replace-one", rows=10_003)
    assert "at most 1 row: ONLY PROMISED by the caller, nothing was dropped" in words(promised) and "10,003" in words(promised)
    assert "under replacement of one person (at most 1 row)" in hv.verify_receipt(promised).reasons[0]
    seeded = dataclasses.replace(receipt, key_source="seed", is_dp_claim=False)
    assert str(seeded).startswith("Receipt of aggregates: NOT A DP CLAIM\n")


def test_the_command_reads_it(tmp_path):
    path = tmp_path / "aggregates.json"
    path.write_text(aggregate_receipt(notes=("a note",)).to_json())
    one, two = hushvec_here("verify", path), hushvec_here("verify", path, path)
    assert one.code == 0 and "sums of each class" in one.out and "a note" in one.out
    assert two.code == 0 and "together: holds" in two.out
