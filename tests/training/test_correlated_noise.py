"""Training with correlated noise: the law of the releases, its account, its refusals, and an attack on it."""

import json
import math
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import hushvec as hv
from evidence.reference.sizes import scaled
from hushvec.budget import PrivacyBudget
from hushvec.receipts.training import TrainingReceipt
from hushvec.training.clipped_sums import ClippedSum, EarlierNoise

torch = pytest.importorskip("torch")

from hushvec.training import (  # noqa: E402
    CorrelatedNoise,
    CyclicSampler,
    DPOptimizer,
    StepSchedule,
    cyclic_loader,
    load_checkpoint,
    noise_multiplier_for,
    per_example_gradients,
    save_checkpoint,
)
from training.small_runs import grouped  # noqa: E402

ALPHA = 1e-6
NOISE = CorrelatedNoise.bisr(bands=4, steps=12, min_separation=4)


def optimizer_of(parameters, noise=NOISE, **options):
    given = {"clip_norm": 1.0, "noise_multiplier": 2.0, "expected_batch_size": 1, "noise": noise, "delta": 1e-5, **options}
    return DPOptimizer(torch.optim.SGD(parameters, lr=1.0), **grouped(**given))


def of_a_model(noise=NOISE, **options):
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 2)
    return model, optimizer_of(model.parameters(), noise, **options)


def step(model, optimizer):
    per_example_gradients(model, lambda predict, rows: predict(rows).sum(), torch.ones(2, 3))
    optimizer.step()


def whitened(releases, coefficients):
    """C y: the recurrence v_t = y_t - c_1 v_(t-1) - ..., with y = x + C^-1 sigma Z."""
    found = []
    for number, y in enumerate(releases):
        found.append(y - sum(c * found[number - back] for back, c in enumerate(coefficients[1 : number + 1], 1)))
    return np.stack(found)


def noise_of(coefficients, steps, size, sigma=3.0):
    total, earlier = ClippedSum([(size,)], clip_norm=1.0, sigma=sigma), EarlierNoise(coefficients)
    return [total.release(earlier=earlier)[0].astype(np.float64) for _ in range(steps)]


def covariance_statistic(whitened_noise, sigma):
    """Sum of squares of n (covariance / sigma^2 - I), standardised: chi-square with t (t + 1) / 2 degrees of freedom if white."""
    steps, size = whitened_noise.shape
    excess = (whitened_noise @ whitened_noise.T / size / sigma**2 - np.eye(steps)) * math.sqrt(size)
    below = excess[np.tril_indices(steps, -1)]
    return float((below**2).sum() + (np.diag(excess) ** 2).sum() / 2)


