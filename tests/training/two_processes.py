"""What one of two processes does in the tests of distributed training; what it has seen goes to a file."""

import sys
import warnings

import torch
from torch import distributed

import hushvec as hv
from hushvec.training import DPOptimizer, GhostClipping, PoissonSampler, load_checkpoint, per_example_gradients, save_checkpoint
from training.small_runs import examples_of, grouped, loss, model_of

EXAMPLES = 40
WIDE = 100_000


class Charges:
    def __init__(self, refuse=False):
        self.taken, self.refuse = [], refuse

    def consume(self, epsilon, delta):
        if self.refuse:
            raise ValueError("nothing is left")
        self.taken.append((epsilon, delta))


def share_of(rank, count=EXAMPLES):
    """Unequal ones: every third example is in the second process."""
    rows, labels = examples_of(count)
    chosen = [i for i in range(count) if (i % 3 == 2) == (rank == 1)]
    return rows[chosen], labels[chosen]


def optimizer_of(model, /, **changed):
    arguments = dict(
        clip_norm=0.5, noise_multiplier=1.0, expected_batch_size=40.0, sampling_probability=1.0, delta=1e-5, distributed=True
    )
    inner = torch.optim.SGD(model.parameters(), lr=0.5)
    return DPOptimizer(inner, **grouped(**{**arguments, **changed}))


def weights(model):
    return [parameter.detach().clone() for parameter in model.parameters()]


