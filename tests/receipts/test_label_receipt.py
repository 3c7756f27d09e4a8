"""Label receipts: JSON there and back, the guarantee recomputed from the whole numbers of the law, and what is no receipt."""

import dataclasses
import hashlib
import json
import math

import mpmath
import numpy as np
import pytest

import hushvec as hv
from hushvec._native import _core
from hushvec.accounting import Shuffled, compose
from hushvec.mechanisms import PublicCodebook
from hushvec.receipts import receipt_from_dict, receipt_from_json
from hushvec.receipts.labels import NOTE_SOURCE, LabelReceipt, labels_digest
from hushvec.release.labels import plan_labels, privatize_labels
from receipts.forgeries import SCRIPT, module_of

LABELS = ["calm", "tired", "anxious"]


def released(answers=6, labels=LABELS, epsilon=2.0, **arguments):
    return privatize_labels([labels[0]] * answers, labels, epsilon=epsilon, **arguments).receipt


def with_source_scores():
    plan = plan_labels(LABELS, epsilon=2.0, budget=None, per="record", generator=None, scores="source")
    return plan.release(plan.codes(["tired"], "true_labels"))[1]


def status(receipt, **changes):
    return hv.verify_receipt(dataclasses.replace(receipt, **changes)).status


@pytest.mark.parametrize("per", ["record", "release"])
@pytest.mark.parametrize("labels", [LABELS, range(5), [False, True], [0.5, 1.5], ["ja", "n\u00e9", '"']], ids=str)
def test_json_there_and_back(per, labels):
    receipt = released(labels=labels, per=per, generator=hv.Generator(rounds=12))
    assert LabelReceipt.from_json(receipt.to_json()) == receipt
    assert LabelReceipt.from_dict(json.loads(receipt.to_json())) == receipt
    assert receipt_from_json(receipt.to_json()) == receipt
    assert receipt_from_dict(receipt.to_dict()) == receipt
    assert hv.verify_receipt(receipt.to_dict()).status == hv.verify_receipt(receipt).status == "holds"


def test_a_receipt_of_vectors_is_still_read_as_one():
    receipt = hv.privatize(np.ones((2, 8), np.float32), epsilon=8.0).receipt
    assert receipt_from_json(receipt.to_json()) == receipt
    with pytest.raises(hv.ReceiptError, match="receipt must not have the field 'receipt_kind'"):
        hv.Receipt.from_dict(receipt.to_dict() | {"receipt_kind": "labels"})
    with pytest.raises(hv.ReceiptError, match="receipt must have the field"):
        receipt_from_dict(receipt.to_dict() | {"receipt_kind": "labels"})


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 0.5, 1.0, 2.0, 10.0, 44.0, 44.5, 700.0, 1e300])
@pytest.mark.parametrize("k", [2, 3, 1000])
@pytest.mark.parametrize("per", ["record", "release"])
def test_every_release_verifies(epsilon, k, per):
    answers = 7
    receipt = released(answers, range(k), epsilon, per=per)
    assert hv.verify_receipt(receipt).status == "holds"
    assert receipt.truth_values + (k - 1) * receipt.other_values == 2**64
    assert receipt.epsilon == epsilon


@pytest.mark.parametrize(
    ("k", "per", "answers"), [(2, "record", 5), (3, "release", 5), (50, "release", 1000), (2**16, "record", 5)]
)
def test_the_smallest_epsilon_that_holds_is_the_exact_one(k, per, answers):
    """Against mpmath at 200 digits: the float64 just above r ln(T / M) holds, the one below does not."""
    receipt = released(answers, range(k), 2.0, per=per)
    with mpmath.workdps(200):
        exact = mpmath.log(mpmath.mpf(receipt.truth_values) / receipt.other_values) * (answers if per == "release" else 1)
        nearest = float(exact)
        above = nearest if mpmath.mpf(nearest) >= exact else math.nextafter(nearest, math.inf)
    assert above <= 2.0
    assert status(receipt, epsilon=above) == "holds"
    assert status(receipt, epsilon=math.nextafter(above, 0)) == "does not hold"


