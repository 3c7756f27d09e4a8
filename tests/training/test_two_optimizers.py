"""Two releases of one batch: refused where an accountant, a budget, parameters or gradients show it."""

import copy
import multiprocessing
import pickle

import pytest
import torch

import hushvec as hv
from hushvec.accounting import Accountant, GaussianDP, PoissonSampledGaussianDP, compose
from hushvec.budget import PrivacyBudget
from hushvec.training import PoissonSampler, load_checkpoint, per_example_gradients, save_checkpoint
from hushvec.training.ghost import GhostClipping
from hushvec.training.guarantee import NOTE_OTHERS, NOTE_UNNAMED
from hushvec.training.samples import drawn
from training.small_runs import examples_of, loss, model_of, optimizer_of, step_on


def halves(model, **changed):
    return [optimizer_of(model, torch.optim.SGD(layer.parameters(), lr=0.1), **changed) for layer in (model[0], model[2])]


class Told:
    __slots__ = ("charges",)   # no weak references to it

    def __init__(self):
        self.charges = 0

    def consume(self, epsilon, delta):
        self.charges += 1


def empty_step(optimizer):
    optimizer.empty_batch()
    optimizer.step()


def test_an_accountant_is_of_one_optimizer():
    accountant = Accountant(adjacency="add-remove")
    with pytest.raises(ValueError, match=r"accountant must be of one optimizer.* pass independent_batches=True"):
        halves(model_of(), accountant=accountant)
    with pytest.raises(ValueError, match="accountant must be of one optimizer"):   # nor after the first has gone
        optimizer_of(model_of(), accountant=accountant)
    optimizer = optimizer_of(model_of(), accountant=accountant, independent_batches=True)
    empty_step(optimizer)
    assert NOTE_OTHERS in optimizer.guarantee().notes and len(accountant) == 1


@pytest.mark.parametrize("how", ["object", "own", "ledger"])
def test_a_budget_is_of_one_optimizer_with_steps_left(how, tmp_path):
    def opened():
        return PrivacyBudget(100.0, 1e-3, persist_key="run", store=tmp_path / "budget.sqlite")

    first = Told() if how == "own" else opened() if how == "ledger" else PrivacyBudget(100.0, 1e-3)
    second = opened() if how == "ledger" else first
    one, other = (optimizer_of(model_of(), budget=budget, steps=2) for budget in (first, second))
    empty_step(one)
    other.empty_batch()
    with pytest.raises(ValueError, match="budget must be of one optimizer"):
        other.step()
    assert other.steps_taken == 0 and (first.charges == 1 if how == "own" else second.state().rows == 2)
    empty_step(optimizer_of(model_of(), budget=second, steps=2, independent_batches=True))
    empty_step(one)   # the last of its steps: the next run of the budget is another training, with batches of its own
    empty_step(optimizer_of(model_of(), budget=second, steps=2, independent_batches=True))


def test_custom_budgets_may_charge_one_ledger():
    """They hide it; two runs that step in turn are refused where they sample."""
    ledger = PrivacyBudget(100.0, 1e-2)

    class Through:
        def consume(self, epsilon, delta):
            ledger.consume(epsilon, delta)

    def run(**changed):
        return optimizer_of(model_of(), budget=Through(), steps=2, sampling_probability=0.1, **changed)

    one, other = run(), run()
    batches = iter(PoissonSampler(50, 0.1, steps=2))
    step_on(one, batch := next(batches), ROWS)
    with pytest.raises(ValueError, match="budget must be of one optimizer, got one that pays, or may pay, for another"):
        step_on(other, batch, ROWS)
    assert len(ledger.export()["rows"]) == 2
    step_on(run(independent_batches=True), next(batches), ROWS)


def test_an_accountant_with_another_trainings_loss_is_not_taken():
    accountant = Accountant(adjacency="add-remove")
    accountant.add(PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.1), 5)
    with pytest.raises(ValueError, match=r"accountant must be of one optimizer.* pass independent_batches=True"):
        optimizer_of(model_of(), accountant=accountant, sampling_probability=0.1)
    optimizer_of(model_of(), accountant=accountant, sampling_probability=0.1, independent_batches=True)


ROWS = examples_of(50)[0]


