"""Receipts of training: what holds, what does not, what cannot be read, and what a program without hushvec can say of them."""

import dataclasses
import json
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import hushvec as hv
from cli.command import hushvec
from evidence.reference.sizes import scaled
from hushvec.accounting import GaussianDP, compose
from hushvec.accounting.releases import SampleRange
from hushvec.errors import ReceiptError
from hushvec.receipts import receipt_from_json
from hushvec.receipts.training import TrainingReceipt
from hushvec.training import StepSchedule, noise_multiplier_for
from receipts.forgeries import SCRIPT, module_of, training_receipt

SAMPLED = {"sampling_probability": 0.02, "noise_multiplier": 1.0, "sigma": 0.5}
RUNS = [
    {**SAMPLED, "steps": 300},
    {**SAMPLED, "steps": 300, "adjacency": "replace-one"},
    {**SAMPLED, "steps": 300, "clipping": "batch"},
    {"sampling_probability": 0.001, "noise_multiplier": 0.7, "sigma": 0.5, "steps": 10_000, "delta": 1e-6},
    {"sampling_probability": 0.5, "noise_multiplier": 5.0, "sigma": 2.5, "steps": 50, "delta": 1e-9},
    {"sampling_probability": 0.2, "noise_multiplier": 2.0, "sigma": 1.0, "steps": 1, "delta": 1e-5},
]


@pytest.fixture(scope="module")
def checker():
    return module_of(SCRIPT.read_text())


@pytest.mark.parametrize("settings", [{}, *RUNS], ids=str)
def test_receipts_as_issued_hold(settings):
    receipt = training_receipt(**settings)
    assert hv.verify_receipt(receipt).status == "holds"
    assert receipt_from_json(receipt.to_json()) == receipt
    assert compose([receipt], delta=receipt.delta).epsilon == receipt.epsilon
    assert compose([(receipt, 2)], delta=receipt.delta).epsilon > receipt.epsilon
    too_small = dataclasses.replace(receipt, epsilon=receipt.epsilon * (1 - 1e-9))
    assert re.search("steps of noise_multiplier .* give epsilon = ", hv.verify_receipt(too_small).reasons[0])


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"steps": 101}, "101 steps of noise_multiplier"),
        ({"planned_steps": 99}, "steps must be at most the 99 planned, got 100"),
        ({"noise_multiplier": 7.9}, "give epsilon ="),
        ({"noise_multiplier": 8.1}, r"sigma must be >= noise_multiplier \* clip_norm"),
        ({"clip_norm": 0.6}, "sensitivity must be >= 1 clip_norm"),
        ({"clipping": "batch"}, "sensitivity must be >= 2 clip_norm"),
        ({"clipping": "batch", "sensitivity": 1.0}, "give epsilon ="),
        ({"adjacency": "replace-one", "sensitivity": 1.0}, "give epsilon ="),
        ({"delta": 1e-6}, "give epsilon ="),
        ({"sampling_probability": 0.9, "samples": (SampleRange("a" * 32, 1, 99),)}, "samples must be at least 100, one for each"),
        ({"epsilon": None}, "epsilon must be given where there is noise"),
        ({"noise_multiplier": 0.0}, "epsilon must be null without noise"),
        ({"noise_multiplier": 0.0, "epsilon": None}, "is_dp_claim must be false: at least one step had no noise"),
        ({"noise_multiplier": 5e-324}, "give epsilon = inf"),
        ({"key_source": "seed"}, "is_dp_claim must be false"),
        ({"grade": "float"}, "is_dp_claim must be false"),
    ],
)
def test_what_does_not_follow_does_not_hold(checker, change, reason):
    changed = dataclasses.replace(training_receipt(), **change)
    found = hv.verify_receipt(changed)
    assert found.status == "does not hold"
    assert re.search(reason, found.reasons[0]), found.reasons
    assert checker.check_receipt(changed.to_dict())[0] == "does not hold"


def test_what_claims_nothing(checker):
    noise_free, unstarted = {"noise_multiplier": 0.0, "epsilon": None}, {"steps": 0, "epsilon": 0.0}
    for change in (noise_free, unstarted, {"grade": "float"}, {"key_source": "seed"}):
        changed = dataclasses.replace(training_receipt(), **change, is_dp_claim=False)
        assert hv.verify_receipt(changed).status == checker.check_receipt(changed.to_dict())[0] == "not a DP claim"


def test_receipts_from_before_samples_are_read(checker):
    fields = training_receipt(**RUNS[5]).to_dict()
    assert fields.pop("samples") is None
    assert hv.verify_receipt(fields).status == "holds" and checker.check_receipt(fields)[0] == "undecided"


