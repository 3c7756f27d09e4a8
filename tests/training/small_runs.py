"""Small models and optimizers for the tests of training."""

import copy

import torch

import hushvec as hv
from hushvec.training import Account, Clipping, DPOptimizer


def model_of(seed=0, dtype=torch.float32):
    """Three features, two classes, 26 parameters in four tensors."""
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)).to(dtype)


def examples_of(count, seed=1, dtype=torch.float32):
    source = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 3, generator=source).to(dtype)
    return rows, (rows[:, 0] > 0).long()


def loss(predict, rows, labels):
    return torch.nn.functional.cross_entropy(predict(rows), labels)


def optimizer_of(model, inner=None, /, **changed):
    arguments = dict(
        clip_norm=1.0, noise_multiplier=1.0, expected_batch_size=8.0, sampling_probability=1.0, delta=1e-5, clipping="exact"
    )
    return DPOptimizer(inner or torch.optim.SGD(model.parameters(), lr=0.5), **grouped(**{**arguments, **changed}))


def grouped(**options):
    """The arguments of DPOptimizer, of which the fields of its groups are given by themselves."""
    groups = {"account": Account, "clipping": Clipping}
    fields = {name: {one for one in options if one in kind.__dataclass_fields__} for name, kind in groups.items()}
    rest = {name: value for name, value in options.items() if name not in set().union(*fields.values(), groups)}
    if "clipping" in options:
        options["method"] = options["clipping"]
        fields["clipping"].add("method")
    return {**rest, **{name: kind(**{one: options[one] for one in fields[name]}) for name, kind in groups.items()}}


def step_on(optimizer, batch, dataset):
    """A step on the examples of a sample, whose gradients are 0."""
    rows = dataset[batch]
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad_sample = torch.zeros(len(rows), *parameter.shape)
    optimizer.step()


def gradients_by_loop(model, rows, labels):
    """Gradients of single examples, one backward pass each: [B, *shape] for each parameter."""
    found = []
    for row, label in zip(rows, labels):
        clone = copy.deepcopy(model)
        loss(clone, row[None], label[None]).backward()
        found.append([parameter.grad for parameter in clone.parameters()])
    return [torch.stack(parts) for parts in zip(*found)]


def clipped_sum(parts, clip_norm):
    """The textbook's sum, in float64."""
    wide = [part.double().reshape(len(part), -1) for part in parts]
    norms = torch.cat(wide, 1).norm(dim=1)
    scales = torch.clamp(clip_norm / norms, max=1.0)
    return [(scales @ flat).reshape(part.shape[1:]) for flat, part in zip(wide, parts)]


def state_of(optimizer, model):
    """Everything that a refused step must leave alone."""
    return (
        [parameter.detach().clone() for parameter in model.parameters()],
        copy.deepcopy(optimizer.optimizer.state_dict()),
        optimizer.accountant.to_dict(),
        optimizer.steps_taken,
    )


def same_state(first, second):
    return (
        all(torch.equal(a, b) for a, b in zip(first[0], second[0]))
        and repr(first[1]) == repr(second[1])
        and first[2:] == second[2:]
    )


def seeded(seed=0):
    return hv.Generator.unsafe_seeded(seed)