def raised(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def without_noise(rank):
    """Three steps: of whole shares, of parts, and with nothing in the second process."""
    model = model_of()
    optimizer = optimizer_of(model, noise_multiplier=0.0, model=model)
    rows, labels = share_of(rank)
    per_example_gradients(model, loss, rows, labels)
    optimizer.step()
    for part in (slice(0, 5), slice(5, None)) if rank == 0 else (slice(None),):
        per_example_gradients(model, loss, rows[part], labels[part])
        optimizer.accumulate()
    optimizer.step()
    if rank == 0:
        per_example_gradients(model, loss, rows, labels)
    else:
        optimizer.empty_batch()
    optimizer.step()
    return weights(model)


def ghost(rank):
    model = model_of()
    optimizer = optimizer_of(model, noise_multiplier=0.0)
    rows, labels = share_of(rank)
    with GhostClipping(model, clip_norm=0.5) as clipping:
        if rank == 0:
            clipping.backward(torch.nn.functional.cross_entropy(model(rows), labels, reduction="none"))
        else:
            clipping.empty_batch()
        optimizer.step()
    return weights(model), optimizer.guarantee().grade


def noise(rank):
    """Of one step on an empty batch, and of one in which each process has a run of its own."""
    found = {}
    for kind, distributed_ in (("one run", True), ("two runs", False)):
        model = torch.nn.Linear(WIDE, 1, bias=False)
        torch.nn.init.zeros_(model.weight)
        inner = torch.optim.SGD(model.parameters(), lr=1.0)
        optimizer = DPOptimizer(
            inner,
            clip_norm=0.5,
            noise_multiplier=2.0,
            expected_batch_size=1.0,
            sampling_probability=1.0,
            delta=1e-5,
            distributed=distributed_,
        )
        optimizer.empty_batch()
        optimizer.step()
        found[kind] = model.weight.detach()[0].clone()
    return found


def seeded_noise(rank):
    """Two steps with the noise of a seeded stream, rank 0's."""
    model = model_of()
    optimizer = optimizer_of(model, generator=hv.Generator.unsafe_seeded(7 + rank), model=model)
    for _ in range(2):
        per_example_gradients(model, loss, *share_of(rank))
        optimizer.step()
    return weights(model)


def wrapped(rank, folder):
    """The same steps in DistributedDataParallel, which gives both processes the weights of rank 0; then a step that is charged."""
    from torch.nn.parallel import DistributedDataParallel

    model = DistributedDataParallel(model_of(seed=rank))
    optimizer = optimizer_of(model, generator=hv.Generator.unsafe_seeded(7 + rank), model=model)
    for _ in range(2):
        per_example_gradients(model, loss, *share_of(rank))
        optimizer.step()
    path, plain, budget = f"{folder}/wrapped{rank}.pt", model_of(), Charges()
    save_checkpoint(path, optimizer, model)
    load_checkpoint(path, optimizer_of(plain, model=plain), plain)
    other = DistributedDataParallel(model_of())
    charged = optimizer_of(other, model=other, budget=budget, steps=1)
    charged.empty_batch()
    charged.step()
    claim = charged.guarantee().is_dp_claim
    return {"weights": weights(model), "checkpoint": weights(plain), "charges": budget.taken, "claim": claim}


def ledger(rank, folder):
    """Three steps with a budget on disk that both processes have opened."""
    model = model_of()
    with hv.PrivacyBudget(max_epsilon=100.0, max_delta=1e-3, persist_key="run", store=f"{folder}/budget.sqlite") as budget:
        optimizer = optimizer_of(model, budget=budget, steps=3, model=model)
        for _ in range(3):
            per_example_gradients(model, loss, *share_of(rank))
            optimizer.step()
        distributed.barrier()
        return budget.export()["rows"], optimizer.epsilon(), optimizer.guarantee().charge


def account(rank):
    model, budget = model_of(), Charges()
    optimizer = optimizer_of(model, budget=budget, steps=3, sampling_probability=0.5, model=model)
    rows, labels = share_of(rank)
    sampler = PoissonSampler(len(rows), 0.5, steps=3)
    for batch in sampler:
        per_example_gradients(model, loss, rows[batch], labels[batch])
        optimizer.step()
    per_example_gradients(model, loss, rows, labels)
    one_more = raised(optimizer.step)
    guarantee = optimizer.guarantee()
    return {
        "charges": budget.taken,
        "epsilon": optimizer.epsilon(),
        "steps": optimizer.steps_taken,
        "weights": weights(model),
        "one more": one_more,
        "notes": guarantee.notes,
        "claim": guarantee.is_dp_claim,
    }


def failures(rank):
    """Each is of one process; what both have seen, their steps and charges after it, and that the next step works."""
    found = {}
    rows, labels = share_of(rank)

    def failing(name, *, budget=None, spoil=lambda rows: None, changed=None, seed=0):
        model = model_of(seed)
        before = weights(model)
        optimizer = optimizer_of(model, **({} if budget is None else dict(budget=budget, steps=3)), **(changed or {}))
        per_example_gradients(model, loss, rows, labels)
        spoil(model)
        error = raised(optimizer.step)
        same = all(torch.equal(a, b) for a, b in zip(before, weights(model)))
        found[name] = {"error": error, "steps": optimizer.steps_taken, "same": same, "charges": list(budget.taken) if budget else []}
        return model, optimizer

    def spoil(model):
        if rank == 1:
            model[0].weight.grad_sample[3] = float("nan")

    model, optimizer = failing("NaN", budget=Charges(), spoil=spoil)
    optimizer.zero_grad()
    per_example_gradients(model, loss, rows, labels)
    optimizer.step()
    found["after NaN"] = {"steps": optimizer.steps_taken, "charges": optimizer.budget.taken if rank == 0 else []}
    failing("refused charge", budget=Charges(refuse=True))
    failing("other settings", changed=dict(noise_multiplier=1.0 + rank))
    failing("other weights", seed=rank)
    return found


def checkpoint(rank, folder):
    path = f"{folder}/checkpoint.pt"

    def fresh():
        model = model_of()
        return model, optimizer_of(model, model=model, journal=f"{folder}/run.journal")

    def step(model, optimizer):
        rows, labels = share_of(rank)
        per_example_gradients(model, loss, rows, labels)
        optimizer.step()

    model, optimizer = fresh()
    step(model, optimizer)
    if rank == 0:
        save_checkpoint(path, optimizer, model)
    step(model, optimizer)   # after the checkpoint: only the journal of rank 0 has it
    distributed.barrier()
    model, resumed = fresh()
    load_checkpoint(path, resumed, model)
    step(model, resumed)
    return resumed.steps_taken, resumed.epsilon(), weights(model)


def refusals(rank):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel

    wrapped = DistributedDataParallel(model_of())
    around = torch.nn.Sequential(wrapped)
    sharded = model_of()
    fully_shard(sharded, mesh=init_device_mesh("cpu", (2,)))
    rows, labels = share_of(rank)
    return {
        "undeclared": raised(lambda: optimizer_of(model_of(), distributed=None)),
        "batch": raised(lambda: optimizer_of(model_of(), clipping="batch", allow_batch_level=True)),
        "DDP inside gradients": raised(lambda: per_example_gradients(around, loss, rows, labels)),
        "DDP inside": raised(lambda: optimizer_of(around, model=around)),
        "DDP ghost": raised(lambda: GhostClipping(wrapped, clip_norm=1.0)),
        "FSDP parameters": raised(lambda: optimizer_of(sharded)),
        "FSDP Opacus": raised(lambda: opacus_run(rank, sharded)),
        "unwrapped Opacus": raised(lambda: opacus_run(rank, model_of())),
        "ghost Opacus": raised(lambda: opacus_run(rank, wrapped, grad_sample_mode="ghost")),
    }


def opacus_run(rank, model, noise_multiplier=1.0, generator=None, **arguments):
    from opacus import PrivacyEngine

    from hushvec.training import secure_opacus

    warnings.simplefilter("ignore")
    rows, labels = examples_of(EXAMPLES)
    data = torch.utils.data.TensorDataset(rows, labels)
    engine = secure_opacus(PrivacyEngine(), generator=generator)
    return engine, *engine.make_private(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1.0),
        data_loader=torch.utils.data.DataLoader(data, batch_size=8),
        noise_multiplier=noise_multiplier,
        max_grad_norm=0.5,
        **arguments,
    )


