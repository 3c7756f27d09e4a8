"""`DPOptimizer`: the step against Opacus and the textbook, virtual batches, sums of ghost clipping, batches, account and budget."""

import copy
import math
import re

import pytest
import torch
from scipy import stats

from hushvec._native import _core
from hushvec.accounting import Accountant, GaussianDP, PoissonSampledGaussianDP, PureDP
from hushvec.budget import PrivacyBudget
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.training import Account, Clipping, DPOptimizer, PoissonSampler, StepSchedule, per_example_gradients
from hushvec.training.guarantee import NOTE_BATCH, NOTE_BUDGET, NOTE_NOISE_FREE, NOTE_POISSON
from hushvec.training.schedule import PLACES
from training.small_runs import (
    clipped_sum,
    examples_of,
    gradients_by_loop,
    loss,
    model_of,
    optimizer_of,
    same_state,
    seeded,
    state_of,
    step_on,
)

ALPHA = 1e-6


def step(model, optimizer, rows, labels):
    per_example_gradients(model, loss, rows, labels)
    optimizer.step()


@pytest.mark.parametrize("inner", [torch.optim.SGD, torch.optim.AdamW, torch.optim.RMSprop])
def test_without_noise_it_trains_as_opacus_does(inner):
    """Opacus divides by norm + 1e-6 where this divides by norm: 2^-20 and 1e-6 apart in each of five steps."""
    from opacus.optimizers import DPOptimizer as Opacus

    models = [model_of(3), model_of(3)]
    ours = optimizer_of(models[0], inner(models[0].parameters(), lr=0.1), noise_multiplier=0.0, clip_norm=0.3)
    theirs = Opacus(
        inner(models[1].parameters(), lr=0.1), noise_multiplier=0.0, max_grad_norm=0.3, expected_batch_size=8
    )
    for number in range(5):
        rows, labels = examples_of(12, seed=number)
        for model, optimizer in zip(models, (ours, theirs)):
            step(model, optimizer, rows, labels)
            optimizer.zero_grad()
    for first, second in zip(models[0].parameters(), models[1].parameters()):
        torch.testing.assert_close(first, second, rtol=1e-4, atol=1e-5)


def test_the_gradient_is_the_clipped_sum_over_the_expected_size():
    model, (rows, labels) = model_of(), examples_of(20)
    expected = [part / 8 for part in clipped_sum(gradients_by_loop(model, rows, labels), 0.5)]
    optimizer = optimizer_of(model, noise_multiplier=0.0, clip_norm=0.5)
    step(model, optimizer, rows, labels)
    for parameter, gradient in zip(model.parameters(), expected):
        torch.testing.assert_close(parameter.grad.double(), gradient, rtol=1e-4, atol=1e-4)


def test_parts_of_a_batch_add_up_to_the_batch():
    model, (rows, labels) = model_of(), examples_of(20)
    whole, parts = copy.deepcopy(model), copy.deepcopy(model)
    step(whole, optimizer_of(whole, noise_multiplier=0.0), rows, labels)
    optimizer = optimizer_of(parts, noise_multiplier=0.0)
    for cut in (slice(0, 3), slice(3, 3), slice(3, 17), slice(17, 20)):
        optimizer.zero_grad()
        per_example_gradients(parts, loss, rows[cut], labels[cut])
        optimizer.accumulate()
    optimizer.step()
    assert optimizer.steps_taken == 1
    for first, second in zip(whole.parameters(), parts.parameters()):
        torch.testing.assert_close(first.grad, second.grad, rtol=1e-6, atol=1e-6)


def wide_model(size=60_000):
    model = torch.nn.Linear(size, 1, bias=False)
    torch.nn.init.zeros_(model.weight)
    return model


