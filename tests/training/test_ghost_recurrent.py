"""Recurrent layers under ghost clipping, beside per-example gradients from torch's own kernels."""

import itertools

import pytest

torch = pytest.importorskip("torch")
from hushvec.training import per_example_gradients  # noqa: E402
from hushvec.training.ghost import GhostClipping, GhostClippingError  # noqa: E402
from training.ghost_models import clipped_sum, norm_of  # noqa: E402

nn = torch.nn
KINDS = [nn.LSTM, nn.GRU, nn.RNN]


class Reader(nn.Module):
    """Its answer depends on all that the layer returns: every step, the last states, and a second pass that goes on from them."""

    def __init__(self, kind, twice=False, **settings):
        super().__init__()
        self.layer = kind(5, 4, batch_first=True, **settings)
        self.out = nn.Linear(4 * (2 if self.layer.bidirectional else 1), 3)
        self.twice = twice

    def forward(self, rows):
        seen, last = self.layer(rows)
        if self.twice:
            seen, last = self.layer(rows.flip(1)[:, 1:], last)
        states = last if isinstance(last, tuple) else (last,)
        return self.out(seen.tanh().mean(1)).sum(1) + sum((state.square() * 0.3).sum((0, 2)) for state in states)


def batch(examples=7, positions=6):
    rows = torch.randn(examples, positions, 5, dtype=torch.float64)
    return rows * torch.linspace(0.1, 2, examples, dtype=torch.float64)[:, None, None]


SETTINGS = [{}, {"num_layers": 3}, {"bias": False}, {"num_layers": 2, "bidirectional": True}, {"twice": True}]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_sums_and_norms(kind, settings):
    """The layer's own kernels make the per-example gradients, before ghost clipping replaces its forward pass."""
    torch.manual_seed(0)
    model, rows = Reader(kind, **settings).double(), batch()
    per_example_gradients(model, lambda predict, row: predict(row).square()[0], rows, vectorize=False)
    examples = [{name: one.grad_sample[row] for name, one in model.named_parameters()} for row in range(len(rows))]
    for one in model.parameters():
        one.grad_sample = None
    norms = [norm_of(gradients) for gradients in examples]
    clip_norm = sorted(norms)[3]
    with GhostClipping(model, clip_norm) as ghost:
        ghost.backward(model(rows).square())
    assert ghost.last_norms.tolist() == pytest.approx(norms, rel=1e-9)
    assert min(norms) < clip_norm < max(norms), "a batch that is clipped in part"
    for name, wanted in clipped_sum(examples, clip_norm).items():
        found = ghost.parameters[name].clipped_sum
        assert torch.allclose(found, wanted, rtol=1e-6, atol=1e-6 * float(wanted.abs().max())), name


