"""Clipped sums from ghost clipping against per-example gradients, exact norms, memory."""

from fractions import Fraction

import pytest

torch = pytest.importorskip("torch")
from hushvec.training.ghost import GhostClipping  # noqa: E402
from hushvec.training.ghost_layers import MatrixPiece, TablePiece, VectorPiece  # noqa: E402
from training.ghost_models import Notes, clipped_sum, gpt2, norm_of, one_by_one, token_losses  # noqa: E402


def compare(model, losses_of, batch, tolerance=1e-6, norms_within=None):
    """Sums, norms and counts of one batch, about half of it clipped, against those made one example at a time.

    Sums are multiplied with weights that are rounded down to float32, norms are not.
    """
    wanted = one_by_one(model, losses_of, batch)
    norms = [norm_of(gradients) for gradients in wanted]
    clip_norm = sum(sorted(norms)[len(norms) // 2 - 1 : len(norms) // 2 + 1]) / 2
    with GhostClipping(model, clip_norm) as ghost:
        ghost.backward(losses_of(batch))
    assert ghost.last_norms.tolist() == pytest.approx(norms, rel=tolerance if norms_within is None else norms_within)
    assert min(norms) < clip_norm < max(norms), "a batch that is clipped in part"
    total = clipped_sum(wanted, clip_norm)
    size = max(float(one.abs().max()) for one in total.values())
    for name, parameter in ghost.parameters.items():
        assert parameter.clipped_rows == len(batch) and parameter.clipped_norm == clip_norm
        assert parameter.grad is None and not hasattr(parameter, "grad_sample")
        missing = parameter.clipped_sum.double() - total.get(name, torch.zeros_like(parameter))
        assert float(missing.abs().max()) <= tolerance * size, name
    return ghost


def test_a_model_with_every_kind_of_layer():
    torch.manual_seed(1)
    model = Notes().double()
    ids = torch.randint(0, 11, (9, 5))
    ids[0] = 3  # the same word everywhere
    ids[1, 2:] = 0  # padding
    scales = torch.linspace(0.01, 3, 9, dtype=torch.float64)
    pairs = torch.arange(9)
    compare(model, lambda rows: model(ids[rows]) * scales[rows], pairs)


def test_gpt2_without_an_adapter():
    torch.manual_seed(2)
    model = gpt2(tie_word_embeddings=False).double()
    ids = torch.randint(0, 50, (5, 9))
    compare(model, lambda rows: token_losses(model, rows), ids)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-6), ("float32", 1e-4)])
def test_lora_layers(dtype, tolerance):
    pytest.importorskip("peft")
    from hushvec.training.lora import add_lora

    torch.manual_seed(3)
    model = add_lora(gpt2(), rank=3, target_modules=["c_attn", "c_fc"], seed=0).to(getattr(torch, dtype))
    with torch.no_grad():
        for name, one in model.named_parameters():
            if "lora_B" in name:
                one.normal_(0, 0.3)
    ids = torch.randint(0, 50, (6, 9))
    ghost = compare(model, lambda rows: token_losses(model, rows), ids, tolerance=tolerance)
    assert all("lora_" in name for name in ghost.parameters)


