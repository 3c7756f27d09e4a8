"""Losses times a public constant, as float16 needs: the same bits, and an example that overflows counts as zero."""

import pytest
import torch
from scipy import stats

from hushvec.training import GhostClipping, load_checkpoint, per_example_gradients, save_checkpoint
from training.small_runs import examples_of, loss, model_of, optimizer_of, seeded

SCALE = 2.0**12


def scaled_loss(*arguments):
    return SCALE * loss(*arguments)


def state(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def stepped(rows, labels, *, scale, dtype=torch.float32, **options):
    model = model_of().to(dtype)
    optimizer = optimizer_of(model, generator=seeded(), loss_scale=scale, **options)
    per_example_gradients(model, scaled_loss if scale > 1 else loss, rows.to(dtype), labels)
    optimizer.step()
    return model, optimizer


@pytest.mark.parametrize("options", [{}, {"noise_multiplier": 0.0}, {"clip_norm": 0.3}])
def test_a_power_of_two_changes_no_bit(options):
    rows, labels = examples_of(20)
    scaled, plain = (stepped(rows, labels, scale=scale, **options)[0] for scale in (SCALE, 1.0))
    assert all(torch.equal(one, other) for one, other in zip(state(scaled), state(plain)))


def test_an_example_that_overflows_counts_as_zero():
    rows, labels = examples_of(12)
    wild = torch.cat([rows, torch.full((1, rows.shape[1]), float("inf"))])
    model, optimizer = stepped(wild, torch.cat([labels, labels[:1]]), scale=SCALE, dtype=torch.float16)
    without, other = stepped(rows, labels, scale=SCALE, dtype=torch.float16)
    assert (optimizer.overflowed, other.overflowed) == (1, 0)
    assert all(torch.equal(one, two) for one, two in zip(state(model), state(without)))
    with pytest.raises(ValueError, match="must be finite"):
        stepped(wild, torch.cat([labels, labels[:1]]), scale=1.0, dtype=torch.float16)


def test_a_parameter_without_dimensions_is_taken():
    parameter = torch.nn.Parameter(torch.zeros(()))
    optimizer = optimizer_of(torch.nn.ParameterList([parameter]), loss_scale=SCALE)
    parameter.grad_sample = torch.tensor([1.0, float("inf")])
    optimizer.step()
    assert optimizer.overflowed == 1 and bool(parameter.isfinite())


def test_a_batch_of_overflows_alone_is_noise():
    """Kolmogorov-Smirnov of the steps of 600 parameters against N(0, (sigma lr / 8)^2), alpha = 1e-6; twice the noise is rejected."""
    parameter = torch.nn.Parameter(torch.zeros(600))
    optimizer = optimizer_of(torch.nn.ParameterList([parameter]), loss_scale=SCALE)
    parameter.grad_sample = torch.full((3, 600), float("nan"))
    optimizer.step()
    assert optimizer.overflowed == 3
    deviation = optimizer.sigma * optimizer.param_groups[0]["lr"] / 8
    drawn = parameter.detach().numpy() / deviation
    assert stats.kstest(drawn, "norm").pvalue > 1e-6 > stats.kstest(drawn * 2, "norm").pvalue


def releases_of(canary, *, skips):
    """Steps of 400 runs, as everyone sees them; with `skips` none is taken where a gradient overflowed, as a GradScaler does it."""
    found = []
    for _ in range(400):
        parameter = torch.nn.Parameter(torch.zeros(1))
        optimizer = optimizer_of(torch.nn.ParameterList([parameter]), loss_scale=SCALE)
        parameter.grad_sample = torch.tensor([[0.0], *canary])
        if not (skips and not bool(parameter.grad_sample.isfinite().all())):
            optimizer.step()
        found.append(float(parameter.detach()))
    return found


def test_nobody_sees_whether_an_example_overflowed_and_a_skipped_step_shows_it():
    """Kolmogorov-Smirnov of 400 runs with the canary and 400 without, alpha = 1e-6; the mutant that skips the step is rejected."""
    without = releases_of([], skips=True)
    assert stats.ks_2samp(without, releases_of([[float("inf")]], skips=False)).pvalue > 1e-6
    assert stats.ks_2samp(without, releases_of([[float("inf")]], skips=True)).pvalue < 1e-6


def test_ghost_clipping_takes_the_scaled_clip_norm():
    rows, labels = examples_of(20)
    model = model_of()
    optimizer = optimizer_of(model, noise_multiplier=0.0, clip_norm=0.3, loss_scale=SCALE)
    with GhostClipping(model, 0.3 * SCALE) as ghost:
        ghost.backward(SCALE * torch.nn.functional.cross_entropy(model(rows), labels, reduction="none"))
    optimizer.step()
    plain = stepped(rows, labels, scale=1.0, noise_multiplier=0.0, clip_norm=0.3)[0]
    for one, other in zip(state(model), state(plain)):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


def test_it_is_a_setting_of_the_run(tmp_path):
    model, optimizer = stepped(*examples_of(8), scale=SCALE)
    save_checkpoint(tmp_path / "checkpoint", optimizer, model)
    with pytest.raises(ValueError, match=r"loss_scale must be 4096\.0 as in the checkpoint, got 1\.0"):
        load_checkpoint(tmp_path / "checkpoint", optimizer_of(model_of()), model_of())


@pytest.mark.parametrize("scale", [0.0, 0.5, 3.0, 2.0**25, float("nan")])
def test_what_it_refuses(scale):
    with pytest.raises(ValueError, match="loss_scale must be"):
        optimizer_of(model_of(), loss_scale=scale)