@pytest.mark.parametrize("how", ["empty_batch", "no rows", "sums"])
def test_the_noise_has_the_stated_deviation(how):
    """n = 60,000 coordinates, chi-square of the variance: the stated sigma passes, 5 % off and half (2 C for C) do not."""
    model = wide_model()
    optimizer = optimizer_of(model, clip_norm=0.5, noise_multiplier=1.4, expected_batch_size=10.0)
    if how == "empty_batch":
        optimizer.empty_batch()
    elif how == "no rows":
        model.weight.grad_sample = torch.zeros(0, 1, 60_000)
    else:
        model.weight.clipped_sum = torch.zeros(1, 60_000)
        model.weight.clipped_rows, model.weight.clipped_norm = 4, 0.5
    optimizer.step()
    noise, sigma, n = model.weight.grad.double().flatten() * 10, 1.4 * 0.5, 60_000

    def rejected(claimed):
        statistic = float((noise**2).sum()) / claimed**2
        return 2 * min(stats.chi2.cdf(statistic, n), stats.chi2.sf(statistic, n)) < ALPHA

    assert not rejected(sigma)
    assert rejected(sigma * 0.95) and rejected(sigma * 1.05) and rejected(sigma * 2) and rejected(sigma / 2)
    assert torch.equal(model.weight.detach(), -0.5 * model.weight.grad)


def test_gradients_are_taken_once():
    model, (rows, labels) = model_of(), examples_of(4)
    optimizer = optimizer_of(model)
    step(model, optimizer, rows, labels)
    assert all(parameter.grad_sample is None for parameter in model.parameters())
    with pytest.raises(ValueError, match=r"step\(\) needs gradients of examples, got none"):
        optimizer.step()
    assert optimizer.steps_taken == 1


def test_a_closure_runs_once_with_gradients_on():
    model, (rows, labels) = model_of(), examples_of(4)
    optimizer = optimizer_of(model)

    def closure():
        assert torch.is_grad_enabled()
        return per_example_gradients(model, loss, rows, labels).mean()

    assert optimizer.step(closure) > 0
    assert optimizer.steps_taken == 1


def test_schedulers_and_parameter_groups_reach_the_wrapped_optimizer():
    model = model_of()
    inner = torch.optim.SGD([{"params": model[0].parameters(), "lr": 1.0}, {"params": model[2].parameters()}], lr=0.5)
    optimizer = optimizer_of(model, inner)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.1)
    step(model, optimizer, *examples_of(4))
    scheduler.step()
    assert [group["lr"] for group in inner.param_groups] == [pytest.approx(0.1), pytest.approx(0.05)]
    assert optimizer.defaults is inner.defaults and optimizer.state is inner.state
    assert isinstance(optimizer, torch.optim.Optimizer)


def test_frozen_parameters_are_left_alone():
    model = model_of()
    model[0].requires_grad_(False)
    before = [parameter.clone() for parameter in model[0].parameters()]
    optimizer = optimizer_of(model)
    step(model, optimizer, *examples_of(4))
    assert all(torch.equal(first, second) for first, second in zip(before, model[0].parameters()))
    model[0].requires_grad_(True)
    step(model, optimizer, *examples_of(4))
    assert not torch.equal(before[0], model[0].weight)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_other_dtypes_get_gradients_of_their_own(dtype):
    model = model_of(dtype=dtype)
    for parameter in model.parameters():
        parameter.grad_sample = torch.ones(3, *parameter.shape, dtype=dtype)
    optimizer_of(model).step()
    assert {parameter.grad.dtype for parameter in model.parameters()} == {dtype}


class TestGhostSums:
    """Sums that a backward pass left: p.clipped_sum, p.clipped_rows, p.clipped_norm."""

    @staticmethod
    def leave(model, value=1.0, rows=3, norm=1.0):
        for parameter in model.parameters():
            parameter.clipped_sum = torch.full_like(parameter, value).detach()
            parameter.clipped_rows, parameter.clipped_norm = rows, norm

    def test_they_are_added_up_and_cleared(self):
        model = model_of()
        optimizer = optimizer_of(model, noise_multiplier=0.0)
        self.leave(model, 1.0)
        optimizer.accumulate()
        assert all(parameter.clipped_sum is None and parameter.clipped_rows == 0 for parameter in model.parameters())
        self.leave(model, 2.0)
        optimizer.step()
        assert all(bool((parameter.grad == 3.0 / 8).all()) for parameter in model.parameters())

    def test_the_grade_is_float_and_no_claim_is_made(self):
        model = model_of()
        optimizer = optimizer_of(model)
        step(model, optimizer, *examples_of(3))
        assert optimizer.guarantee().is_dp_claim and optimizer.guarantee().grade == "exact"
        self.leave(model)
        optimizer.step()
        guarantee = optimizer.guarantee()
        assert guarantee.grade == "float" and not guarantee.is_dp_claim and guarantee.epsilon > 0


