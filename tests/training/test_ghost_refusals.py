"""What ghost clipping refuses: layers it does not know, examples that are tied together, bad losses. Nothing changes when it does."""

import pytest

torch = pytest.importorskip("torch")
from hushvec.training import per_example_gradients  # noqa: E402
from hushvec.training.ghost import GhostClipping, GhostClippingError, next_token_losses  # noqa: E402
from training.ghost_models import gpt2, token_losses  # noqa: E402

F = torch.nn.functional


class Bypass(torch.nn.Module):
    """A layer whose weight is also used where no layer sees it, as DoRA and attention do."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, rows):
        return F.linear(self.layer(rows), self.layer.weight)


class BehindBack(torch.nn.Module):
    """A layer that is never passed."""

    def __init__(self):
        super().__init__()
        self.seen, self.layer = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)

    def forward(self, rows):
        return F.linear(self.seen(rows), self.layer.weight)


class Flat(torch.nn.Module):
    """Examples and positions in one axis."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, rows):
        return self.layer(rows.flatten(0, 1)).reshape(len(rows), -1)


class Swapped(torch.nn.Module):
    """Positions before examples, and as many of both."""

    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)

    def forward(self, rows):
        return self.layer(rows.transpose(0, 1)).transpose(0, 1).flatten(1)


def with_table(**settings):
    return torch.nn.Embedding(5, 2, **settings)


def tied():
    first, second = torch.nn.Linear(3, 3), torch.nn.Linear(3, 3)
    second.weight = first.weight
    return torch.nn.Sequential(first, second)


def frozen():
    layer = torch.nn.Linear(3, 3)
    return layer.requires_grad_(False)


MODELS = [
    (lambda: torch.nn.ConvTranspose1d(3, 3, 1), ValueError, "got weight of ConvTranspose1d"),
    (lambda: torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3)), ValueError, "1 is a BatchNorm1d that"),
    (lambda: torch.nn.MultiheadAttention(4, 2), ValueError, "got in_proj_weight of MultiheadAttention"),
    (lambda: torch.nn.LayerNorm((2, 3)), ValueError, "got weight of LayerNorm over several axes"),
    (lambda: with_table(sparse=True), ValueError, "got weight of Embedding with sparse"),
    (lambda: with_table(max_norm=1.0), ValueError, "got weight of Embedding with max_norm"),
    (lambda: with_table(scale_grad_by_freq=True), ValueError, "got weight of Embedding with scale_grad_by_freq"),
    (tied, ValueError, "a trainable parameter must belong to one layer, got 0.weight also as 1.weight"),
    (frozen, ValueError, "model must have a trainable parameter"),
    (lambda: [1], TypeError, "model must be a torch.nn.Module, got list"),
]


@pytest.mark.parametrize("made, error, said", MODELS, ids=[said for _, _, said in MODELS])
def test_models(made, error, said):
    with pytest.raises(error) as caught:
        GhostClipping(made(), 1.0)
    assert said in str(caught.value)


@pytest.mark.parametrize("clip_norm", [0.0, -1.0, float("nan"), float("inf"), True, "1"])
def test_clip_norms(clip_norm):
    with pytest.raises((ValueError, TypeError), match="clip_norm"):
        GhostClipping(torch.nn.Linear(2, 2), clip_norm)


def batch_norm(rows):
    return (rows - rows.mean(0)) / (rows.std(0) + 1)


TIED = [
    (torch.nn.Linear(3, 3), lambda model, rows: batch_norm(model(rows)).square().sum(1), "must depend on its own row only"),
    (torch.nn.Linear(3, 3), lambda model, rows: model(rows).square().mean().expand(4) + 0, "must depend on its own row only"),
    (Bypass(), lambda model, rows: model(rows).square().sum(1), "parameter layer.weight must be used by its own layer's forward"),
    (BehindBack(), lambda model, rows: model(rows).square().sum(1), "parameter layer.weight must be used by its own layer's forward"),
]


