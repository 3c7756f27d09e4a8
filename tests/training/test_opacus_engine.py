"""`secure_opacus`: Opacus's training loop with exact clipping, noise and batches; what it refuses; the two accounts."""

import math

import pytest
import torch
from opacus import PrivacyEngine
from opacus.utils.batch_memory_manager import BatchMemoryManager
from scipy import stats

from hushvec.accounting import PoissonSampledGaussianDP, compose
from hushvec.training import PoissonSampler, opacus_accounting, secure_opacus
from hushvec.training.model_watch import ModelChangedError
from training.small_runs import clipped_sum, gradients_by_loop, seeded

ALPHA = 1e-6


def engine_of(**arguments):
    with pytest.warns(UserWarning, match="Secure RNG turned off"):
        return PrivacyEngine(**arguments)


def private(engine, *, noise_multiplier=1.0, batch_size=8, rows=64, width=3, **arguments):
    torch.manual_seed(0)
    model = torch.nn.Linear(width, 2)
    data = torch.utils.data.TensorDataset(torch.randn(rows, width), torch.arange(rows) % 2)
    return engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=batch_size),
        noise_multiplier=noise_multiplier,
        max_grad_norm=0.5,
        **arguments,
    )


def backward(model, rows, labels):
    torch.nn.functional.cross_entropy(model(rows), labels, reduction="mean").backward()


# Opacus's hooks are called with what torch warns of since 2.
pytestmark = [
    pytest.mark.filterwarnings("ignore:Full backward hook is firing"),
    pytest.mark.filterwarnings("ignore:Using a non-full backward hook"),
    pytest.mark.filterwarnings("ignore:Optimal order is the"),
]


def test_the_engine_trains_and_both_accounts_agree():
    engine = secure_opacus(engine_of(accountant="prv"))
    model, optimizer, loader = private(engine)
    steps = 0
    for _ in range(3):
        for rows, labels in loader:
            optimizer.zero_grad()
            backward(model, rows, labels)
            optimizer.step()
            steps += 1
    both = opacus_accounting(engine, 1e-5)
    assert both.steps == steps == 24 and both.opacus_accountant == "prv"
    expected = compose([(PoissonSampledGaussianDP(noise_multiplier=1.0, sampling_probability=0.125), 24)], delta=1e-5)
    assert both.epsilon == expected.epsilon and both.theorem == "pld"
    # Opacus says its PRV accountant errs by 0.01 at most.
    assert both.epsilon == pytest.approx(both.opacus_epsilon, abs=0.011)


def test_the_loader_makes_one_row_of_each_example():
    data = torch.utils.data.TensorDataset(torch.ones(8, 3), torch.zeros(8))
    twice = torch.utils.data.DataLoader(
        data, batch_size=4, collate_fn=lambda rows: [torch.cat([part, part]) for part in torch.utils.data.default_collate(rows)]
    )
    model = torch.nn.Linear(3, 1)
    with pytest.raises(ValueError, match="got 6 rows in part 0 of the batch for 3 examples"):
        secure_opacus(engine_of()).make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=twice,
            noise_multiplier=1.0,
            max_grad_norm=1.0,
        )


@pytest.mark.parametrize("mode", ["hooks", "functorch", "ew"])
def test_without_noise_the_gradient_is_the_clipped_sum(mode):
    engine = secure_opacus(engine_of())
    model, optimizer, _ = private(engine, noise_multiplier=0.0, grad_sample_mode=mode)
    rows, labels = torch.randn(11, 3), torch.arange(11) % 2
    optimizer.zero_grad()
    backward(model, rows, labels)
    optimizer.step()
    inner = model._module
    found = [parameter.grad for parameter in inner.parameters()]
    with torch.no_grad():
        for parameter in inner.parameters():
            parameter += 0.1 * parameter.grad   # the step of SGD undone
    clean = torch.nn.Sequential(torch.nn.Linear(3, 2))
    clean[0].load_state_dict(inner.state_dict())
    for gradient, expected in zip(found, clipped_sum(gradients_by_loop(clean, rows, labels), 0.5)):
        torch.testing.assert_close(gradient.double(), expected / 8, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["hooks", "ghost"])