class TestBatches:
    """The gradient of a batch clipped as a whole."""

    def test_it_is_refused_with_the_reason(self):
        with pytest.raises(ValueError, match="which one example can move by 2 clip_norm and not by clip_norm"):
            optimizer_of(model_of(), clipping="batch")

    def test_it_is_accounted_with_twice_the_clip_norm(self):
        model, (rows, labels) = model_of(), examples_of(16)
        optimizer = optimizer_of(model, clipping="batch", allow_batch_level=True, sampling_probability=0.1, noise_multiplier=8.0)
        assert rows[PoissonSampler(16, 0.1).sample()].ndim == 2   # read for the step
        loss(model, rows, labels).backward()
        optimizer.step()
        expected = PoissonSampledGaussianDP(noise_multiplier=4.0, sampling_probability=0.1)
        assert dict(optimizer.accountant) == {expected: 1}
        guarantee = optimizer.guarantee()
        assert guarantee.sensitivity == 2.0 and NOTE_BATCH in guarantee.notes
        assert guarantee.epsilon > optimizer_of(model, sampling_probability=0.1, noise_multiplier=8.0).schedule.epsilon(1, 1e-5)

    def test_the_batch_is_clipped_to_the_norm_and_not_divided(self):
        model, (rows, labels) = model_of(), examples_of(16)
        optimizer = optimizer_of(model, clipping="batch", allow_batch_level=True, noise_multiplier=0.0, clip_norm=0.01)
        loss(model, rows, labels).backward()
        before = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        optimizer.step()
        after = torch.cat([parameter.grad.flatten() for parameter in model.parameters()])
        torch.testing.assert_close(after, before * (0.01 / before.norm()), rtol=1e-3, atol=1e-5)

    def test_a_batch_has_no_parts(self):
        model = model_of()
        optimizer = optimizer_of(model, clipping="batch", allow_batch_level=True)
        loss(model, *examples_of(3)).backward()
        with pytest.raises(ValueError, match=r"accumulate\(\) needs examples to be clipped"):
            optimizer.accumulate()
        optimizer.zero_grad()
        with pytest.raises(ValueError, match=r"step\(\) needs a gradient of the batch, got none"):
            optimizer.step()
        optimizer.empty_batch()
        optimizer.step()
        assert optimizer.steps_taken == 1


