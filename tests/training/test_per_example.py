"""Gradients of single examples, and models that do not have them."""

import pytest
import torch

from hushvec.training import per_example_gradients, require_independent_examples
from hushvec.training.ranks import require_whole
from training.small_runs import examples_of, gradients_by_loop, loss, model_of


def rows_of(model):
    return [parameter.grad_sample for parameter in model.parameters()]


@pytest.mark.parametrize("how", [{}, {"chunk_size": 1}, {"chunk_size": 4}, {"vectorize": False}], ids=str)
def test_they_are_those_of_one_backward_pass_each(how):
    model, (rows, labels) = model_of(dtype=torch.float64), examples_of(9, dtype=torch.float64)
    losses = per_example_gradients(model, loss, rows, labels, **how)
    for found, expected in zip(rows_of(model), gradients_by_loop(model, rows, labels)):
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-14)
    expected = torch.nn.functional.cross_entropy(model(rows), labels, reduction="none")
    torch.testing.assert_close(losses, expected.detach(), rtol=1e-12, atol=1e-14)
    assert all(parameter.grad is None for parameter in model.parameters())


@pytest.mark.parametrize("how", [{"chunk_size": 1}, {"vectorize": False}], ids=str)
def test_one_at_a_time_a_gradient_has_no_bits_of_other_examples(how):
    model, (rows, labels) = model_of(), examples_of(33)
    per_example_gradients(model, loss, rows, labels, **how)
    together = rows_of(model)
    for parameter in model.parameters():
        parameter.grad_sample = None
    per_example_gradients(model, loss, rows[7:8], labels[7:8], **how)
    assert all(torch.equal(part[7], alone[0]) for part, alone in zip(together, rows_of(model)))


def test_a_forward_pass_that_looks_at_values_needs_a_pass_for_each_example():
    class Looks(torch.nn.Linear):
        def forward(self, rows):
            return super().forward(rows) if bool((rows > 0).all()) else -super().forward(rows)

    torch.manual_seed(0)
    model, rows = Looks(3, 1), torch.tensor([[1.0, 2.0, 3.0], [1.0, -2.0, 3.0]])
    with pytest.raises(RuntimeError, match="vmap"):
        per_example_gradients(model, lambda predict, row: predict(row).sum(), rows)
    per_example_gradients(model, lambda predict, row: predict(row).sum(), rows, vectorize=False)
    assert model.weight.grad_sample[:, 0].tolist() == [[1, 2, 3], [-1, 2, -3]]


@pytest.mark.parametrize("kind", [torch.nn.GRU, torch.nn.RNN])
def test_layers_that_vmap_cannot_compute_are_told_what_to_give(kind):
    model, rows = kind(4, 3, batch_first=True), torch.ones(2, 5, 4)

    def loss(predict, row):
        return predict(row)[0].sum()

    with pytest.raises(RuntimeError, match=r"torch.func.vmap cannot compute this forward pass .*: give vectorize=False; "):
        per_example_gradients(model, loss, rows)
    per_example_gradients(model, loss, rows, vectorize=False)
    assert torch.equal(model.weight_ih_l0.grad_sample[0], model.weight_ih_l0.grad_sample[1])


@pytest.mark.parametrize("vectorize", [True, False])
@pytest.mark.parametrize("shape", [(2,), (0,), (2, 2), (4, 1)])
def test_a_loss_that_is_no_number_is_called_that(shape, vectorize):
    def losses(predict, *example):
        return predict(example[0]).sum() * torch.ones(shape)

    with pytest.raises(ValueError, match=r"loss must return one number for its one example, got a tensor of shape \(.*\)$") as refused:
        per_example_gradients(model_of(), losses, *examples_of(4), vectorize=vectorize)
    assert str(shape) in str(refused.value)