@pytest.mark.parametrize("nonlinearity", ["tanh", "relu"])
def test_both_nonlinearities(nonlinearity):
    torch.manual_seed(1)
    model, rows = Reader(nn.RNN, nonlinearity=nonlinearity).double(), batch()
    wanted = model(rows)
    with GhostClipping(model, 1.0):
        assert torch.allclose(model(rows), wanted, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_the_layer_returns_what_it_did(kind):
    """Shapes and values, of steps and states, with states of one's own; and torch's own forward pass is back afterwards."""
    torch.manual_seed(2)
    layer, rows = kind(5, 4, 2, batch_first=True, bidirectional=True).double(), batch()
    state = torch.randn(4, 7, 4, dtype=torch.float64)
    begin = (state, state + 1) if kind is nn.LSTM else state
    wanted = layer(rows, begin)
    with GhostClipping(layer, 1.0):
        found = layer(rows, hx=begin)
        with torch.no_grad():
            unseen = layer(rows, begin)
    for ours, theirs, fused in zip(*(flat(answer) for answer in (found, wanted, unseen))):
        assert ours.shape == theirs.shape and torch.allclose(ours, theirs, rtol=1e-12)
        assert torch.equal(fused, theirs), "without gradients nothing is noted"
    assert "forward" not in vars(layer)
    assert torch.equal(layer(rows, begin)[0], wanted[0])


def flat(answer):
    seen, last = answer
    return [seen, *(last if isinstance(last, tuple) else (last,))]


@pytest.mark.parametrize("trained", list(itertools.combinations(["weight_ih_l0", "weight_hh_l0", "bias_hh_l0"], 2)))
def test_some_of_the_parameters(trained):
    """Also where nothing that is computed before the steps needs a gradient."""
    torch.manual_seed(3)
    layer, rows = nn.GRU(5, 4, batch_first=True).double(), batch()
    for name, one in layer.named_parameters():
        one.requires_grad_(name in trained)
    with GhostClipping(layer, 1e6) as ghost:
        ghost.backward(layer(rows)[0].square().sum((1, 2)))
    wanted = torch.autograd.grad(layer(rows)[0].square().sum(), [one for one in layer.parameters() if one.requires_grad])
    assert sorted(ghost.parameters) == sorted(trained)
    for one, gradient in zip(ghost.parameters.values(), wanted):
        assert torch.allclose(one.clipped_sum, gradient, rtol=1e-9)


def test_dropout_between_layers_drops():
    torch.manual_seed(4)
    layer, rows = nn.LSTM(5, 4, 2, batch_first=True, dropout=0.5).double(), batch()
    with GhostClipping(layer, 1.0) as ghost:
        first, second = layer(rows)[0], layer(rows)[0]
        assert not torch.allclose(first, second) and bool((first != 0).all()), "between, not after"
        layer.eval()
        assert torch.equal(layer(rows)[0], layer(rows)[0])
        layer.train()
        ghost._recorder.take()
        ghost.backward(layer(rows)[0].square().sum((1, 2)))  # and what was drawn is what is clipped: the first batch is checked
    assert bool((ghost.last_norms > 0).all())


def test_recomputed_steps_are_no_new_passes():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(5)
    layer, rows = nn.LSTM(5, 4, batch_first=True).double(), batch()

    def squares(some):
        return layer(some)[0].square()  # which needs the layer's output: the steps are computed again to their end

    sums = []
    for again in (False, True):
        with GhostClipping(layer, 0.5) as ghost:
            seen = checkpoint(squares, rows, use_reentrant=False) if again else squares(rows)
            ghost.backward(seen.sum((1, 2)))
            assert ghost._recorder.take() == []
        sums.append(layer.weight_hh_l0.clipped_sum)
        for one in layer.parameters():
            one.clipped_sum = None
    assert torch.equal(*sums)


def test_examples_that_are_tied_together():
    torch.manual_seed(6)
    layer, rows = nn.GRU(5, 4, batch_first=True).double(), batch()
    with GhostClipping(layer, 1.0) as ghost:
        seen = layer(rows)[0]
        with pytest.raises(GhostClippingError, match="must depend on its own row only"):
            ghost.backward((seen - seen.mean(0)).square().sum((1, 2)))


REFUSED = [
    (lambda: nn.LSTM(2, 2), "got weight_ih_l0 of LSTM without batch_first=True"),
    (lambda: nn.LSTM(2, 3, proj_size=2, batch_first=True), "got weight_ih_l0 of LSTM with proj_size"),
    (lambda: nn.LSTMCell(2, 2), "got weight_ih of LSTMCell"),
]


@pytest.mark.parametrize("made, said", REFUSED, ids=[said for _, said in REFUSED])
def test_layers(made, said):
    with pytest.raises(ValueError) as caught:
        GhostClipping(made(), 1.0)
    assert said in str(caught.value)


def test_two_at_a_time():
    """The second would take the passes of the first."""
    layer = nn.GRU(2, 2, batch_first=True)
    with GhostClipping(layer, 1.0), pytest.raises(ValueError, match=r"of GRU whose forward has been replaced \(call `remove` first\)"):
        GhostClipping(layer, 1.0)
    GhostClipping(layer, 1.0).remove()


def test_inputs():
    layer, rows = nn.GRU(5, 4, batch_first=True), torch.randn(3, 2, 5)
    with GhostClipping(layer, 1.0):
        packed = nn.utils.rnn.pack_padded_sequence(rows, [2, 2, 1], batch_first=True)
        with pytest.raises(TypeError, match=r"input of GRU must be a tensor \[B, T, d\], got PackedSequence"):
            layer(packed)
        with pytest.raises(RuntimeError, match="3 dimensions"):
            layer(rows[0])
        with pytest.raises(RuntimeError, match="hidden size"):
            layer(rows, torch.zeros(1, 1, 4))
