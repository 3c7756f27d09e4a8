"""Ghost clipping: the sum of clipped per-example gradients from one backward pass, without computing them (docs/lora.md)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from types import TracebackType
from typing import Any

import torch

from hushvec._util import validate
from hushvec._util.rounding import tensor_to_float32_down
from hushvec.errors import HushvecError
from hushvec.training import batch_gradients
from hushvec.training.ghost_layers import SUPPORTED, Norms, Piece, Recorder, pieces_of, reason_to_refuse
from hushvec.training.global_generators import before_forward
from hushvec.training.model_watch import ModelWatch
from hushvec.training.per_example import batch_size, map_tensors, require_no_batch_norm
from hushvec.training.ranks import require_plain
from hushvec.training.schedule import norms_of, require_norm_for_each

__all__ = ["GhostClipping", "GhostClippingError", "next_token_losses"]

IGNORED = -100  # the label of tokens that carry no loss, as in transformers


def next_token_losses(logits: Any, labels: Any) -> Any:
    """Mean loss of the next token, one for each text.

    Args:
        logits: float [B, T, vocabulary], of a causal language model.
        labels: int [B, T], the tokens themselves; -100 where no loss is wanted. They are shifted here.

    Returns:
        Tensor [B]; 0 for a text without a label. A mean over the batch would tie the texts together: each must stay by itself.

    Example:
        >>> import torch
        >>> next_token_losses(torch.zeros(2, 3, 4), torch.tensor([[0, 1, 2], [3, 3, -100]])).exp()
        tensor([4., 4.])
    """
    losses = torch.nn.functional.cross_entropy(logits[:, :-1].transpose(1, 2), labels[:, 1:], ignore_index=IGNORED, reduction="none")
    counted = (labels[:, 1:] != IGNORED).sum(1).clamp(min=1)
    return losses.sum(1) / counted


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
    validate.instance("losses", losses, torch.Tensor, "a tensor")
    if losses.dim() != 1 or not len(losses):
        raise ValueError(f"losses must be a tensor [B], one loss for each of B >= 1 examples, got {list(losses.shape)}")
    if not losses.requires_grad:
        raise ValueError("losses must come from the model with gradients, got a tensor that needs none")
    bad = (~losses.isfinite()).nonzero()
    if len(bad):
        raise ValueError(f"losses must be finite, got {losses[int(bad[0])].item()} for example {int(bad[0])}")
    return len(losses)


def _losses_of_examples(losses: Any, examples: int) -> Any:
    validate.instance("losses", losses, torch.Tensor, "a tensor")
    if tuple(losses.shape) != (examples,):
        raise ValueError(f"losses must be a tensor [{examples}], one loss for each example, got {list(losses.shape)}")
    return losses


def require_no_batch_divisor(module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    if named.get("num_items_in_batch") is not None:
        raise GhostClippingError(
            "num_items_in_batch must be left out: losses that are divided by the tokens of the batch depend on other examples"
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
    return torch.autograd.grad(loss, inputs, retain_graph=keep, allow_unused=True)


def sum_dtype(parameter: Any) -> Any:
    """The dtype of a parameter's sums: float32, or float64 where the parameter is."""
    return torch.float64 if parameter.dtype == torch.float64 else torch.float32


# Room for the few roundings that scales are computed with.
_ROOM = 2.0**-45


