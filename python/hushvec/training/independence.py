"""Whether an example's gradient is what it is alone: tried out on a few examples before a training begins."""

from __future__ import annotations

import copy
import math
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import cycle, islice, zip_longest
from typing import Any

import numpy as np
import torch

from hushvec.training import ranks
from hushvec.training.per_example import map_tensors, require_no_batch_norm
from hushvec.training.sampler import OneRowEach, SeparateExamples

# Elements up to which a model is copied to float64: 256 MiB.
_COPIED = 2**25
# Relative to the norm of the gradient. Some layers compute in float32 in a model of float64; what a batch changes is far above it.
_IN_FLOAT64 = 1e-5
_TWENTY = "twenty others"
_DEPENDS = (
    "an example's gradient must be what it is alone, got another one {where}: padding to the longest of a batch that the model sees "
    "(give poisson_loader(separate=True), or pad on the right, or to a fixed length), a layer, loss or collate function that mixes "
    'examples or remembers them, or rows of joined examples (docs/training.md, "What an example is")'
)

_Gradient = tuple[torch.Tensor, ...]


def require_independent_examples(
    model: torch.nn.Module, loss: Callable[..., torch.Tensor] | None = None, loader: Any = None, *,
    losses: Callable[..., torch.Tensor] | None = None,
) -> None:
    """Refuse a model, a loss or a collate function that lets one example change another's gradient.

    With the model alone it looks for BatchNorm layers. With a loader it computes gradients, too: of the first example of the dataset
    alone, and beside the second one and twenty others; and, if the example is a sequence (a list, tensor or text, or fields of them),
    of its first half beside the whole, a quarter, and twenty of different lengths. They must be equal.

    Args:
        model: on its device, in the mode in which it trains.
        loss: `loss(predict, *example) -> scalar`, as for `per_example_gradients`.
        loader: of `poisson_loader` or `cyclic_loader`, or another one with a dataset and a collate_fn.
        losses: `losses(model, *batch) -> [B]` in place of loss, for `GhostClipping` and other ways to compute a batch at once. Call
            this before GhostClipping puts its hooks on the model.

    Raises:
        ValueError: a BatchNorm layer in training mode, by its name: it normalises by the batch. (In eval mode it does not.
            GroupNorm and LayerNorm never do.) A gradient that depends on the batch: by padding to the longest that the model
            sees, a layer or a loss that mixes examples (negatives of the batch), rows of joined examples. A sharded model.

    Guarantees:
        At most 10 gradients of single examples, computed in float64 on a copy of the model up to 2^25 elements, and else, or where
        it cannot be copied, in its own dtype on the model itself, which takes memory for two gradients. Dropout is off meanwhile.
        Random states stay as they were, and so does the model, if its forward pass writes nothing into it.
        The first three examples are private. The error tells that this check failed, and beside what, but neither values nor sizes.

    Edge cases:
        What couples other examples than these is not found. Examples whose attention_mask has zeros are taken to be padded to a fixed
        length, and get no parts of other lengths. A UserWarning where there is nothing to compare: out of memory, gradients that are
        not finite, or random beyond dropout, as with a collate function that masks words at random; the last need no comparison where
        each example is collated by itself (`separate=True`).

    Example:
        >>> import torch
        >>> from hushvec.training import poisson_loader, require_independent_examples
        >>> model = torch.nn.Linear(3, 1)
        >>> loader = poisson_loader(torch.utils.data.TensorDataset(torch.randn(40, 3)), 0.1)
        >>> require_independent_examples(model, lambda predict, rows: predict(rows).square().sum(), loader)
        >>> try:
        ...     require_independent_examples(model, None, loader, losses=lambda model, rows: model(rows - rows.mean(0))[:, 0])
        ... except ValueError as error:
        ...     print(str(error)[:86])
        an example's gradient must be what it is alone, got another one beside another example
    """
    require_no_batch_norm(model)
    if loader is None:
        if loss is not None or losses is not None:
            raise ValueError("loader must be given with loss or losses, got None")
        return
    if (loss is None) == (losses is None):
        raise ValueError("exactly one of loss and losses must be given")
    model = ranks.unwrapped(model)
    ranks.require_plain(model)
    given = loader.collate_fn
    collate = given if isinstance(given, OneRowEach) else OneRowEach(given, loader.dataset)
    if losses is not None and collate.separate:
        raise ValueError("loader must collate examples together with losses=, got one with separate=True")
    device = next(model.parameters()).device
    devices = [device] if device.type == "cuda" else []
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices), torch.enable_grad():
        try:
            _try_out(_gradients_of(model, loss, losses, collate), collate)
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