@pytest.mark.parametrize("vectorize", [True, False])
def test_a_loss_of_one_example_may_have_its_dimension(vectorize):
    model = torch.nn.Linear(3, 1, bias=False)
    rows = torch.arange(6.0).reshape(2, 3)
    found = per_example_gradients(model, lambda predict, row: predict(row)[:, 0], rows, vectorize=vectorize)
    assert found.shape == (2,) and torch.equal(model.weight.grad_sample[:, 0], rows)


def test_errors_of_the_model_itself_are_raised_as_they_are():
    wrong = {
        "shapes cannot be multiplied": lambda predict, *example: predict(torch.ones(1, 77)).sum(),
        "my own": lambda predict, *example: (_ for _ in ()).throw(RuntimeError("my own")),
    }
    for words, one in wrong.items():
        with pytest.raises(RuntimeError, match=words) as raised:
            per_example_gradients(model_of(), one, *examples_of(4))
        assert "vmap" not in str(raised.value) and "GRU" not in str(raised.value)


def test_vectorize_and_chunk_size():
    with pytest.raises(ValueError, match="chunk_size must be None without vectorize, got 2"):
        per_example_gradients(model_of(), loss, *examples_of(4), chunk_size=2, vectorize=False)
    with pytest.raises(TypeError, match="vectorize must be True or False, got int"):
        per_example_gradients(model_of(), loss, *examples_of(4), vectorize=1)


def test_frozen_parameters_and_buffers_take_part_without_gradients():
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)).eval()
    model[0].requires_grad_(False)
    per_example_gradients(model, loss, *examples_of(5))
    assert not hasattr(model[0].weight, "grad_sample") and model[2].weight.grad_sample.shape == (5, 2, 4)


def test_an_unused_parameter_gets_zeros_and_a_shared_one_the_sum():
    class Shared(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.unused = torch.nn.Linear(3, 3, bias=False), torch.nn.Linear(2, 2)
            self.second = self.first

        def forward(self, rows):
            return self.second(self.first(rows))

    model, rows = Shared().double(), torch.randn(4, 3, dtype=torch.float64)
    per_example_gradients(model, lambda predict, row: predict(row).sum(), rows)
    assert not model.unused.weight.grad_sample.any()
    model(rows[1:2]).sum().backward()
    torch.testing.assert_close(model.first.weight.grad_sample[1], model.first.weight.grad)


def test_weights_tied_between_modules_are_one_parameter():
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.head = torch.nn.Embedding(7, 4), torch.nn.Linear(4, 7, bias=False)
            self.head.weight = self.words.weight

        def forward(self, ids):
            return self.head(self.words(ids))

    model, ids = Tied().double(), torch.tensor([[1, 2], [3, 3]])
    per_example_gradients(model, lambda predict, one: predict(one).logsumexp(-1).sum(), ids)
    model(ids[1:]).logsumexp(-1).sum().backward()
    torch.testing.assert_close(model.words.weight.grad_sample[1], model.words.weight.grad)
    assert model.head.weight is model.words.weight and isinstance(model.words.weight, torch.nn.Parameter)


def test_random_layers_draw_for_every_example():
    model = torch.nn.Sequential(torch.nn.Dropout(0.5), torch.nn.Linear(200, 1, bias=False))
    per_example_gradients(model, lambda predict, row: predict(row).sum(), torch.ones(2, 200))
    first, second = model[1].weight.grad_sample
    assert not torch.equal(first, second) and 0 < int((first == 0).sum()) < 200


def test_an_empty_batch_has_no_rows():
    model = model_of()
    losses = per_example_gradients(model, loss, *(part[:0] for part in examples_of(3)))
    assert losses.shape == (0,)
    assert [tuple(part.shape) for part in rows_of(model)] == [(0, *parameter.shape) for parameter in model.parameters()]


def test_mappings_pass_through():
    model = torch.nn.Linear(3, 1, bias=False)
    batch = {"rows": torch.ones(4, 3), "weights": torch.arange(4.0)}
    per_example_gradients(model, lambda predict, one: (predict(one["rows"]) * one["weights"]).sum(), batch)
    assert model.weight.grad_sample[:, 0, 0].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize("layer", [torch.nn.BatchNorm1d(4), torch.nn.BatchNorm1d(4, track_running_stats=False).eval()])
def test_layers_that_mix_examples_are_refused_by_name(layer):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), layer)
    with pytest.raises(ValueError, match="model must not mix examples: 1 is a BatchNorm1d"):
        per_example_gradients(model, loss, *examples_of(2))
    assert not hasattr(model[0].weight, "grad_sample")