def trained(*optimizers, sampler):
    for batch in sampler:
        for optimizer in optimizers:
            step_on(optimizer, batch, ROWS)
    return [optimizer.receipt().samples for optimizer in optimizers]


def sampled(**changed):
    return optimizer_of(model_of(), sampling_probability=0.1, **changed)


def test_a_receipt_names_the_samples_that_its_steps_may_rest_on():
    sampler = PoissonSampler(50, 0.1, steps=3)
    one, other = trained(sampled(), sampled(), sampler=sampler)
    assert one == other and one[0].last - one[0].first == 2 and one[0].process == drawn.process
    ((later,),) = trained(sampled(), sampler=sampler)
    assert (later.process, later.first, later.last) == (one[0].process, one[0].last + 1, one[0].last + 3)
    assert optimizer_of(model_of()).receipt().samples == ()
    waiting = sampled()
    trained(sampled(), sampler=sampler)   # drawn since the other one was made, which rests on none of them
    ((own,),) = trained(waiting, sampler=sampler)
    assert own.last - own.first == 2


def test_samples_are_not_known_where_they_were_not_seen():
    kept = list(PoissonSampler(50, 0.1, steps=3))
    ((own,),) = trained(sampled(), sampler=kept)
    assert (own.first, own.last) == (kept[0].number, kept[2].number)
    for batches in (
        [*kept, kept[1]],                                # one twice
        [list(batch) for batch in kept], [copy.copy(kept[0])], [pickle.loads(pickle.dumps(kept[0]))], [kept[0][:]],   # copies
        [[*kept[0], *kept[1]]],                          # two in one step
        PoissonSampler(50, 0.2, steps=1),                # of another probability
    ):
        assert trained(optimizer := sampled(), sampler=batches) == [None]
        assert (receipt := optimizer.receipt()).sampling_probability == 1.0 and NOTE_UNNAMED in receipt.notes
        alike = GaussianDP(noise_multiplier=1.0, adjacency="add-remove")
        assert receipt.epsilon == optimizer.epsilon() == compose([(alike, receipt.steps)], delta=1e-5).epsilon
        assert hv.verify_receipt(receipt).status == "not a DP claim"   # gradients of no model that was watched
    seeded = hv.Generator.unsafe_seeded(1)
    guessed = sampled()
    assert trained(guessed, sampler=PoissonSampler(50, 0.1, steps=3, generator=seeded)) == [None]
    assert (guessed.receipt().key_source, guessed.receipt().is_dp_claim) == ("seed", False)
    assert trained(sampled(), sampler=PoissonSampler(50, 0.1, steps=3)) != [None]


def test_samples_used_in_no_order_are_named_by_few_ranges():
    kept, optimizer = list(PoissonSampler(50, 0.1, steps=210)), sampled()
    (ranges,) = trained(optimizer, sampler=kept[::2])
    assert len(ranges) <= 100 and ranges[0].first == kept[0].number and ranges[-1].last == kept[208].number
    assert {batch.number for batch in kept[::2]} <= {number for one in ranges for number in range(one.first, one.last + 1)}


@pytest.mark.parametrize("lost", [0, 1])
def test_samples_come_along_with_a_checkpoint(tmp_path, lost):
    model = model_of()
    first = optimizer_of(model, sampling_probability=0.1, journal=tmp_path / "journal", model=model)
    (before,) = trained(first, sampler=PoissonSampler(50, 0.1, steps=2))
    save_checkpoint(tmp_path / "c", first, model)
    trained(first, sampler=PoissonSampler(50, 0.1, steps=lost or 1) if lost else ())
    again = model_of()
    second = optimizer_of(again, sampling_probability=0.1, journal=tmp_path / "journal", model=again)
    load_checkpoint(tmp_path / "c", second, again)
    (after,) = trained(second, sampler=PoissonSampler(50, 0.1, steps=3))
    if lost:   # nobody knows here what the lost step rested on
        assert after is None
    else:
        assert (after[0].process, after[0].first, after[0].last) == (before[0].process, before[0].first, before[0].first + 4)
    old = torch.load(tmp_path / "c", weights_only=True) if lost else None
    assert old is None or "samples" in str(old)


def test_a_fork_draws_samples_of_another_process():
    with multiprocessing.get_context("fork").Pool(1) as pool:
        process, number = pool.apply(named_draw)
    assert process != drawn.process and number == 1


