"""One training step of a transformer and of a LoRA adapter: plain SGD, hushvec, Opacus. Prints JSON.

    OMP_NUM_THREADS=1 python bench/python/training_steps.py
    OMP_NUM_THREADS=1 python bench/python/training_steps.py --models transformer --ways plain ghost --rounds 9

A step is everything from the batch to the new weights: forward and backward pass, norms, clipping, noise of multiplier 1, and torch's
SGD. Each way is a process of its own, on one thread, and they take turns. A ratio is formed inside a round, of processor times (wall
times are beside them), and the median over the rounds counts: load of other programs is on both sides of it. Memory is the peak resident
size (getrusage) above that before the first step, the model's own weights left out. The first three steps of each way are not counted:
the first checks and digests of hushvec are in them, which later steps rarely have.

"transformer" has 6 layers of width 256 and 4 heads, trained as a whole, 5.3 million weights, on 32 texts of 64 tokens; "transformer, 128"
the same on 128 tokens. "LoRA on GPT-2" has rank 8 on the attention's and MLP's matrices (1.2 million weights) of a GPT-2 of 124 million
random ones, on 4 texts of 64 tokens.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
import warnings
from pathlib import Path

WAYS = ("plain", "gradients", "ghost", "opacus", "opacus ghost")
MODELS = {"transformer": (32, 64), "transformer, 128": (32, 128), "LoRA on GPT-2": (4, 64)}
WORDS, WARM = 1000, 3


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--ways", nargs="*", choices=WAYS, default=list(WAYS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker)
        return
    machine = {"machine": platform.machine(), "cores": os.cpu_count(), "load": [round(part, 1) for part in os.getloadavg()]}
    print(json.dumps({"machine": machine, "steps": {name: measured(name, options.ways, options.rounds) for name in options.models}}, indent=2))


def measured(model, ways, rounds):
    """Seconds, ratios to the first way and MiB, or the error of a way that cannot run."""
    workers = {way: subprocess.Popen([sys.executable, __file__, "--worker", model, way], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                     text=True) for way in ways}  # fmt: skip
    taken = {way: [] for way in ways}
    failed = {}
    for turn in range(WARM + rounds):
        for way in [way for way in ways if way not in failed]:
            workers[way].stdin.write("step\n")
            workers[way].stdin.flush()
            answer = json.loads(workers[way].stdout.readline())
            if "error" in answer:
                failed[way] = answer
            elif turn >= WARM:
                taken[way].append(answer)
    for worker in workers.values():
        worker.stdin.close()
        worker.wait()
    first = taken[ways[0]]
    return failed | {way: summary(steps, first, ways[0]) for way, steps in taken.items() if steps}


def summary(steps, first, name):
    found = {of: round(statistics.median(step[of] for step in steps), 3) for of in ("wall", "processor")}
    for of in ("wall", "processor"):
        found[f"{of} / {name}"] = round(statistics.median(step[of] / other[of] for step, other in zip(steps, first, strict=True)), 2)
    return found | {"MiB": round(steps[-1]["MiB"])}


def work(model, way):
    """Make a step for each line of standard input."""
    import torch

    import hushvec

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    hushvec.set_num_threads(1)
    torch.manual_seed(0)
    step = STEPS[way](*MAKERS[model](*MODELS[model]))
    before = resident("VmRSS")
    for turn, _ in enumerate(sys.stdin):
        if turn == WARM:
            forget_peak()
        start, processor = time.perf_counter(), time.process_time()
        try:
            step()
        except Exception as error:
            print(json.dumps({"error": f"{type(error).__name__}: {str(error)[:300]}"}), flush=True)
            return
        taken = {"wall": time.perf_counter() - start, "processor": time.process_time() - processor}
        print(json.dumps(taken | {"MiB": resident("VmHWM") - before}), flush=True)


def resident(kind):
    """MiB"""
    lines = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[kind].split()[0]) / 1024


def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")


# ---- models: (model, its trained parameters, losses_of(predict, texts) -> [B], texts) ----


def transformer(examples, tokens):
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self, width, heads):
            super().__init__()
            self.heads = heads
            self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
            self.asked, self.mixed = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, rows):
            asked = self.asked(self.before(rows)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
            mixed = nn.functional.scaled_dot_product_attention(*asked, is_causal=True)
            rows = rows + self.mixed(mixed.transpose(1, 2).flatten(2))
            return rows + self.narrow(nn.functional.gelu(self.wide(self.between(rows))))

    width = 256
    model = nn.Sequential(nn.Embedding(WORDS, width), *(Block(width, 4) for _ in range(6)), nn.LayerNorm(width), nn.Linear(width, WORDS))
    texts = torch.randint(0, WORDS, (examples, tokens))
    return model, list(model.parameters()), lambda predict, some: losses(predict(some), some), texts


def adapter(examples, tokens):
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    from hushvec.training import add_lora

    settings = GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, attn_implementation="eager", use_cache=False)
    model = add_lora(GPT2LMHeadModel(settings), rank=8, target_modules=["c_attn", "c_fc", "c_proj"], seed=0)
    model.train()
    texts = torch.randint(0, settings.vocab_size, (examples, tokens))

    def losses_of(predict, some):
        places = torch.arange(some.shape[1]).expand(len(some), -1)
        return losses(predict(input_ids=some, position_ids=places).logits, some)

    return model, [one for one in model.parameters() if one.requires_grad], losses_of, texts


def losses(logits, texts):
    from hushvec.training.ghost import next_token_losses

    return next_token_losses(logits, texts)


MAKERS = {"transformer": transformer, "transformer, 128": transformer, "LoRA on GPT-2": adapter}


# ---- ways ----


def plain(model, trained, losses_of, texts):
    import torch

    optimizer = torch.optim.SGD(trained, lr=0.01)

    def step():
        optimizer.zero_grad()
        losses_of(model, texts).mean().backward()
        optimizer.step()

    return step


def private(model, trained, examples):
    import torch

    from hushvec.training import DPOptimizer

    return DPOptimizer(torch.optim.SGD(trained, lr=0.01), clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=examples,
                       sampling_probability=0.01, model=model)  # fmt: skip


def gradients(model, trained, losses_of, texts):
    from hushvec.training import per_example_gradients

    optimizer = private(model, trained, len(texts))

    def step():
        per_example_gradients(model, lambda predict, some: losses_of(predict, some)[0], texts)
        optimizer.step()

    return step


def ghost(model, trained, losses_of, texts):
    from hushvec.training import GhostClipping

    optimizer, clipping = private(model, trained, len(texts)), GhostClipping(model, 1.0)

    def step():
        clipping.backward(losses_of(model, texts))
        optimizer.step()

    return step


def opacus(model, trained, losses_of, texts):
    import torch
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

    model = GradSampleModule(model)
    optimizer = DPOptimizer(torch.optim.SGD(trained, lr=0.01), noise_multiplier=1.0, max_grad_norm=1.0, expected_batch_size=len(texts))

    def step():
        optimizer.zero_grad()
        losses_of(model, texts).mean().backward()
        optimizer.step()

    return step


def opacus_ghost(model, trained, losses_of, texts):
    import torch
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPTensorFastGradientClipping

    model = GradSampleModuleFastGradientClipping(model, max_grad_norm=1.0, use_ghost_clipping=True)
    optimizer = DPOptimizerFastGradientClipping(torch.optim.SGD(trained, lr=0.01), noise_multiplier=1.0, max_grad_norm=1.0,
                                                expected_batch_size=len(texts))  # fmt: skip

    def step():
        optimizer.zero_grad()
        DPTensorFastGradientClipping(model, optimizer, losses_of(model, texts)).backward()
        optimizer.step()

    return step


STEPS = {"plain": plain, "gradients": gradients, "ghost": ghost, "opacus": opacus, "opacus ghost": opacus_ghost}

if __name__ == "__main__":
    main()
