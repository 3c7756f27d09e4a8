"""Receipts: JSON there and back, what verification finds, and what is no receipt at all."""

import dataclasses
import json
import math

import numpy as np
import pytest

import hushvec as hv
from collect.surveys import vocabulary
from hushvec.accounting import LaplaceDP, PureDP, compose
from hushvec.receipts.base import LedgerEntry, rows_per_person
from hushvec.release.labels import privatize_labels
from receipts.forgeries import SCRIPT, module_of

X = np.ones((6, 384), np.float32)
ARGUMENTS = {
    "gaussian": {"epsilon": 8.0, "delta": 1e-5},
    "laplacian": {"epsilon": 8.0},
    "l2_laplace": {"epsilon": 8.0},
    "privunit": {"epsilon": 8.0},
    "empirical": {"sigma": 0.2},
}


def release(mechanism="gaussian", **changes):
    return hv.privatize(X, mechanism=mechanism, **{**ARGUMENTS[mechanism], **changes}).receipt


def status(receipt, **changes):
    return hv.verify_receipt(dataclasses.replace(receipt, **changes)).status


SETTINGS = [
    {},
    {"per": "release"},
    {"normalize": True, "renormalize": True},
    {"clip_norm": 0.37},
    {"clip_norm": 2.0**-60},
    {"generator": hv.Generator(rounds=12)},
    {"generator": hv.Generator.unsafe_seeded(7, rounds=8)},
]


@pytest.mark.parametrize("mechanism", ARGUMENTS)
@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: "+".join(setting) or "defaults")
def test_json_there_and_back(mechanism, setting):
    if mechanism == "empirical" and setting.get("clip_norm") == 2.0**-60:
        setting = {**setting, "sigma": 2.0**-61}
    receipt = release(mechanism, **setting)
    assert hv.Receipt.from_json(receipt.to_json()) == receipt
    assert hv.Receipt.from_dict(json.loads(receipt.to_json())) == receipt
    claim = mechanism != "l2_laplace" and not ("generator" in setting and setting["generator"].seeded)
    assert receipt.is_dp_claim is claim
    expected = "holds" if claim else "not a DP claim"
    assert hv.verify_receipt(receipt).status == expected
    assert hv.verify_receipt(receipt.to_dict()).status == expected
    assert hv.verify_receipt(receipt).reasons


@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 1.0, 3.0, 10.0, 100.0, 1e4])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12, 1e-100])
def test_every_gaussian_release_verifies(epsilon, delta):
    assert status(release(epsilon=epsilon, delta=delta)) == "holds"
    assert status(release(epsilon=epsilon, delta=delta, per="release")) == "holds"


@pytest.mark.parametrize("mechanism", ["laplacian", "l2_laplace"])
@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 1 / 3, 1.0, 7.7, 1e4])
@pytest.mark.parametrize("per", ["record", "release"])
def test_every_laplace_release_verifies(mechanism, epsilon, per):
    assert status(release(mechanism, epsilon=epsilon, per=per)) == ("holds" if mechanism == "laplacian" else "not a DP claim")


@pytest.mark.parametrize("mechanism", ARGUMENTS)
def test_a_weaker_promise_holds(mechanism):
    receipt = release(mechanism)
    expected = hv.verify_receipt(receipt).status
    assert status(receipt, epsilon=receipt.epsilon * 1.5) == expected
    if receipt.delta:
        assert status(receipt, delta=receipt.delta * 2) == expected
    assert status(receipt, sensitivity=receipt.sensitivity * 2) == expected


TAMPERED = [
    {"epsilon": 7.9},
    {"epsilon": 0.0},
    {"delta": 0.9e-5},
    {"delta": 0.0},
    {"clip_norm": 1.001},
    {"clip_norm": 100.0},
    {"sensitivity": 1.0},
    {"sensitivity": math.nextafter(2.0, 0)},
    {"sensitivity_norm": "l1"},
    {"sigma": 1.2},
    {"sigma": 0.6002290844917297},
    {"sigma": 2.0, "grid": 0.015625},
    {"sigma": None},
    {"scale": 1.0},
    {"grid": 0.03125},
    {"grid": None},
    {"per": "release"},
    {"mechanism": "laplacian"},
    {"mechanism": "l2_laplace"},
    {"grade": "float"},
    {"grade": "float", "grid": None},
    {"key_source": "seed"},
    {"normalize": True, "clip_norm": 0.5},
]