@pytest.mark.parametrize("model, losses, said", TIED, ids=["batch norm by hand", "mean loss", "bypassed", "never passed"])
def test_examples_that_are_tied_together(model, losses, said):
    torch.manual_seed(0)
    with GhostClipping(model, 1.0) as ghost, pytest.raises(GhostClippingError) as caught:
        ghost.backward(losses(model, torch.randn(4, 3)))
    assert said in str(caught.value)
    assert all(not hasattr(one, "clipped_sum") and one.grad is None for one in model.parameters())


@pytest.mark.parametrize("model", [Bypass(), BehindBack()], ids=["bypassed", "never passed"])
def test_a_batch_in_parts_of_one_example_is_checked_too(model):
    with GhostClipping(model, 1.0) as ghost, pytest.raises(GhostClippingError) as caught:
        ghost.backward(model(torch.randn(1, 3)).square().sum(1))
    assert "parameter layer.weight must be used by its own layer's forward" in str(caught.value)
    assert all(not hasattr(one, "clipped_sum") for one in model.parameters())


def test_after_a_part_of_one_example_the_first_of_several_shows_whether_rows_mix():
    layer = torch.nn.Linear(3, 3)
    with GhostClipping(layer, 1.0) as ghost:
        ghost.backward(layer(torch.randn(1, 3)).square().sum(1))
        with pytest.raises(GhostClippingError, match="must depend on its own row only"):
            ghost.backward(batch_norm(layer(torch.randn(4, 3))).square().sum(1))


def mean_over_tokens(model, ids, mask):
    """Losses as the transformers Trainer makes them: summed over valid tokens, divided by those of the whole batch."""
    return (model(ids).square().sum(2) * mask).sum(1) / mask.sum()


def mean_over_own_tokens(model, ids, mask):
    return (model(ids).square().sum(2) * mask).sum(1) / mask.sum(1).clamp_min(1)


def test_losses_divided_by_a_number_of_the_batch():
    """The check of the first batch cannot see it: no loss depends on other rows. Halves of the batch show it."""
    torch.manual_seed(0)
    layer, rows = torch.nn.Linear(3, 3), torch.randn(4, 5, 3)
    mask = (torch.arange(5) < torch.tensor([[1], [5], [2], [4]])).float()
    with GhostClipping(layer, 1.0) as ghost:
        ghost.backward(mean_over_tokens(layer, rows, mask))
        ghost.require_own_losses(lambda *batch: mean_over_own_tokens(layer, *batch), rows, mask)
        with pytest.raises(GhostClippingError, match="the loss of an example must not depend on the rest of the batch, got"):
            ghost.require_own_losses(lambda *batch: mean_over_tokens(layer, *batch), rows, mask)
        with pytest.raises(ValueError, match="batch must have at least 2 examples, got 1"):
            ghost.require_own_losses(lambda *batch: mean_over_own_tokens(layer, *batch), rows[:1], mask[:1])
        with pytest.raises(ValueError, match=r"losses must be a tensor \[4\], one loss for each example, got \[\]"):
            ghost.require_own_losses(lambda *batch: mean_over_tokens(layer, *batch).sum(), rows, mask)
    assert layer.training


def test_a_divisor_that_a_model_is_given():
    """`num_items_in_batch`, which transformers' Trainer passes to the model."""

    class Divided(torch.nn.Linear):
        def forward(self, rows, num_items_in_batch=None):
            return super().forward(rows) / (num_items_in_batch or 1)

    model = Divided(3, 2)
    wrapped = torch.nn.Sequential(torch.nn.Linear(3, 2))
    wrapped.forward = lambda rows, num_items_in_batch=None: wrapped[0](rows) / (num_items_in_batch or 1)
    with GhostClipping(wrapped, 1.0), pytest.raises(GhostClippingError, match="num_items_in_batch must be left out"):
        wrapped(torch.ones(2, 3), num_items_in_batch=7)
    wrapped(torch.ones(2, 3), num_items_in_batch=7)   # the hook is gone
    with pytest.raises(ValueError, match="num_items_in_batch must be left out"):
        per_example_gradients(model, lambda predict, rows: predict(rows, num_items_in_batch=7).sum(), torch.ones(2, 3))


def test_without_the_check_they_pass():
    """The check is what catches them."""
    model = BehindBack()
    with GhostClipping(model, 1.0, check=False) as ghost:
        ghost.backward(model(torch.randn(4, 3)).square().sum(1))
    assert model.layer.weight.clipped_sum.count_nonzero() == 0