def test_the_law_is_the_one_of_the_core():
    receipt = released(epsilon=1.0)
    assert (receipt.truth_values, receipt.other_values) == _core.response_law(1.0, 3)


@pytest.mark.parametrize("answers", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_one_person_shares_epsilon_over_the_answers(answers, epsilon):
    """The law is that of a share that is not above epsilon / n, and by less than one float64 below it."""
    receipt = released(answers, epsilon=epsilon, per="release")
    shares = [epsilon / answers, math.nextafter(epsilon / answers, 0)]
    assert (receipt.truth_values, receipt.other_values) in [_core.response_law(share, 3) for share in shares]
    assert status(receipt) == "holds"
    if answers > 1:
        assert f"behind all {answers} answers of one person follows" in hv.verify_receipt(receipt).reasons[0]
        each = hv.verify_receipt(dataclasses.replace(receipt, per="record"))
        assert each.status == "holds" and "behind one answer follows" in each.reasons[0]
        assert status(receipt, answers=answers + 1) == "does not hold"


TAMPERED = [
    {"epsilon": 1.99},
    {"delta": 1e-5},
    {"label_count": 4},
    {"label_count": 2},
    {"per": "release"},
    {"key_source": "seed"},
    {"scores": "source"},
    {"truth_values": 2**63},
    {"other_values": 1},
    {"truth_values": 2**64 - 2, "other_values": 1},
    {"truth_values": 2, "other_values": 2**63 - 1},
    {"truth_values": 2, "other_values": 2**63 - 1, "is_dp_claim": False},
]


@pytest.mark.parametrize("changes", TAMPERED, ids=str)
def test_a_tampered_receipt_does_not_hold(changes):
    receipt = released()
    assert status(receipt) == "holds"
    verification = hv.verify_receipt(dataclasses.replace(receipt, **changes))
    assert verification.status == "does not hold"
    assert all(reason and "\n" not in reason for reason in verification.reasons)


EQUAL_OR_WEAKER = [
    {"epsilon": 2.5},
    {"answers": 100},
    {"scores": "uniform"},
    {"cipher": "chacha8", "rounds": 8, "format_version": 1},
]


@pytest.mark.parametrize("changes", EQUAL_OR_WEAKER, ids=str)
def test_a_weaker_or_equal_promise_holds(changes):
    assert status(released(), **changes) == "holds"


def test_what_claims_nothing():
    seeded = released(generator=hv.Generator.unsafe_seeded(1))
    source = with_source_scores()
    for receipt, reason in [(seeded, "user-given seed"), (source, NOTE_SOURCE)]:
        verification = hv.verify_receipt(receipt)
        assert verification.status == "not a DP claim"
        assert any(reason in line for line in verification.reasons)
        assert any(reason in note for note in receipt.notes)
        assert status(receipt, is_dp_claim=True) == "does not hold"
        assert status(receipt, epsilon=0.1) == "does not hold"
    assert status(released(), is_dp_claim=False) == "not a DP claim"


def test_the_digest_is_that_of_a_json_list():
    for labels in (LABELS, [1, "1", 2.5, "\u00e9\ud800", "a\0"], [True, False], range(100_003)):
        text = json.dumps(list(labels), separators=(",", ":"))
        assert labels_digest(labels) == hashlib.sha256(text.encode("ascii")).hexdigest()
    assert released().labels_digest == labels_digest(LABELS)
    assert released(labels=tuple(map(np.str_, LABELS))).labels_digest == labels_digest(LABELS)
    assert labels_digest(["a", "b"]) != labels_digest(["b", "a"])


def fields(**changes):
    return {**released().to_dict(), **changes}


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(LabelReceipt)])
def test_every_field_is_needed_and_checked(name):
    missing = {key: value for key, value in fields().items() if key != name}
    with pytest.raises(hv.ReceiptError, match=f"receipt must have the field '{name}'"):
        LabelReceipt.from_dict(missing)
    for wrong in ({}, object()):
        with pytest.raises(hv.ReceiptError, match=name):
            LabelReceipt.from_dict(fields(**{name: wrong}))


