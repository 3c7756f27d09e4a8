"""Private training under Accelerate: in one process as it stands, or in several with one noise and one account.

    python examples/private_accelerate.py
    torchrun --nproc_per_node 2 examples/private_accelerate.py

On the CPU it is torchrun that starts several: `accelerate launch --cpu --num_processes 2` of 1.15 starts one.
"""

import sys

import torch
from accelerate import Accelerator

import hushvec as hv
from hushvec.training import Account, DPOptimizer, noise_multiplier_for, per_example_gradients, poisson_loader

EXAMPLES, STEPS, DELTA = 600, 20, 1e-5
BATCH, PROBABILITY = 60, 60 / 600   # of a public, rounded number of examples

accelerator = Accelerator(cpu=True)
torch.manual_seed(0)   # the same weights in all processes
rows = torch.randn(EXAMPLES, 5)
data = torch.utils.data.TensorDataset(rows, (rows[:, 0] > 0).long())

# Every example is in one share. The loader is not prepared by Accelerate: that would deal out each Poisson sample among the processes.
share = torch.utils.data.Subset(data, range(accelerator.process_index, EXAMPLES, accelerator.num_processes))
loader = poisson_loader(share, PROBABILITY, steps=STEPS)

# Nor is the model: the passes of DistributedDataParallel, which average gradients that are neither clipped nor noisy, are not used.
model = torch.nn.Linear(5, 2).to(accelerator.device)
budget = hv.PrivacyBudget(max_epsilon=2.5, max_delta=2e-5)   # rank 0's counts, the others' are not charged
optimizer = accelerator.prepare(
    DPOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.1),
        clip_norm=1.0,
        noise_multiplier=noise_multiplier_for(2.0, DELTA, PROBABILITY, STEPS),
        expected_batch_size=BATCH,   # of the whole run, not of a share
        sampling_probability=PROBABILITY,
        delta=DELTA,
        steps=STEPS,
        account=Account(budget=budget),
        model=model,
        distributed=accelerator.num_processes > 1,
    )
)


def loss(predict, one_row, one_label):
    """The loss of one example, passed as a batch of one."""
    return torch.nn.functional.cross_entropy(predict(one_row), one_label)


for some_rows, labels in loader:
    per_example_gradients(model, loss, some_rows.to(accelerator.device), labels.to(accelerator.device))   # not accelerator.backward
    optimizer.step()

private = optimizer.optimizer   # the DPOptimizer inside Accelerate's
accelerator.print(private.describe())
print(f"rank {accelerator.process_index}: {private.steps_taken} steps, epsilon {private.epsilon():.4f}, "
      f"charged {budget.consumed():.4f}, weights {model.weight.detach().double().sum().item()!r}")
sys.stdout.flush()
accelerator.end_training()