@pytest.mark.parametrize("positions, across, out", [(1, 5, 3), (2, 9, 8), (30, 4, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_norms_are_never_below_the_exact_ones(positions, across, out, dtype):
    """Both ways to the norm, in fractions; inputs and gradients that cancel each other to the last bit."""
    drawn = torch.Generator().manual_seed(positions)
    inputs = torch.randn(4, positions, across, generator=drawn).to(getattr(torch, dtype))
    outputs = torch.randn(4, positions, out, generator=drawn).to(getattr(torch, dtype))
    if positions > 1:
        inputs[1, 1:], outputs[1, 1:] = inputs[1, :1], -outputs[1, :1] / (positions - 1)
        inputs[2, 1], outputs[2, 1] = inputs[2, 0] * (1 + 2**-20), -outputs[2, 0]
    outputs[3] = 0
    norms = MatrixPiece(inputs, outputs).norms()
    for row in range(4):
        gradient = [
            [sum(Fraction(g) * Fraction(a) for g, a in zip(column, line)) for line in inputs[row].T.tolist()]
            for column in outputs[row].T.tolist()
        ]
        exact = sum(entry**2 for line in gradient for entry in line)
        assert exact <= Fraction(float(norms.squared[row]))
        spread = float(norms.spread[row])
        assert float(norms.squared[row]) <= float(exact) + 1e-11 * spread**2


@pytest.mark.parametrize("positions", [1, 3, 40])
def test_a_bias_in_the_pass_over_its_matrix(positions):
    """Its norms and sum are those of a vector by itself, on both ways to the norm; so is the spread of the matrix."""
    drawn = torch.Generator().manual_seed(positions)
    inputs, outputs = (torch.randn(5, positions, size, generator=drawn) for size in (9, 12))
    weights = torch.rand(5, generator=drawn)
    matrix, bias = MatrixPiece(inputs, outputs), VectorPiece(outputs)
    matrix.bias = VectorPiece(outputs)
    spread = (inputs.double().norm(dim=2) * outputs.double().norm(dim=2)).sum(1)
    assert matrix.norms().spread.tolist() == pytest.approx(spread.tolist(), rel=1e-12)
    assert bool((matrix.norms().spread >= spread).all())
    for ours, alone in zip(matrix.bias.norms(), bias.norms()):
        assert ours.tolist() == pytest.approx(alone.tolist(), rel=1e-12)
    assert torch.equal(matrix.bias.weighted_sum(weights), bias.weighted_sum(weights))
    by_hand = (outputs.double().sum(1) * weights[:, None].double()).sum(0)
    assert bias.weighted_sum(weights).tolist() == pytest.approx(by_hand.tolist(), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("across, out", [(3, 8), (8, 3)])
@pytest.mark.parametrize("transposed", [False, True])
def test_either_factor_may_take_the_weights(across, out, transposed):
    drawn = torch.Generator().manual_seed(across)
    inputs, outputs = (torch.randn(5, 2, size, generator=drawn) for size in (across, out))
    weights = torch.rand(5, generator=drawn)
    wanted = torch.einsum("i,itd,itp->dp", weights.double(), outputs.double(), inputs.double())
    found = MatrixPiece(inputs, outputs, transposed).weighted_sum(weights)
    assert torch.allclose((found.mT if transposed else found).double(), wanted, atol=1e-5)


def test_contributions_are_within_the_clip_norm_in_fractions():
    """What one example adds, as it is multiplied into the sum: weights and rounded products."""
    torch.manual_seed(5)
    layer = torch.nn.Linear(7, 4)
    rows = torch.randn(50, 3, 7) * torch.logspace(-3, 3, 50)[:, None, None]
    clip_norm = 0.37
    with GhostClipping(layer, clip_norm) as ghost:
        noted = []
        scales = ghost._scales

        def keep(norms, examples, device):
            noted.append(scales(norms, examples, device))
            return noted[-1]

        ghost._scales = keep
        ghost.backward((layer(rows) ** 2).sum((1, 2)))
    scale = noted[0][0]["weight"]
    outputs = (2 * layer(rows)).detach()
    weighted = outputs * scale[:, None, None].float()
    largest = Fraction(0)
    for row in range(50):
        matrix = [
            sum(Fraction(g) * Fraction(a) for g, a in zip(column, line))
            for column in weighted[row].T.tolist()
            for line in rows[row].T.tolist()
        ]
        bias = [sum(map(Fraction, column)) for column in weighted[row].T.tolist()]
        squared = sum(entry**2 for entry in [*matrix, *bias])
        assert squared <= Fraction(clip_norm) ** 2
        largest = max(largest, squared)
    assert largest > (Fraction(clip_norm) * Fraction(999999, 1000000)) ** 2, "clipped no more than it must be"


def test_small_pieces_by_hand():
    table = TablePiece(torch.tensor([[1, 1, 0]]), torch.tensor([[[1.0, 0.0], [2.0, 0.0], [5.0, 0.0]]]), rows=3, padding=0)
    assert table.norms().squared.item() == pytest.approx(9.0)
    assert table.weighted_sum(torch.tensor([0.5])).tolist() == [[0.0, 0.0], [1.5, 0.0], [0.0, 0.0]]
    vector = VectorPiece(torch.tensor([[[1.0, 2.0], [3.0, 4.0]]]), torch.tensor([[[1.0, 1.0], [1.0, -1.0]]]))
    assert vector.norms().squared.item() == pytest.approx(4.0**2 + 2.0**2)
    assert vector.weighted_sum(torch.tensor([1.0])).tolist() == [4.0, -2.0]


def test_virtual_batches_add_up():
    torch.manual_seed(6)
    layer = torch.nn.Linear(4, 2)
    rows = torch.randn(6, 4)
    sums = []
    for parts in ([rows], [rows[:1], rows[1:4], rows[4:]]):
        with GhostClipping(layer, 0.1) as ghost:
            for part in parts:
                ghost.backward(layer(part).square().sum(1))
        assert layer.weight.clipped_rows == 6
        sums.append(layer.weight.clipped_sum)
        for parameter in layer.parameters():
            parameter.clipped_sum = parameter.clipped_rows = None
    assert torch.allclose(*sums, rtol=1e-5)


def test_an_empty_batch_is_a_sum_of_nothing():
    layer = torch.nn.Linear(4, 2)
    ghost = GhostClipping(layer, 1.0)
    ghost.empty_batch()
    assert layer.bias.clipped_rows == 0 and layer.bias.clipped_sum.tolist() == [0.0, 0.0]


def test_recomputed_activations_are_no_new_passes():
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(7)
    layer = torch.nn.Linear(4, 4).double()
    rows = torch.randn(5, 4).double()
    sums = []
    for again in (False, True):
        with GhostClipping(layer, 0.5) as ghost:
            answer = checkpoint(layer, rows, use_reentrant=False) if again else layer(rows)
            ghost.backward(answer.square().sum(1))
        sums.append(layer.weight.clipped_sum)
        layer.weight.clipped_sum = layer.bias.clipped_sum = None
    assert torch.equal(*sums)


def test_an_activation_in_place_after_the_layer_is_no_harm():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(inplace=True), torch.nn.Linear(4, 1)).double()
    torch.manual_seed(8)
    rows = torch.randn(6, 4).double() * torch.linspace(0.02, 4, 6)[:, None]
    compare(model, lambda some: model(some).sum(1), rows)


class Largest(torch.utils._python_dispatch.TorchDispatchMode):
    """Elements of the largest tensor that any operation makes, on the backward pass too."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, function, types, given=(), named=None):
        made = function(*given, **(named or {}))
        for one in made if isinstance(made, (list, tuple)) else (made,):
            if isinstance(one, torch.Tensor):
                self.elements = max(self.elements, one.untyped_storage().nbytes() // max(1, one.element_size()))
        return made


@pytest.mark.parametrize("positions", [2, 80])
def test_no_tensor_grows_with_the_gradients_of_examples(positions):
    """Both ways to the norm; gradients that are stored are seen by the same measurement."""
    examples, across, out = 200, 120, 150
    layer = torch.nn.Linear(across, out, bias=False)
    rows = torch.ones(examples, positions, across)
    with Largest() as ghostly, GhostClipping(layer, 1.0) as ghost:
        ghost.backward(layer(rows).square().sum((1, 2)))
    assert ghostly.elements <= max(examples * positions * out, (1 << 24) // 8)
    with Largest() as stored, torch.no_grad():
        torch.bmm(layer(rows).mT, rows)
    assert stored.elements >= examples * across * out > (1 << 24) // 8
