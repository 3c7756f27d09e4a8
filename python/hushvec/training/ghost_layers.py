"""The layers whose gradients ghost clipping knows: per-example norms and weighted sums, without computing any gradient.

The gradient of example i is G_i = sum over its positions t of g_t a_t^T: the layer's input a_t times what the loss asks of its
output, g_t. Three kinds of parameters differ in what a_t is: a matrix (the input itself), a table of rows (which row), and a
vector (one number for each element). docs/proofs/ghost_clipping.md has the statements.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import torch

from hushvec.training import ghost_recurrent
from hushvec.training.ghost_recurrent import GateUse

# Rounding of float64, and what one chunk of examples may take of memory.
_UNIT = 2.0**-53
_CHUNK_BYTES = 1 << 24


class Norms(NamedTuple):
    squared: Any  # at least the squared norm of each example's gradient
    spread: Any  # at least sum_t |a_t| |g_t| of each example, by which rounding is bounded


class MatrixPiece:
    """A weight matrix, G_i = sum_t g_t a_t^T: inputs [B, T, p], output_gradients [B, T, d]. Transposed: kept as [p, d]."""

    def __init__(self, inputs: Any, output_gradients: Any, transposed: bool = False) -> None:
        self._inputs, self._outputs, self._transposed = inputs, output_gradients, transposed
        self.examples = len(inputs)
        self.bias: VectorPiece | None = None  # of the same output gradients: its norms are made in the same pass over them

    def norms(self) -> Norms:
        """Through Gram matrices of positions, or through the gradients of a few examples at a time: whichever is less work."""
        positions, across, out = self._inputs.shape[1], self._inputs.shape[2], self._outputs.shape[2]
        grams_are_cheaper = positions * (across + out) < across * out or positions == 1
        held = 2 * positions**2 if grams_are_cheaper else across * out
        terms = across + out + positions**2 if grams_are_cheaper else across * out + positions
        squared, spread, bias = [], [], []
        for rows in chunks(self.examples, 8 * (held + positions * (across + out))):
            inputs, outputs = self._inputs[rows].double(), self._outputs[rows].double()
            if grams_are_cheaper:
                products, others = torch.bmm(inputs, inputs.mT), torch.bmm(outputs, outputs.mT)
                lengths, sizes = (gram.diagonal(dim1=1, dim2=2).sqrt() for gram in (products, others))  # |a_t|, |g_t|
                squared.append(products.mul_(others).sum((1, 2)))
            else:
                # Kernels are faster on a product whose rows are long.
                product = torch.bmm(inputs.mT, outputs) if out >= across else torch.bmm(outputs.mT, inputs)
                lengths, sizes = inputs.norm(dim=2), outputs.norm(dim=2)
                squared.append(product.square_().sum((1, 2)))
            spread.append((lengths * sizes).sum(1))
            if self.bias is not None:
                bias.append((_over_positions(outputs), sizes.sum(1)))
        if self.bias is not None:
            self.bias.take(bias)
        return _rounded_up(torch.cat(squared), torch.cat(spread), terms)

    def weighted_sum(self, weights: Any) -> Any:
        inputs, outputs, each = self._inputs.to(weights.dtype), self._outputs.to(weights.dtype), weights[:, None, None]
        scaled = (inputs * each, outputs) if inputs.shape[2] < outputs.shape[2] else (inputs, outputs * each)  # the smaller
        inputs, outputs = (rows.flatten(0, 1) for rows in scaled)
        return inputs.mT @ outputs if self._transposed else outputs.mT @ inputs


class VectorPiece:
    """A vector, G_i = sum_t f_t * g_t element by element, both [B, T, d]; without factors (a bias) G_i = sum_t g_t."""

    def __init__(self, output_gradients: Any, factors: Any = None) -> None:
        self._outputs, self._factors = output_gradients, factors
        self._taken: Any = None
        self.examples = len(output_gradients)

    def norms(self) -> Norms:
        positions, size = self._outputs.shape[1:]
        if self._taken is None:
            parts = []
            for rows in chunks(self.examples, 16 * positions * size):
                terms = self._outputs[rows].double()
                terms = terms if self._factors is None else terms * self._factors[rows].double()
                parts.append((_over_positions(terms), terms.norm(dim=2).sum(1)))
            self.take(parts)
        return _rounded_up(self._taken[0].square().sum(1), self._taken[1], positions + size)

    def take(self, parts: Sequence[tuple[Any, Any]]) -> None:
        """Of all examples, some after others: their G_i [b, d] and sum_t |f_t * g_t| [b], float64."""
        self._taken = [torch.cat(list(some)) for some in zip(*parts)]

    def weighted_sum(self, weights: Any) -> Any:
        if self._taken is None:
            self.norms()
        return (weights.double() @ self._taken[0]).to(weights.dtype)


class TablePiece:
    """An embedding table of `rows` rows, G_i = g_t [B, T, d] added to row id_t, int64 [B, T]; none for the id `padding`."""

    def __init__(self, ids: Any, output_gradients: Any, rows: int, padding: int | None = None) -> None:
        if padding is not None:
            output_gradients = output_gradients.masked_fill((ids == padding)[:, :, None], 0.0)
        self._ids, self._outputs, self._rows = ids, output_gradients, rows
        self.examples = len(ids)

    def norms(self) -> Norms:
        positions, size = self._outputs.shape[1:]
        squared, spread = [], []
        for rows in chunks(self.examples, 8 * positions * (positions + size)):
            ids, outputs = self._ids[rows], self._outputs[rows].double()
            same = ids[:, :, None] == ids[:, None, :]
            squared.append(torch.bmm(outputs, outputs.mT).masked_fill_(~same, 0.0).sum((1, 2)))
            spread.append(outputs.norm(dim=2).sum(1))
        return _rounded_up(torch.cat(squared), torch.cat(spread), size + positions**2)

    def weighted_sum(self, weights: Any) -> Any:
        outputs = (self._outputs.to(weights.dtype) * weights[:, None, None]).flatten(0, 1)
        return weights.new_zeros(self._rows, outputs.shape[1]).index_add_(0, self._ids.flatten(), outputs)


def _over_positions(rows: Any) -> Any:
    # A product is much faster than `sum`.
    return torch.bmm(rows.new_ones(()).expand(len(rows), 1, rows.shape[1]), rows)[:, 0]


def chunks(examples: int, bytes_each: int) -> Iterator[slice]:
    """Slices of the examples that stay within the memory of a chunk, one example at least."""
    step = max(1, _CHUNK_BYTES // max(1, bytes_each))
    return (slice(start, min(start + step, examples)) for start in range(0, examples, step))


def joined(parts: Sequence[Norms]) -> Norms:
    """Norms of gradients that stand side by side in one parameter: squares add up, enlarged by what their additions round."""
    enlarged = 1 + 4 * (len(parts) + 8) * _UNIT
    squared = torch.stack([part.squared for part in parts]).sum(0)
    spread = torch.stack([part.spread for part in parts]).norm(dim=0)
    return Norms(squared * enlarged, spread * enlarged)


def _rounded_up(squared: Any, spread: Any, terms: int) -> Norms:
    """Computed sums made upper bounds: of at most `terms` rounded additions in a row, and of the square roots in the spread."""
    spread = spread * (1 + 4 * (terms + 8) * _UNIT)
    return Norms(squared.clamp(min=0.0) + 8 * (terms + 8) * _UNIT * spread.square(), spread)


class ConvolutionPiece:
    """The weight [out, C / groups, *kernel] of a Conv1d, Conv2d or Conv3d.

    In each group G_i = sum_t g_t a_t^T, a_t the numbers under the kernel at output position t: copies, so nothing rounds.
    `passes` has (inputs [B, C, *space], output gradients [B, out, *positions]) of each pass; spaces may differ.
    """

    def __init__(self, module: Any, passes: Sequence[tuple[Any, Any]]) -> None:
        self._module, self._passes = module, passes
        self.examples = len(passes[0][0])

    def norms(self) -> Norms:
        groups, found = self._module.groups, []
        for _, inputs, outputs in self._windows(element_bytes=8):
            some = MatrixPiece(inputs.flatten(0, 1), outputs.flatten(0, 1)).norms()
            found.append(joined([Norms(*(part.view(-1, groups)[:, group] for part in some)) for group in range(groups)]))
        return Norms(*(torch.cat(parts) for parts in zip(*found)))

    def weighted_sum(self, weights: Any) -> Any:
        total: Any = 0
        for rows, inputs, outputs in self._windows(element_bytes=weights.element_size()):
            scaled = outputs.to(weights.dtype) * weights[rows, None, None, None]
            total = total + _positions_by_group(scaled).mT @ _positions_by_group(inputs.to(weights.dtype))
        return total.reshape(self._module.weight.shape)

    def _windows(self, element_bytes: int) -> Iterator[tuple[slice, Any, Any]]:
        """(rows, windows [b, groups, T, p], output gradients [b, groups, T, d]) of a few examples at a time; T over all passes."""
        groups, kernel = self._module.groups, self._module.weight[0].numel()
        held = sum(outputs[0, 0].numel() * (groups * kernel + outputs.shape[1]) for _, outputs in self._passes)
        for rows in chunks(self.examples, element_bytes * held):
            inputs = [windows_of(self._module, some[rows]) for some, _ in self._passes]
            outputs = [some[rows].unflatten(1, (groups, -1)).flatten(3).transpose(2, 3) for _, some in self._passes]
            yield rows, torch.cat(inputs, 2), torch.cat(outputs, 2)


# Each has its number of `examples`, their `norms`, and `weighted_sum`: sum_i weights_i G_i in the parameter's shape, of weights [B] of
# the dtype that sums are made in.
Piece = MatrixPiece | VectorPiece | TablePiece | ConvolutionPiece


def _positions_by_group(rows: Any) -> Any:
    return rows.transpose(0, 1).flatten(1, 2)


def windows_of(module: Any, inputs: Any) -> Any:
    """Windows of inputs [B, C, *space], one for each position of the output: [B, groups, T, (C / groups) prod(kernel)]."""
    sides = list(chain.from_iterable(reversed([_padding_of(module, axis) for axis in range(len(module.kernel_size))])))
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    windows = torch.nn.functional.pad(inputs, sides, mode=mode) if any(sides) else inputs
    space = len(module.kernel_size)
    for axis, (kernel, stride, dilation) in enumerate(zip(module.kernel_size, module.stride, module.dilation)):
        windows = windows.unfold(2 + axis, dilation * (kernel - 1) + 1, stride)[..., ::dilation]
    # [B, C, *positions, *kernel] -> [B, groups, *positions, C / groups, *kernel]
    windows = windows.unflatten(1, (module.groups, -1)).movedim(2, 2 + space)
    return windows.flatten(2 + space).flatten(2, 1 + space)


def _padding_of(module: Any, axis: int) -> tuple[int, int]:
    if module.padding == "valid":
        return 0, 0
    if module.padding == "same":
        total = module.dilation[axis] * (module.kernel_size[axis] - 1)
        return total // 2, total - total // 2
    return module.padding[axis], module.padding[axis]


# In words, for messages. Conv1D is that of transformers.
SUPPORTED = "Linear, Embedding, LayerNorm, RMSNorm, GroupNorm, Conv1d, Conv2d, Conv3d, Conv1D, LSTM, GRU or RNN"


class Use(NamedTuple):
    inputs: Any  # without their history
    version: int  # how often the input had been written to by then
    edge: Any  # the place of the layer's output in the graph


def reason_to_refuse(module: Any) -> str | None:
    """Why a layer's own trainable parameters cannot be clipped here; None if they can."""
    if isinstance(module, torch.nn.Embedding):
        for option in ("max_norm", "scale_grad_by_freq", "sparse"):
            if getattr(module, option):
                return f"{type(module).__name__} with {option}"
        return None
    if isinstance(module, (torch.nn.LayerNorm, torch.nn.RMSNorm)):
        return None if len(module.normalized_shape) == 1 else f"{type(module).__name__} over several axes"
    if type(module) in ghost_recurrent.RECURRENT:
        return ghost_recurrent.reason_to_refuse(module)
    # A quantized or otherwise special layer may not compute what its weight says.
    known = type(module) in (torch.nn.Linear, torch.nn.GroupNorm) or _is_conv1d(module) or _is_convolution(module)
    return None if known else type(module).__name__


