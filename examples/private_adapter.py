"""Fine-tune a language model on private notes with differential privacy: LoRA, ghost clipping, Poisson batches, an accountant.

Needs `pip install 'hushvec[peft]'`. The model is built here, small and untrained, so that nothing is downloaded; put yours in.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

from hushvec.training import AdapterCheck, DPOptimizer, GhostClipping, PoissonSampler, add_lora, noise_multiplier_for
from hushvec.training.ghost import next_token_losses

# ---- a public model and private texts ----

torch.manual_seed(0)
torch.set_num_threads(1)
notes = [f"patient {number} sleeps {'well' if number % 3 else 'badly'}" for number in range(400)]
length = 24
ids = torch.tensor([list(note.encode().ljust(length)[:length]) for note in notes])
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=length, n_embd=32, n_layer=1, n_head=2, bos_token_id=0, eos_token_id=0))

# ---- the public part of the training: the schedule and its cost ----

EPSILON, DELTA, CLIP_NORM, STEPS = 2.0, 1e-5, 1.0, 20
probability = 0.2
noise_multiplier = noise_multiplier_for(EPSILON, DELTA, probability, STEPS)

# ---- training ----

model = add_lora(model, rank=4, target_modules=["c_attn", "c_fc", "c_proj"])
optimizer = DPOptimizer(
    torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.02),
    clip_norm=CLIP_NORM,
    noise_multiplier=noise_multiplier,
    expected_batch_size=probability * len(notes),
    sampling_probability=probability,
    delta=DELTA,
)
check = AdapterCheck(model, probe=torch.full((1, 4), ord("a")), optimizer=optimizer)  # the probe is public


def losses(rows):
    """One for each text. Positions by row, so that every layer has an axis for the batch."""
    positions = torch.arange(length).expand(len(rows), -1)
    return next_token_losses(model(input_ids=rows, position_ids=positions).logits, rows)


with GhostClipping(model, CLIP_NORM) as ghost:
    for batch in PoissonSampler(len(notes), probability, steps=STEPS):
        optimizer.zero_grad()
        if batch:
            ghost.backward(losses(ids[batch]))
        else:
            ghost.empty_batch()
        optimizer.step()

# ---- results ----

change = check.require_changed()  # an adapter that silently learned nothing would raise here
check.require_base_unchanged()
print(optimizer.describe())
print(f"{len(change.layers)} layers changed, outputs by up to {change.outputs:.2f}")
with torch.no_grad():
    print(f"perplexity on the texts: {losses(ids).mean().exp():.1f} (a byte by chance: 256)")