@pytest.mark.parametrize("changes", TAMPERED, ids=str)
def test_a_tampered_gaussian_receipt_does_not_hold(changes):
    receipt = release()
    assert status(receipt) == "holds"
    verification = hv.verify_receipt(dataclasses.replace(receipt, **changes))
    assert verification.status == "does not hold"
    assert all(reason and "\n" not in reason for reason in verification.reasons)


@pytest.mark.parametrize("mechanism", ["laplacian", "l2_laplace"])
@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 7.99},
        {"delta": 1e-5},
        {"clip_norm": 1.1},
        {"per": "release"},
        {"scale": 0.1},
        {"scale": None},
        {"sigma": 1.0},
        {"grade": "exact", "grid": 1.0},
    ],
    ids=str,
)
def test_a_tampered_laplace_receipt_does_not_hold(mechanism, changes):
    assert status(release(mechanism), **changes) == "does not hold"


@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": 7.9999999},
        {"delta": 1e-5},
        {"per": "release"},
        {"cap_probability": 0.90102321897242 + 2.0**-40},
        {"cap_probability": 0.91},
        {"cap_probability": None},
        {"threshold": 3.0},
        {"threshold": None},
        {"sigma": None},
        {"scale": 1.0},
        {"grid": 1.0},
        {"grade": "float", "grid": None},
        {"normalize": False},
        {"mechanism": "l2_laplace"},
    ],
    ids=str,
)
def test_a_tampered_privunit_receipt_does_not_hold(changes):
    assert status(release("privunit")) == "holds"
    assert status(release("privunit"), **changes) == "does not hold"


@pytest.mark.parametrize("epsilon", [2.0**-20, 0.01, 1 / 3, 1.0, 7.7, 16.0, 300.0, 4096.0])
@pytest.mark.parametrize("per", ["record", "release"])
def test_every_privunit_release_verifies(epsilon, per):
    if per == "release":
        epsilon *= len(X)
    assert status(release("privunit", epsilon=epsilon, per=per)) == "holds"


def test_a_law_of_privunit_belongs_to_privunit_alone():
    assert status(release(), cap_probability=0.9) == "does not hold"
    assert status(release(), threshold=1.0) == "does not hold"


def test_the_dimension_counts_for_laplacian_only():
    assert status(release("laplacian"), dimension=385) == "does not hold"
    assert status(release("l2_laplace"), dimension=385) == "not a DP claim"
    assert status(release("gaussian"), dimension=385) == "holds"
    assert status(release("privunit"), dimension=385) == "holds"


def test_rows_count_per_release_only():
    assert status(release(per="release"), rows=7) == "does not hold"
    assert status(release(), rows=7) == "holds"


def test_a_claim_without_ground_does_not_hold():
    seeded = release(generator=hv.Generator.unsafe_seeded(1))
    assert status(seeded) == "not a DP claim"
    assert status(seeded, is_dp_claim=True) == "does not hold"
    floating = release("l2_laplace")
    assert status(floating) == "not a DP claim"
    assert status(floating, is_dp_claim=True) == "does not hold"
    assert status(release(), is_dp_claim=False) == "not a DP claim"


def test_wrong_numbers_do_not_hide_behind_a_missing_claim():
    seeded = release(generator=hv.Generator.unsafe_seeded(1))
    assert status(seeded, epsilon=1.0) == "does not hold"


def test_notes_say_what_matters():
    assert release().notes == ()
    assert "key from a user-given seed: not a DP claim" in release(generator=hv.Generator.unsafe_seeded(1)).notes
    assert "floating-point: not protected" in release("l2_laplace").notes
    assert "all rows are about one person" in release(per="release").notes[0]
    assert "epsilon is what it buys" in release("empirical").notes[0]
    assert "floating-point: not protected" in hv.verify_receipt(release("l2_laplace")).reasons


def test_numbers_are_written_exactly():
    receipt = release("empirical", sigma=0.1)
    assert receipt.sigma == float(np.nextafter(np.float32(0.1), np.float32(1)) if np.float32(0.1) < 0.1 else np.float32(0.1))
    assert json.loads(receipt.to_json())["sigma"] == receipt.sigma


def fields(**changes):
    return {**release().to_dict(), **changes}


def test_saturation_belongs_to_int8():
    with pytest.raises(hv.ReceiptError, match="saturation must be given with dtype 'int8'"):
        dataclasses.replace(release(), dtype="int8")
    with pytest.raises(hv.ReceiptError, match="saturation_probability must be left out with dtype 'float32'"):
        dataclasses.replace(release(dtype="int8"), dtype="float32", saturation=None)