class GhostClipping:
    """Clipped sums of a model's gradients.

    The norm of each example's gradient, over all trainable parameters together, is computed from the layers' inputs and the
    gradients of their outputs. One product per layer then makes the weighted sum. There is one backward pass, and it computes no
    gradient of any parameter. `DPOptimizer.step` then adds the noise: docs/lora.md has a whole loop.

    Args:
        model: a torch module whose trainable parameters all belong to Linear, Embedding, LayerNorm, RMSNorm, GroupNorm, Conv1d,
            Conv2d, Conv3d, transformers' Conv1D, LSTM, GRU or RNN layers (batch_first=True, no proj_size). Freeze the others.
        clip_norm: C in [2^-100, 2^100], the largest L2 norm of an example's gradient. A list clips by layer: one norm for each
            trainable parameter, in the order of the model's. C, which the optimizer gets as `ghost.clip_norm`, is then the L2 norm of
            the list.
        normalize: gamma > 0, in the unit of the gradients, for automatic clipping: g counts as g C / (|g| + gamma).
        check: whether the first batch is compared with the gradient of autograd, and the first of two or more examples for losses
            that have a gradient in the rows of others: one more forward and two more backward passes, once or twice. A loss that
            is divided by a number of the batch passes it, and so does padding to the longest: `require_own_losses` looks for the one,
            `require_independent_examples(model, None, loader, losses=...)` for both.
        allow_buffers: names of buffers that forward passes may write, since they hold nothing of the examples.

    Raises:
        ValueError: no trainable parameter, one of another kind of layer (it is named), one that two layers share, or a layer that
            mixes examples (BatchNorm in training mode).

    Guarantees:
        Each example enters the sum scaled such that its share has norm <= clip_norm in real arithmetic, for the activations and output
        gradients as they were computed (docs/proofs/ghost_clipping.md). The additions of shares round, as float32 does: a sum from
        here is of grade "float".
        Memory beyond that of one ordinary gradient: the gradients of the outputs of all layers at once, 64 MiB, one more gradient,
        and for each example the gradients of vectors (biases, norm layers) in float64, but never those of matrices. The
        windows of a convolution are made for a few examples at a time.
        If `backward` raises, no parameter has changed, and neither has any sum.

    Edge cases:
        Passes without gradients (torch.no_grad) are not noted. A forward pass whose loss does not arrive at the next `backward` is
        forgotten: with two batches, run the backward pass of the first before the forward pass of the second. The hooks stay
        until `remove`, or the end of the `with` block. Until then recurrent layers that train run step by step, on
        tensors [B, T, d] (no packed sequences), and their results may differ in the last bits.

    Reference:
        Goodfellow, "Efficient per-example gradient computations" (2015); Rochette, Manoel, Tramel (2019), on convolutions; Li, Tramèr,
        Liang, Hashimoto (2022); Bu, Mao, Xu (2022), on which way to the norm is cheaper; Bu, Wang, Zha, Karypis (2023), for one
        backward pass instead of two.

    Example:
        >>> import torch
        >>> from hushvec.training.ghost import GhostClipping
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> with GhostClipping(layer, clip_norm=1.0) as ghost:
        ...     ghost.backward(layer(torch.tensor([[3.0, 4.0], [0.0, 0.5]])).sum(1))
        >>> layer.weight.clipped_sum, layer.weight.clipped_rows  # (0.6, 0.8) + (0, 0.5)
        (tensor([[0.6000, 1.3000]]), 2)
    """

    def __init__(
        self, model: Any, clip_norm: float | Sequence[float], *, normalize: float | None = None, check: bool = True,
        allow_buffers: Sequence[str] = (),
    ) -> None:
        require_no_batch_norm(model)
        require_plain(model)
        norm, self._norms_of_layers = norms_of(clip_norm)
        self.clip_norm = validate.clip_norm(norm)
        self._gamma = 0.0 if normalize is None else validate.positive("normalize", normalize)
        self._incomplete = self._inseparate = validate.flag("check", check)  # not yet checked for
        self._model = model
        self._parameters, layers = trainable(model)
        require_norm_for_each(self._norms_of_layers, self._parameters)
        self._recorder = Recorder(layers)
        self._hooks = (
            model.register_forward_pre_hook(require_no_batch_divisor, with_kwargs=True),
            model.register_forward_pre_hook(before_forward),
        )
        self._norms: Any = None
        self._watch = ModelWatch(model, allow_buffers=allow_buffers, frozen_only=True)
        self._batches = 0

    def require_own_losses(self, losses_of: Callable[..., Any], *batch: Any) -> None:
        """Compare the losses of a batch with those of its halves: a loss must not depend on the rest of the batch.

        The losses of one batch do not show what they were divided by. A mean over the tokens of the batch (`num_items_in_batch` of
        transformers) gives every example a gradient that others scale; clipping bounds it, and it still moves when one of them goes.

        Args:
            losses_of: `losses_of(*batch)` -> losses [B], through the model, as they are given to `backward`.
            *batch: tensors [B, ...], and mappings, lists and tuples of them; B >= 2, of examples of different lengths or with
                different numbers of valid tokens, if they have any. Public ones: what is raised says by how much losses differ.

        Edge cases:
            The model is in eval mode meanwhile, so that dropout does not differ. What depends on the batch in other batches only is
            not found.
        """
        size = batch_size(batch)
        if size < 2:
            raise ValueError(f"batch must have at least 2 examples, got {size}")
        halves = [slice(0, size // 2), slice(size // 2, size)]
        modes = [(module, module.training) for module in self._model.modules()]
        self._model.eval()
        try:
            with torch.no_grad():
                whole = _losses_of_examples(losses_of(*batch), size)
                parts = [_losses_of_examples(losses_of(*map_tensors(batch, itemgetter(cut))), cut.stop - cut.start) for cut in halves]
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

    @property
    def parameters(self) -> dict[str, Any]:
        """The trainable parameters by name."""
        return dict(self._parameters)

    @property
    def last_norms(self) -> Any:
        """Norms of the last batch before clipping, float64 [B], rounded up; None before the first. As private as the examples."""
        return self._norms

    def backward(self, losses: Any) -> None:
        """Add the clipped gradients of a batch to the parameters' `clipped_sum` and its size to their `clipped_rows`.

        Batches add up until the optimizer takes the sums. `grad` stays as it is and `grad_sample` is not set.

        Args:
            losses: tensor [B], the loss of each example by itself; B >= 1.

        Raises:
            TypeError, ValueError: losses of another shape, NaN or Inf (the example is named), other trainable parameters.
            ModelChangedError: a buffer or a frozen parameter has changed since the beginning.
        """
        uses = self._recorder.take()
        self._require_same_parameters()
        require_no_batch_norm(self._model)
        self._watch.require_before_step(self._batches)  # of buffers and frozen parameters; trained ones are the optimizer's to watch
        self._batches += 1
        examples = require_losses(losses)
        edges = [use.edge for _, _, use in uses]
        if not edges:
            raise GhostClippingError("losses must come from a forward pass through the model after GhostClipping was made")
        separate = self._inseparate and examples > 1
        checking = separate or self._incomplete
        self._recorder.pause(True)
        try:
            asked = gradients_of(losses.sum(), edges, keep=checking)
            pieces = self._pieces(uses, asked, examples)
            if separate:
                require_separate(losses, uses, edges)
            if checking:
                require_complete(losses, pieces, self._parameters)
        finally:
            self._recorder.pause(False)
        norms = {name: piece.norms() for name, piece in pieces.items()}
        scales, bounds = self._scales(norms, examples, losses.device)
        sums = {name: piece.weighted_sum(scales[name].to(sum_dtype(self._parameters[name]))) for name, piece in pieces.items()}
        self._add(sums, examples)
        self._norms = bounds
        self._incomplete, self._inseparate = False, self._inseparate and not separate

    def empty_batch(self) -> None:
        """A batch without examples, as Poisson sampling may draw one: sums of zeros where there are none, and no more rows."""
        self._require_same_parameters()
        self._add({}, 0)

    def remove(self) -> None:
        """Remove the hooks from the model. Sums stay."""
        self._recorder.remove()
        for hook in self._hooks:
            hook.remove()

    def __enter__(self) -> GhostClipping:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def _pieces(self, uses: list[tuple[str, Any, Any]], asked: tuple[Any, ...], examples: int) -> dict[str, Piece]:
        """Pieces by parameter name. Passes that the losses do not depend on are left out."""
        passes: dict[str, tuple[Any, list[tuple[Any, Any]]]] = {}
        for (layer, module, use), gradient in zip(uses, asked):
            if gradient is not None:
                passes.setdefault(layer, (module, []))[1].append((use, gradient))
        with torch.no_grad():
            return {
                f"{layer}.{key}" if layer else key: piece
                for layer, (module, noted) in passes.items()
                for key, piece in pieces_of(module, layer or "the model", noted, examples).items()
            }

    def _scales(self, norms: dict[str, Norms], examples: int, device: Any) -> tuple[dict[str, Any], Any]:
        """Of each parameter's part of every example, and the examples' norms."""
        none = torch.zeros(examples, dtype=torch.float64, device=device)
        whole, largest = self._scale(list(norms.values()), self.clip_norm, none)
        if self._norms_of_layers is None:
            return dict.fromkeys(norms, whole), largest
        limits = dict(zip(self._parameters, self._norms_of_layers))
        return {name: self._scale([one], limits[name], none)[0] for name, one in norms.items()}, largest

    def _scale(self, norms: list[Norms], limit: float, none: Any) -> tuple[Any, Any]:
        largest = sum((one.squared for one in norms), none).sqrt() * (1 + _ROOM)
        spread = sum((one.spread.square() for one in norms), none).sqrt() * (1 + _ROOM)
        bad = (~largest.isfinite()).nonzero()
        if len(bad):
            raise ValueError(f"gradients must be finite, got NaN or Inf in that of example {int(bad[0])}")
        # Scaled output gradients are rounded to the dtype of the sums, each by at most this much of itself.
        coarsest = max(torch.finfo(sum_dtype(parameter)).eps / 2 for parameter in self._parameters.values())
        scales = limit * (1 - _ROOM) / (largest + coarsest * spread + self._gamma)
        if not self._gamma:
            scales = torch.where(largest <= limit, torch.ones_like(scales), scales)
        return tensor_to_float32_down(scales), largest

    def _add(self, sums: dict[str, Any], examples: int) -> None:
        if all(getattr(parameter, "clipped_sum", None) is None for parameter in self._parameters.values()):
            batch_gradients.mark(self._parameters.values())
        else:
            batch_gradients.note_samples(self._parameters.values())
        for name, parameter in self._parameters.items():
            before, more = getattr(parameter, "clipped_sum", None), sums.get(name)
            if more is None:
                more = torch.zeros_like(parameter, dtype=sum_dtype(parameter), requires_grad=False) if before is None else 0
            parameter.clipped_sum = more if before is None else before + more
            parameter.clipped_rows = (getattr(parameter, "clipped_rows", None) or 0) + examples
            parameter.clipped_norm = self.clip_norm

    def _require_same_parameters(self) -> None:
        now = {name for name, parameter in self._model.named_parameters() if parameter.requires_grad}
        if now != set(self._parameters):
            name = sorted(now ^ set(self._parameters))[0]
            raise ValueError(f"trainable parameters must stay those that GhostClipping was made for, got another state of {name}")
