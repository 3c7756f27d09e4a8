"""Ghost clipping of convolutions: every position of the output is one position of a matrix whose input is the window it looks at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from hushvec.training.ghost.pieces import MatrixPiece, Norms, chunks, joined


class ConvolutionPiece:
    """Of the weight [out, C / groups, *kernel] of a Conv1d, Conv2d or Conv3d.

    In each group G_i = sum_t g_t a_t^T, where a_t are the (C / groups) prod(kernel) numbers under the kernel at output position t. The
    windows are copies of the input, so nothing of this rounds. They take prod(kernel) times the memory of the input, and are made
    for a few examples at a time.

    Args:
        module: the layer.
        passes: (inputs [B, C, *space], output gradients [B, out, *positions]) of each pass through it; spaces may differ.
    """

    def __init__(self, module: Any, passes: Sequence[tuple[Any, Any]]) -> None:
        self._module, self._passes = module, passes
        self.examples = len(passes[0][0])

    def norms(self) -> Norms:
        import torch

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
        import torch

        groups, kernel = self._module.groups, self._module.weight[0].numel()
        held = sum(outputs[0, 0].numel() * (groups * kernel + outputs.shape[1]) for _, outputs in self._passes)
        for rows in chunks(self.examples, element_bytes * held):
            inputs = [windows_of(self._module, some[rows]) for some, _ in self._passes]
            outputs = [some[rows].unflatten(1, (groups, -1)).flatten(3).transpose(2, 3) for _, some in self._passes]
            yield rows, torch.cat(inputs, 2), torch.cat(outputs, 2)


def _positions_by_group(rows: Any) -> Any:
    """[B, groups, T, n] as [groups, B T, n]."""
    return rows.transpose(0, 1).flatten(1, 2)


def windows_of(module: Any, inputs: Any) -> Any:
    """What a convolution sees at each position of its output.

    Args:
        module: a torch Conv1d, Conv2d or Conv3d, with any kernel, stride, padding, dilation and groups.
        inputs: [B, C, *space].

    Returns:
        [B, groups, T, (C / groups) prod(kernel)], T positions of the output.
    """
    import torch

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
    """(before, behind) along one axis of the space."""
    if module.padding == "valid":
        return 0, 0
    if module.padding == "same":
        total = module.dilation[axis] * (module.kernel_size[axis] - 1)
        return total // 2, total - total // 2
    return module.padding[axis], module.padding[axis]
