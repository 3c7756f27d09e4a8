"""Conversations in self-wiping caches, with a system prompt that is computed once.

The model is a tiny one with random weights, so that the example runs anywhere; any causal model of transformers will do.
"""

import copy
import sys

try:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel
except ImportError:
    print("this example needs torch and transformers: pip install 'hushvec[secure]'")
    sys.exit(0)

from hushvec.secure_memory import SecureCache, overwrite_freed_memory, status

overwrite_freed_memory()   # what torch frees on the way is ordinary memory: let free() overwrite it

torch.manual_seed(0)
model = GPT2LMHeadModel(GPT2Config(n_layer=2, n_head=4, n_embd=64, vocab_size=256, bos_token_id=0, eos_token_id=None)).eval()


def tokens(text: str) -> torch.Tensor:
    return torch.tensor([list(text.encode())])


system_prompt = tokens("You are a careful assistant. Answer in one sentence. ")
question = tokens("What did my doctor write about the biopsy?")
system_length = system_prompt.shape[1]

with SecureCache(model.config, capacity=128) as prefix:
    with torch.no_grad():
        model(system_prompt, past_key_values=prefix)          # once

    # For each conversation: a copy, then the user's words, in locked memory.
    with copy.deepcopy(prefix) as cache:
        everything = torch.cat([system_prompt, question], dim=1)
        model.generate(everything, past_key_values=cache, max_new_tokens=10, do_sample=False)
        print(f"{cache.get_seq_length()} positions in {status()['locked_buffer_bytes']:,} locked bytes")

        cache.crop(system_length - cache.get_seq_length())      # forget the user, keep the system prompt
        print(f"{cache.get_seq_length()} positions after the conversation")
        seen = cache.layers[0].keys

    print("after the block:", float(seen.abs().sum()))

for sentence in status()["refused"]:
    print("not protected:", sentence)