def test_axes_other_than_the_batch():
    rows = torch.randn(3, 3, 3)
    flat, swapped = Flat(), Swapped()
    with GhostClipping(flat, 1.0) as ghost, pytest.raises(ValueError, match=r"input of layer must be the batch of 3 .*\[9, 3\]"):
        ghost.backward(flat(rows).square().sum(1))
    with GhostClipping(swapped, 1.0) as ghost, pytest.raises(GhostClippingError, match=r"own row only, got .* in layer"):
        ghost.backward(swapped(rows).square().sum(1))


def test_places_without_a_batch_axis():
    """What transformers makes of position_ids that are not given."""
    model = gpt2(layers=1, tie_word_embeddings=False)
    ids = torch.ones(4, 3, dtype=torch.int64)
    with GhostClipping(model, 1.0) as ghost:
        with pytest.raises(ValueError, match=r"first axis of the input of transformer.wpe must be the batch of 4 .*\[1, 3\]"):
            ghost.backward(next_token_losses(model(ids).logits, ids))
        ghost.backward(token_losses(model, ids))


LOSSES = [
    (lambda losses: losses.sum(), ValueError, r"losses must be a tensor \[B\].*got \[\]"),
    (lambda losses: losses[:0], ValueError, r"one loss for each of B >= 1 examples, got \[0\]"),
    (lambda losses: losses[:, None], ValueError, r"got \[4, 1\]"),
    (lambda losses: losses.detach(), ValueError, "got a tensor that needs none"),
    (lambda losses: losses.tolist(), TypeError, "losses must be a tensor, got list"),
    (lambda losses: losses * torch.tensor([1, 1, float("nan"), 1]), ValueError, "losses must be finite, got nan for example 2"),
    (lambda losses: losses[:3], ValueError, "must be the batch of 3 examples"),
    (lambda losses: (losses - losses.detach()).sqrt() + 0 * losses, ValueError, "got NaN or Inf in that of example 0"),
]


@pytest.mark.parametrize("change, error, said", LOSSES)
def test_losses(change, error, said):
    layer = torch.nn.Linear(3, 2)
    rows = torch.ones(4, 3)
    with GhostClipping(layer, 1.0, check=False) as ghost:
        ghost.backward(layer(rows).square().sum(1))
        before = layer.weight.clipped_sum.clone()
        with pytest.raises(error, match=said):
            ghost.backward(change(layer(rows).square().sum(1)))
        assert torch.equal(layer.weight.clipped_sum, before) and layer.weight.clipped_rows == 4
        ghost.backward(layer(rows).square().sum(1))
    assert layer.weight.clipped_rows == 8


def test_losses_of_another_model():
    layer, other = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
    with GhostClipping(layer, 1.0) as ghost, pytest.raises(GhostClippingError, match="from a forward pass through the model"):
        ghost.backward(other(torch.ones(4, 3)).sum(1))


def test_parameters_that_come_and_go():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Linear(3, 1))
    with GhostClipping(model, 1.0) as ghost:
        model[1].bias.requires_grad_(False)
        with pytest.raises(ValueError, match=r"must stay those .* got another state of 1.bias"):
            ghost.backward(model(torch.ones(2, 3)).sum(1))


def test_an_input_that_is_overwritten():
    layer = torch.nn.Linear(3, 2)
    rows = torch.ones(2, 3)
    with GhostClipping(layer, 1.0, check=False) as ghost:
        losses = layer(rows).sum(1)
        rows.zero_()
        with pytest.raises((ValueError, RuntimeError), match=r"in ?place"):
            ghost.backward(losses)


def test_a_pass_that_nobody_asked_about_is_forgotten():
    layer = torch.nn.Linear(3, 2)
    rows = torch.ones(2, 3)
    with GhostClipping(layer, 100.0) as ghost:
        layer(rows * 7)
        with torch.no_grad():
            layer(rows)
        ghost.backward(layer(rows).sum(1))
    assert layer.weight.clipped_sum.tolist() == [[2.0] * 3] * 2
    layer(rows).sum().backward()  # the hooks are gone, and the model is as it was
    assert ghost._recorder.take() == []