def pieces_of(module: Any, name: str, uses: Sequence[tuple[Any, Any]], examples: int) -> dict[str, Piece]:
    """The parts of a batch of `examples`, by the layer's trainable parameters' names; `uses` are its passes, which add up."""
    passes: list[tuple[Any, Any]] = []
    for use, gradient in uses:
        if use.inputs._version != use.version:
            raise ValueError(f"the input of {name} must not be changed in place after the layer has seen it")
        fewest, most = _axes(module)
        if not fewest <= use.inputs.dim() <= most or len(use.inputs) != examples or len(gradient) != examples:
            raise ValueError(
                f"the first axis of the input of {name} must be the batch of {examples} examples, got {list(use.inputs.shape)}"
            )
        if use.inputs.numel() and gradient.numel():
            passes.append((use if isinstance(use, GateUse) else use.inputs, gradient))
    if not passes:
        return {}
    trainable = {key: parameter for key, parameter in module.named_parameters(recurse=False) if parameter.requires_grad}
    if type(module) in ghost_recurrent.RECURRENT:
        return _recurrent_pieces(trainable, passes)
    return _sharing({key: _piece(module, key, passes) for key in trainable})


def _sharing(pieces: dict[str, Piece]) -> dict[str, Piece]:
    """Let a bias have its norms from the pass over its weight, which comes before it."""
    weight, bias = (*pieces.values(), None, None)[:2]
    if isinstance(weight, MatrixPiece) and isinstance(bias, VectorPiece):
        weight.bias = bias
    return pieces


