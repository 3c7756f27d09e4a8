"""Ghost clipping: the sum of clipped per-example gradients of a batch from one backward pass, without the gradients themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec._util.rounding import tensor_to_float32_down
from hushvec.training.ghost.layers import Recorder, pieces_of
from hushvec.training.ghost.pieces import Norms, Piece
from hushvec.training.ghost.requirements import (
    GhostClippingError,
    gradients_of,
    require_complete,
    require_losses,
    require_no_batch_divisor,
    require_own_losses,
    require_separate,
    sum_dtype,
    trainable,
)

# Room for the few roundings that scales are computed with.
_ROOM = 2.0**-45


class GhostClipping:
    """Clipped sums of a model's gradients.

    The norm of each example's gradient, over all trainable parameters together, is computed from the layers' inputs and the
    gradients of their outputs. One product per layer then makes the weighted sum. There is one backward pass, and it computes no
    gradient of any parameter.

        ghost = GhostClipping(model, clip_norm=1.0)
        losses = next_token_losses(model(ids).logits, ids)     # [B], one for each example
        ghost.backward(losses)                                 # parameter.clipped_sum, parameter.clipped_rows
        optimizer.step()                                       # hushvec.training.DPOptimizer adds the noise

    Args:
        model: a torch module whose trainable parameters all belong to Linear, Embedding, LayerNorm, RMSNorm, GroupNorm, Conv1d,
            Conv2d, Conv3d or transformers' Conv1D layers, the layers inside PEFT's LoRA among them. Freeze the others.
        clip_norm: C in [2^-100, 2^100], the largest L2 norm of an example's gradient.
        check: whether the first batch is looked at more closely: that the sum over examples is the gradient that autograd finds; and
            if it has one example, the first of two or more again, since only there it shows that the loss of one example has no
            gradient in the rows of others. This takes the memory of one more forward pass and two more backward passes, once or
            twice. A loss that is divided by a number of the batch, such as its valid tokens, passes it: `require_own_losses` looks
            for that.
        allow_buffers: names of buffers that forward passes may write, since they hold nothing of the examples.

    Raises:
        TypeError, ValueError: a bad argument, no trainable parameter, a trainable parameter of another kind of layer (it is named),
            one that two layers share, or a layer that mixes examples (BatchNorm in training mode).
        MissingExtraError: torch is not installed.

    Guarantees:
        Each example enters the sum scaled such that its share has norm <= clip_norm in real arithmetic, for the activations and output
        gradients as they were computed (docs/proofs/ghost_clipping.md). The additions of shares round, as float32 does: a sum from
        here is of grade "float".
        Memory beyond that of one ordinary gradient: the gradients of the outputs of all layers at once (about as much as their
        activations), 64 MiB, and one more gradient. Never a gradient for each example. The windows of a convolution are made for a
        few examples at a time, for one at least.
        If `backward` raises, no parameter has changed, and neither has any sum.

    Edge cases:
        Passes without gradients (torch.no_grad) are not noted. A forward pass whose loss does not arrive at the next `backward` is
        forgotten: with two batches, run the backward pass of the first before the forward pass of the second. The hooks stay
        until `remove`, or the end of the `with` block.

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

    def __init__(self, model: Any, clip_norm: float, *, check: bool = True, allow_buffers: Sequence[str] = ()) -> None:
        with needs_extra("ghost clipping", "training"):
            from hushvec.training.model_watch import ModelWatch
            from hushvec.training.per_example import require_independent_examples
            from hushvec.training.ranks import require_plain
        require_independent_examples(model)
        require_plain(model)
        self.clip_norm = validate.clip_norm(clip_norm)
        self._incomplete = self._inseparate = validate.flag("check", check)  # not yet checked for
        self._model = model
        self._parameters, layers = trainable(model)
        self._recorder = Recorder(layers)
        self._divisor = model.register_forward_pre_hook(require_no_batch_divisor, with_kwargs=True)
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
        require_own_losses(self._model, losses_of, batch)

    @property
    def parameters(self) -> dict[str, Any]:
        """The trainable parameters by name."""
        return dict(self._parameters)

    @property
    def last_norms(self) -> Any:
        """Norms of the examples of the last batch before clipping, float64 [B], rounded up; None before the first one.

        They are as private as the examples: a clip norm chosen from them leaks information.
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
        sums = {name: piece.weighted_sum(scales.to(sum_dtype(self._parameters[name]))) for name, piece in pieces.items()}
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
        self._divisor.remove()

    def __enter__(self) -> GhostClipping:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.remove()

    def _pieces(self, uses: list[tuple[str, Any, Any]], asked: tuple[Any, ...], examples: int) -> dict[str, Piece]:
        """Pieces by parameter name. Passes that the losses do not depend on are left out."""
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
        coarsest = max(torch.finfo(sum_dtype(parameter)).eps / 2 for parameter in self._parameters.values())
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
                before = torch.zeros_like(parameter, dtype=sum_dtype(parameter), requires_grad=False)
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

