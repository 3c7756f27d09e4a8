"""A training run in a process of its own that the tests kill: python killed_run.py FOLDER STEPS EVERY.

Writes FOLDER/checkpoint.pt after every EVERY steps and a line to standard output after every step. With FOLDER/journal in place
of nothing, steps are counted there too.
"""

import sys
from pathlib import Path

import torch

from hushvec.training import load_checkpoint, save_checkpoint
from training.small_runs import examples_of, model_of, optimizer_of


def fresh(folder, steps):
    model = model_of()
    inner = torch.optim.Adam(model.parameters(), lr=0.01)
    journal = folder / "journal" if (folder / "with-journal").exists() else None
    return model, optimizer_of(model, inner, steps=steps, journal=journal)


def train(folder, steps, every, say=lambda line: None):
    """From the checkpoint, if there is one, to the last step."""
    model, optimizer = fresh(folder, steps)
    checkpoint = folder / "checkpoint.pt"
    if checkpoint.exists():
        load_checkpoint(checkpoint, optimizer, model)
    rows, _ = examples_of(4)
    while optimizer.steps_taken < steps:
        for parameter in model.parameters():
            parameter.grad_sample = torch.outer(rows[:, 0], torch.ones(parameter.numel())).reshape(-1, *parameter.shape)
        optimizer.step()
        if optimizer.steps_taken % every == 0:
            save_checkpoint(checkpoint, optimizer, model)
        say(f"step {optimizer.steps_taken}")
    return model, optimizer


if __name__ == "__main__":
    train(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), lambda line: print(line, flush=True))
