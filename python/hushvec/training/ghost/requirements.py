"""What ghost clipping requires of a model and of losses: supported layers, and examples that do not depend on each other."""

from __future__ import annotations

import math
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from hushvec._util import validate
from hushvec.errors import HushvecError
from hushvec.training.ghost.layers import SUPPORTED, reason_to_refuse
from hushvec.training.ghost.pieces import Piece

# Relative to both losses: rounding of batched kernels is far below it, half of a divisor far above.
_LOSS_TOLERANCE = 1e-3


class GhostClippingError(HushvecError, RuntimeError):
    """The batch cannot be clipped example by example: examples are tied together, or a parameter is used outside its layer."""


def trainable(model: Any) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
    """(trainable parameters by name, layers that have them)."""
    owners: dict[int, str] = {}
    parameters: dict[str, Any] = {}
    layers: list[tuple[str, Any]] = []
    for layer, module in model.named_modules():
        own = {key: parameter for key, parameter in module.named_parameters(recurse=False) if parameter.requires_grad}
        if not own:
            continue
        reason = reason_to_refuse(module)
        for key, parameter in own.items():
            name = f"{layer}.{key}" if layer else key
            if reason is not None:
                raise ValueError(
                    f"trainable parameters must belong to {SUPPORTED} layers, got {name} of {reason}; "
                    "clip per-example gradients instead, or freeze it if its forward pass writes nothing, as max_norm does"
                )
            if not parameter.is_floating_point():
                raise ValueError(f"trainable parameters must be real floating-point numbers, got {name} of {parameter.dtype}")
            if id(parameter) in owners:
                raise ValueError(f"a trainable parameter must belong to one layer, got {owners[id(parameter)]} also as {name}")
            owners[id(parameter)] = name
            parameters[name] = parameter
        layers.append((layer, module))
    if not parameters:
        raise ValueError("model must have a trainable parameter, got none with requires_grad")
    return parameters, layers


def require_losses(losses: Any) -> int:
    """The number of examples that have a loss each: finite, and with gradients."""
    _require_tensor(losses)
    if losses.dim() != 1 or not len(losses):
        raise ValueError(f"losses must be a tensor [B], one loss for each of B >= 1 examples, got {list(losses.shape)}")
    if not losses.requires_grad:
        raise ValueError("losses must come from the model with gradients, got a tensor that needs none")
    bad = (~losses.isfinite()).nonzero()
    if len(bad):
        raise ValueError(f"losses must be finite, got {losses[int(bad[0])].item()} for example {int(bad[0])}")
    return len(losses)


def _losses_of_examples(losses: Any, examples: int) -> Any:
    _require_tensor(losses)
    if tuple(losses.shape) != (examples,):
        raise ValueError(f"losses must be a tensor [{examples}], one loss for each example, got {list(losses.shape)}")
    return losses


def _require_tensor(losses: Any) -> None:
    import torch

    if not isinstance(losses, torch.Tensor):
        raise TypeError(f"losses must be a tensor, got {validate.kind(losses)}")


def require_no_batch_divisor(module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    if named.get("num_items_in_batch") is not None:
        raise GhostClippingError(
            "num_items_in_batch must be left out: losses that are divided by the tokens of the batch depend on other examples"
        )


def require_own_losses(model: Any, losses_of: Callable[..., Any], batch: tuple[Any, ...]) -> None:
    """As `GhostClipping.require_own_losses`."""
    import torch

    from hushvec.training.per_example import batch_size, map_tensors

    size = batch_size(batch)
    if size < 2:
        raise ValueError(f"batch must have at least 2 examples, got {size}")
    halves = [slice(0, size // 2), slice(size // 2, size)]
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.no_grad():
            whole = _losses_of_examples(losses_of(*batch), size)
            parts = [
                _losses_of_examples(losses_of(*map_tensors(batch, itemgetter(cut))), cut.stop - cut.start) for cut in halves
            ]
    finally:
        for module, training in modes:  # one by one: a layer that was in eval mode before must stay in it
            module.training = training
    alone = torch.cat(parts).double()
    off = (whole.double() - alone).abs() / (whole.double().abs() + alone.abs()).clamp_min(torch.finfo(torch.float64).tiny)
    worst = int(off.argmax())
    if not float(off[worst]) <= _LOSS_TOLERANCE:
        raise GhostClippingError(
            "the loss of an example must not depend on the rest of the batch, got "
            f"{float(whole[worst]):.6g} in a batch of {size} and {float(alone[worst]):.6g} in half of it: divide by public "
            "constants or by the example's own number of tokens"
        )


def require_separate(losses: Any, uses: list[tuple[str, Any, Any]], edges: list[Any]) -> None:
    """One example's loss must ask nothing of the rows of others."""
    one = len(losses) // 2
    for (layer, _, _), gradient in zip(uses, gradients_of(losses[one], edges, keep=True)):
        if gradient is None:
            continue
        others = gradient.clone()
        others[one] = 0.0
        if others.count_nonzero():
            raise GhostClippingError(
                f"the loss of an example must depend on its own row only, got a loss that depends on other rows in {layer}: "
                "layers that mix examples (BatchNorm), a loss that is a mean over the batch, or an axis before the batch"
            )


def require_complete(losses: Any, pieces: dict[str, Piece], parameters: dict[str, Any]) -> None:
    """The sum over examples must be what autograd finds, or a parameter is used where no layer shows it."""
    import torch

    names = list(parameters)
    found = gradients_of(losses.sum(), [parameters[name] for name in names], keep=True)
    with torch.no_grad():
        for name, gradient in zip(names, found):
            piece, dtype = pieces.get(name), sum_dtype(parameters[name])
            if piece is None:
                ours, size = torch.zeros((), dtype=dtype), 0.0
            else:
                ours = piece.weighted_sum(torch.ones(piece.examples, dtype=dtype, device=losses.device))
                size = float(piece.norms().spread.sum())
            missing = float((ours if gradient is None else gradient.to(dtype) - ours).double().norm())
            if not missing <= math.sqrt(torch.finfo(parameters[name].dtype).eps) * size:
                raise GhostClippingError(
                    f"parameter {name} must be used by its own layer's forward pass only: the layer accounts for a gradient "
                    f"that differs from autograd's by {missing:.3g}"
                )


def gradients_of(loss: Any, inputs: list[Any], *, keep: bool) -> tuple[Any, ...]:
    import torch

    found: tuple[Any, ...] = torch.autograd.grad(loss, inputs, retain_graph=keep, allow_unused=True)
    return found


def sum_dtype(parameter: Any) -> Any:
    """Of a parameter's sums: float32, or float64 where the parameter is."""
    import torch

    return torch.float64 if parameter.dtype == torch.float64 else torch.float32
