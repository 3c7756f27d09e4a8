"""Models of `fully_shard` (FSDP2) in two and in four processes over gloo: the bits and the account of one process that has the whole
model. The processes run once, in `sharded_processes.py`, and the tests look at what they have seen."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from docs.blocks import program_of, python_blocks
from hushvec.training import per_example_gradients
from training.sharded_processes import LABELS, ROWS, RUNS, optimizer_of, trained, weights
from training.small_runs import loss, model_of, seeded

pytestmark = pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without torch.distributed")


@pytest.fixture(scope="module", params=[2, 4])
def seen(request, tmp_path_factory):
    count, folder = request.param, tmp_path_factory.mktemp("sharded")
    paths = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, sys.path)])
    running = [
        subprocess.Popen(
            [sys.executable, "-m", "training.sharded_processes", str(rank), str(count), str(folder)],
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        outputs = [process.communicate(timeout=240)[0] for process in running]
    finally:
        for process in running:
            process.kill()
    assert [process.returncode for process in running] == [0] * count, "\n".join(outputs)
    return [torch.load(folder / f"{rank}of{count}.pt") for rank in range(count)]


def same(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("name", RUNS)
def test_weights_have_the_bits_of_one_process(seen, name):
    """With the noise of one seeded stream, which rank 0 draws; three steps, of SGD with momentum unless it says another thing."""
    expected, _ = trained(0, 1, **RUNS[name])
    assert not same(expected, weights(model_of()))
    assert all(same(one["runs"][name], expected) for one in seen)


def test_a_process_without_examples_takes_part(seen):
    """Of each step, beside others that give theirs in parts or at once."""
    model = model_of()
    optimizer = optimizer_of(model, generator=seeded())
    for _ in range(2):
        per_example_gradients(model, loss, ROWS, LABELS)
        optimizer.step()
    assert all(same(one["unequal_shares"], weights(model)) for one in seen)


def test_passes_of_fsdp_itself_leave_no_trace(seen):
    """Neither the raw gradients that its backward pass averages, nor the whole parameters that a forward pass leaves in the root."""
    assert all(same(one["passes_between"], trained(0, 1)[0]) for one in seen)


def test_shards_may_have_replicas(seen):
    if len(seen) == 4:
        assert all(same(one["hybrid"], trained(0, 1)[0]) for one in seen)


def test_there_is_one_account_and_one_charge(seen):
    optimizer = optimizer_of(model_of(), steps=2)
    for _ in range(2):
        optimizer.empty_batch()
        optimizer.step()
    first = seen[0]["account"]
    assert first["epsilon"] == optimizer.epsilon() and first["receipt"]["is_dp_claim"] and first["receipt"]["grade"] == "exact"
    assert [len(one["account"]["charges"]) for one in seen] == [1] + [0] * (len(seen) - 1)
    assert all(one["account"]["receipt"] == first["receipt"] and one["account"]["epsilon"] == first["epsilon"] for one in seen)
    assert first["one more"].startswith("PrivacyBudgetExhaustedError")
    assert all("error on rank 0" in one["account"]["one more"] for one in seen[1:])
    assert first["journaled"] == 2


def test_optimizer_state_is_in_parts(seen):
    held = [one["account"]["sizes"] for one in seen]
    assert all(state == own for sizes in held for state, own in sizes)
    assert sum(own for sizes in held for _, own in sizes) == 26 > max(sum(own for _, own in sizes) for sizes in held)


def test_a_checkpoint_goes_on_in_parts_and_in_one_process(seen):
    for one in seen:
        (parts, steps, extra), (whole, steps_whole, extra_whole) = one["checkpoint"]
        assert same(parts, whole) and (steps, steps_whole) == (4, 3) and extra == extra_whole == {"epoch": 1}
        assert same(parts, seen[0]["checkpoint"][0][0]) and not same(parts, trained(0, 1, **RUNS["adam"])[0])


FAILURES = {
    "not_finite": ("an error on rank {last}: nothing was charged", "must be finite, got nan in row 1"),
    "empty_batch": ("all processes must gather the shards of a model together, got some that step and some that gather",) * 2,
    "saved_by_one": ("all processes must gather the shards of a model together",) * 2,
    "written_to": ("an error on rank {last}: nothing was charged", "the model must not change outside of the private steps"),
}


@pytest.mark.parametrize("name", FAILURES)
def test_what_fails_in_one_process_fails_in_all(seen, name):
    """And the next step works."""
    others, last = FAILURES[name]
    for rank, one in enumerate(seen):
        found = one["failures"][name]
        assert (last if rank == len(seen) - 1 else others).format(last=len(seen) - 1) in found["error"]
        assert found["same"] and found["steps"] == 1


WHOLE = (
    "an example is clipped by its norm over all parameters: give each process the whole model, with distributed=True, or a model of "
    "fully_shard() (FSDP2) to per_example_gradients and as DPOptimizer(model=)"
)
REFUSALS = {
    "undeclared": "distributed must be True with a model of fully_shard(), got None",
    "apart": "distributed must be True with a model of fully_shard(), got False",
    "no model": "parameters must be whole, got DTensor for param_groups[0]['params'][0]: " + WHOLE,
    "sharded later": "fully_shard() must come before the optimizers are made, got whole parameters of a model that is sharded",
    "sharded later, no model": "step() needs gradients of examples, got none",
    "mixed precision": "fully_shard() must have no mixed precision, got MixedPrecisionPolicy(param_dtype=torch.bfloat16",
    "ghost": "model must have whole parameters, got FSDP for the model: " + WHOLE,
    "tensor parallel": "parameters must be whole, got DTensor for param_groups[0]['params'][0]: " + WHOLE,
    "tensor parallel gradients": "parameters must be whole, got DTensor for 0.weight: " + WHOLE,
    "FSDP1": "model must have whole parameters, got FSDP for the model: " + WHOLE,
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refused(seen, name):
    for one in seen:
        assert one["refusals"][name].startswith("ValueError: " + REFUSALS[name])


def test_shards_over_some_of_the_processes_are_refused(seen):
    for one in seen:
        if len(seen) == 4:
            expected = "fully_shard() must be over all 4 processes, with no other parallelism, got ['Shard'] over 2 for 0.weight"
            assert one["some"] == "ValueError: " + expected


def test_the_block_of_the_guide_runs_as_torchrun_starts_it(tmp_path):
    """And those before it, with the same rows and the same weights in both processes."""
    (block,) = [block for block in python_blocks("docs/training_scale.md") if "fully_shard(layer)" in block.code]
    found = 'open(f"found{rank}", "w").write(f"{type(model).__name__} {optimizer.steps_taken} {optimizer.epsilon()}")'
    (tmp_path / "program.py").write_text(f"import torch\ntorch.manual_seed(0)\n{program_of(block)}\n{found}\n")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "program.py"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "OMP_NUM_THREADS": "1"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    first, second = ((tmp_path / f"found{rank}").read_text() for rank in range(2))
    kind, steps, epsilon = first.split()
    assert first == second and (kind, steps) == ("FSDPSequential", "100") and 1.9 < float(epsilon) <= 2.0