def opacus(rank):
    from opacus.distributed import DifferentiallyPrivateDistributedDataParallel as Wrapper
    from torch.nn.parallel import DistributedDataParallel

    from hushvec.training import opacus_accounting

    found = {}
    for name, wrapper in (("DPDDP", Wrapper), ("DDP", DistributedDataParallel)):
        model = wrapper(model_of(seed=rank))   # both take the weights of rank 0
        _, private, optimizer, _ = opacus_run(rank, model, noise_multiplier=0.0)
        rows, labels = share_of(rank)
        loss(private, rows, labels).backward()
        optimizer.step()
        found[name] = weights(model)
    # The loader's batches, and the noise of steps on them.
    model = torch.nn.Linear(3, 2)
    wrapped = Wrapper(model)
    engine, private, optimizer, loader = opacus_run(rank, wrapped)
    for rows, labels in loader:
        optimizer.zero_grad()
        loss(private, rows, labels).backward()
        optimizer.step()
    found["weights"], found["steps"] = weights(model), opacus_accounting(engine, 1e-5).steps
    found["drawn"] = [index for _ in range(40) for batch in loader.batch_sampler for index in batch]
    found["expected batch"] = optimizer.expected_batch_size
    wide = Wrapper(torch.nn.Linear(3, 20_000, bias=False))
    engine, private, optimizer, loader = opacus_run(rank, wide)
    before = weights(wide)[0]
    private(torch.zeros(4, 3)).sum().backward()
    optimizer.step()
    found["noise"] = (weights(wide)[0] - before).reshape(-1)
    _, private, optimizer, _ = opacus_run(rank, Wrapper(model_of()))
    loss(private, *share_of(rank)).backward()
    if rank == 1:
        next(private.parameters()).grad_sample[2] = float("inf")
    found["error"] = raised(optimizer.step)
    return found


def main(rank, folder):
    torch.set_num_threads(1)
    hv.set_num_threads(1)
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    seen = {one.__name__: one(rank) for one in (without_noise, ghost, noise, seeded_noise, account, failures, refusals, opacus)}
    seen["wrapped"] = wrapped(rank, folder)
    seen["ledger"] = ledger(rank, folder)
    seen["checkpoint"] = checkpoint(rank, folder)
    torch.save(seen, f"{folder}/seen{rank}.pt")
    distributed.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
