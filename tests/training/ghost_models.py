"""Small models for ghost clipping, and per-example gradients made one example at a time."""

import torch

from hushvec.training.ghost import next_token_losses


class Notes(torch.nn.Module):
    """An embedding, a layer norm, and a linear layer that is passed twice."""

    def __init__(self, words=11, width=6):
        super().__init__()
        self.table = torch.nn.Embedding(words, width, padding_idx=0)
        self.norm = torch.nn.LayerNorm(width)
        self.mix = torch.nn.Linear(width, width)
        self.out = torch.nn.Linear(width, 1)

    def forward(self, ids):
        inside = torch.tanh(self.mix(self.norm(self.table(ids))))
        return self.out(torch.tanh(self.mix(inside)).mean(1))[:, 0]


def gpt2(layers=2, width=16, words=50, context=16, **settings):
    from transformers import GPT2Config, GPT2LMHeadModel

    dropout = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    shape = dict(vocab_size=words, n_positions=context, n_embd=width, n_layer=layers, n_head=2, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(GPT2Config(**{**shape, **dropout, **settings}))


def token_losses(model, ids):
    places = torch.arange(ids.shape[1]).expand(len(ids), -1)
    return next_token_losses(model(input_ids=ids, position_ids=places).logits, ids)


def one_by_one(model, losses_of, batch):
    """The gradients of every example, each from a backward pass of its own: a list of mappings."""
    found = []
    for row in range(len(batch)):
        model.zero_grad()
        losses_of(batch[row : row + 1]).sum().backward()
        found.append({name: one.grad.clone() for name, one in model.named_parameters() if one.grad is not None})
    model.zero_grad()
    return found


def norm_of(gradients):
    return float(sum(one.double().square().sum() for one in gradients.values()).sqrt())


def clipped_sum(examples, clip_norm):
    """By definition."""
    total = {}
    for gradients in examples:
        scale = min(1.0, clip_norm / norm_of(gradients))
        for name, one in gradients.items():
            total[name] = total.get(name, 0) + one.double() * scale
    return total
