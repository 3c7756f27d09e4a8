"""What ghost clipping saves: memory and time of one clipped gradient sum, against per-example gradients.

    python -m hushvec_studies.personalize.ghost

A GPT-2 of width 256 with 4 layers, 64 texts of 32 tokens, one thread, float32; all weights but the embeddings. Each way is measured
in a process of its own: peak memory above that before the first step, and the least processor time of five steps. Writes
results/ghost.csv beside this file.
"""

import json
import resource
import subprocess
import sys
import time
from pathlib import Path

from hushvec_studies.harness.outputs import write_csv

TEXTS, TOKENS, REPEATS = 64, 32, 5
WAYS = ("ghost clipping", "per-example gradients (hushvec, vmap)")


def main():
    if len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1])))
        return
    rows = []
    for way in WAYS:
        done = subprocess.run([sys.executable, __file__, way], capture_output=True, text=True)
        if done.returncode:
            sys.exit(done.stderr)
        rows.append({"way": way, **json.loads(done.stdout.splitlines()[-1])})
        print(rows[-1], flush=True)
    write_csv(Path(__file__).parent / "results" / "ghost.csv", rows)


def measured(way):
    import torch

    from hushvec.training.ghost import next_token_losses

    torch.set_num_threads(1)
    torch.manual_seed(0)
    model, parameters = built()
    ids = torch.randint(0, 500, (TEXTS, TOKENS))
    places = torch.arange(TOKENS).expand(TEXTS, -1)

    def losses(model, ids, places):
        return next_token_losses(model(input_ids=ids, position_ids=places).logits, ids)

    step = steps(model, parameters, way, losses)
    before = peak()
    seconds = []
    for _ in range(REPEATS):
        start = time.process_time()
        step(ids, places)
        seconds.append(time.process_time() - start)
    trainable = sum(one.numel() for one in parameters)
    return {"trainable": trainable, "peak_mib": round(peak() - before, 1), "seconds": round(min(seconds), 4)}


def built():
    from transformers import GPT2Config, GPT2LMHeadModel

    none = dict(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)
    model = GPT2LMHeadModel(
        GPT2Config(vocab_size=500, n_positions=TOKENS, n_embd=256, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0, **none)
    )
    model.transformer.wte.requires_grad_(False)
    model.transformer.wpe.requires_grad_(False)
    return model, [one for one in model.parameters() if one.requires_grad]


def steps(model, parameters, way, losses):
    """A function that makes one clipped sum."""
    import torch

    from hushvec.training import GhostClipping, per_example_gradients

    if way == WAYS[0]:
        ghost = GhostClipping(model, 1.0, check=False)

        def step(ids, places):
            for one in parameters:
                one.clipped_sum = one.clipped_rows = None
            ghost.backward(losses(model, ids, places))

        return step

    def step(ids, places):
        for one in parameters:
            one.grad_sample = None
        per_example_gradients(model, lambda predict, row, place: losses(predict, row, place)[0], ids, places)
        with torch.no_grad():
            norms = sum(one.grad_sample.flatten(1).square().sum(1) for one in parameters).sqrt()
            scales = (1 / norms).clamp(max=1)
            return [torch.einsum("i,i...", scales, one.grad_sample) for one in parameters]

    return step


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