def _recurrent_pieces(trainable: Iterable[str], gates: Sequence[tuple[GateUse, Any]]) -> dict[str, Piece]:
    pieces: dict[str, Piece] = {}
    for suffix in dict.fromkeys(use.suffix for use, _ in gates):
        some = [(use, gradient) for use, gradient in gates if use.suffix == suffix]
        for kind, rows, gradients in (
            ("ih", [use.inputs for use, _ in some], [gradient for _, gradient in some]),
            ("hh", [use.before for use, _ in some], [use.inner(gradient) for use, gradient in some]),
        ):
            outputs = _one_after_another(gradients)
            found: dict[str, Piece] = {"weight": MatrixPiece(_one_after_another(rows), outputs), "bias": VectorPiece(outputs)}
            pieces |= _sharing({name: found[of] for of in found if (name := f"{of}_{kind}_{suffix}") in trainable})
    return pieces


def _axes(module: Any) -> tuple[int, float]:
    if _is_convolution(module):
        return len(module.kernel_size) + 2, len(module.kernel_size) + 2
    return (1 if isinstance(module, torch.nn.Embedding) else 2), math.inf


def _piece(module: Any, key: str, passes: Sequence[tuple[Any, Any]]) -> Piece:
    if key == "weight" and _is_convolution(module):
        return ConvolutionPiece(module, passes)
    outputs = _one_after_another([_in_positions(module, gradient) for _, gradient in passes])
    if key == "bias":
        return VectorPiece(outputs)
    if isinstance(module, torch.nn.Embedding):
        ids = _one_after_another([inputs.reshape(len(inputs), -1) for inputs, _ in passes])
        return TablePiece(ids, outputs, module.num_embeddings, module.padding_idx)
    seen = _one_after_another([_in_positions(module, _normalized(module, inputs)) for inputs, _ in passes])
    if isinstance(module, (torch.nn.LayerNorm, torch.nn.RMSNorm, torch.nn.GroupNorm)):
        return VectorPiece(outputs, seen)
    return MatrixPiece(seen, outputs, transposed=_is_conv1d(module))


