"""Ghost clipping of convolutions, GroupNorm and RMSNorm against per-example gradients, and the exact norms of convolutions."""

from fractions import Fraction
from itertools import product

import pytest

torch = pytest.importorskip("torch")
from hushvec.training import per_example_gradients  # noqa: E402
from hushvec.training.ghost import GhostClipping  # noqa: E402
from hushvec.training.ghost_layers import ConvolutionPiece, windows_of  # noqa: E402
from training.test_ghost_sums import Largest, compare  # noqa: E402

nn = torch.nn

CONVOLUTIONS = {
    "1d": (lambda: nn.Conv1d(3, 4, 3), (7,)),
    "1d, one position": (lambda: nn.Conv1d(3, 4, 5), (5,)),
    "1d, stride that leaves a rest": (lambda: nn.Conv1d(2, 3, 3, stride=2, padding=1), (8,)),
    "1d, dilation": (lambda: nn.Conv1d(2, 3, 3, dilation=3, padding=4), (9,)),
    "1d, same, even kernel": (lambda: nn.Conv1d(2, 3, 4, padding="same", dilation=3), (9,)),
    "1d, valid, no bias": (lambda: nn.Conv1d(2, 3, 2, padding="valid", bias=False), (6,)),
    "1d, depthwise": (lambda: nn.Conv1d(4, 8, 3, groups=4, padding=1), (6,)),
    "2d": (lambda: nn.Conv2d(3, 2, 3), (6, 5)),
    "2d, everything uneven": (
        lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
        (7, 6),
    ),
    "2d, kernel of 1": (lambda: nn.Conv2d(3, 5, 1), (4, 3)),
    "2d, long input": (lambda: nn.Conv2d(1, 2, 3, padding=1), (20, 20)),
    "2d, more channels than positions": (lambda: nn.Conv2d(12, 20, 2), (2, 3)),
    "2d, reflected": (lambda: nn.Conv2d(2, 3, 3, padding=(1, 2), padding_mode="reflect"), (5, 6)),
    "2d, circular, same": (lambda: nn.Conv2d(2, 3, (2, 3), padding="same", padding_mode="circular"), (5, 6)),
    "2d, replicated": (lambda: nn.Conv2d(2, 2, 3, padding=1, padding_mode="replicate", stride=3), (5, 6)),
    "3d": (lambda: nn.Conv3d(2, 4, (1, 2, 3), padding=(0, 1, 1), groups=2), (3, 4, 3)),
}


def some_rows(channels, space, examples=6):
    """Rows of very different sizes: about half of the gradients are clipped."""
    return torch.randn(examples, channels, *space).double() * torch.logspace(-1, 1, examples).view(-1, *[1] * (len(space) + 1))


def squares(model):
    return lambda rows: model(rows).tanh().square().flatten(1).sum(1) + model(rows).flatten(1)[:, 0]


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_convolutions(name):
    """The layer is passed twice, and its sums and norms are those of gradients made one example at a time, in float64."""
    torch.manual_seed(1)
    made, space = CONVOLUTIONS[name]
    layer = made().double()
    compare(layer, squares(layer), some_rows(layer.in_channels, space), norms_within=1e-10)


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_weighted_sums(name):
    """With weights of float64 they are autograd's to the last digits."""
    torch.manual_seed(7)
    made, space = CONVOLUTIONS[name]
    layer = made().double()
    rows, weights = some_rows(layer.in_channels, space), torch.randn(6).double()
    answer = layer(rows)
    gradients = torch.randn_like(answer)
    piece = ConvolutionPiece(layer, [(rows, gradients)])
    (expected,) = torch.autograd.grad((answer.flatten(1) * gradients.flatten(1)).sum(1) @ weights, [layer.weight])
    torch.testing.assert_close(piece.weighted_sum(weights), expected, rtol=1e-12, atol=1e-12 * float(expected.abs().max()))


@pytest.mark.filterwarnings("ignore:Using padding='same' with even kernel")
@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_windows_are_what_the_layer_sees(name):
    torch.manual_seed(2)
    made, space = CONVOLUTIONS[name]
    layer = made().double()
    rows = torch.randn(2, layer.in_channels, *space).double()
    windows = windows_of(layer, rows)
    weight = layer.weight.flatten(1).unflatten(0, (layer.groups, -1))
    answer = torch.einsum("bgtp,gdp->bgdt", windows, weight).flatten(1, 2)
    bias = 0 if layer.bias is None else layer.bias[:, None]
    torch.testing.assert_close(answer + bias, layer(rows).flatten(2), rtol=0, atol=1e-12)


