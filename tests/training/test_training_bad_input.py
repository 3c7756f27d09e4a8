"""One table of input that a step must refuse: one clear error, and parameters, optimizer state, account and sums as before."""

import math

import pytest
import torch

from hushvec.training import per_example_gradients
from training.small_runs import examples_of, loss, model_of, optimizer_of, same_state, state_of


def good(model, optimizer):
    per_example_gradients(model, loss, *examples_of(4))


def changed(name, change):
    """Good gradients with one parameter's replaced."""

    def leave(model, optimizer):
        good(model, optimizer)
        parameter = dict(model.named_parameters())[name]
        parameter.grad_sample = change(parameter.grad_sample)

    return leave


def with_value(value):
    def change(rows):
        rows = rows.clone()
        rows[2].view(-1)[0] = value
        return rows

    return change


def sums(**changed):
    """Sums of ghost clipping, with one parameter's fields changed."""

    def leave(model, optimizer):
        for parameter in model.parameters():
            parameter.clipped_sum = torch.zeros_like(parameter).detach()
            parameter.clipped_rows, parameter.clipped_norm = 4, 1.0
        for name, value in changed.items():
            setattr(model[2].bias, name, value)

    return leave


def both_kinds(model, optimizer):
    good(model, optimizer)
    sums()(model, optimizer)


def other_kind_after(model, optimizer):
    sums()(model, optimizer)
    optimizer.accumulate()
    good(model, optimizer)


def too_many(model, optimizer):
    for parameter in model.parameters():
        parameter.grad_sample = torch.zeros(1000, *parameter.shape)