def _normalized(module: Any, inputs: Any) -> Any:
    """The factor of a layer's weight: the normalized input of a norm layer, the input itself of others."""
    functional = torch.nn.functional
    if isinstance(module, torch.nn.LayerNorm):
        return functional.layer_norm(inputs, module.normalized_shape, eps=module.eps)
    if isinstance(module, torch.nn.RMSNorm):
        return functional.rms_norm(inputs, module.normalized_shape, eps=module.eps)
    if isinstance(module, torch.nn.GroupNorm):
        return functional.group_norm(inputs, module.num_groups, eps=module.eps)
    return inputs


def _one_after_another(passes: list[Any]) -> Any:
    return passes[0] if len(passes) == 1 else torch.cat(passes, 1)  # torch copies a single one too


def _in_positions(module: Any, rows: Any) -> Any:
    """[B, ..., d] as [B, T, d]; of layers whose channels come before the space, [B, d, ...]."""
    if isinstance(module, torch.nn.GroupNorm) or _is_convolution(module):
        rows = rows.movedim(1, -1)
    return rows.reshape(len(rows), -1, rows.shape[-1])


def _is_convolution(module: Any) -> bool:
    return type(module) in (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


def _is_conv1d(module: Any) -> bool:
    """The layer of GPT-2 that is a Linear whose weight is kept as [inputs, outputs]."""
    return type(module).__name__ == "Conv1D" and type(module).__module__.startswith("transformers.")


class Recorder:
    """Notes every pass with gradients through the layers, (name, module), until `remove`."""

    def __init__(self, layers: Iterable[tuple[str, Any]]) -> None:
        self._uses: list[tuple[str, Any, Use | GateUse]] = []
        self._paused = False
        self._undo: list[Callable[[], None]] = []
        for name, module in layers:
            if type(module) in ghost_recurrent.RECURRENT:
                module.forward = partial(ghost_recurrent.forward, module, partial(self._note, name, module))
                self._undo.append(partial(delattr, module, "forward"))
            else:
                self._undo.append(module.register_forward_hook(self._hook(name), with_kwargs=True).remove)

    def take(self) -> list[tuple[str, Any, Use | GateUse]]:
        """(name, module, pass) of every pass since the last call."""
        taken, self._uses = self._uses, []
        return taken

    def pause(self, paused: bool) -> None:
        """While gradients are made, layers may be passed again (recomputed activations): those passes are no new ones."""
        self._paused = paused

    def remove(self) -> None:
        for undo in self._undo:
            undo()
        self._undo, self._uses = [], []

    def _note(self, name: str, module: Any, use: Use | GateUse) -> None:
        if not self._paused:
            self._uses.append((name, module, use))

    def _hook(self, name: str) -> Callable[[Any, Any, Any, Any], None]:
        def note(module: Any, given: tuple[Any, ...], named: dict[str, Any], output: Any) -> None:
            if output.requires_grad:
                inputs, edge = given[0] if given else named["input"], torch.autograd.graph.get_gradient_edge(output)
                self._note(name, module, Use(inputs.detach(), inputs._version, edge))

        return note
