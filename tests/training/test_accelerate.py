"""The example with Accelerate in two real processes: one noise, one account, one charge; and what its wrapping does to an account."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
accelerate = pytest.importorskip("accelerate")
from hushvec.training import per_example_gradients  # noqa: E402
from training.small_runs import examples_of, loss, model_of, optimizer_of  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "private_accelerate.py"


@pytest.mark.full   # test_distributed.py has two processes always
@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch was built without torch.distributed")
def test_the_example_in_two_processes(tmp_path):
    """As the example says, by torchrun."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", str(EXAMPLE)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    lines = re.findall(r"rank (\d): (\d+) steps, epsilon ([\d.]+), charged ([\d.]+), weights (\S+)", done.stdout)
    assert sorted(line[0] for line in lines) == ["0", "1"], done.stdout
    first, second = sorted(lines)
    assert first[1:3] == second[1:3] and first[1] == "20" and 1.99 < float(first[2]) <= 2.0
    assert first[4] == second[4], "one noise: both processes have the same weights"
    assert float(first[3]) == pytest.approx(2.0, abs=0.01) and float(second[3]) == 0.0, "one charge, rank 0's"
    assert "several processes took part" in done.stdout and done.stdout.count("-DP, add-remove") == 1


def test_wrapping_is_no_resumption():
    """Accelerate loads an optimizer's own state back when it wraps it."""
    model = model_of()
    optimizer = optimizer_of(model, model=model)
    wrapped = accelerate.Accelerator(cpu=True).prepare(optimizer)
    assert wrapped.optimizer is optimizer
    per_example_gradients(model, loss, *examples_of(8))
    wrapped.step()
    guarantee = optimizer.guarantee()
    assert guarantee.steps == 1 and guarantee.resumed == 0 and not any("resumed" in note for note in guarantee.notes)
    assert guarantee.is_dp_claim


def test_a_state_of_another_optimizer_is_a_resumption():
    first, second = model_of(), model_of()
    optimizer = optimizer_of(second, model=second)
    optimizer.load_state_dict(optimizer_of(first, model=first).state_dict())
    assert optimizer.guarantee().resumed == 1


def test_a_state_from_before_the_first_step_does_not_undo_steps():
    model = model_of()
    optimizer = optimizer_of(model, model=model)
    before = optimizer.state_dict()
    per_example_gradients(model, loss, *examples_of(8))
    optimizer.step()
    with pytest.raises(ValueError, match="needs an optimizer that has not stepped, got one with 1 steps"):
        optimizer.load_state_dict(before)
    assert optimizer.steps_taken == 1