@pytest.mark.parametrize(
    "change",
    [
        {"delta": 0.0}, {"steps": -1}, {"steps": 1.0}, {"planned_steps": 0}, {"sampling_probability": 0.0},
        {"sampling_probability": 1.1}, {"noise_multiplier": -1.0}, {"clipping": "none"}, {"adjacency": "swap"}, {"mechanism": "sgd"},
        {"samples": "a"}, {"samples": [{}]}, {"samples": [{"process": "a" * 32, "first": 2, "last": 1}]}, {"samples": [None]},
        {"samples": [{"process": "A" * 32, "first": 1, "last": 1}]}, {"samples": [{"process": "a" * 32, "first": 0, "last": 1}]},
        {"receipt_version": 2}, {"theorem": 1}, {"expected_batch_size": 0.0}, {"resumed": True}, {"surprise": 1},
    ],
)  # fmt: skip
def test_what_cannot_be_read(checker, change):
    fields = {**json.loads(training_receipt().to_json()), **change}
    with pytest.raises(ReceiptError):
        TrainingReceipt.from_json(json.dumps(fields))
    with pytest.raises(checker.Unreadable):
        checker.check_receipt(fields)


# The standard library takes long for ten thousand steps.
FEW = [pytest.param(run, marks=pytest.mark.full) if run["steps"] > 1000 else run for run in RUNS]


@pytest.mark.parametrize("settings", FEW, ids=str)
def test_the_script_proves_both_bounds(checker, settings):
    """What hushvec's accountant says lies between them, and they are close."""
    receipt = training_receipt(**settings)

    def answer(factor):
        return checker.check_receipt(dataclasses.replace(receipt, epsilon=receipt.epsilon * factor).to_dict())[0]

    assert [answer(factor) for factor in (0.98, 1.0, 1.02)] == ["does not hold", "undecided", "holds"]


@pytest.mark.parametrize("seed", range(scaled(4, 24)))
def test_both_verifiers_confirm_trainings_with_the_least_noise(checker, seed):
    """Any epsilon, delta, sampling, number of steps, adjacency and clipping, with the noise that noise_multiplier_for gives them."""
    rng = np.random.default_rng((10, seed))
    epsilon, delta, q = np.exp(rng.uniform(np.log([0.1, 1e-10, 1e-3]), np.log([12.0, 1e-4, 0.6]))).tolist()
    steps = int(np.exp(rng.uniform(0, np.log(scaled(200, 10_000)))))
    adjacency, clipping = str(rng.choice(["add-remove", "replace-one"])), str(rng.choice(["auto", "batch"]))
    clipped = "batch" if clipping == "batch" else "example"
    noise = noise_multiplier_for(epsilon, delta, q, steps, adjacency, clipped=clipped)
    schedule = StepSchedule(noise_multiplier=noise, sampling_probability=q, adjacency=adjacency, clipped=clipped)
    settings = {"adjacency": adjacency, "clipping": clipping, "delta": delta, "steps": steps, "sampling_probability": q}
    receipt = training_receipt(**settings, noise_multiplier=noise, sigma=noise * 0.5)
    stated = dataclasses.replace(receipt, epsilon=schedule.as_stated.epsilon(steps, delta))
    assert receipt.epsilon < stated.epsilon <= epsilon < 1.002 * receipt.epsilon
    assert hv.verify_receipt(stated).status == checker.check_receipt(stated.to_dict())[0] == "holds"


def test_one_step_is_between_the_bounds(checker):
    """Of one step delta is known in closed form: q delta(x) of the Gaussian, with q (e^x - 1) = e^epsilon - 1."""
    q, noise, delta = 0.1, 1.5, 1e-4
    fields = training_receipt(steps=1, sampling_probability=q, noise_multiplier=noise, sigma=1.0, delta=delta).to_dict()
    for epsilon in (0.01, 0.1, 0.3, 0.6):
        with mpmath.workdps(30):
            unsampled = mpmath.log1p(mpmath.expm1(epsilon) / q)
            half, shift = 0.5 / noise, unsampled * noise
            exact = q * (mpmath.ncdf(half - shift) - mpmath.exp(unsampled) * mpmath.ncdf(-half - shift))
        below, above = (float(checker.steps_delta(fields, epsilon, upper)) for upper in (False, True))
        assert below <= exact <= above
        assert above - below < 0.01 * float(exact)


def test_bounds_hold_at_any_resolution_and_close_in():
    fields = training_receipt(**RUNS[0]).to_dict()
    gaps = []
    for points in (60, 2000):
        coarse = module_of(SCRIPT.read_text().replace("POINTS = 2000", f"POINTS = {points}"))
        below, above = (float(coarse.steps_delta(fields, fields["epsilon"], upper)) for upper in (False, True))
        assert below < fields["delta"] < above
        gaps.append(above - below)
    assert gaps[0] > 3 * gaps[1]


def test_what_no_grid_holds_is_left_open(checker):
    tiny = dataclasses.replace(training_receipt(), sampling_probability=0.5, noise_multiplier=0.01, sigma=0.005, epsilon=1.0)
    status, reasons = checker.check_receipt(tiny.to_dict())
    assert status == "undecided" and "too small" in reasons[0]


def test_without_sampling_the_steps_are_one_gaussian():
    receipt = training_receipt()
    assert receipt.epsilon == pytest.approx(GaussianDP(noise_multiplier=0.8, adjacency="add-remove").epsilon(1e-5), rel=1e-12)
    assert Fraction(receipt.rho) >= Fraction(100, 128) and receipt.rho == pytest.approx(100 / 128, rel=1e-12)