@pytest.mark.parametrize("saturation", [(-127, 128), (-128, 127), (-127.0, 127.0), [-127, 127]])
def test_saturation_is_at_the_ends_of_int8(saturation):
    with pytest.raises(hv.ReceiptError, match=r"saturation must be \[-127, 127\] or null, got "):
        dataclasses.replace(release(dtype="int8"), saturation=saturation)


def test_what_claims_nothing_is_printed_so():
    receipt = release()
    assert "NOT A DP CLAIM" not in str(receipt)
    silent = str(dataclasses.replace(receipt, is_dp_claim=False))
    assert "NOT A DP CLAIM" in silent and "the receipt itself makes no claim" in silent and "not guaranteed" in silent


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(hv.Receipt)])
def test_every_field_is_needed_and_checked(name):
    whole = release(dtype="int8").to_dict() if name.startswith("saturation") else fields()
    with pytest.raises(hv.ReceiptError, match=f"receipt must have the field '{name}'"):
        hv.Receipt.from_dict({key: value for key, value in whole.items() if key != name})
    for wrong in ({}, object()):
        with pytest.raises(hv.ReceiptError, match=name):
            hv.Receipt.from_dict({**whole, name: wrong})


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown": 1},
        {"epsilon": "8"},
        {"epsilon": True},
        {"epsilon": -1.0},
        {"epsilon": math.nan},
        {"epsilon": 10**400},
        {"delta": 1.0},
        {"delta": -1e-5},
        {"clip_norm": 0.0},
        {"clip_norm": 1e40},
        {"sigma": -1.0},
        {"sigma": math.inf},
        {"rows": -1},
        {"rows": 2**63},
        {"rows": 1.5},
        {"dimension": 0},
        {"mechanism": "gauss"},
        {"adjacency": "add-remove"},
        {"rounds": 7},
        {"rounds": True},
        {"key_source": ""},
        {"grade": "double"},
        {"dtype": "int8"},
        {"normalize": 1},
        {"nonfinite": "ignore"},
        {"format_version": 4},
        {"receipt_version": 2},
        {"notes": "text"},
        {"notes": [1]},
    ],
    ids=str,
)
def test_what_is_no_receipt(changes):
    with pytest.raises(hv.ReceiptError) as caught:
        hv.Receipt.from_dict(fields(**changes))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "null",
        "8",
        '"receipt"',
        "{}",
        '{"epsilon": NaN}',
        '{"a": 1, "a": 2}',
        "[" * 100_000,
        "9" * 10_000,
        "x" * (1 << 21),
    ],
    ids=lambda text: text[:12],
)
def test_what_is_not_json(text):
    with pytest.raises(hv.ReceiptError) as caught:
        hv.Receipt.from_json(text)
    assert len(str(caught.value)) < 250


def test_a_receipt_cannot_be_changed():
    receipt = release()
    with pytest.raises(AttributeError):
        receipt.epsilon = 0.1
    assert isinstance(hash(receipt), int)


ENTRY = {"ledger": "a" * 64, "sequence": 7, "charge_id": "job-1", "entry_hash": "0123456789abcdef" * 4}


def test_a_charge_goes_there_and_back():
    receipt = hv.Receipt.from_dict(fields(charge=ENTRY, projection="f" * 64))
    assert (receipt.charge.sequence, receipt.charge.charge_id) == (7, "job-1")
    assert hv.Receipt.from_json(receipt.to_json()) == receipt
    assert json.loads(receipt.to_json())["charge"] == ENTRY
    assert hv.verify_receipt(receipt).status == "holds"


@pytest.mark.parametrize(
    "entry",
    [
        {**ENTRY, "sequence": 1},
        {**ENTRY, "sequence": 2.0},
        {**ENTRY, "ledger": "A" * 64},
        {**ENTRY, "entry_hash": "0" * 63},
        {**ENTRY, "charge_id": None},
        {**ENTRY, "more": 1},
        {"sequence": 2},
        [ENTRY],
    ],
    ids=str,
)
def test_a_charge_that_is_none(entry):
    with pytest.raises(hv.ReceiptError, match="charge"):
        hv.Receipt.from_dict(fields(charge=entry))


def test_no_count_of_rows_for_an_unknown_unit_of_privacy():
    with pytest.raises(ValueError) as caught:
        rows_per_person("person", 3)
    assert str(caught.value) == "per must be one of 'record', 'release', got 'person'"


