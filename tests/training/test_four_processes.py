"""Four processes over gloo: whatever they share out, weights and account are those of one process with the same noise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from hushvec.training import AdaptiveClip, CorrelatedNoise, DPOptimizer, per_example_gradients
from training.small_runs import examples_of, grouped, loss, model_of, seeded

STEPS, COUNT = 3, 4
POISSON = {"sampling_probability": 1.0}
WAYS = [POISSON, {"noise": CorrelatedNoise.bisr(bands=3, steps=STEPS, min_separation=1)}, {**POISSON, "adaptive": AdaptiveClip()}]
ROWS, LABELS = examples_of(32)
pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch has no distributed")


def trained(rank, count, given):
    """Weights, epsilon and clip norm after three steps on every count-th example, from this process's rank on."""
    model = model_of()
    called = torch.nn.parallel.DistributedDataParallel(model) if count > 1 else model
    optimizer = DPOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.5), clip_norm=0.5, noise_multiplier=1.0, expected_batch_size=32.0, delta=1e-5,
        distributed=count > 1 or None, model=model, **grouped(generator=seeded(), **given),
    )  # fmt: skip
    for _ in range(STEPS):
        per_example_gradients(called, loss, ROWS[rank::count], LABELS[rank::count])
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()], (optimizer.epsilon(), optimizer.clip_norm)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four")
    environment = dict(os.environ, OMP_NUM_THREADS="1", PYTHONPATH=os.pathsep.join(sys.path))
    running = [
        subprocess.Popen([sys.executable, __file__, str(rank), str(folder)], env=environment, stderr=subprocess.PIPE, text=True)
        for rank in range(COUNT)
    ]
    ended = [(process.communicate(timeout=300)[1], process.returncode) for process in running]
    assert [code for _, code in ended] == [0] * COUNT, ended[0][0]
    return [torch.load(folder / f"{rank}.pt") for rank in range(COUNT)]


@pytest.mark.parametrize("way", range(len(WAYS)), ids=["independent", "correlated", "adaptive"])
def test_weights_and_account_are_those_of_one_process(found, way):
    weights, account = trained(0, 1, WAYS[way])
    assert (account[1] != 0.5) == ("adaptive" in WAYS[way])
    for seen in found:
        other, spent = seen[way]
        assert all(torch.equal(one, two) for one, two in zip(weights, other)) and spent == account


if __name__ == "__main__":
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    torch.distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=COUNT)
    torch.save([trained(rank, COUNT, given) for given in WAYS], folder / f"{rank}.pt")
    torch.distributed.destroy_process_group()
