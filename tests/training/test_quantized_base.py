"""Adapters on a base of four bits: gradients of the adapter are those on the same base unpacked, by both ways to clip them."""

import pytest

torch = pytest.importorskip("torch")
from hushvec.training import DPOptimizer, GhostClipping, per_example_gradients  # noqa: E402


class Unpacked(torch.autograd.Function):
    """rows W^T from a packed W, written as kernels of quantization packages are: without the half that torch.func needs."""

    @staticmethod
    def forward(ctx, rows, layer):
        ctx.layer = layer
        return rows @ layer.unpacked().T

    @staticmethod
    def backward(ctx, gradient):
        return gradient @ ctx.layer.unpacked(), None


class FourBits(torch.nn.Module):
    """A frozen layer of 16 levels per row, two of them in a byte."""

    def __init__(self, weight):
        super().__init__()
        scale = weight.abs().amax(1, keepdim=True) / 7
        levels = (weight / scale).round().to(torch.int8) + 8
        self.register_buffer("packed", (levels[:, ::2] * 16 + levels[:, 1::2]).to(torch.uint8))
        self.register_buffer("scale", scale)

    def unpacked(self):
        high, low = self.packed // 16, self.packed % 16
        return (torch.stack([high, low], 2).flatten(1).to(self.scale.dtype) - 8) * self.scale

    def forward(self, rows):
        return Unpacked.apply(rows, self)


class Adapted(torch.nn.Module):
    """A frozen layer with a low-rank adapter, and one more."""

    def __init__(self, base):
        super().__init__()
        self.base, self.down, self.up = base, torch.nn.Linear(6, 2, bias=False), torch.nn.Linear(2, 4, bias=False)
        self.out = torch.nn.Linear(4, 3)

    def forward(self, rows):
        return self.out(torch.tanh(self.base(rows) + self.up(self.down(rows))))


def models():
    """(packed, the same unpacked into a Linear)"""
    torch.manual_seed(0)
    packed = Adapted(FourBits(torch.randn(4, 6, dtype=torch.float64))).double()
    dense = torch.nn.Linear(6, 4, bias=False).double().requires_grad_(False)
    dense.weight.copy_(packed.base.unpacked())
    other = Adapted(dense).double()
    other.load_state_dict({name: one for name, one in packed.state_dict().items() if not name.startswith("base.")}, strict=False)
    return packed, other


def loss(predict, rows, labels):
    return torch.nn.functional.cross_entropy(predict(rows), labels)


def batch():
    drawn = torch.Generator().manual_seed(1)
    return torch.randn(7, 6, generator=drawn, dtype=torch.float64), torch.tensor([0, 1, 2, 0, 1, 2, 0])


def test_gradients_are_those_on_the_base_unpacked():
    packed, dense = models()
    per_example_gradients(packed, loss, *batch(), vectorize=False)
    per_example_gradients(dense, loss, *batch())
    names = [name for name, one in packed.named_parameters() if one.requires_grad]
    assert len(names) == 4
    for name in names:
        ours, expected = (model.get_parameter(name).grad_sample for model in (packed, dense))
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-14)


def test_ghost_norms_are_those_of_the_gradients():
    packed, dense = models()
    per_example_gradients(dense, loss, *batch())
    norms = sum(one.grad_sample.flatten(1).square().sum(1) for one in dense.parameters() if one.requires_grad).sqrt()
    rows, labels = batch()
    with GhostClipping(packed, 1.0) as ghost:
        ghost.backward(torch.nn.functional.cross_entropy(packed(rows), labels, reduction="none"))
    torch.testing.assert_close(ghost.last_norms, norms, rtol=1e-11, atol=0)


def test_torch_func_does_not_know_such_layers():
    packed, _ = models()
    with pytest.raises(RuntimeError, match="setup_context"):
        per_example_gradients(packed, loss, *batch())


def test_a_loss_that_uses_nothing_that_trains_has_gradients_of_zero():
    packed, _ = models()
    per_example_gradients(packed, lambda predict, rows, labels: rows.sum(), *batch(), vectorize=False)
    assert not packed.down.weight.grad_sample.any() and packed.down.weight.grad_sample.shape == (7, 2, 6)


def test_the_claim_is_exact():
    packed, _ = models()
    optimizer = DPOptimizer(
        torch.optim.Adam([one for one in packed.parameters() if one.requires_grad], lr=0.1),
        clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=7, sampling_probability=1.0, delta=1e-5, model=packed,
    )
    before = packed.base.packed.clone()
    for _ in range(2):
        per_example_gradients(packed, loss, *batch(), vectorize=False)
        optimizer.step()
    assert optimizer.guarantee().grade == "exact" and optimizer.guarantee().is_dp_claim
    assert torch.equal(packed.base.packed, before)
    packed.base.packed[0, 0] += 1
    with pytest.raises(ValueError, match=r"base\.packed"):
        optimizer.require_unchanged(packed)


def test_bitsandbytes_on_the_cpu():
    """A Llama of 1.4 million weights, its linear layers in NF4: docs/lora.md has the figures."""
    try:
        import bitsandbytes as bnb
    except ImportError:
        pytest.skip("bitsandbytes is not installed: pip install --no-deps bitsandbytes==0.50.2 (43 MB; no extra has it)")
    pytest.importorskip("peft")
    from transformers import LlamaConfig, LlamaForCausalLM

    from hushvec.training import add_lora
    from hushvec.training.ghost import next_token_losses

    torch.manual_seed(0)
    shape = dict(hidden_size=256, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=256, bos_token_id=0, eos_token_id=0, pad_token_id=0, **shape))
    model.requires_grad_(False)
    size = sum(one.numel() * one.element_size() for one in model.parameters())
    for name, layer in list(model.named_modules()):
        if type(layer) is torch.nn.Linear and name != "lm_head":
            sizes = (layer.in_features, layer.out_features)
            packed = bnb.nn.Linear4bit(*sizes, bias=False, compute_dtype=torch.float32, quant_type="nf4")
            packed.weight = bnb.nn.Params4bit(layer.weight.data, requires_grad=False, quant_type="nf4").to("cpu")
            model.set_submodule(name, packed)
    assert 4 * sum(one.numel() * one.element_size() for one in model.parameters()) < size
    model = add_lora(model, rank=4, target_modules=["q_proj", "v_proj", "up_proj"], seed=0)
    ids = torch.randint(0, 256, (8, 16))

    def text_loss(predict, row):
        return next_token_losses(predict(input_ids=row).logits, row)[0]

    per_example_gradients(model, text_loss, ids, vectorize=False)
    adapter = [one for one in model.parameters() if one.requires_grad]
    optimizer = DPOptimizer(
        torch.optim.Adam(adapter, lr=0.01), clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=8, sampling_probability=0.1,
        delta=1e-5, model=model,
    )
    optimizer.step()
    assert optimizer.guarantee().grade == "exact" and optimizer.guarantee().is_dp_claim
    per_example_gradients(model, text_loss, ids, vectorize=False)
    norms = sum(one.grad_sample.double().flatten(1).square().sum(1) for one in adapter).sqrt()
    optimizer.zero_grad()
    places = torch.arange(16).expand(8, -1)
    with GhostClipping(model, 1.0) as ghost:
        ghost.backward(next_token_losses(model(input_ids=ids, position_ids=places).logits, ids))
    torch.testing.assert_close(ghost.last_norms, norms, rtol=1e-4, atol=0)