def test_noise_is_the_core_s_and_of_the_stated_deviation(mode):
    """n = 40,002 coordinates of a batch of zeros, chi-square of the variance; 5 % off is rejected."""
    engine = secure_opacus(engine_of(), generator=seeded(3))
    made = private(engine, noise_multiplier=1.5, width=20_000, grad_sample_mode=mode)
    model, optimizer = made[0], made[1]
    for parameter in model._module.parameters():
        parameter.grad_sample = torch.zeros(4, *parameter.shape)
        parameter.grad = torch.zeros_like(parameter)
    torch.manual_seed(0)
    optimizer.step()
    noise = 8 * torch.cat([parameter.grad.double().flatten() for parameter in model._module.parameters()])
    sigma = 1.5 * 0.5

    def rejected(claimed):
        statistic = float((noise**2).sum()) / claimed**2
        return 2 * min(stats.chi2.cdf(statistic, len(noise)), stats.chi2.sf(statistic, len(noise))) < ALPHA

    assert not rejected(sigma) and rejected(0.95 * sigma) and rejected(1.05 * sigma)
    weights = model._module.weight.grad.flatten() * 8
    assert torch.equal(weights * 2**12, (weights * 2**12).round())   # on the public grid, which no floating-point noise is


def test_batches_come_from_the_sampler():
    engine = secure_opacus(engine_of(), generator=seeded(5))
    _, _, loader = private(engine)
    found = [len(rows) for rows, _ in loader]
    assert found == [len(batch) for batch in PoissonSampler(64, 1 / 8, steps=8, generator=seeded(5))]


def test_parts_of_a_batch_by_opacus_s_memory_manager():
    engine = secure_opacus(engine_of())
    model, optimizer, loader = private(engine, noise_multiplier=0.0)
    with BatchMemoryManager(data_loader=loader, max_physical_batch_size=3, optimizer=optimizer) as parts:
        for rows, labels in parts:
            assert len(rows) <= 3
            optimizer.zero_grad()
            backward(model, rows, labels)
            optimizer.step()
    assert len(engine.accountant.history) == 1 and engine.accountant.history[0][2] == 8


def test_a_second_backward_pass_is_refused():
    engine = secure_opacus(engine_of())
    model, optimizer, _ = private(engine)
    optimizer.zero_grad()
    rows, labels = torch.randn(4, 3), torch.zeros(4, dtype=torch.int64)
    backward(model, rows, labels)
    for parameter in model._module.parameters():
        parameter.grad_sample = [parameter.grad_sample, parameter.grad_sample.clone()]   # as Opacus keeps them
    with pytest.raises(ValueError, match="must be of one backward pass, got 2"):
        optimizer.step()
    optimizer.zero_grad()
    backward(model, rows, labels)
    optimizer.step()
    with pytest.raises(ValueError, match=r"grad_sample must be new: call zero_grad\(\)"):
        optimizer.step()
    assert engine.accountant.history == [(1.0, 0.125, 1)]


def test_noise_for_an_epsilon_is_solved_by_the_engine():
    engine = secure_opacus(engine_of(accountant="rdp"))
    model = torch.nn.Linear(3, 2)
    data = torch.utils.data.TensorDataset(torch.ones(64, 3), torch.zeros(64))
    _, optimizer, _ = engine.make_private_with_epsilon(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=8),
        target_epsilon=3.0,
        target_delta=1e-5,
        epochs=2,
        max_grad_norm=1.0,
    )
    steps = PoissonSampledGaussianDP(noise_multiplier=optimizer.noise_multiplier, sampling_probability=1 / 8)
    assert compose([(steps, 16)], delta=1e-5).epsilon <= 3.0
    assert type(optimizer).__name__ == "ExactOptimizer"


