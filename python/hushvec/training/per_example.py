"""Per-example gradients through torch.func, the layers that would mix examples, and rows of several people taken apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any

import torch

from hushvec._util import validate
from hushvec.training import batch_gradients, model_watch, ranks, shards
from hushvec.training.global_generators import undisturbed
from hushvec.training.sampler import SeparateExamples

_KINDS: tuple[type[Any], ...] = (torch.nn.BatchNorm1d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d, torch.nn.SyncBatchNorm)
# And the class that they all derive from, which has no public name: layers of other packages derive from it too.
_BATCH_NORMS = _KINDS + tuple(set.intersection(*(set(kind.__mro__) for kind in _KINDS)).difference(torch.nn.InstanceNorm1d.__mro__))


def require_no_batch_norm(model: torch.nn.Module) -> None:
    """ValueError for a BatchNorm layer that normalises by the batch, by its name."""
    model_watch.require_module(model)
    for name, module in model.named_modules():
        if isinstance(module, _BATCH_NORMS) and (module.training or not module.track_running_stats):
            raise ValueError(
                f"model must not mix examples: {name or 'the model'} is a {type(module).__name__} that normalises by the batch, "
                "so that one example moves every gradient (use GroupNorm, or put it into eval mode)"
            )


@undisturbed()
def per_example_gradients(
    model: torch.nn.Module, loss: Callable[..., torch.Tensor], *batch: torch.Tensor, chunk_size: int | None = None,
    vectorize: bool = True,
) -> torch.Tensor:
    """Write per-example gradients to p.grad_sample of every parameter that requires a gradient.

    Args:
        model: called through `loss`; not changed but for p.grad_sample and p.grad_batch. In DistributedDataParallel: the module in it.
            Parameters of `fully_shard` are gathered: all processes must call this equally often, if only with B = 0.
        loss: `loss(predict, *example) -> scalar tensor`. `predict` is the model as a function; the example is a batch of one, cut
            from `batch`: what works on a batch works here. It must use nothing else of the batch, such as its number of tokens.
        *batch: tensors [B, ...], or mappings, lists and tuples of them. Or one batch of `poisson_loader(separate=True)`, whose
            examples may have tensors of different shapes.
        chunk_size: examples computed at once; all if None. 1: the bits of a gradient depend on nothing but its example.
        vectorize: False: a backward pass for each example in place of torch.func.vmap, slower by about the batch size on small
            models. For models whose forward pass looks at values, as those of transformers do with an attention mask, and for layers
            that torch.func does not know: torch.nn.GRU and RNN, and those of bitsandbytes.

    Returns:
        The losses [B], detached. They are not private.

    Raises:
        ValueError: tensors of different B; a layer that mixes examples; other shards than of `fully_shard`; p.grad_sample is there.
        RuntimeError: torch.func.vmap cannot compute the forward pass; the message names vectorize=False.
        ModelChangedError: the forward pass has written into a parameter or buffer (running statistics, max_norm).

    Guarantees:
        Row i is the gradient of row i's loss, as far as torch's batched kernels compute rows apart. It is that of example i alone if
        row i is what the example alone is collated to: `poisson_loader(separate=True)` makes it so, and
        `require_independent_examples` looks whether it is. Random layers (dropout) draw for every example on its own, from the
        operating system: torch's, NumPy's and Python's global generators are neither read nor moved.

    Edge cases:
        B = 0, an empty Poisson sample: p.grad_sample has 0 rows. A parameter that the loss does not use gets zeros. Memory is B
        times that of the parameters; `GhostClipping` needs less.

    Example:
        >>> import torch
        >>> from hushvec.training import per_example_gradients
        >>> model = torch.nn.Linear(2, 1, bias=False)
        >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> losses = per_example_gradients(model, lambda predict, row: predict(row).sum(), rows)
        >>> bool((model.weight.grad_sample[:, 0] == rows).all())
        True
    """
    model = ranks.unwrapped(model)
    require_no_batch_norm(model)
    ranks.require_plain(model, or_sharded=True)
    whole = ranks.gathered(model)  # first: other processes wait for this one
    if not callable(loss):
        raise TypeError(f"loss must be callable, got {validate.kind(loss)}")
    if chunk_size is not None:
        chunk_size = validate.whole_number("chunk_size", chunk_size, at_least=1)
    if not validate.flag("vectorize", vectorize) and chunk_size is not None:
        raise ValueError(f"chunk_size must be None without vectorize, got {chunk_size}")
    size = batch_size(batch)
    parameters = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    if not parameters:
        raise ValueError("model must have a parameter that requires a gradient, got none")
    for name, parameter in parameters.items():
        if getattr(parameter, "grad_sample", None) is not None:
            raise ValueError(f"grad_sample of {name!r} must be taken by accumulate() or step() first, or dropped by zero_grad()")
    model_watch.announce(model)
    if size == 0:
        for parameter in parameters.values():
            parameter.grad_sample = shards.local_of(parameter).new_zeros((0, *parameter.shape))  # type: ignore[attr-defined]
        return torch.zeros(0)
    names = _places(model, {**parameters, **dict(shards.parameters_of(model))})
    before = model_watch.look_at(model)

    def of_one(trained: dict[str, torch.Tensor], *example: Any) -> tuple[torch.Tensor, torch.Tensor]:
        def predict(*arguments: Any, **named: Any) -> Any:
            if named.get("num_items_in_batch") is not None:
                raise ValueError("num_items_in_batch must be left out: it divides an example's loss by the tokens of the batch")
            replaced = {place: trained[name] if name in trained else whole[name] for place, name in names.items()}
            with shards.resting_hooks(model):
                return torch.func.functional_call(model, replaced, arguments, named, tie_weights=False)

        value = loss(predict, *map_tensors(example, lambda part: part[None]))
        if value.numel() != 1:
            raise ValueError(f"loss must return one number for its one example, got a tensor of shape {tuple(value.shape)}")
        return value.reshape(()), value.detach().reshape(())

    trained = {name: whole.get(name, parameter.detach()) for name, parameter in parameters.items()}
    if vectorize:
        of_each = torch.func.grad(of_one, has_aux=True)
        try:
            gradients, losses = _at_once(of_each, trained, batch, chunk_size)
        except RuntimeError as error:
            if type(error) is not RuntimeError:  # memory
                raise
            _one_by_one(of_one, trained, _rows_of(batch)[:1])  # an error of the model itself is raised as it is
            known = "of a GRU or RNN, or one that looks at values"
            raise RuntimeError(f"torch.func.vmap cannot compute this forward pass ({known}): give vectorize=False; {error}") from error
    else:
        gradients, losses = _one_by_one(of_one, trained, _rows_of(batch))
    model_watch.require_untouched(model, before)
    for name, parameter in parameters.items():
        parameter.grad_sample = gradients[name]  # type: ignore[attr-defined]
    batch_gradients.mark(parameters.values())
    return losses


def _rows_of(batch: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """The arguments of each example, without the dimension of examples."""
    if not _is_separate(batch):
        return [map_tensors(batch, itemgetter(row)) for row in range(batch_size(batch))]
    examples = [tuple(one) if isinstance(one, (tuple, list)) else (one,) for one in batch[0]]
    for one in examples:
        if (count := batch_size(one)) != 1:
            raise ValueError(f"batch must hold examples that are a batch of one each, got one of {count} rows")
    return [map_tensors(one, itemgetter(0)) for one in examples]


def _at_once(
    of_each: Callable[..., Any], trained: dict[str, torch.Tensor], batch: tuple[Any, ...], chunk_size: int | None
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """(gradients [B, *shape] by name, losses [B]) by vmap: of separate examples those at once whose tensors are of the same shapes."""

    def of_all(batch: Any) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
        vectorized = torch.func.vmap(of_each, in_dims=(None, *(0 for _ in batch)), randomness="different", chunk_size=chunk_size)
        return vectorized(trained, *batch)  # type: ignore[no-any-return]

    if not _is_separate(batch):
        return of_all(batch)
    rows, groups = _rows_of(batch), dict[str, list[int]]()
    for place, row in enumerate(rows):
        groups.setdefault(repr(map_tensors(row, lambda part: (part.shape, part.dtype))), []).append(place)
    found: list[Any] = [None] * len(rows)
    for places in groups.values():
        gradients, losses = of_all(torch.utils.data.default_collate([rows[place] for place in places]))
        for place, *gradient, loss in zip(places, *gradients.values(), losses):
            found[place] = gradient, loss
    return _stacked(trained, found)


def _stacked(trained: dict[str, torch.Tensor], found: list[Any]) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    gradients = {name: torch.stack(parts) for name, parts in zip(trained, zip(*(one for one, _ in found)))}
    return gradients, torch.stack([loss for _, loss in found])


def _one_by_one(
    of_one: Callable[..., tuple[torch.Tensor, torch.Tensor]], trained: dict[str, torch.Tensor], rows: list[tuple[Any, ...]]
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """(gradients [B, *shape] by name, losses [B]), by an ordinary backward pass for each example: every layer that trains has one."""
    found: list[Any] = []
    with torch.enable_grad():
        leaves = {name: parameter.requires_grad_() for name, parameter in trained.items()}
        for row in rows:
            value, loss = of_one(leaves, *row)
            if not value.requires_grad:  # the loss uses none of them
                value = value + sum(leaf.sum() * 0 for leaf in leaves.values())
            found.append((torch.autograd.grad(value, list(leaves.values()), allow_unused=True, materialize_grads=True), loss))
    return _stacked(trained, found)


def _places(model: torch.nn.Module, parameters: dict[str, torch.nn.Parameter]) -> dict[str, str]:
    """Every place of these parameters in the model, and the name it goes by. Each module is named once, even in several places:
    torch's own tying of weights replaces a shared module's parameter twice, and then never restores the original."""
    own = {parameter: name for name, parameter in parameters.items()}
    places: dict[str, str] = {}
    for path, module in model.named_modules():
        for name, parameter in module.named_parameters(recurse=False, remove_duplicate=False):
            if parameter in own:
                places[f"{path}.{name}" if path else name] = own[parameter]
    return places


def _is_separate(batch: tuple[Any, ...]) -> bool:
    return len(batch) == 1 and isinstance(batch[0], SeparateExamples)


def batch_size(batch: tuple[Any, ...]) -> int:
    if _is_separate(batch):
        return len(batch[0])
    sizes: list[int] = []

    def note(part: torch.Tensor) -> None:
        if part.ndim == 0:
            raise ValueError("batch must hold tensors with a dimension of examples, got a scalar")
        sizes.append(len(part))

    map_tensors(batch, note)
    if not sizes:
        raise ValueError("batch must hold at least 1 tensor, got none")
    for size in sizes:
        if size != sizes[0]:
            raise ValueError(f"batch must have tensors of one number of examples, got {sizes[0]} and {size}")
    return sizes[0]


def map_tensors(structure: Any, function: Callable[[torch.Tensor], Any]) -> Any:
    if isinstance(structure, torch.Tensor):
        return function(structure)
    if isinstance(structure, Mapping):  # transformers' BatchEncoding is no dict
        return {name: map_tensors(part, function) for name, part in structure.items()}
    if isinstance(structure, (list, tuple)):
        return type(structure)(map_tensors(part, function) for part in structure)
    raise TypeError(f"batch must be of tensors, and mappings, lists and tuples of them, got {validate.kind(structure)}")


def unpack_people(batch: Any, people: torch.Tensor, drawn: Sequence[int], *, padding: Any = 0) -> Any:
    """A row of tokens for each person, from rows in which people's texts are packed: docs/training.md, "Packed rows".

    Args:
        batch: a tensor [B, T, ...], or a mapping of them (input_ids, labels, ...).
        people: int64 [B, T], a number >= 0 of the person whose token it is; -1 where it is nobody's.
        drawn: the people of the batch, each once, as the sampler drew them: also those without a token.
        padding: what fills rows at their ends: a number, or a mapping of numbers by name; 0 for names that it has not.

    Returns:
        As `batch`, [len(drawn), L, ...], L >= 1 the most tokens of one person. A person's tokens of all rows follow each other.

    Raises:
        ValueError: a token of somebody who was not drawn, somebody drawn twice, other shapes or dtypes.

    Example:
        >>> import torch
        >>> unpack_people(torch.tensor([[5, 6, 7, 8]]), torch.tensor([[3, 3, 9, -1]]), [9, 3])
        tensor([[7, 0],
                [5, 6]])
    """
    if people.dtype != torch.int64 or people.ndim != 2:
        raise ValueError(f"people must be int64 [rows, tokens], got {people.dtype} {list(people.shape)}")
    if len(set(drawn)) != len(drawn) or min(drawn, default=0) < 0:
        raise ValueError(f"drawn must have each person once, by numbers >= 0, got {list(drawn)}")
    if len(strange := people[(people != -1) & ~torch.isin(people, people.new_tensor(list(drawn)))]):
        raise ValueError(f"people must be among those drawn, or -1, got {int(strange[0])}")
    places = [(people.flatten() == person).nonzero()[:, 0] for person in drawn]

    def apart(part: Any, name: str, fill: Any) -> Any:
        if (shape := tuple(getattr(part, "shape", ())))[:2] != tuple(people.shape):
            raise ValueError(f"{name} must be a tensor {list(people.shape)} or with more axes, like people, got {list(shape)}")
        rows = part.new_full((len(drawn), max([1, *map(len, places)]), *shape[2:]), fill)
        for row, own in zip(rows, places):
            row[: len(own)] = part.flatten(0, 1)[own]
        return rows

    if not isinstance(batch, Mapping):
        return apart(batch, "batch", padding)
    return {name: apart(part, name, padding.get(name, 0) if isinstance(padding, Mapping) else padding) for name, part in batch.items()}