class Network(nn.Module):
    """Convolutions with norms between them, inputs of two sizes through one layer, and a linear layer."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4)
        self.second = nn.Conv2d(4, 4, 3, stride=2, groups=2)
        self.rms, self.out = nn.RMSNorm(4), nn.Linear(4, 3)

    def forward(self, rows):
        inside = torch.tanh(self.norm(self.first(rows)))
        both = [self.second(inside), self.second(torch.nn.functional.avg_pool2d(inside, 2))]
        pooled = torch.stack([one.mean((2, 3)) for one in both], 1)
        return self.out(self.rms(self.norm(pooled.transpose(1, 2)).transpose(1, 2))).mean(1)


@pytest.mark.parametrize("dtype, tolerance", [("float64", 1e-6), ("float32", 1e-4)])
def test_a_network(dtype, tolerance):
    torch.manual_seed(3)
    model = Network().to(getattr(torch, dtype))
    with torch.no_grad():
        for layer in (model.norm, model.rms):
            layer.weight.normal_(1, 0.3)
    rows = some_rows(2, (9, 9), examples=7).to(model.out.weight.dtype)
    labels = torch.tensor([0, 1, 2, 0, 1, 2, 0])
    places = torch.arange(7)

    def losses(chosen):
        scales = torch.logspace(-1, 1, 7, dtype=rows.dtype)[chosen]
        return torch.nn.functional.cross_entropy(model(rows[chosen]), labels[chosen], reduction="none") * scales

    ghost = compare(model, losses, places, tolerance=tolerance)
    assert set(ghost.parameters) == {name for name, _ in model.named_parameters()}


NORMS = {
    "GroupNorm": (lambda: nn.GroupNorm(3, 6), (6, 5, 4)),
    "GroupNorm of channels alone": (lambda: nn.GroupNorm(2, 6), (6,)),
    "GroupNorm with a large eps": (lambda: nn.GroupNorm(1, 4, eps=0.5), (4, 7)),
    "RMSNorm": (lambda: nn.RMSNorm(5), (3, 5)),
    "RMSNorm of one position": (lambda: nn.RMSNorm(5, eps=0.1), (5,)),
    "RMSNorm of several axes before": (lambda: nn.RMSNorm(5), (2, 3, 5)),
}


@pytest.mark.parametrize("name", NORMS)
def test_norm_layers(name):
    torch.manual_seed(4)
    made, shape = NORMS[name]
    layer = made().double()
    rows = torch.randn(6, *shape).double()
    scales = torch.logspace(-1, 1, 6, dtype=torch.float64)
    compare(layer, lambda places: (layer(rows[places]).flatten(1).exp().sum(1)) * scales[places], torch.arange(6), norms_within=1e-10)


def test_clipped_sums_are_those_of_per_example_gradients():
    """The library's own gradients, from vmap, clipped by definition."""
    torch.manual_seed(5)
    model = Network().double()
    rows, labels = some_rows(2, (9, 9)), torch.tensor([0, 1, 2, 0, 1, 2])
    per_example_gradients(model, lambda predict, row, label: torch.nn.functional.cross_entropy(predict(row), label), rows, labels)
    samples = {name: one.grad_sample for name, one in model.named_parameters()}
    norms = sum(one.flatten(1).square().sum(1) for one in samples.values()).sqrt()
    clip_norm = float(norms.median()) * 1.01
    with GhostClipping(model, clip_norm) as ghost:
        ghost.backward(torch.nn.functional.cross_entropy(model(rows), labels, reduction="none"))
    torch.testing.assert_close(ghost.last_norms, norms, rtol=1e-11, atol=0)
    scales = (clip_norm / norms).clamp(max=1)
    assert 0 < int((scales < 1).sum()) < 6
    for name, parameter in model.named_parameters():
        wanted = torch.einsum("b,b...->...", scales, samples[name])
        torch.testing.assert_close(parameter.clipped_sum, wanted, rtol=0, atol=1e-6 * clip_norm)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("space, channels, out", [((6,), 4, 4), ((20,), 2, 2)])
