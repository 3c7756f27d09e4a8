"""Ghost clipping: the sum of clipped per-example gradients of a batch from one backward pass, without the gradients themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from operator import itemgetter
from types import TracebackType
from typing import Any

from hushvec._util import validate
from hushvec._util.rounding import tensor_to_float32_down
from hushvec.errors import HushvecError, MissingExtraError
from hushvec.training.ghost.layers import Recorder, pieces_of, reason_to_refuse
from hushvec.training.ghost.pieces import Norms, Piece

# Room for the few roundings that scales are computed with.
_ROOM = 2.0**-45


# Relative to both losses: rounding of batched kernels is far below it, half of a divisor far above.
_LOSS_TOLERANCE = 1e-3


class GhostClippingError(HushvecError, RuntimeError):
    """The batch cannot be clipped example by example: examples are tied together, or a parameter is used outside its layer."""


class GhostClipping:
    """Clipped sums of a model's gradients.

    The norm of each example's gradient, over all trainable parameters together, is found from what the layers saw and what the loss
    asks of their outputs. Then one product for each layer makes the weighted sum. There is one backward pass, and it makes no
    gradient of any parameter.

        ghost = GhostClipping(model, clip_norm=1.0)
        losses = next_token_losses(model(ids).logits, ids)     # [B], one for each example
        ghost.backward(losses)                                 # parameter.clipped_sum, parameter.clipped_rows
        optimizer.step()                                       # hushvec.training.DPOptimizer adds the noise

    Args:
        model: a torch module whose trainable parameters all belong to Linear, Embedding, LayerNorm or transformers' Conv1D layers, the
            layers inside PEFT's LoRA among them. Freeze the others.
        clip_norm: C in [2^-100, 2^100], the largest L2 norm of an example's gradient.
        check: whether the first batch of two or more examples is looked at more closely: that the loss of one example asks nothing of
            the rows of others, and that the sum over examples is the gradient that autograd finds. One more forward pass' worth of
            memory and two more backward passes, once. A loss that is divided by a number of the batch, such as its valid tokens,
            passes it: `require_own_losses` looks for that.
        allow_buffers: names of buffers that forward passes may write, since they hold nothing of the examples.

    Raises:
        TypeError, ValueError: a bad argument, no trainable parameter, a trainable parameter of another kind of layer (it is named),
            one that two layers share, or a layer that mixes examples (BatchNorm in training mode).
        MissingExtraError: torch is not installed.

    Guarantees:
        Each example enters the sum scaled such that its share has norm <= clip_norm in real arithmetic, for the activations and output
        gradients as they were computed (docs/proofs/ghost_clipping.md). The additions of shares round, as float32 does: a sum from
        here is of grade "float".
        Memory beyond that of one ordinary gradient: what the loss asks of the outputs of all layers at once (about as much as their
        activations), 64 MiB, and one more gradient. Never a gradient for each example.
        If `backward` raises, no parameter has changed, and neither has any sum.

    Edge cases:
        Passes without gradients (torch.no_grad) are not noted. A forward pass whose loss does not arrive at the next `backward` is
        forgotten: with two batches, go back from the first one before the second goes forward. The hooks stay until `remove`, or the
        end of the `with` block.

    Reference:
        Goodfellow, "Efficient per-example gradient computations" (2015); Li, Tramèr, Liang, Hashimoto (2022); Bu, Mao, Xu (2022), on
        which way to the norm is cheaper; Bu, Wang, Zha, Karypis (2023), for one backward pass instead of two.

    Example:
        >>> import torch
        >>> from hushvec.training.ghost import GhostClipping
        >>> layer = torch.nn.Linear(2, 1, bias=False)
        >>> with GhostClipping(layer, clip_norm=1.0) as ghost:
        ...     ghost.backward(layer(torch.tensor([[3.0, 4.0], [0.0, 0.5]])).sum(1))
        >>> layer.weight.clipped_sum, layer.weight.clipped_rows  # (0.6, 0.8) + (0, 0.5)
        (tensor([[0.6000, 1.3000]]), 2)
    """

    def __init__(self, model: Any, clip_norm: float, *, check: bool = True, allow_buffers: Sequence[str] = ()) -> None:
        try:
            import torch

            from hushvec.training.model_watch import ModelWatch
            from hushvec.training.per_example import require_independent_examples
        except ImportError:
            raise MissingExtraError("ghost clipping", "training") from None
        if not isinstance(model, torch.nn.Module):
            raise TypeError(f"model must be a torch.nn.Module, got {validate.kind(model)}")
        self.clip_norm = validate.clip_norm(clip_norm)
        self._unchecked = validate.flag("check", check)
        require_independent_examples(model)
        self._model = model
        self._parameters, layers = _trainable(model)
        self._recorder = Recorder(layers)
        self._divisor = model.register_forward_pre_hook(_require_no_batch_divisor, with_kwargs=True)
        self._norms: Any = None
        self._watch = ModelWatch(model, allow_buffers=allow_buffers, frozen_only=True)
        self._batches = 0

    def require_own_losses(self, losses_of: Callable[..., Any], *batch: Any) -> None:
        """Compare the losses of a batch with those of its halves: a loss must be the same whatever else is in the batch.

        Nothing in one batch's losses shows by what they were divided. A mean over the tokens of the batch (`num_items_in_batch` of
        transformers) gives every example a gradient that others scale; clipping bounds it, and it still moves when one of them goes.

        Args:
            losses_of: `losses_of(*batch)` -> losses [B], through the model, as they are given to `backward`.
            *batch: tensors [B, ...], and mappings, lists and tuples of them; B >= 2, of examples of different lengths or with
                different numbers of valid tokens, if they have any. Public ones: what is raised says by how much losses differ.

        Raises:
            GhostClippingError: a loss changes with the rest of the batch, by more than 1e-3 of it.
            TypeError, ValueError: losses of another shape or kind, fewer than 2 examples.

        Edge cases:
            The model is in eval mode meanwhile, so that dropout does not differ. What depends on the batch in other batches only is
            not found.

        Example:
            >>> import torch
            >>> from hushvec.training.ghost import GhostClipping
            >>> from hushvec.training.ghost import GhostClippingError
            >>> layer, rows = torch.nn.Linear(2, 1), torch.ones(4, 2)
            >>> with GhostClipping(layer, clip_norm=1.0) as ghost:
            ...     ghost.require_own_losses(lambda rows: layer(rows).exp().sum(1), rows)
            ...     try:
            ...         ghost.require_own_losses(lambda rows: layer(rows).exp().sum(1) / len(rows), rows)
            ...     except GhostClippingError:
            ...         print("divided by a number of the batch")
            divided by a number of the batch
        """
        import torch

        from hushvec.training.per_example import batch_size, map_tensors

        size = batch_size(batch)
        if size < 2:
            raise ValueError(f"batch must have at least 2 examples, got {size}")
        halves = [slice(0, size // 2), slice(size // 2, size)]
        modes = [(module, module.training) for module in self._model.modules()]
        self._model.eval()
        try:
            with torch.no_grad():
                whole = _require_losses_of(losses_of(*batch), size)
                parts = [
                    _require_losses_of(losses_of(*map_tensors(batch, itemgetter(cut))), cut.stop - cut.start) for cut in halves
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

    @property
    def parameters(self) -> dict[str, Any]:
        """The trainable parameters by name."""
        return dict(self._parameters)

    @property
    def last_norms(self) -> Any:
        """Norms of the examples of the last batch before clipping, float64 [B], rounded up; None before the first one.

        They are as private as the examples: a clip norm that is chosen by them is no longer private.
        """
        return self._norms

    def backward(self, losses: Any) -> None:
        """Add the clipped gradients of a batch to the parameters' `clipped_sum` and its size to their `clipped_rows`.

        Batches add up until the optimizer takes the sums. `grad` stays as it is and `grad_sample` is not set.

        Args:
            losses: tensor [B], the loss of each example by itself; B >= 1.

        Raises:
            TypeError, ValueError: losses of another shape or kind, NaN or Inf in them or in a gradient (the example is named), a layer
                whose input has another first axis than the batch, trainable parameters other than at the beginning.
            GhostClippingError: see above.
            ModelChangedError: a buffer or a frozen parameter has changed since the beginning.
        """
        uses = self._recorder.take()
        self._require_same_parameters()
        self._require_untouched()
        examples = _require_losses(losses)
        edges = [use.edge for _, _, use in uses]
        if not edges:
            raise GhostClippingError("losses must come from a forward pass through the model after GhostClipping was made")
        checking = self._unchecked and examples > 1
        self._recorder.pause(True)
        try:
            asked = _gradients(losses.sum(), edges, keep=checking)
            pieces = self._pieces(uses, asked, examples)
            if checking:
                self._require_separate(losses, uses, edges)
                self._require_complete(losses, pieces)
        finally:
            self._recorder.pause(False)
        norms = {name: piece.norms() for name, piece in pieces.items()}
        scales, bounds = self._scales(norms, examples, losses.device)
        sums = {name: piece.weighted_sum(scales.to(_dtype(self._parameters[name]))) for name, piece in pieces.items()}
        self._add(sums, examples)
        self._norms = bounds
        self._unchecked = self._unchecked and not checking

    def empty_batch(self) -> None:
        """A batch without examples, as Poisson sampling may draw one: sums of zeros where there are none, and no more rows."""
        self._require_same_parameters()
        self._add({}, 0)

    def remove(self) -> None:
        """Take the hooks off the model. Sums stay."""
        self._recorder.remove()
        self._divisor.remove()

    def __enter__(self) -> GhostClipping:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def _pieces(self, uses: list[tuple[str, Any, Any]], asked: tuple[Any, ...], examples: int) -> dict[str, Piece]:
        """By the name of the parameter in the model. Passes that the losses do not depend on are left out."""
        import torch

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

    def _scales(self, norms: dict[str, Norms], examples: int, device: Any) -> tuple[Any, Any]:
        """(what each example is multiplied by, the largest that its norm can be)."""
        import torch

        none = torch.zeros(examples, dtype=torch.float64, device=device)
        largest = sum((one.squared for one in norms.values()), none).sqrt() * (1 + _ROOM)
        spread = sum((one.spread.square() for one in norms.values()), none).sqrt() * (1 + _ROOM)
        bad = (~largest.isfinite()).nonzero()
        if len(bad):
            raise ValueError(f"gradients must be finite, got NaN or Inf in that of example {int(bad[0])}")
        # Scaled output gradients are rounded to the dtype of the sums, each by at most this much of itself.
        coarsest = max(torch.finfo(_dtype(parameter)).eps / 2 for parameter in self._parameters.values())
        scales = self.clip_norm * (1 - _ROOM) / (largest + coarsest * spread)
        scales = torch.where(largest <= self.clip_norm, torch.ones_like(scales), scales)
        return tensor_to_float32_down(scales), largest

    def _add(self, sums: dict[str, Any], examples: int) -> None:
        import torch

        from hushvec.training import batch_gradients

        if all(getattr(parameter, "clipped_sum", None) is None for parameter in self._parameters.values()):
            batch_gradients.mark(self._parameters.values())
        for name, parameter in self._parameters.items():
            before = getattr(parameter, "clipped_sum", None)
            more = sums.get(name)
            if before is None:
                before = torch.zeros_like(parameter, dtype=_dtype(parameter), requires_grad=False)
            parameter.clipped_sum = before if more is None else before + more
            parameter.clipped_rows = (getattr(parameter, "clipped_rows", None) or 0) + examples
            parameter.clipped_norm = self.clip_norm

    def _require_same_parameters(self) -> None:
        now = {name for name, parameter in self._model.named_parameters() if parameter.requires_grad}
        if now != set(self._parameters):
            name = sorted(now ^ set(self._parameters))[0]
            raise ValueError(f"trainable parameters must stay those that GhostClipping was made for, got another state of {name}")

    def _require_untouched(self) -> None:
        """The forward pass has written into no buffer and no frozen parameter. Trained ones are the optimizer's to watch."""
        from hushvec.training.per_example import require_independent_examples

        require_independent_examples(self._model)
        self._watch.require_before_step(self._batches)
        self._batches += 1

    def _require_separate(self, losses: Any, uses: list[tuple[str, Any, Any]], edges: list[Any]) -> None:
        """One example's loss must ask nothing of the rows of others."""
        one = len(losses) // 2
        for (layer, _, _), gradient in zip(uses, _gradients(losses[one], edges, keep=True)):
            if gradient is None:
                continue
            others = gradient.clone()
            others[one] = 0.0
            if others.count_nonzero():
                raise GhostClippingError(
                    f"the loss of an example must depend on its own row only, got a loss that depends on other rows in {layer}: "
                    "layers that mix examples (BatchNorm), a loss that is a mean over the batch, or an axis before the batch"
                )

    def _require_complete(self, losses: Any, pieces: dict[str, Piece]) -> None:
        """The sum over examples must be what autograd finds, or a parameter is used where no layer shows it."""
        import torch

        names = list(self._parameters)
        found = _gradients(losses.sum(), [self._parameters[name] for name in names], keep=True)
        with torch.no_grad():
            for name, gradient in zip(names, found):
                piece, dtype = pieces.get(name), _dtype(self._parameters[name])
                if piece is None:
                    ours, size = torch.zeros((), dtype=dtype), 0.0
                else:
                    ours = piece.weighted_sum(torch.ones(piece.examples, dtype=dtype, device=losses.device))
                    size = float(piece.norms().spread.sum())
                missing = float((ours if gradient is None else gradient.to(dtype) - ours).double().norm())
                if not missing <= math.sqrt(torch.finfo(self._parameters[name].dtype).eps) * size:
                    raise GhostClippingError(
                        f"parameter {name} must be used by its own layer's forward pass only: the layer accounts for a gradient "
                        f"that differs from autograd's by {missing:.3g}"
                    )