@pytest.mark.parametrize(
    "changes",
    [
        {"unknown": 1},
        {"epsilon": 0.0},
        {"epsilon": True},
        {"epsilon": math.nan},
        {"delta": 1.0},
        {"label_count": 1},
        {"label_count": 2**24 + 1},
        {"label_count": "3"},
        {"truth_values": 5},
        {"truth_values": "0"},
        {"truth_values": "05"},
        {"truth_values": "-5"},
        {"truth_values": "5.0"},
        {"truth_values": "\u0665"},
        {"truth_values": "5\n"},
        {"truth_values": str(2**64)},
        {"other_values": "9" * 21},
        {"answers": -1},
        {"scores": "all"},
        {"grade": "float"},
        {"mechanism": "gaussian"},
        {"adjacency": "add-remove"},
        {"labels_digest": "0" * 63},
        {"rounds": 7},
        {"receipt_kind": "vectors"},
        {"receipt_version": 2},
        {"format_version": 4},
        {"notes": "text"},
        {"charge": {"sequence": 2}},
    ],
    ids=str,
)
def test_what_is_no_receipt(changes):
    with pytest.raises(hv.ReceiptError) as caught:
        receipt_from_dict(fields(**changes))
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"receipt_kind": "labels"}', '{"receipt_kind": NaN}', "[" * 100_000])
def test_what_is_not_json(text):
    for read in (LabelReceipt.from_json, receipt_from_json):
        with pytest.raises(hv.ReceiptError):
            read(text)


def test_a_receipt_cannot_be_changed():
    receipt = released()
    with pytest.raises(AttributeError):
        receipt.epsilon = 0.1
    assert isinstance(hash(receipt), int)


# ---- with ledgers, other receipts and the command line


@pytest.fixture
def paid():
    budget = hv.PrivacyBudget(20.0)
    labels = [released(budget=budget), released(budget=budget, per="release")]
    vectors = hv.privatize(np.ones((2, 8), np.float32), epsilon=8.0, budget=budget).receipt
    return [labels[0], vectors, labels[1]], budget.export()


def test_a_ledger_pays_for_labels_and_vectors(paid):
    receipts, export = paid
    assert hv.verify_charges(receipts, export).status == "holds"
    assert hv.verify_charges([receipts[0], receipts[0]], export).status == "does not hold"
    assert hv.verify_charges([dataclasses.replace(receipts[0], charge=receipts[1].charge, epsilon=9.0)], export).status == (
        "does not hold"
    )
    assert hv.verify_charges([released()], export).status == "does not hold"


def test_a_charge_pays_once_whatever_id_is_written_beside_it(paid):
    receipts, export = paid
    copies = [
        dataclasses.replace(receipts[0], charge=dataclasses.replace(receipts[0].charge, charge_id=charge_id))
        for charge_id in ("a", "b")
    ]
    assert hv.verify_charges(copies, export).reasons[0].startswith("receipt 1: the ledger has no such charge as the one named")
    once = hv.verify_charges([receipts[0], dataclasses.replace(receipts[0], notes=("another",))], export)
    assert once.reasons == ("receipt 2: another receipt names the same charge",)


def test_a_ledger_in_rho_pays_for_labels():
    budget = hv.PrivacyBudget(max_rho=2.0)
    receipt = released(budget=budget)
    assert receipt.rho * (1 - 1e-15) <= budget.consumed() <= receipt.rho < 2.0 * math.tanh(1.0)   # that of one bit
    assert hv.verify_charges([receipt], budget.export()).status == "holds"
    assert hv.verify_charges([dataclasses.replace(receipt, epsilon=2.1)], budget.export()).status == "does not hold"


def test_labels_and_vectors_compose():
    from hushvec.accounting import compose

    vectors = hv.privatize(np.ones((2, 8), np.float32), epsilon=1.0, delta=1e-6).receipt
    together = compose([released(epsilon=1.0), vectors], delta=1e-6)
    assert 1.0 < together.epsilon <= 2.0 * (1 + 1e-12)