def test_norms_are_never_below_the_exact_ones(dtype, space, channels, out):
    """In fractions, two groups, both ways to the norm; output gradients that cancel each other to the last bit."""
    torch.manual_seed(6)
    layer = nn.Conv1d(channels, out, 3, padding=1, groups=2).to(getattr(torch, dtype))
    rows = torch.randn(3, channels, *space).to(layer.weight.dtype)
    gradients = torch.randn(3, out, *space).to(layer.weight.dtype)
    rows[1] = rows[1, :, :1]  # the same window everywhere but at the edges
    gradients[1, :, 1:-1] -= gradients[1, :, 1:-1].mean(1, keepdim=True)
    gradients[2] = 0
    norms = ConvolutionPiece(layer, [(rows, gradients)]).norms()
    padded = torch.nn.functional.pad(rows, (1, 1)).tolist()
    for row in range(3):
        exact = Fraction(0)
        for to, source, at in product(range(out), range(channels // 2), range(3)):
            channel = source + (channels // 2) * (to // (out // 2))
            pairs = zip(gradients[row, to].tolist(), padded[row][channel][at:])
            exact += sum(Fraction(g) * Fraction(a) for g, a in pairs) ** 2
        assert exact <= Fraction(float(norms.squared[row]))
        assert float(norms.squared[row]) <= float(exact) + 1e-11 * float(norms.spread[row]) ** 2


def test_no_tensor_grows_with_the_gradients_of_examples():
    """Neither gradients nor windows of all examples are held; both would be larger than what is."""
    examples, channels, out, side = 64, 64, 160, 12
    layer = nn.Conv2d(channels, out, 3, padding=1, bias=False)
    rows = torch.randn(examples, channels, side, side)
    with Largest() as ghostly, GhostClipping(layer, 1.0, check=False) as ghost:
        ghost.backward(layer(rows).square().sum((1, 2, 3)))
    chunk = (1 << 24) // 4
    assert ghostly.elements <= chunk
    assert examples * out * channels * 9 > chunk and examples * side**2 * channels * 9 > chunk


REFUSED = [
    (nn.ConvTranspose1d(2, 2, 3), "got weight of ConvTranspose1d"),
    (nn.ConvTranspose2d(2, 2, 3), "got weight of ConvTranspose2d"),
    (nn.RMSNorm((2, 3)), "got weight of RMSNorm over several axes"),
    (nn.Bilinear(2, 2, 2), "got weight of Bilinear"),
    (nn.PReLU(), "got weight of PReLU"),
    (nn.InstanceNorm1d(2, affine=True), "got weight of InstanceNorm1d"),
    (nn.LSTM(2, 2), "got weight_ih_l0 of LSTM without batch_first"),
]


@pytest.mark.parametrize("layer, said", REFUSED, ids=[said for _, said in REFUSED])
def test_refused_layers(layer, said):
    with pytest.raises(ValueError, match="must belong to Linear, Embedding, LayerNorm, RMSNorm, GroupNorm, Conv1d.* " + said):
        GhostClipping(layer, 1.0)


def test_a_subclass_of_a_convolution_is_refused():
    """It may compute something else than its weight says."""

    class Standardized(nn.Conv1d):
        def forward(self, rows):
            return torch.nn.functional.conv1d(rows, self.weight - self.weight.mean(), self.bias)

    with pytest.raises(ValueError, match="got weight of Standardized"):
        GhostClipping(Standardized(2, 2, 1), 1.0)


def test_an_image_without_a_batch_axis_is_refused():
    layer = nn.Conv1d(3, 2, 1)
    with GhostClipping(layer, 1.0) as ghost, pytest.raises(ValueError, match=r"must be the batch of 3 examples, got \[3, 5\]"):
        ghost.backward(layer(torch.ones(3, 5)).sum().expand(3) + 0)


def test_a_weight_that_is_computed_from_others_is_refused():
    layer = nn.utils.parametrizations.weight_norm(nn.Conv1d(2, 2, 1))
    with pytest.raises(ValueError, match="trainable parameters must belong to"):
        GhostClipping(layer, 1.0)


def test_contributions_are_within_the_clip_norm_in_fractions():
    """What one example adds, as it is multiplied into the sum: weights and rounded products, in two groups and with a bias."""
    torch.manual_seed(8)
    layer = nn.Conv1d(4, 4, 2, stride=2, groups=2)
    rows = torch.randn(12, 4, 5) * torch.logspace(-2, 2, 12)[:, None, None]
    clip_norm, noted = 0.37, []
    with GhostClipping(layer, clip_norm) as ghost:
        scales = ghost._scales

        def keep(*given):
            noted.append(scales(*given))
            return noted[-1]

        ghost._scales = keep
        ghost.backward(layer(rows).square().sum((1, 2)))
    weighted = ((2 * layer(rows)).detach() * noted[0][0]["weight"][:, None, None].float()).tolist()
    largest = Fraction(0)
    for row, gradient in zip(rows.tolist(), weighted):
        squared = sum(sum(map(Fraction, channel)) ** 2 for channel in gradient)   # the bias
        for to, source, at in product(range(4), range(2), range(2)):
            seen = row[source + 2 * (to // 2)][at::2]
            squared += sum(Fraction(g) * Fraction(a) for g, a in zip(gradient[to], seen)) ** 2
        assert squared <= Fraction(clip_norm) ** 2
        largest = max(largest, squared)
    assert largest > (Fraction(clip_norm) * Fraction(99999, 100000)) ** 2, "clipped no more than it must be"