class OwnBatchNorm(torch.nn.BatchNorm1d.__base__):
    """As some packages write it: of no public kind."""


KINDS = [torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm, torch.nn.LazyBatchNorm1d, OwnBatchNorm]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_batch_normalization_is_refused(kind):
    with pytest.raises(ValueError, match=f"model must not mix examples: the model is a {kind.__name__}"):
        require_independent_examples(kind() if "Lazy" in kind.__name__ else kind(4))


def test_a_flat_parameter_is_refused():
    from torch.distributed.fsdp import FlatParameter

    flat = torch.nn.Parameter(torch.ones(4))
    require_whole([("w", flat)])
    flat._is_flat_param = True
    assert isinstance(flat, FlatParameter)
    with pytest.raises(ValueError, match=r"parameters must be whole, got .* for w: "):
        require_whole([("w", flat)])


@pytest.mark.parametrize("layer", [torch.nn.BatchNorm1d(4).eval(), torch.nn.GroupNorm(2, 4), torch.nn.LayerNorm(4)])
def test_layers_that_do_not_have_the_gradients_of_one_example_each(layer):
    # In float64: two nearly equal numbers in a group of GroupNorm lose most digits of float32.
    model, (rows, labels) = torch.nn.Sequential(torch.nn.Linear(3, 4), layer).double(), examples_of(3)
    rows = rows.double()
    per_example_gradients(model, loss, rows, labels)
    for found, expected in zip(rows_of(model), gradients_by_loop(model, rows, labels)):
        torch.testing.assert_close(found, expected)


def test_refusals_leave_no_gradients():
    model, (rows, labels) = model_of(), examples_of(3)
    cases = [
        (TypeError, "model must be", lambda: per_example_gradients(loss, loss, rows)),
        (TypeError, "loss must be callable, got str", lambda: per_example_gradients(model, "loss", rows)),
        (TypeError, "batch must be of tensors", lambda: per_example_gradients(model, loss, "rows")),
        (ValueError, "batch must hold at least 1 tensor", lambda: per_example_gradients(model, loss)),
        (ValueError, "got 3 and 2", lambda: per_example_gradients(model, loss, rows, labels[:2])),
        (ValueError, "got a scalar", lambda: per_example_gradients(model, loss, rows, torch.tensor(1))),
        (ValueError, "chunk_size must be >= 1", lambda: per_example_gradients(model, loss, rows, labels, chunk_size=0)),
    ]
    for kind, text, call in cases:
        with pytest.raises(kind, match=text):
            call()
    assert not any(hasattr(parameter, "grad_sample") for parameter in model.parameters())
    per_example_gradients(model, loss, rows, labels)
    with pytest.raises(ValueError, match=r"grad_sample of '0.weight' must be taken by accumulate\(\) or step\(\) first"):
        per_example_gradients(model, loss, rows, labels)
    with pytest.raises(ValueError, match="model must have a parameter"):
        per_example_gradients(model_of().requires_grad_(False), loss, rows, labels)


@pytest.mark.parametrize("compiler", ["eager", "aot_eager"])
def test_a_compiled_model_has_the_gradients_of_its_own(compiler):
    rows, labels = examples_of(6)
    plain, model = model_of(), model_of()
    per_example_gradients(plain, loss, rows, labels)
    per_example_gradients(torch.compile(model, backend=compiler), loss, rows, labels)
    for one, other in zip(plain.parameters(), model.parameters()):
        torch.testing.assert_close(one.grad_sample, other.grad_sample)