def test_the_command_line_reads_both_kinds(paid, tmp_path):
    from cli.command import hushvec_here

    receipts, export = paid
    names = []
    for number, receipt in enumerate([*receipts, with_source_scores()]):
        names.append(tmp_path / f"{number}.json")
        names[-1].write_text(receipt.to_json())
    (tmp_path / "ledger.json").write_text(json.dumps(export))
    finished = hushvec_here("verify", *names[:3], "--ledger", tmp_path / "ledger.json", "--json")
    assert finished.code == 0, finished.err
    assert [one["receipt"] for one in json.loads(finished.out)["receipts"]] == [receipt.to_dict() for receipt in receipts]
    finished = hushvec_here("verify", names[3])
    assert finished.code == 2
    assert "NOT A DP CLAIM" in finished.out
    assert "tell which answers are true" in finished.out
    names[0].write_text(dataclasses.replace(receipts[0], epsilon=1.0).to_json())
    finished = hushvec_here("verify", names[0])
    assert finished.code == 1
    assert "gives epsilon = 2" in finished.out


# ---- shuffling ----


@pytest.mark.parametrize("per", ["record", "release"])
def test_a_note_says_what_shuffling_adds_and_on_whom_it_relies(per):
    receipt = released(answers=3, labels=range(40), epsilon=8.0, per=per)
    noted = receipt.with_shuffling(1_000_000, 1e-6)
    stated = float(noted.notes[-1].split(",")[0].removeprefix("("))
    exact = Shuffled(receipt, 1_000_000).epsilon(1e-6)
    assert exact <= stated <= exact * (1 + 1e-5)
    assert all(part in noted.notes[-1] for part in ("1e-06", "1000000 people", "honest shuffler", "against the shuffler"))
    assert dataclasses.replace(noted, notes=receipt.notes) == receipt
    assert LabelReceipt.from_json(noted.to_json()) == noted
    assert hv.verify_receipt(noted) == hv.verify_receipt(receipt)


def test_a_receipt_of_a_codebook_has_the_same_note():
    codebook = PublicCodebook.of(np.eye(40, dtype=np.float32))
    receipt = hv.privatize(np.eye(40, dtype=np.float32)[:3] + 0.1, mechanism=codebook.mechanism(8.0)).receipt
    noted = receipt.with_shuffling(1_000_000, 1e-6)
    assert noted.notes[-1] == released(labels=range(40), epsilon=8.0).with_shuffling(1_000_000, 1e-6).notes[-1]
    assert codebook.mechanism(8.0).shuffled(1_000_000) == Shuffled(receipt, 1_000_000)
    found = compose([(codebook.mechanism(8.0, rows_per_person=2).shuffled(10**6), 1)], delta=1e-6)
    assert 0.303 < found.epsilon < 0.305


def test_the_shuffled_epsilon_as_the_receipts_own_is_a_forgery():
    """By both verifiers, whatever the notes say."""
    forged = dataclasses.replace(released(epsilon=8.0).with_shuffling(10**6, 1e-6), epsilon=0.303695)
    assert hv.verify_receipt(forged).status == "does not hold"
    script, honest = module_of(SCRIPT.read_text()), released(epsilon=8.0).with_shuffling(9, 0.1)
    assert script.check_receipt(json.loads(forged.to_json()))[0] == "does not hold"
    assert script.check_receipt(json.loads(honest.to_json()))[0] == "holds"


@pytest.mark.parametrize(
    "n, delta, error, message",
    [
        (0, 1e-6, ValueError, "n must be >= 1, got 0"),
        (2.5, 1e-6, TypeError, "n must be a whole number, got float"),
        (100, 0.0, ValueError, "delta must be > 0 and < 1, got 0.0"),
    ],
)
def test_a_note_on_shuffling_needs_people_and_a_delta(n, delta, error, message):
    with pytest.raises(error, match=message):
        released().with_shuffling(n, delta)


def test_shuffling_adds_nothing_to_no_claim():
    for receipt in (released(generator=hv.Generator.unsafe_seeded(1)), with_source_scores()):
        with pytest.raises(ValueError, match="receipt must hold for a note on shuffling, got one that is found 'not a DP claim'"):
            receipt.with_shuffling(100, 1e-6)
    with pytest.raises(ValueError, match="found 'does not hold'"):
        dataclasses.replace(released(), epsilon=1.0).with_shuffling(100, 1e-6)
