"""The layers whose gradients ghost clipping knows, and what it keeps of a forward pass through them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from hushvec.training.ghost.convolutions import ConvolutionPiece
from hushvec.training.ghost.pieces import MatrixPiece, Piece, TablePiece, VectorPiece

# In words, for messages. Conv1D is that of transformers.
SUPPORTED = "Linear, Embedding, LayerNorm, RMSNorm, GroupNorm, Conv1d, Conv2d, Conv3d or Conv1D"


class Use(NamedTuple):
    """One pass through a layer."""

    inputs: Any  # without their history
    version: int  # how often the input had been written to by then
    edge: Any  # the place of the layer's output in the graph


def reason_to_refuse(module: Any) -> str | None:
    """Why a layer's own trainable parameters cannot be clipped here; None if they can."""
    import torch

    if isinstance(module, torch.nn.Embedding):
        for option in ("max_norm", "scale_grad_by_freq", "sparse"):
            if getattr(module, option):
                return f"{type(module).__name__} with {option}"
        return None
    if isinstance(module, (torch.nn.LayerNorm, torch.nn.RMSNorm)):
        return None if len(module.normalized_shape) == 1 else f"{type(module).__name__} over several axes"
    # A quantized or otherwise special layer may not compute what its weight says.
    known = type(module) in (torch.nn.Linear, torch.nn.GroupNorm) or _is_conv1d(module) or _is_convolution(module)
    return None if known else type(module).__name__


def pieces_of(module: Any, name: str, uses: Sequence[tuple[Use, Any]], examples: int) -> dict[str, Piece]:
    """The parts of a batch that belong to the layer's trainable parameters, by the parameters' names in the layer.

    Args:
        module, name: the layer.
        uses: its passes in this batch, and what the loss asks of the output of each. Passes of one layer add up: their positions
            are put behind each other.
        examples: B.

    Raises:
        ValueError: an input whose first axis is not the batch, or that was overwritten after the pass.
    """
    passes = []
    for use, gradient in uses:
        if use.inputs._version != use.version:
            raise ValueError(f"the input of {name} must not be changed in place after the layer has seen it")
        fewest, most = _axes(module)
        if not fewest <= use.inputs.dim() <= most or len(use.inputs) != examples or len(gradient) != examples:
            raise ValueError(
                f"the first axis of the input of {name} must be the batch of {examples} examples, got {list(use.inputs.shape)}"
            )
        if use.inputs.numel() and gradient.numel():
            passes.append((use.inputs, gradient))
    if not passes:
        return {}
    trainable = {key: parameter for key, parameter in module.named_parameters(recurse=False) if parameter.requires_grad}
    return {key: _piece(module, key, passes) for key in trainable}


def _axes(module: Any) -> tuple[int, float]:
    """(fewest, most) axes of an input that has a batch axis."""
    import torch

    if _is_convolution(module):
        return len(module.kernel_size) + 2, len(module.kernel_size) + 2
    return (1 if isinstance(module, torch.nn.Embedding) else 2), math.inf


def _piece(module: Any, key: str, passes: Sequence[tuple[Any, Any]]) -> Piece:
    import torch

    if key == "weight" and _is_convolution(module):
        return ConvolutionPiece(module, passes)
    outputs = torch.cat([_in_positions(module, gradient) for _, gradient in passes], 1)
    if key == "bias":
        return VectorPiece(outputs)
    if isinstance(module, torch.nn.Embedding):
        ids = torch.cat([inputs.reshape(len(inputs), -1) for inputs, _ in passes], 1)
        return TablePiece(ids, outputs, module.num_embeddings, module.padding_idx)
    seen = torch.cat([_in_positions(module, _normalized(module, inputs)) for inputs, _ in passes], 1)
    if isinstance(module, (torch.nn.LayerNorm, torch.nn.RMSNorm, torch.nn.GroupNorm)):
        return VectorPiece(outputs, seen)
    return MatrixPiece(seen, outputs, transposed=_is_conv1d(module))


def _normalized(module: Any, inputs: Any) -> Any:
    """What a layer's weight is multiplied with: the normalized input of a norm layer, the input itself of others."""
    import torch

    functional = torch.nn.functional
    if isinstance(module, torch.nn.LayerNorm):
        return functional.layer_norm(inputs, module.normalized_shape, eps=module.eps)
    if isinstance(module, torch.nn.RMSNorm):
        return functional.rms_norm(inputs, module.normalized_shape, eps=module.eps)
    if isinstance(module, torch.nn.GroupNorm):
        return functional.group_norm(inputs, module.num_groups, eps=module.eps)
    return inputs


def _in_positions(module: Any, rows: Any) -> Any:
    """[B, ..., d] as [B, T, d]; of layers whose channels come before the space, [B, d, ...]."""
    import torch

    if isinstance(module, torch.nn.GroupNorm) or _is_convolution(module):
        rows = rows.movedim(1, -1)
    return rows.reshape(len(rows), -1, rows.shape[-1])


def _is_convolution(module: Any) -> bool:
    import torch

    return type(module) in (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


def _is_conv1d(module: Any) -> bool:
    """The layer of GPT-2 that is a Linear whose weight is kept as [inputs, outputs]."""
    return type(module).__name__ == "Conv1D" and type(module).__module__.startswith("transformers.")


class Recorder:
    """Hooks that note every pass with gradients through the layers, (name, module), until `remove`."""

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        self._uses: list[tuple[str, Any, Use]] = []
        self._paused = False
        self._handles = [module.register_forward_hook(self._hook(name), with_kwargs=True) for name, module in layers]

    def take(self) -> list[tuple[str, Any, Use]]:
        """(name, module, pass) of every pass since the last call."""
        taken, self._uses = self._uses, []
        return taken

    def pause(self, paused: bool) -> None:
        """While gradients are made, layers may be passed again (recomputed activations): those passes are no new ones."""
        self._paused = paused

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._uses = []

    def _hook(self, name: str) -> Callable[[Any, Any, Any, Any], None]:
        from torch.autograd.graph import get_gradient_edge

        def note(module: Any, given: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
            if not self._paused and output.requires_grad:
                inputs = given[0] if given else named["input"]
                self._uses.append((name, module, Use(inputs.detach(), inputs._version, get_gradient_edge(output))))

        return note