def test_releases_are_white_noise_under_c_and_mutants_are_not():
    """Covariance of C y over 10 steps, n = 2^16 coordinates: chi-square of 55 degrees of freedom, alpha = 1e-6."""
    steps, size, sigma = 10, 2**16, 3.0
    limit = stats.chi2.isf(ALPHA, steps * (steps + 1) // 2)
    releases = noise_of(NOISE.coefficients, steps, size)
    assert covariance_statistic(whitened(releases, NOISE.coefficients), sigma) < limit
    assert covariance_statistic(whitened(releases, NOISE.coefficients[:-1]), sigma) > limit   # a band forgotten
    assert covariance_statistic(np.stack(releases), sigma) > limit
    independent = noise_of((1.0,), steps, size)
    assert covariance_statistic(whitened(independent, NOISE.coefficients), sigma) > limit
    assert stats.kstest(whitened(releases, NOISE.coefficients)[7] / sigma, "norm").pvalue > ALPHA
    assert stats.kstest(releases[7] / sigma, "norm").pvalue < ALPHA


def test_prefix_sums_have_the_error_that_is_computed():
    """Root mean square of prefix sums of sampled noise over 64 steps, n = 2^14 coordinates, within 2 % (its deviation is 0.2 %)."""
    noise = CorrelatedNoise.bisr(bands=8, steps=64, min_separation=16)
    sampled = np.cumsum(np.stack(noise_of(noise.coefficients, 64, 2**14)), axis=0) / 3.0
    error = math.sqrt(float((sampled**2).mean())) * noise.sensitivity
    independent = math.sqrt(65 / 2) * math.sqrt(noise.max_participations)
    assert independent / error == pytest.approx(noise.gain, rel=0.02)
    assert noise.gain > 1.5


def log_likelihood_ratio(noise, sigma, canary):
    """One run of the optimizer on one parameter: how far C y points along C x of the canary, in deviations of the noise."""
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = optimizer_of([parameter], noise, noise_multiplier=0.5)
    assert optimizer.sigma == pytest.approx(sigma)
    releases = []
    for number in range(noise.steps):
        before = float(parameter.detach())
        parameter.grad_sample = torch.ones(1, 1) if number in canary else torch.zeros(1, 1)
        optimizer.step()
        releases.append(before - float(parameter.detach()))
    signal = whitened([float(number in canary) for number in range(noise.steps)], noise.coefficients)
    return float(whitened(releases, noise.coefficients) @ signal / np.linalg.norm(signal) / sigma)


def test_an_attack_that_knows_everything_gets_what_was_promised():
    """The mean of the best statistic is 1 / noise_multiplier = 2 for a canary on schedule, n = 300 runs, and more for one off it."""
    noise, runs = CorrelatedNoise.bisr(bands=3, steps=6, min_separation=3), scaled(300, 2000)
    sigma = 0.5 * noise.sensitivity
    deviation = 5 / math.sqrt(runs)
    on_schedule = np.mean([log_likelihood_ratio(noise, sigma, {0, 3}) for _ in range(runs)])
    assert abs(on_schedule - 2.0) < deviation
    for off_schedule in ({0, 2, 4}, {0, 1, 3, 4}):   # a participation too many, steps too near
        assert np.mean([log_likelihood_ratio(noise, sigma, off_schedule) for _ in range(runs)]) - 2.0 > deviation


def test_the_run_costs_one_gaussian():
    multiplier = noise_multiplier_for(2.0, 1e-5, 1.0, 1)
    model, optimizer = of_a_model(noise_multiplier=multiplier)
    assert optimizer.epsilon() == 0.0 and optimizer.settings.steps == 12
    step(model, optimizer)
    assert 1.999 < optimizer.epsilon() <= 2.0
    for _ in range(11):
        step(model, optimizer)
    assert 1.999 < optimizer.epsilon() <= 2.0
    assert StepSchedule(noise_multiplier=multiplier, sampling_probability=1.0, noise=NOISE).epsilon(12, 1e-5) == optimizer.epsilon()
    with pytest.raises(hv.PrivacyBudgetExhaustedError, match="the schedule of 12 steps is used up"):
        step(model, optimizer)


def test_a_budget_is_charged_once_for_the_run():
    budget = PrivacyBudget(3.0, 1e-4)
    model, optimizer = of_a_model(budget=budget, noise_multiplier=noise_multiplier_for(2.0, 1e-5, 1.0, 1))
    step(model, optimizer)
    step(model, optimizer)
    assert budget.state().consumed_epsilon == pytest.approx(2.0)


def test_its_receipt_says_how_and_is_checked():
    model, optimizer = of_a_model()
    step(model, optimizer)
    receipt = optimizer.receipt()
    assert receipt.grade == "exact" and receipt.is_dp_claim and hv.verify_receipt(receipt).status == "holds"
    assert TrainingReceipt.from_json(receipt.to_json()) == receipt
    assert "at most 3 of them, 4 or more apart" in str(optimizer.guarantee())
    assert optimizer.guarantee().to_dict()["correlation"] == NOISE.to_dict() == json.loads(receipt.to_json())["correlation"]
    assert receipt.sigma >= 2.0 * NOISE.sensitivity
    forged = {**receipt.to_dict(), "sigma": receipt.sigma * 0.9}
    assert hv.verify_receipt(forged).status == "does not hold"
    forged = {**receipt.to_dict(), "correlation": {**NOISE.to_dict(), "min_separation": 3, "max_participations": 4}}
    assert hv.verify_receipt(forged).status == "does not hold"


def test_a_sensitivity_beyond_floats_is_refused_everywhere(tmp_path):
    growing = CorrelatedNoise(coefficients=(1.0, -1.0, -1.0), steps=5000, min_separation=10)
    with pytest.raises(ValueError, match="noise must have a finite sensitivity"):
        of_a_model(growing)
    model, optimizer = of_a_model()
    step(model, optimizer)
    forged = {**optimizer.receipt().to_dict(), "correlation": growing.to_dict(), "planned_steps": 5000}
    assert hv.verify_receipt(forged).status == "does not hold"
    (tmp_path / "receipt.json").write_text(json.dumps(forged))
    script = Path(__file__).parents[2] / "scripts/check_receipt.py"
    found = subprocess.run([sys.executable, script, tmp_path / "receipt.json"], capture_output=True, text=True)
    assert "does not hold" in found.stdout and "beyond every float" in found.stdout


def test_a_resumed_run_begins_its_noise_anew_and_keeps_the_account(tmp_path):
    model, optimizer = of_a_model(journal=tmp_path / "journal")
    for _ in range(5):
        step(model, optimizer)
    save_checkpoint(tmp_path / "checkpoint", optimizer, model)
    resumed_model, resumed = of_a_model(journal=tmp_path / "journal")
    load_checkpoint(tmp_path / "checkpoint", resumed, resumed_model)
    assert resumed.steps_taken == 5 and resumed.epsilon() == optimizer.epsilon() and len(resumed.accountant) == 1
    step(resumed_model, resumed)
    assert resumed.steps_taken == 6 and resumed.epsilon() == optimizer.epsilon()
    other, changed = of_a_model(CorrelatedNoise.bisr(bands=3, steps=12, min_separation=4))
    with pytest.raises(ValueError, match="noise must be"):
        load_checkpoint(tmp_path / "checkpoint", changed, other)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"noise": None}, TypeError, "sampling_probability must be given, or noise=CorrelatedNoise, got neither"),
        ({"sampling_probability": 0.5}, ValueError, "sampling_probability must be 1 with correlated noise, got 0.5"),
        ({"noise_multiplier": 0.0}, ValueError, "noise_multiplier must be > 0 with correlated noise"),
        ({"steps": 13}, ValueError, "steps must be those of the noise, 12, got 13"),
        ({"noise": (1.0, -0.5)}, TypeError, "noise must be a hushvec.training.CorrelatedNoise or None"),
    ],
)
def test_what_the_optimizer_refuses(options, error, message):
    with pytest.raises(error, match=re.escape(message)):
        of_a_model(**options)


