"""What one of several processes does in the tests of models of `fully_shard`; what it has seen goes to a file."""

import sys

import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import hushvec as hv
from hushvec.training import (
    AdaptiveClip,
    CorrelatedNoise,
    DPOptimizer,
    GhostClipping,
    PoissonSampler,
    StepJournal,
    load_checkpoint,
    per_example_gradients,
    save_checkpoint,
    shards,
)
from training.small_runs import examples_of, grouped, loss, model_of, seeded
from training.two_processes import Charges, raised

STEPS = 3
ROWS, LABELS = examples_of(32)
NOISE = CorrelatedNoise.bisr(bands=3, steps=STEPS, min_separation=1)
# What differs from a run of SGD with momentum: the optimizer, arguments of DPOptimizer, of per_example_gradients, frozen names.
RUNS = {
    "sgd": {},
    "adam": {"inner": lambda given: torch.optim.AdamW(given, lr=0.05)},
    "correlated": {"noise": NOISE, "sampling_probability": None},
    "loop": {"vectorize": False},
    "frozen": {"frozen": ("0.weight", "0.bias")},
    "estimated": {"clipping": "estimated"},
    "adaptive": {"adaptive": AdaptiveClip()},
}


def shards_of(model, mesh=None):
    """The first layer in a group of its own, the rest in another; 26 parameters, of which some processes have none of a tensor."""
    mesh = init_device_mesh("cpu", (distributed.get_world_size(),)) if mesh is None else mesh
    fully_shard(model[0], mesh=mesh)
    return fully_shard(model, mesh=mesh)


def optimizer_of(model, inner=None, /, **changed):
    given = [parameter for parameter in model.parameters() if parameter.requires_grad]
    inner = torch.optim.SGD(given, lr=0.5, momentum=0.9) if inner is None else inner(given)
    arguments = dict(clip_norm=0.5, noise_multiplier=1.0, expected_batch_size=32.0, sampling_probability=1.0, delta=1e-5, model=model)
    return DPOptimizer(inner, **grouped(**{**arguments, **changed}))


def weights(model):
    return [shards.whole_of(parameter).detach().clone() for parameter in model.parameters()]


def run_of(model, *, inner=None, vectorize=True, frozen=(), **changed):
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name not in frozen)
    return optimizer_of(model, inner, **{"generator": seeded(), **changed}), vectorize


def trained(rank, count, cut=None, between=lambda model: None, **changed):
    """Weights after three steps, on every count-th example from this rank on."""
    model = model_of()
    if cut is not None:
        cut(model)
    optimizer, vectorize = run_of(model, **changed, **({} if cut is None else {"distributed": True}))
    for _ in range(STEPS):
        per_example_gradients(model, loss, ROWS[rank::count], LABELS[rank::count], vectorize=vectorize)
        between(model)
        optimizer.step()
    return weights(model), optimizer


def runs(rank, count, folder):
    return {name: trained(rank, count, shards_of, **changed)[0] for name, changed in RUNS.items()}


def unequal_shares(rank, count, folder):
    """The last process has no example, the others some in parts."""
    model = shards_of(model_of())
    optimizer = optimizer_of(model, generator=seeded(), distributed=True)
    last = count - 1
    share = slice(0, 0) if rank == last else slice(rank, None, last)
    rows, labels = ROWS[share], LABELS[share]
    for part in (slice(0, 3), slice(3, None)):
        per_example_gradients(model, loss, rows[part], labels[part])
        optimizer.accumulate()
    optimizer.step()
    for sampled in PoissonSampler(len(rows), 1.0, steps=1) if len(rows) else [[]]:
        per_example_gradients(model, loss, rows[sampled], labels[sampled])
        optimizer.step()
    return weights(model)


def passes_between(rank, count, folder):
    """FSDP's own passes: some that average raw gradients or keep them, and one without, which leaves the root whole."""

    def between(model):
        torch.nn.functional.cross_entropy(model(ROWS), LABELS).backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        model.set_requires_gradient_sync(False)
        torch.nn.functional.cross_entropy(model(ROWS), LABELS).backward()
        model.set_requires_gradient_sync(True)
        with torch.no_grad():
            model(ROWS)
        assert not hasattr(model[2].weight, "placements")

    return trained(rank, count, shards_of, between)[0]


