"""Arrays that are not taken, by name and with the way round: nothing is charged."""

import sys
import types

import numpy as np
import pytest

import hushvec as hv

torch = pytest.importorskip("torch")

CALLS = {
    "privatize": lambda x, budget: hv.privatize(x, epsilon=8.0, budget=budget),
    "unit rows": lambda x, budget: hv.privatize(x, epsilon=8.0, normalize=True, budget=budget),
    "clip": lambda x, budget: hv.clip(x, 1.0),
    "clip_and_noise": lambda x, budget: hv.clip_and_noise(x, 1.0, 1.0),
}


class Charges:
    def __init__(self):
        self.taken = []

    def consume(self, epsilon, delta):
        self.taken.append((epsilon, delta))


@pytest.fixture
def shards(tmp_path):
    """Rows that torch.distributed has in one process of one."""
    distributed = pytest.importorskip("torch.distributed.tensor")
    from torch.distributed.device_mesh import init_device_mesh

    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    yield distributed.distribute_tensor(torch.ones(4, 8), init_device_mesh("cpu", (1,)), [distributed.Shard(0)])
    torch.distributed.destroy_process_group()


def test_shards_of_rows_are_refused_before_the_charge(shards):
    budget = Charges()
    for call in CALLS.values():
        with pytest.raises(TypeError) as raised:
            call(shards, budget)
        assert str(raised.value) == (
            "x must be a plain tensor, got DTensor (pass x.to_local(), this process's part, or x.full_tensor())"
        )
    assert budget.taken == []
    hv.privatize(shards.to_local(), epsilon=8.0, budget=budget)
    assert len(budget.taken) == 1


@pytest.mark.parametrize("name", CALLS)
def test_traced_jax_arrays_are_refused_with_the_way_round(name, monkeypatch):
    jax = types.ModuleType("jax")
    tracer = type("Tracer", (), {"shape": (4, 8), "dtype": np.dtype("float32"), "__dlpack__": lambda x: None})
    jax.core = types.SimpleNamespace(Tracer=tracer)
    monkeypatch.setitem(sys.modules, "jax", jax)
    budget = Charges()
    with pytest.raises(TypeError) as raised:
        CALLS[name](tracer(), budget)
    assert str(raised.value) == (
        "x must be a numpy array, a torch tensor or a CuPy array, got jax.Array of a program that is being traced "
        "(hushvec.integrations.jax works on it)"
    )
    assert budget.taken == []
