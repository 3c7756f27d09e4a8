"""Fine-tune a language model on private notes with differential privacy: LoRA, per-example gradients, Poisson batches, a receipt.

Needs `pip install 'hushvec[peft]'`. The model is built here, small and untrained, so that nothing is downloaded; put yours in.
"""

import torch
from transformers import GPT2Config, GPT2LMHeadModel

import hushvec as hv
from hushvec.training import AdapterCheck, DPOptimizer, PoissonSampler, add_lora, noise_multiplier_for, per_example_gradients
from hushvec.training.ghost import next_token_losses

# ---- a public model and private texts ----

torch.manual_seed(0)
torch.set_num_threads(1)
notes = [f"patient {number} sleeps {'well' if number % 3 else 'badly'}" for number in range(400)]
length = 24
ids = torch.tensor([list(note.encode().ljust(length)[:length]) for note in notes])
shape = dict(n_positions=length, n_embd=32, n_layer=1, n_head=2, attn_implementation="eager")   # the attention that vmap is fast with
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, bos_token_id=0, eos_token_id=0, **shape))

# ---- the public part of the training: the schedule and its cost ----

EPSILON, DELTA, CLIP_NORM, STEPS = 2.0, 1e-5, 1.0, 20
BATCH, probability = 80, 80 / 400   # of about how many notes there are: a public, rounded number
noise_multiplier = noise_multiplier_for(EPSILON, DELTA, probability, STEPS)

# ---- training ----

model = add_lora(model, rank=4, target_modules=["c_attn", "c_fc", "c_proj"])
optimizer = DPOptimizer(
    torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=0.02),
    clip_norm=CLIP_NORM,
    noise_multiplier=noise_multiplier,
    expected_batch_size=BATCH,
    sampling_probability=probability,
    delta=DELTA,
    steps=STEPS,
    model=model,
)
check = AdapterCheck(model, probe=torch.full((1, 4), ord("a")), optimizer=optimizer)  # the probe is public


def loss(predict, note):
    """Of one note, which comes as a batch of one."""
    return next_token_losses(predict(input_ids=note).logits, note)[0]


for batch in PoissonSampler(len(notes), probability, steps=STEPS):
    per_example_gradients(model, loss, ids[batch])   # also of an empty sample
    optimizer.step()

# ---- results ----

change = check.require_changed()  # an adapter that silently learned nothing would raise here
check.require_base_unchanged()
print(optimizer.describe())
receipt = optimizer.receipt()
print(f"grade {optimizer.guarantee().grade}, the receipt {hv.verify_receipt(receipt).status}")
print(f"{len(change.layers)} layers changed, outputs by up to {change.outputs:.2f}")
with torch.no_grad():
    print(f"perplexity on the texts: {next_token_losses(model(input_ids=ids).logits, ids).mean().exp():.1f} (a byte by chance: 256)")