def _trainable(model: Any) -> tuple[dict[str, Any], list[tuple[str, Any]]]:
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
                    f"trainable parameters must belong to Linear, Embedding, LayerNorm or Conv1D layers, got {name} of {reason}; "
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


def _require_losses(losses: Any) -> int:
    import torch

    if not isinstance(losses, torch.Tensor):
        raise TypeError(f"losses must be a tensor, got {validate.kind(losses)}")
    if losses.dim() != 1 or not len(losses):
        raise ValueError(f"losses must be a tensor [B], one loss for each of B >= 1 examples, got {list(losses.shape)}")
    if not losses.requires_grad:
        raise ValueError("losses must come from the model with gradients, got a tensor that needs none")
    bad = (~losses.isfinite()).nonzero()
    if len(bad):
        raise ValueError(f"losses must be finite, got {losses[int(bad[0])].item()} for example {int(bad[0])}")
    return len(losses)


def _require_losses_of(losses: Any, examples: int) -> Any:
    import torch

    if not isinstance(losses, torch.Tensor):
        raise TypeError(f"losses must be a tensor, got {validate.kind(losses)}")
    if tuple(losses.shape) != (examples,):
        raise ValueError(f"losses must be a tensor [{examples}], one loss for each example, got {list(losses.shape)}")
    return losses


def _require_no_batch_divisor(module: Any, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    if named.get("num_items_in_batch") is not None:
        raise GhostClippingError(
            "num_items_in_batch must be left out: losses that are divided by the tokens of the batch depend on other examples"
        )


def _gradients(loss: Any, inputs: list[Any], *, keep: bool) -> tuple[Any, ...]:
    import torch

    found: tuple[Any, ...] = torch.autograd.grad(loss, inputs, retain_graph=keep, allow_unused=True)
    return found


def _dtype(parameter: Any) -> Any:
    """Of a parameter's sums: float32, or float64 where the parameter is."""
    import torch

    return torch.float64 if parameter.dtype == torch.float64 else torch.float32