@pytest.mark.parametrize("per", ["record", "release"])
def test_receipts_of_one_column_compose_as_laplace_noise(per):
    rows = np.linspace(-1, 1, 5, dtype=np.float32)[:, None]
    receipt = hv.privatize(rows, epsilon=2.5, mechanism="laplacian", per=per).receipt
    count, single = (1, 2.5) if per == "record" else (5, 0.5)
    together, noise = compose([(receipt, 10)], delta=1e-6), LaplaceDP(noise_multiplier=1 / single)
    assert together.releases == 10 * count
    assert together.epsilon == pytest.approx(compose([(noise, 10 * count)], delta=1e-6).epsilon, rel=1e-6)
    assert together.epsilon < compose([(PureDP(epsilon=single), 10 * count)], delta=1e-6).epsilon
    two = hv.privatize(np.ones((5, 2), np.float32), epsilon=2.5, mechanism="laplacian", per=per).receipt
    assert two.loss == PureDP(epsilon=2.5)


def laws(budget):
    """A release of each kind whose loss is known by its law, with several about one person too."""
    ones = np.ones((3, 1), np.float32)
    for per in ("record", "release"):
        for epsilon in (0.01, 2.0, 30.0):
            yield hv.privatize(ones, epsilon=epsilon, mechanism="laplacian", per=per, budget=budget).receipt
            yield hv.privatize(np.ones((3, 24), np.float32), epsilon=epsilon, mechanism="privunit", per=per, budget=budget).receipt
            for k in (2, 3, 77):
                yield privatize_labels([1] * 3, range(k), epsilon=epsilon, per=per, budget=budget).receipt
            for mechanism in ("k_rr", "unary", "hadamard"):
                words = vocabulary(30, epsilon, mechanism, words_per_person=1 if per == "record" else 3)
                yield words.release("word1" if per == "record" else ["word1"] * 3, per=per, budget=budget).receipt


def test_both_verifiers_know_the_rho_of_a_law():
    """A ledger in rho that was charged it holds; one that was charged a little less does not, for either."""
    script = module_of(SCRIPT.read_text())
    budget, short = hv.PrivacyBudget(max_rho=1e6), hv.PrivacyBudget(max_rho=1e6)
    receipts = list(laws(budget))
    assert hv.verify_charges(receipts, budget.export()).status == "holds"
    for receipt in receipts:
        charge = short.consume(receipt.epsilon, 0.0, rho=receipt.rho * (1 - 1e-9))
        unpaid = dataclasses.replace(receipt, charge=LedgerEntry.of(charge))
        assert script.check_charge(json.loads(receipt.to_json()), budget.export(), set()) is None
        assert "smaller" in script.check_charge(json.loads(unpaid.to_json()), short.export(), set())
        assert "is smaller than what it promises" in hv.verify_charges([unpaid], short.export()).reasons[0]
    assert sum(receipt.rho for receipt in receipts) < 0.95 * sum(PureDP(epsilon=receipt.epsilon).rho for receipt in receipts)


def test_a_gaussian_release_with_a_delta_of_zero_does_not_hold():
    found = hv.verify_receipt(dataclasses.replace(release(), delta=0.0))
    assert found.status == "does not hold" and "delta must be > 0 for gaussian, got 0.0" in found.reasons


def test_an_int8_release_without_its_grid_does_not_hold():
    found = hv.verify_receipt(dataclasses.replace(release(dtype="int8"), grid=None))
    assert found.status == "does not hold" and found.reasons[0].startswith("grid must be ")


HALVES = 3   # the version of the format with half the key stream: docs/format.md section 16


@pytest.mark.parametrize(
    ("settings", "change", "versions"),
    [
        ({}, {}, "2 or 3"),
        ({"mechanism": "laplacian"}, {}, "2 or 3"),
        ({}, {"grade": "float"}, "2"),
        ({"mechanism": "privunit"}, {}, "2"),
        ({"mechanism": "l2_laplace"}, {}, "2"),
    ],
)
def test_half_of_the_key_stream_is_for_exact_noise_that_is_added(settings, change, versions):
    receipt = dataclasses.replace(release(**settings), cipher="aes256", rounds=14, **change)
    other = hv.verify_receipt(dataclasses.replace(receipt, format_version=1))
    assert f"format_version must be {versions} for aes256, got 1" in other.reasons
    halves = hv.verify_receipt(dataclasses.replace(receipt, format_version=HALVES))
    assert any("format_version" in reason for reason in halves.reasons) == (versions == "2")