def hybrid(rank, count, folder):
    """Two replicas of the shards."""
    mesh = init_device_mesh("cpu", (2, count // 2), mesh_dim_names=("replicas", "shards"))
    return trained(rank, count, lambda model: shards_of(model, mesh))[0] if count > 2 else None


def account(rank, count, folder):
    """Two runs: what each process has seen of one with a budget, and the receipt of one without, whose notes are the same in all."""
    budget, receipts = Charges(), []
    path = f"{folder}/journal{count}"
    for given in ({}, {"budget": budget, "journal": path}):
        model = shards_of(model_of())
        optimizer = optimizer_of(model, distributed=True, steps=2, **given)
        for _ in range(2):
            per_example_gradients(model, loss, ROWS[rank::count], LABELS[rank::count])
            optimizer.step()
        receipts.append(optimizer.receipt().to_dict())
    per_example_gradients(model, loss, ROWS[rank::count], LABELS[rank::count])
    one_more = raised(optimizer.step)
    distributed.barrier()
    sizes = [
        (state["momentum_buffer"].to_local().numel(), parameter.to_local().numel())
        for parameter, state in optimizer.state.items()
    ]
    return {
        "charges": budget.taken,
        "one more": one_more,
        "receipt": receipts[0],
        "epsilon": optimizer.epsilon(),
        "sizes": sizes,
        "journaled": StepJournal(path, settings=optimizer.settings.digest).steps if rank == 0 else None,
    }


def checkpoint(rank, count, folder):
    """A run that saves after a step and is lost after the second, loaded into shards with its journal, and whole in one process."""
    path, journal = f"{folder}/checkpoint{count}.pt", f"{folder}/lost{count}"
    adam = RUNS["adam"]["inner"]

    def steps(model, optimizer, ranks, number):
        for _ in range(number):
            per_example_gradients(model, loss, ROWS[ranks], LABELS[ranks])
            optimizer.step()

    def resumed(cut, ranks, **more):
        model = cut(model_of(seed=5))
        optimizer = optimizer_of(model, adam, generator=seeded(1), **more)
        extra = load_checkpoint(path, optimizer, model)
        steps(model, optimizer, ranks, 2)
        return weights(model), optimizer.steps_taken, extra

    model = shards_of(model_of())
    optimizer = optimizer_of(model, adam, generator=seeded(), distributed=True, journal=journal)
    steps(model, optimizer, slice(rank, None, count), 1)
    save_checkpoint(path, optimizer, model, extra={"epoch": 1})
    steps(model, optimizer, slice(rank, None, count), 1)
    distributed.barrier()
    sharded = resumed(shards_of, slice(rank, None, count), distributed=True, journal=journal)
    return sharded, resumed(lambda model: model, slice(None), distributed=False)


def failures(rank, count, folder):
    """Errors in one process or in all; a step works after each."""
    found = {}
    share = slice(rank, None, count)

    def attempt(name, call, spoil=lambda model: None):
        model = shards_of(model_of())
        optimizer = optimizer_of(model, distributed=True, generator=seeded())
        before = weights(model)
        error = raised(lambda: call(model, optimizer))
        same = all(torch.equal(a, b) for a, b in zip(before, weights(model)))
        optimizer.zero_grad()
        optimizer.discard()
        optimizer.accept_changes()
        per_example_gradients(model, loss, ROWS[share], LABELS[share])
        optimizer.step()
        found[name] = {"error": error, "same": same, "steps": optimizer.steps_taken}

    def not_finite(model, optimizer):
        per_example_gradients(model, loss, ROWS[share], LABELS[share])
        if rank == count - 1:
            model[0].weight.grad_sample[1] = float("nan")
        optimizer.step()

    def empty_batch(model, optimizer):
        if rank == 0:
            optimizer.empty_batch()
            optimizer.step()
        else:
            per_example_gradients(model, loss, ROWS[share], LABELS[share])

    def saved_by_one(model, optimizer):
        if rank == 0:
            save_checkpoint(f"{folder}/never", optimizer, model)
        else:
            per_example_gradients(model, loss, ROWS[share], LABELS[share])

    def written_to(model, optimizer):
        per_example_gradients(model, loss, ROWS[share], LABELS[share])
        if rank == count - 1:
            with torch.no_grad():
                model[0].weight.to_local().mul_(1)
        optimizer.step()

    for one in (not_finite, empty_batch, saved_by_one, written_to):
        attempt(one.__name__, one)
    return found


def refusals(rank, count, folder):
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module

    def late(model_given):
        model = model_of()
        optimizer = optimizer_of(model, distributed=True, model=model if model_given else None)
        shards_of(model)
        per_example_gradients(model, loss, ROWS[rank::count], LABELS[rank::count])
        optimizer.step()

    def parallel(make):
        model = parallelize_module(model_of(), init_device_mesh("cpu", (count,)), {"0": ColwiseParallel()})
        return make(model)

    mixed = model_of()
    fully_shard(mixed, mesh=init_device_mesh("cpu", (count,)), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    model = shards_of(model_of())
    flat = FullyShardedDataParallel(model_of(), device_id=torch.device("cpu"))
    return {
        "undeclared": raised(lambda: optimizer_of(model)),
        "apart": raised(lambda: optimizer_of(model, distributed=False)),
        "no model": raised(lambda: optimizer_of(model, distributed=True, model=None)),
        "sharded later": raised(lambda: late(True)),
        "sharded later, no model": raised(lambda: late(False)),
        "mixed precision": raised(lambda: optimizer_of(mixed, distributed=True)),
        "ghost": raised(lambda: GhostClipping(model, clip_norm=1.0)),
        "tensor parallel": raised(lambda: parallel(lambda model: optimizer_of(model, distributed=True))),
        "tensor parallel gradients": raised(lambda: parallel(lambda model: per_example_gradients(model, loss, ROWS, LABELS))),
        "FSDP1": raised(lambda: per_example_gradients(flat, loss, ROWS, LABELS)),
    }


def some(rank, count, folder):
    """Shards over half of the processes."""
    mesh = init_device_mesh("cpu", (2, count // 2), mesh_dim_names=("replicas", "shards"))["shards"]
    return raised(lambda: optimizer_of(fully_shard(model_of(), mesh=mesh), distributed=True)) if count > 2 else None


def main(rank, count, folder):
    torch.set_num_threads(1)
    hv.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting{count}", rank=rank, world_size=count)
    parts = (runs, unequal_shares, passes_between, hybrid, account, checkpoint, failures, refusals, some)
    torch.save({one.__name__: one(rank, count, folder) for one in parts}, f"{folder}/{rank}of{count}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