REFUSED = {
    "per layer": (dict(clipping="per_layer"), "clipping must be 'flat'"),
    "batches in order": (dict(poisson_sampling=False), "poisson_sampling must be True"),
    "other noise": (dict(noise_generator=torch.Generator()), "noise_generator must be None"),
    "other mode": (dict(grad_sample_mode="ghost_fsdp"), "grad_sample_mode|Unexpected"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_covered_is_refused(case):
    arguments, text = REFUSED[case]
    with pytest.raises(ValueError, match=text):
        private(secure_opacus(engine_of()), **arguments)


def test_what_is_no_engine_is_refused(monkeypatch):
    class Derived(PrivacyEngine):
        pass

    with pytest.raises(TypeError, match=r"privacy_engine must be an opacus.PrivacyEngine, got dict"):
        secure_opacus({})
    with pytest.warns(UserWarning, match="Secure RNG turned off"):
        derived = Derived()
    with pytest.raises(TypeError, match="got the derived Derived"):
        secure_opacus(derived)
    engine = engine_of()
    engine.secure_mode = True
    with pytest.raises(ValueError, match="without secure_mode"):
        secure_opacus(engine)
    with pytest.raises(TypeError, match="generator must be"):
        secure_opacus(engine_of(), generator=1)
    with pytest.raises(ValueError, match="must have stepped"):
        opacus_accounting(engine_of(), 1e-5)
    monkeypatch.setattr("hushvec.training.opacus_engine.version", lambda name: "2.0.1")
    with pytest.raises(ValueError, match=r"opacus must be of release 1.6, got 2.0.1"):
        secure_opacus(engine_of())


def with_table(engine, **arguments):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Embedding(50, 4, max_norm=0.5), torch.nn.Flatten(), torch.nn.Linear(4, 1))
    data = torch.utils.data.TensorDataset(torch.randint(0, 50, (40, 1)), torch.zeros(40, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = torch.utils.data.DataLoader(data, batch_size=8)
    return engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=1.0, max_grad_norm=0.5, **arguments
    )


@pytest.mark.parametrize("frozen", [False, True], ids=["trained", "frozen"])
def test_a_forward_pass_that_writes_is_refused(frozen, tmp_path):
    """Rows of tokens in the data are rescaled, without noise."""
    engine = secure_opacus(engine_of())
    model, optimizer, _ = with_table(engine)
    model._module[0].weight.requires_grad_(not frozen)
    optimizer.zero_grad()
    model(torch.tensor([[3], [4]])).sum().backward()
    with pytest.raises(ModelChangedError, match=r"got another '0\.weight'"):
        optimizer.step()
    assert engine.accountant.history == []
    with pytest.raises(ModelChangedError):
        engine.save_checkpoint(path=tmp_path / "c", module=model)
    with pytest.raises(ModelChangedError):
        opacus_accounting(engine, 1e-5)
    optimizer.accept_changes()
    optimizer.zero_grad()
    model._module[0].max_norm = None
    model(torch.tensor([[3], [4]])).sum().backward()
    optimizer.step()
    engine.save_checkpoint(path=tmp_path / "c", module=model)
    engine.load_checkpoint(path=tmp_path / "c", module=model)
    assert opacus_accounting(engine, 1e-5).steps == 1


@pytest.mark.filterwarnings("ignore:PrivacyEngine detected new dataset object")
def test_one_accountant_is_of_one_optimizer():
    first, second = secure_opacus(engine_of()), secure_opacus(engine_of())
    private(first)
    second.accountant = first.accountant
    for engine in (first, second):
        with pytest.raises(ValueError, match="accountant must be of one optimizer"):
            private(engine)
    private(secure_opacus(second, independent_batches=True))


def test_a_step_that_fails_drops_its_batch():
    engine = secure_opacus(engine_of())
    model, optimizer, _ = private(engine, noise_multiplier=0.0)

    def part():
        optimizer.zero_grad()
        model(torch.full((1, 3), 100.0)).sum().backward()

    part()
    optimizer.signal_skip_step(True)
    optimizer.step()
    part()
    model._module.bias.grad_sample = torch.full((1, 2), math.nan)
    with pytest.raises(ValueError, match="must be finite"):
        optimizer.step()
    part()
    optimizer.step()
    norm = float(torch.cat([parameter.grad.flatten() for parameter in model._module.parameters()]).norm())
    assert norm * 8 == pytest.approx(0.5, rel=1e-3)   # once max_grad_norm, not twice


def test_a_raw_gradient_and_a_grad_scaler_step_nothing():
    model, optimizer, _ = private(secure_opacus(engine_of()))
    rows, labels = torch.randn(4, 3), torch.zeros(4, dtype=torch.int64)
    backward(model, rows, labels)
    bias = model._module.bias
    before, bias.requires_grad = bias.detach().clone(), False
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    with pytest.warns(FutureWarning), pytest.raises(ValueError, match="grad_scaler must be None"):
        scaler.step(optimizer)
    optimizer.step()
    assert torch.equal(bias, before) and bias.grad is None
    model._module.requires_grad_(False)
    with pytest.raises(ValueError, match="optimizer must have a parameter that requires a gradient, got none"):
        optimizer.step()


def test_twice_is_once():
    engine = secure_opacus(secure_opacus(engine_of()))
    assert type(engine).__name__ == "ExactPrivacyEngine" and isinstance(engine, PrivacyEngine)
    assert math.isfinite(private(engine)[1].noise_multiplier)