CASES = {
    "nan": (changed("2.bias", with_value(math.nan)), ValueError, r"grad_sample of param_groups\[0\]\['params'\]\[3\] must be finite"),
    "inf": (changed("0.weight", with_value(math.inf)), ValueError, r"grad_sample of .*\[0\] must be finite, got .*inf.* in row 2"),
    "no gradients": (lambda model, optimizer: None, ValueError, r"step\(\) needs gradients of examples, got none"),
    "one without": (changed("2.bias", lambda rows: None), ValueError, r"grad_sample of .*\[3\] must be there, got None"),
    "rows differ": (changed("2.bias", lambda rows: rows[:3]), ValueError, r"must have 4 examples like .*\[0\], got 3"),
    "no examples axis": (changed("2.bias", lambda rows: rows[0]), ValueError, r"must have shape \(examples, 2\), got \(2,\)"),
    "wrong shape": (changed("0.weight", lambda rows: rows[:, :2]), ValueError, r"must have shape \(examples, 4, 3\), got \(4, 2, 3\)"),
    "integers": (changed("2.bias", lambda rows: rows.long()), TypeError, "must be float32 or float64 .*got int64"),
    "no tensor": (changed("2.bias", lambda rows: rows.numpy()), TypeError, "must be a tensor, got ndarray"),
    "two passes": (changed("0.weight", lambda rows: [rows, rows]), ValueError, "must be of one backward pass, got 2"),
    "too many rows": (too_many, ValueError, "1000"),
    "sum without": (sums(clipped_sum=None), ValueError, r"clipped_sum of .*\[3\] must be there, got None"),
    "sum nan": (sums(clipped_sum=torch.tensor([math.nan, 0.0])), ValueError, r"clipped_sum of .*\[3\] must be finite"),
    "sum shape": (sums(clipped_sum=torch.zeros(3)), ValueError, r"must have shape \(2,\), got \(3,\)"),
    "sum rows": (sums(clipped_rows=3), ValueError, r"clipped_rows of .*\[3\] must be 4 like that of .*, got 3"),
    "sum rows kind": (sums(clipped_rows=-1), ValueError, "clipped_rows of .* must be a whole number >= 0, got -1"),
    "sum norm": (sums(clipped_norm=2.0), ValueError, "must be of gradients clipped to clip_norm = 1.0, got 2.0"),
    "both kinds": (both_kinds, ValueError, "gradients must be of one kind, got both"),
    "another kind": (other_kind_after, ValueError, "gradients must be of one kind within a batch"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refused_step_changes_nothing(case):
    leave, kind, text = CASES[case]
    model = model_of()
    optimizer = optimizer_of(model, torch.optim.Adam(model.parameters()), expected_batch_size=8.0)
    good(model, optimizer)
    optimizer.step()
    leave(model, optimizer)
    before = state_of(optimizer, model)
    rows = None if optimizer._batch.sum is None else optimizer._batch.sum.rows
    begun = optimizer._batch.begun
    for call in (optimizer.step, optimizer.accumulate):
        with pytest.raises(kind, match=text if "needs" not in text else "needs gradients"):
            call()
        assert same_state(before, state_of(optimizer, model))
        assert optimizer._batch.sum is None or optimizer._batch.sum.rows == rows
        if begun:   # its parts are dropped, and no more of it is taken
            text = "the batch must be whole"
    optimizer.zero_grad()
    optimizer.discard()
    good(model, optimizer)
    optimizer.step()
    assert optimizer.steps_taken == 2


def spoil(model):
    for parameter in model.parameters():
        parameter.grad_sample = torch.full((1, *parameter.shape), math.nan)


def raising_closure():
    raise KeyboardInterrupt


def interrupted(*arguments, **named):
    raise KeyboardInterrupt


FAILURES = {
    "a bad part": lambda optimizer, model: (spoil(model), optimizer.accumulate()),
    "a bad last part": lambda optimizer, model: (spoil(model), optimizer.step()),
    "no last part, and a closure that raises": lambda optimizer, model: optimizer.step(raising_closure),
    "a charge": lambda optimizer, model: (setattr(optimizer._account, "charge_step", interrupted), optimizer.step()),
}


@pytest.mark.parametrize("case", FAILURES)
def test_no_part_of_a_failed_batch_is_counted_twice(case):
    """At zero noise and expected size 1 the gradient is the sum: who gives the batch again gets it once, and norms at most C each."""
    model = torch.nn.Sequential(torch.nn.Linear(1, 1, bias=True))
    optimizer = optimizer_of(model, noise_multiplier=0.0, expected_batch_size=1.0)

    def part():
        for parameter in model.parameters():
            parameter.grad_sample = torch.full((1, *parameter.shape), 5.0)

    part()
    optimizer.accumulate()
    charge_step = optimizer._account.charge_step
    with pytest.raises((ValueError, KeyboardInterrupt)):
        FAILURES[case](optimizer, model)
    optimizer._account.charge_step = charge_step
    assert optimizer.steps_taken == 0
    part()
    for call in (optimizer.accumulate, optimizer.step, optimizer.empty_batch):
        with pytest.raises(ValueError, match=r"parts were dropped|call discard\(\)|no gradients of examples, got some"):
            call()
    optimizer.discard()
    optimizer.accumulate()
    optimizer.step()
    norm = float(torch.stack([parameter.grad.norm() for parameter in model.parameters()]).norm())
    assert norm == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize("where", ["draw", "inner"])
def test_after_the_charge_the_batch_is_used_up(where, monkeypatch):
    """What fails between the charge and the end of the step leaves no gradients that a second step could release again."""
    model = model_of()
    optimizer = optimizer_of(model)
    good(model, optimizer)
    target = (optimizer._batch, "draw") if where == "draw" else (optimizer.optimizer, "step")
    with monkeypatch.context() as patch:
        patch.setattr(*target, interrupted)
        with pytest.raises(KeyboardInterrupt):
            optimizer.step()
    assert optimizer.steps_taken == 1 and not optimizer._batch.begun
    with pytest.raises(ValueError, match="needs gradients of examples, got none"):
        optimizer.step()
    good(model, optimizer)
    optimizer.step()
    assert optimizer.steps_taken == 2


def test_a_step_that_was_refused_can_be_taken_again():
    model = model_of()
    optimizer = optimizer_of(model)
    good(model, optimizer)
    charge_step, optimizer._account.charge_step = optimizer._account.charge_step, interrupted
    with pytest.raises(KeyboardInterrupt):
        optimizer.step()
    optimizer._account.charge_step = charge_step
    optimizer.step()
    assert optimizer.steps_taken == 1


ARGUMENTS = {
    "clip_norm": (0.0, ValueError, "clip_norm must be > 0"),
    "clip_norm above what units hold": (2.0**30, ValueError, r"clip_norm must be <= 2\^20 for gradients, got 1073741824\.0"),
    "noise_multiplier below the grid": (1e-12, ValueError, r"must have a common grid: clip_norm / sigma must be <= 2\^30"),
    "noise_multiplier above it": (1e300, ValueError, r"must have a common grid: sigma must be <= 2\^100"),
    "independent_batches": (None, TypeError, "independent_batches must be True or False"),
    "clip_norm kind": ("1", TypeError, "clip_norm must be a number"),
    "noise_multiplier": (-0.1, ValueError, "noise_multiplier must be >= 0"),
    "noise_multiplier nan": (math.nan, ValueError, "noise_multiplier must be finite"),
    "expected_batch_size": (0, ValueError, "expected_batch_size must be > 0"),
    "sampling_probability": (1.5, ValueError, "sampling_probability must be > 0 and <= 1"),
    "sampling_probability bool": (True, TypeError, "sampling_probability must be a number, got bool"),
    "adjacency": ("both", ValueError, "adjacency must be one of"),
    "clipping": ("none", ValueError, "clipping must be one of"),
    "accountant": ({}, TypeError, "accountant must be"),
    "generator": (torch.Generator(), TypeError, "generator must be a hushvec.Generator"),
    "delta": (1.0, ValueError, "delta must be > 0 and < 1"),
    "steps": (0, ValueError, "steps must be >= 1"),
    "allow_batch_level": (1, TypeError, "allow_batch_level must be True or False"),
}


@pytest.mark.parametrize("case", ARGUMENTS)
def test_arguments_are_checked(case):
    value, kind, text = ARGUMENTS[case]
    with pytest.raises(kind, match=text):
        optimizer_of(model_of(), **{case.split()[0]: value})


def test_parameters_must_not_change_within_a_batch():
    model = model_of()
    optimizer = optimizer_of(model)
    good(model, optimizer)
    optimizer.accumulate()
    model[0].requires_grad_(False)
    good(model, optimizer)
    with pytest.raises(ValueError, match="parameters must not change within a batch"):
        optimizer.step()
    with pytest.raises(ValueError, match=r"empty_batch\(\) must be called where there are no gradients"):
        optimizer.empty_batch()
    optimizer.discard()
    optimizer.accumulate()
    for call in (optimizer.state_dict, lambda: optimizer.add_param_group({})):
        with pytest.raises(ValueError, match="needs a batch to be finished"):
            call()
