"""Train a classifier with differential privacy, stop half way, and resume from the checkpoint with the account intact.

    python examples/private_training.py
"""

import tempfile
from pathlib import Path

import torch

from hushvec.training import (
    DPOptimizer,
    load_checkpoint,
    noise_multiplier_for,
    per_example_gradients,
    poisson_loader,
    save_checkpoint,
)

EXAMPLES, STEPS, DELTA = 2000, 60, 1e-5
PUBLIC_SIZE = 2000   # about how many examples there are, rounded: receipts state what is made of it, and so not their exact number
BATCH, PROBABILITY = 100, 100 / PUBLIC_SIZE

torch.manual_seed(0)
rows = torch.randn(EXAMPLES, 10)
labels = (rows[:, :3].sum(1) > 0).long()
data = torch.utils.data.TensorDataset(rows, labels)

noise_multiplier = noise_multiplier_for(epsilon=2.0, delta=DELTA, sampling_probability=PROBABILITY, steps=STEPS)
print(f"noise multiplier for epsilon 2 over {STEPS} steps: {noise_multiplier:.4f}")


def start():
    """A new model and its optimizer."""
    model = torch.nn.Linear(10, 2)
    optimizer = DPOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.1),
        clip_norm=1.0,
        noise_multiplier=noise_multiplier,
        expected_batch_size=BATCH,
        sampling_probability=PROBABILITY,
        delta=DELTA,
        steps=STEPS,
    )
    return model, optimizer


def loss(predict, one_row, one_label):
    """The loss of one example, passed as a batch of one."""
    return torch.nn.functional.cross_entropy(predict(one_row), one_label)


def train(model, optimizer, steps):
    for some_rows, some_labels in poisson_loader(data, PROBABILITY, steps=steps):
        per_example_gradients(model, loss, some_rows, some_labels)
        optimizer.step()


with tempfile.TemporaryDirectory() as folder:
    checkpoint = Path(folder) / "checkpoint.pt"
    model, optimizer = start()
    train(model, optimizer, STEPS // 2)
    save_checkpoint(checkpoint, optimizer, model)
    print(f"half way: epsilon {optimizer.epsilon():.3f}")

    model, optimizer = start()   # as a new process would
    load_checkpoint(checkpoint, optimizer, model)
    train(model, optimizer, STEPS - STEPS // 2)

accuracy = (model(rows).argmax(1) == labels).float().mean()
print(f"accuracy {accuracy:.2f} on the training data, which is not a private figure")
print(optimizer.describe())