def named_draw():
    list(PoissonSampler(5, 0.5, steps=1))
    return drawn.process, drawn.number


def test_parameters_are_stepped_by_one_optimizer(tmp_path):
    model = model_of()
    first, second = optimizer_of(model), optimizer_of(model)
    for optimizer in (first, second):
        per_example_gradients(model, loss, *examples_of(4))
        if optimizer is first:
            optimizer.step()
            continue
        with pytest.raises(ValueError, match="one that another DPOptimizer has stepped: its steps are not in this account"):
            optimizer.step()
    assert second.steps_taken == 0
    save_checkpoint(tmp_path / "c", first, model)
    load_checkpoint(tmp_path / "c", second, model)   # now they are: the account came with them
    second.step()
    assert second.steps_taken == 2


@pytest.mark.parametrize("source", ["rows", "sums"])
def test_gradients_of_one_batch_are_not_released_in_two_steps(source):
    """Not by two optimizers that each account for themselves, nor where the flag says what is not so."""
    model, (rows, labels) = model_of(), examples_of(4)
    accountant = Accountant(adjacency="add-remove")
    first, second = halves(model, accountant=accountant, independent_batches=True)
    ghost = GhostClipping(model, 1.0) if source == "sums" else None

    def leave():
        if ghost is None:
            per_example_gradients(model, loss, rows, labels)
        else:
            ghost.backward(torch.nn.functional.cross_entropy(model(rows), labels, reduction="none"))

    leave()
    first.step()
    with pytest.raises(ValueError, match="must be taken by one step of one optimizer, got some that another step has taken part of"):
        second.step()
    assert len(accountant) == 1
    second.zero_grad()
    for optimizer, other in ((second, first), (first, second), (second, first)):   # a batch for each, in turn
        leave()
        other.zero_grad()
        optimizer.step()
    assert len(accountant) == 4 and first.guarantee().is_dp_claim == (source == "rows")


def test_a_group_that_is_frozen_for_one_step_is_not_stepped_on_the_same_batch_later():
    model = model_of()
    optimizer = optimizer_of(model)
    per_example_gradients(model, loss, *examples_of(4))
    model[0].requires_grad_(False)
    optimizer.step()
    model[0].requires_grad_(True)
    model[2].requires_grad_(False)
    with pytest.raises(ValueError, match="needs gradients of examples, got none"):
        optimizer.step()


def test_other_optimizers_that_step_the_model_without_privacy_are_noticed():
    model = model_of()
    optimizer = optimizer_of(model, torch.optim.SGD(model[2].parameters(), lr=0.1), model=model)
    ordinary = torch.optim.SGD(model[0].parameters(), lr=0.1)
    loss(model, *examples_of(4)).backward()
    ordinary.step()
    optimizer.zero_grad()
    optimizer.empty_batch()
    with pytest.raises(ValueError, match=r"got another '0\.bias'"):
        optimizer.step()


def test_a_raw_gradient_on_a_frozen_parameter_moves_nothing():
    """Left by a backward pass before it was frozen, or on a group that came later."""
    model, later = model_of(), torch.nn.Linear(2, 2)
    loss(model, *examples_of(4)).backward()
    later(torch.ones(1, 2)).sum().backward()
    later.requires_grad_(False)
    optimizer = optimizer_of(model, model=torch.nn.ModuleList([model, later]))
    optimizer.add_param_group({"params": later.parameters()})
    model[0].requires_grad_(False)
    before = [parameter.clone() for parameter in (*model[0].parameters(), *later.parameters())]
    empty_step(optimizer)
    assert all(torch.equal(old, new) for old, new in zip(before, (*model[0].parameters(), *later.parameters())))
    assert all(parameter.grad is None for parameter in (*model[0].parameters(), *later.parameters()))


def test_a_grad_scaler_is_refused():
    """Its step would be skipped where a gradient overflows, silently, and its scale tells of it."""
    model = model_of()
    optimizer = optimizer_of(model)
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(loss(model, *examples_of(4))).backward()
    optimizer.empty_batch()
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="grad_scaler must be None, got a GradScaler"):
        scaler.step(optimizer)
    assert optimizer.steps_taken == 0
    torch.amp.GradScaler("cpu", enabled=False).step(optimizer, lambda: optimizer.empty_batch())
    assert optimizer.steps_taken == 1