def test_parameters_that_change_are_refused_before_a_charge():
    model, optimizer = of_a_model()
    step(model, optimizer)
    model.bias.requires_grad_(False)
    with pytest.raises(ValueError, match="parameters must keep their number and shapes, and be on the CPU or CUDA throughout"):
        step(model, optimizer)
    assert optimizer.steps_taken == 1


class TestCyclicSampler:
    def test_examples_keep_their_distance(self):
        sampler = CyclicSampler(103, 10, steps=35, seed=4)
        batches = list(sampler)
        assert len(batches) == len(sampler) == 35 and sampler.max_participations == 4
        for example in range(103):
            steps = [number for number, batch in enumerate(batches) if example in batch]
            assert np.diff(steps).tolist() == [10] * (len(steps) - 1) and 3 <= len(steps) <= 4
        assert {len(batch) for batch in batches} == {10, 11}

    def test_it_goes_on_where_a_run_stopped(self):
        assert list(CyclicSampler(50, 5, steps=20, seed=1, first_step=7)) == list(CyclicSampler(50, 5, steps=20, seed=1))[7:]
        assert list(CyclicSampler(50, 5, steps=20, seed=1)) != list(CyclicSampler(50, 5, steps=20, seed=2))

    @pytest.mark.parametrize(
        "changed",
        [{"size": 0}, {"min_separation": 51}, {"steps": 0}, {"first_step": 21}, {"seed": -1}],
    )
    def test_what_it_refuses(self, changed):
        options = {"size": 50, "min_separation": 5, "steps": 20, **changed}
        with pytest.raises(ValueError, match=f"{next(iter(changed))} must be"):
            CyclicSampler(options.pop("size"), options.pop("min_separation"), **options)

    def test_loader(self):
        data = torch.utils.data.TensorDataset(torch.arange(20.0)[:, None], torch.zeros(20))
        loader = cyclic_loader(data, 4, steps=8, first_step=1)
        assert [len(rows) for rows, _ in loader] == [5] * 7
        with pytest.raises(ValueError, match="shuffle must be left out"):
            cyclic_loader(data, 4, steps=8, shuffle=True)
