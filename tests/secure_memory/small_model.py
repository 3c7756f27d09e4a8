"""A small causal model with random weights, and tokens for it."""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

TOKENS = torch.arange(2 * 9).reshape(2, 9) * 7 % 61 + 1


def make_model(seed=0):
    torch.manual_seed(seed)
    config = GPT2Config(n_layer=2, n_head=4, n_embd=32, n_positions=64, vocab_size=64, bos_token_id=0, eos_token_id=None)
    return GPT2LMHeadModel(config).eval()