class TestAccount:
    def test_every_step_is_one_loss(self):
        for adjacency, multiplier in (("add-remove", 4.0), ("replace-one", 2.0)):
            model = model_of()
            optimizer = optimizer_of(model, adjacency=adjacency, sampling_probability=0.1, noise_multiplier=4.0)
            for batch in PoissonSampler(50, 0.1, steps=3):
                step_on(optimizer, batch, examples_of(50)[0])
            loss_of_step = PoissonSampledGaussianDP(
                noise_multiplier=multiplier, sampling_probability=0.1, adjacency=adjacency
            )
            assert dict(optimizer.accountant) == {loss_of_step: 3}
            assert optimizer.epsilon() == optimizer.schedule.epsilon(3, 1e-5) == optimizer.guarantee().epsilon
            assert optimizer.epsilon(1e-3) < optimizer.epsilon()

    def test_whole_data_in_every_step_is_one_gaussian(self):
        model = model_of()
        optimizer = optimizer_of(model, sampling_probability=1.0)
        optimizer.empty_batch()
        optimizer.step()
        assert dict(optimizer.accountant) == {GaussianDP(noise_multiplier=1.0, adjacency="add-remove"): 1}
        assert NOTE_POISSON not in optimizer.guarantee().notes

    def test_other_releases_count_too(self):
        accountant = Accountant(adjacency="add-remove")
        accountant.add(PureDP(epsilon=0.5, adjacency="add-remove"))
        model = model_of()
        optimizer = optimizer_of(model, accountant=accountant)
        step(model, optimizer, *examples_of(4))
        assert optimizer.accountant is accountant and len(accountant) == 2
        assert optimizer.epsilon() > optimizer.schedule.epsilon(1, 1e-5)
        with pytest.raises(ValueError, match="adjacency must be that of the accountant, 'add-remove', got 'replace-one'"):
            optimizer_of(model_of(), accountant=accountant, adjacency="replace-one")

    def test_no_noise_is_no_privacy(self):
        model = model_of()
        optimizer = optimizer_of(model, noise_multiplier=0.0)
        assert optimizer.epsilon() == 0.0 and not optimizer.guarantee().is_dp_claim
        step(model, optimizer, *examples_of(4))
        guarantee = optimizer.guarantee()
        assert guarantee.epsilon == math.inf == optimizer.epsilon()
        assert NOTE_NOISE_FREE in guarantee.notes and optimizer.receipt()["epsilon"] is None

    def test_a_seed_is_no_claim(self):
        model = model_of()
        optimizer = optimizer_of(model, generator=seeded())
        step(model, optimizer, *examples_of(4))
        assert optimizer.guarantee().key_source == "seed" and not optimizer.guarantee().is_dp_claim

    def test_the_text_says_what_holds(self):
        model = model_of()
        optimizer = optimizer_of(model, steps=7)
        step(model, optimizer, *examples_of(4))
        text = optimizer.describe()
        assert "add-remove, after 1 of 7 steps" in text and "each example clipped to 1" in text

    def test_delta_has_to_come_from_somewhere(self):
        optimizer = optimizer_of(model_of(), delta=None)
        assert optimizer.epsilon(1e-5) == 0.0
        with pytest.raises(TypeError, match="delta must be given"):
            optimizer.epsilon()

    def test_the_schedule_ends(self):
        model = model_of()
        optimizer = optimizer_of(model, steps=1)
        step(model, optimizer, *examples_of(4))
        before = state_of(optimizer, model)
        per_example_gradients(model, loss, *examples_of(4))
        with pytest.raises(PrivacyBudgetExhaustedError, match="the schedule of 1 steps is used up"):
            optimizer.step()
        assert same_state(before, state_of(optimizer, model))
        assert all(parameter.grad_sample is not None for parameter in model.parameters())