def _try_out(gradients: _Gradients, collate: OneRowEach) -> None:
    examples = collate.first_examples()
    for place in range(len(examples)):
        first, *others = examples[place:] + examples[:place]
        alone = gradients([first])
        if math.isfinite(_norm(alone)):
            break
    else:
        _warn("gradients of the first examples are not finite")
        return
    _require_none(gradients.changed(alone, first, {"at the second try": []}))
    if not gradients.alike(alone, gradients([first], seed=1)):
        if not collate.separate:
            _warn("gradients are random beyond dropout")
        return
    _require_none(gradients.changed(alone, first, {"beside another example": others[:1], f"beside {_TWENTY}": others}))
    length = _length_of(first)
    if not length or any(map(_is_padded, examples)):
        return
    # At least two tokens: a language model has no loss of one.
    half, whole, quarter = (_resized(first, length, size) for size in (max(2, length // 2), max(3, length), max(1, length // 4)))
    neighbors = {"a longer example": [whole], "a shorter one": [quarter], _TWENTY: [whole, quarter, *others]}
    try:
        where = gradients.changed(gradients([half]), half, {f"beside {words}": found for words, found in neighbors.items()})
    except Exception:  # of a collate function or model that has no use for such lengths: then batches have none
        return
    _require_none(where)


def _require_none(where: str | None) -> None:
    if where is not None:
        raise ValueError(_DEPENDS.format(where=where))


def _warn(reason: str) -> None:
    warnings.warn(f"independence of examples was not checked: {reason}", stacklevel=4)


def _gradients_of(model: torch.nn.Module, loss: Any, losses: Any, collate: OneRowEach) -> _Gradients:
    if sum(tensor.numel() for tensor in (*model.parameters(), *model.buffers())) <= _COPIED:
        try:
            found = _Gradients(copy.deepcopy(model).double(), loss, losses, collate)
            found(collate.first_examples()[:1])
        except Exception:  # what cannot be copied, or computes in its own dtype alone; an error of the loss comes again
            pass
        else:
            return found
    return _Gradients(model, loss, losses, collate)


class _Gradients:
    """Gradients of examples in batches, and whether two are equal."""

    def __init__(self, model: torch.nn.Module, loss: Any, losses: Any, collate: OneRowEach) -> None:
        self._model, self._loss, self._losses, self._collate = model, loss, losses, collate
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        if not self._parameters:
            raise ValueError("model must have a parameter that requires a gradient, got none")
        coarsest = max(torch.finfo(parameter.dtype).eps for parameter in self._parameters)
        self._device, self._wide = self._parameters[0].device, coarsest == torch.finfo(torch.float64).eps
        self._tolerance = _IN_FLOAT64 if self._wide else coarsest**0.5

    def __call__(self, examples: list[Any], place: int = 0, *, seed: int = 0) -> _Gradient:
        """That of the example in this place of a batch."""
        random.seed(seed)
        np.random.seed(seed)
        torch.default_generator.manual_seed(seed)
        if self._device.type == "cuda":
            with torch.cuda.device(self._device):
                torch.cuda.manual_seed(seed)
        batch, row = self._collate(examples), slice(None)
        if isinstance(batch, SeparateExamples):
            batch = batch[place]
        elif self._losses is None:
            row = slice(place, place + 1)
        arguments = map_tensors(tuple(batch) if isinstance(batch, (tuple, list)) else (batch,), lambda part: self._given(part[row]))
        with _without_dropout(self._model):
            if self._losses is None:
                value = self._loss(self._model, *arguments)
            else:
                value = self._losses(self._model, *arguments)
                if isinstance(value, torch.Tensor) and tuple(value.shape) != (len(examples),):
                    count = len(examples)
                    raise ValueError(f"losses must return a tensor [{count}], one loss for each example, got {list(value.shape)}")
                value = value[place]
            found = torch.autograd.grad(value, self._parameters, allow_unused=True) if value.requires_grad else ()
        if found and all(part is None for part in found):
            raise ValueError("the loss must use the model that it is given, got one that uses none of its parameters")
        return tuple(torch.zeros_like(one) if part is None else part for one, part in zip_longest(self._parameters, found))

    def _given(self, part: torch.Tensor) -> torch.Tensor:
        return part.to(self._device, torch.float64 if self._wide and part.is_floating_point() else part.dtype)

    def alike(self, alone: _Gradient, other: _Gradient) -> bool:
        """Whether they are equal, but for rounding."""
        moved = _norm(a - b for a, b in zip(alone, other))
        return moved <= self._tolerance * max(_norm(alone), _norm(other))

    def changed(self, alone: _Gradient, example: Any, neighbors: dict[str, list[Any]]) -> str | None:
        """Beside which of these others, repeated up to twenty, an example's gradient is another one, if it is beside any."""
        for where, others in neighbors.items():
            batch = list(islice(cycle(others), 20 if where.endswith(_TWENTY) else 1))
            place = (len(batch) + 1) // 2  # others before it, and behind it where there are some
            batch.insert(place, example)
            try:
                beside = self(batch, place)
            except torch.OutOfMemoryError:
                _warn(f"memory does not suffice {where}")
                return None
            if not self.alike(alone, beside):
                return where
        return None


def _norm(parts: Iterable[torch.Tensor]) -> float:
    return math.hypot(*(float(torch.linalg.vector_norm(part, dtype=torch.float64)) for part in parts))


@contextmanager
def _without_dropout(model: torch.nn.Module) -> Iterator[None]:
    """Probabilities of dropout are 0 meanwhile, and layers in training mode stay in it, in which some mix examples."""
    found = [
        (module, name, value)
        for module in model.modules()
        for name, value in vars(module).items()
        if isinstance(value, float) and ("drop" in name or (name == "p" and "Dropout" in type(module).__name__))
    ]
    try:
        for module, name, _ in found:
            setattr(module, name, 0.0)
        yield
    finally:
        for module, name, value in found:
            setattr(module, name, value)


def _parts_of(example: Any) -> dict[Any, Any]:
    """Fields of an example by name or place; an example that is a tensor or text itself is the only one."""
    if isinstance(example, Mapping):
        return dict(example)
    if isinstance(example, (tuple, list)) and not _is_sequence(example):
        return dict(enumerate(example))
    return {None: example}


def _is_sequence(part: Any) -> bool:
    if isinstance(part, (list, tuple)):
        return all(isinstance(one, (int, float)) for one in part)
    return isinstance(part, str) or bool(getattr(part, "shape", ()))


def _length_of(example: Any) -> int | None:
    """That of its tokens, or of its first field that is a sequence; words of a text."""
    parts = _parts_of(example)
    found = [parts["input_ids"]] if "input_ids" in parts else list(filter(_is_sequence, parts.values()))
    return len(_words(found[0])) if found else None


def _words(part: Any) -> Any:
    return part.split() if isinstance(part, str) else part


def _resized(example: Any, length: int, new: int) -> Any:
    """The example with every field of this length cut, or repeated, to another."""

    def resized(part: Any) -> Any:
        if not _is_sequence(part) or len(words := _words(part)) != length:
            return part
        places = [number % length for number in range(new)]
        kept = [words[place] for place in places] if isinstance(words, (list, tuple)) else words[places]
        return " ".join(kept) if isinstance(part, str) else kept

    parts = {name: resized(part) for name, part in _parts_of(example).items()}
    if isinstance(example, (tuple, list)) and None not in parts:
        return tuple(parts.values())
    return parts.get(None, parts)


def _is_padded(example: Any) -> bool:
    """Whether it comes with padding of its own."""
    mask = _parts_of(example).get("attention_mask")
    return mask is not None and bool((torch.as_tensor(mask) == 0).any())