def test_a_ledger_pays_for_training():
    for budget in (hv.PrivacyBudget(100.0, 0.1), hv.PrivacyBudget(max_rho=10.0)):
        receipt = training_receipt()
        charge = budget.consume(receipt.epsilon, receipt.delta, rho=receipt.rho)
        paid = dataclasses.replace(receipt, charge=hv.receipts.LedgerEntry.of(charge))
        assert hv.verify_charges([paid], budget.export()).status == "holds"
        longer = dataclasses.replace(training_receipt(steps=110), charge=paid.charge)
        assert "is smaller than what it promises" in hv.verify_charges([longer], budget.export()).reasons[0]


def test_the_command_reads_it_beside_others(tmp_path):
    path, other = tmp_path / "training.json", tmp_path / "vectors.json"
    path.write_text(training_receipt(planned_steps=200, notes=("a note",)).to_json())
    finished = hushvec("verify", path)
    assert finished.code == 0
    assert "100 of 200 planned" in finished.out and "a note" in finished.out
    other.write_text(hv.privatize(np.ones((2, 8), np.float32), epsilon=1.0, mechanism="privunit").receipt.to_json())
    unstarted = tmp_path / "unstarted.json"
    unstarted.write_text(dataclasses.replace(training_receipt(), steps=0, epsilon=0.0).to_json())
    assert hushvec("verify", path, unstarted).code == 0
    assert "together: holds" in hushvec("verify", path, path).out
    beside = hushvec("verify", path, other)  # two adjacencies have no sum
    assert beside.code == 0 and "together: not a DP claim" in beside.out


def test_an_optimizer_writes_one():
    torch = pytest.importorskip("torch")
    from hushvec.training import Account, DPOptimizer, per_example_gradients

    def squared_error(predict, rows, targets):
        return ((predict(rows) - targets) ** 2).mean()

    budget = hv.PrivacyBudget(50.0, 0.1)
    settings = {"clip_norm": 1.0, "noise_multiplier": 1.0, "expected_batch_size": 8, "delta": 1e-5, "steps": 2}
    model = torch.nn.Linear(3, 1)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = DPOptimizer(inner, sampling_probability=1.0, account=Account(budget=budget), **settings)
    assert hv.verify_receipt(optimizer.receipt()).status == "holds" and optimizer.receipt()["steps"] == 0
    for _ in range(2):
        per_example_gradients(model, squared_error, torch.ones(8, 3), torch.zeros(8, 1))
        optimizer.step()
    receipt = optimizer.receipt()
    assert receipt_from_json(receipt.to_json()) == receipt
    assert (receipt.steps, receipt.planned_steps, receipt.notes) == (2, 2, optimizer.guarantee().notes)
    assert receipt.epsilon == optimizer.epsilon()
    assert hv.verify_receipt(json.loads(receipt.to_json())).status == "holds"
    assert hv.verify_charges([receipt], budget.export()).status == "holds"


def test_other_releases_in_the_accountant_have_receipts_of_their_own():
    torch = pytest.importorskip("torch")
    from hushvec.accounting import Accountant
    from hushvec.training import Account, DPOptimizer

    accountant = Accountant(adjacency="add-remove")
    accountant.add(GaussianDP(noise_multiplier=1.0, adjacency="add-remove"))
    optimizer = DPOptimizer(
        torch.optim.SGD(torch.nn.Linear(3, 1).parameters(), lr=0.1), clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=8,
        sampling_probability=1.0, delta=1e-5,
        account=Account(accountant=accountant),
    )  # fmt: skip
    optimizer.empty_batch()
    optimizer.step()
    assert optimizer.receipt().epsilon < optimizer.epsilon()
    assert hv.verify_receipt(optimizer.receipt()).status == "holds"


def test_an_older_receipt_of_samples_does_not_say_which():
    fields = training_receipt().to_dict()
    fields.pop("samples", None)
    assert TrainingReceipt.from_dict(fields).samples == ()
    assert TrainingReceipt.from_dict({**fields, "sampling_probability": 0.5}).samples is None


@pytest.mark.parametrize(
    ("change", "has_loss"),
    [({}, True), ({"steps": 0, "epsilon": 0.0}, False), ({"noise_multiplier": 0.0, "epsilon": None}, False),
     ({"steps": 0, "noise_multiplier": 0.0, "epsilon": None}, False)],
)  # fmt: skip
def test_a_run_has_a_loss_once_a_step_had_noise(change, has_loss):
    receipt = dataclasses.replace(training_receipt(), **change)
    assert receipt.has_loss is has_loss
    if has_loss:
        assert receipt.loss.count == receipt.steps


@pytest.mark.parametrize(("probability", "samples"), [(1.0, ()), (0.5, None)])
def test_samples_that_an_older_receipt_leaves_out_are_unknown_unless_every_example_was_in(probability, samples):
    fields = training_receipt(sampling_probability=probability).to_dict()
    fields.pop("samples")
    assert TrainingReceipt.from_dict(fields).samples == samples
    for other in ([], "text", None):
        with pytest.raises(ReceiptError):
            TrainingReceipt.from_dict(other)