class TestBudget:
    def test_the_whole_run_is_charged_once_before_the_first_step(self):
        model, budget = model_of(), PrivacyBudget(10.0, 1e-3)
        optimizer = optimizer_of(model, budget=budget, steps=5, sampling_probability=0.1, noise_multiplier=4.0)
        with pytest.raises(ValueError, match=r"step\(\) with a budget, .* must have one of its own, got gradients that"):
            step(model, optimizer, *examples_of(4))
        assert (budget.consumed(), budget.state().rows, optimizer.steps_taken) == (0.0, 1, 0)
        optimizer.zero_grad()
        for batch in PoissonSampler(50, 0.1, steps=5):
            step_on(optimizer, batch, examples_of(50)[0])
        assert budget.state().rows == 2
        schedule = StepSchedule(noise_multiplier=4.0, sampling_probability=0.1)
        assert budget.consumed() == schedule.as_stated.epsilon(5, 1e-5) == optimizer.receipt().epsilon
        assert optimizer.epsilon() == schedule.epsilon(5, 1e-5) < budget.consumed()
        assert budget.consumed_delta() == 1e-5
        guarantee = optimizer.guarantee()
        assert guarantee.charge["sequence"] == 2 and NOTE_BUDGET in guarantee.notes

    def test_a_budget_in_rho_is_charged_all_steps(self):
        model, budget = model_of(), PrivacyBudget(max_rho=10.0)
        optimizer = optimizer_of(model, budget=budget, steps=5)
        step(model, optimizer, *examples_of(4))
        assert budget.consumed() == pytest.approx(2.5)

    def test_what_does_not_fit_is_refused_and_changes_nothing(self):
        model, budget = model_of(), PrivacyBudget(0.5, 1e-3)
        optimizer = optimizer_of(model, budget=budget, steps=50)
        per_example_gradients(model, loss, *examples_of(4))
        gradients = [parameter.grad_sample.clone() for parameter in model.parameters()]
        before = state_of(optimizer, model)
        for _ in range(2):
            with pytest.raises(PrivacyBudgetExhaustedError):
                optimizer.step()
        assert same_state(before, state_of(optimizer, model)) and budget.consumed() == 0.0
        assert all(torch.equal(first, second.grad_sample) for first, second in zip(gradients, model.parameters()))

    def test_it_is_asked_before_noise_is_drawn(self):
        class Budget:
            asked = 0

            def consume(self, epsilon, delta):
                self.asked += 1
                raise RuntimeError("no")

        model, generator, budget = model_of(), seeded(), Budget()
        optimizer = optimizer_of(model, steps=2, generator=generator)
        account = optimizer._account
        account.budget, account.planned_cost = budget, (1.0, 1e-5, 1.0)   # what the constructor refuses for a seeded generator
        per_example_gradients(model, loss, *examples_of(4))
        with pytest.raises(RuntimeError, match="no"):
            optimizer.step()
        next_nonce = _core._state_words(generator._reserve())[4]
        assert budget.asked == 1 and next_nonce == 0
        assert optimizer.steps_taken == 0 and len(optimizer.accountant) == 0

    def test_what_cannot_be_charged_is_refused(self):
        budget = PrivacyBudget(10.0)
        with pytest.raises(ValueError, match="budget must be None with a seeded generator"):
            optimizer_of(model_of(), budget=budget, steps=5, generator=seeded())
        with pytest.raises(TypeError, match="steps and delta must be given with a budget"):
            optimizer_of(model_of(), budget=budget)
        with pytest.raises(TypeError, match="steps and delta must be given with a budget"):
            optimizer_of(model_of(), budget=budget, steps=5, delta=None)
        with pytest.raises(ValueError, match="noise_multiplier must be > 0 with a budget"):
            optimizer_of(model_of(), budget=budget, steps=5, noise_multiplier=0.0)
        with pytest.raises(TypeError, match=r"budget must have a method consume\(epsilon, delta\), got int"):
            optimizer_of(model_of(), budget=5, steps=5)


def test_it_cannot_be_copied():
    with pytest.raises(TypeError, match="a DPOptimizer cannot be copied or pickled"):
        copy.deepcopy(optimizer_of(model_of()))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"normalize": 0.1}, "normalize must be given as clipping=Clipping(normalize=...), got DPOptimizer(normalize=...)"),
        ({"budget": None}, "budget must be given as account=Account(budget=...), got DPOptimizer(budget=...)"),
        ({"clip": 1.0}, "DPOptimizer.__init__() got an unexpected keyword argument 'clip'"),
        ({"account": "mine"}, "account must be a hushvec.training.Account or None, got str"),
    ],
)
def test_an_argument_of_a_group_says_where_it_belongs(given, message):
    arguments = dict(clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=8, sampling_probability=0.1)
    with pytest.raises(TypeError, match=re.escape(message)):
        DPOptimizer(torch.optim.SGD(model_of().parameters(), lr=0.1), **arguments, **given)


def test_every_field_of_a_group_has_a_place():
    assert {*PLACES, "method"} == {*Account.__dataclass_fields__, *Clipping.__dataclass_fields__}


def test_it_wraps_an_ordinary_optimizer_that_needs_no_closure():
    model = model_of()
    arguments = dict(clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=8, sampling_probability=0.1)
    with pytest.raises(TypeError, match=r"optimizer must be a torch\.optim\.Optimizer, got list"):
        DPOptimizer([], **arguments)
    with pytest.raises(TypeError, match="got a DPOptimizer: noise would be added twice"):
        DPOptimizer(optimizer_of(model), **arguments)
    with pytest.raises(ValueError, match="optimizer must step without a closure, got LBFGS"):
        DPOptimizer(torch.optim.LBFGS(model.parameters()), **arguments)
    inner = torch.optim.SGD(model.requires_grad_(False).parameters(), lr=0.1)
    with pytest.raises(ValueError, match="optimizer must have a parameter that requires a gradient"):
        DPOptimizer(inner, **arguments)
