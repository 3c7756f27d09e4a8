"""LSTM, GRU and RNN layers step by step, which shows ghost clipping what the loss asks of their gates: fused kernels hide it.

Gates are A x_t + B h_{t-1} and biases, of which the first product is made for all steps at once. The gradient of its output is that
of the gates. B h_{t-1} has the same one, but for a GRU's new state tanh(A x_t + r * (B h_{t-1})), where it is r times that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

RECURRENT = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)


class GateUse(NamedTuple):
    """One layer and direction of a pass."""

    inputs: Any  # x [B, T, d], without its history
    version: int  # how often it had been written to by then
    edge: Any  # the place of A x + bias [B, T, gates] in the graph
    suffix: str  # of the parameters' names: "l0", "l1_reverse"
    before: Any  # h_{t-1} [B, T, H]
    reset: Any  # r [B, T, H] of a GRU, else None

    def inner(self, gradient: Any) -> Any:
        """The gradient of B h_{t-1}, from that of A x_t."""
        if self.reset is None:
            return gradient
        gates = gradient.shape[2] - self.reset.shape[2]
        return torch.cat([gradient[:, :, :gates], gradient[:, :, gates:] * self.reset], 2)


def reason_to_refuse(module: Any) -> str | None:
    if not module.batch_first:
        return f"{type(module).__name__} without batch_first=True"
    if getattr(module, "proj_size", 0):
        return f"{type(module).__name__} with proj_size"
    return f"{type(module).__name__} whose forward has been replaced (call `remove` first)" if "forward" in vars(module) else None


def forward(module: Any, note: Callable[[GateUse], None], input: Any, hx: Any = None) -> Any:
    """What `module(input, hx)` returns, of the input [B, T, d]."""
    if not torch.is_grad_enabled():
        return type(module).forward(module, input, hx)
    if not isinstance(input, torch.Tensor):
        raise TypeError(f"input of {type(module).__name__} must be a tensor [B, T, d], got {type(input).__name__}")
    is_lstm, directions = isinstance(module, torch.nn.LSTM), 2 if module.bidirectional else 1
    if hx is None:
        zeros = input.new_zeros(module.num_layers * directions, len(input), module.hidden_size)
        hx = (zeros, zeros) if is_lstm else zeros
    module.check_forward_args(input, hx, None)
    held, rows = list(zip(*hx)) if is_lstm else [(state,) for state in hx], input  # (h, c) or (h,) of each layer and direction
    for place in range(0, len(held), directions):
        ways = [_one_way(module, note, place // directions, reverse, rows, held, place + reverse) for reverse in range(directions)]
        dropped = module.dropout if place + directions < len(held) else 0.0
        rows = torch.nn.functional.dropout(torch.cat(ways, 2), dropped, module.training)
    last = tuple(torch.stack(some) for some in zip(*held))
    return rows, last if is_lstm else last[0]


def _one_way(module: Any, note: Callable[[GateUse], None], layer: int, reverse: int, rows: Any, held: list[Any], place: int) -> Any:
    linear: Any = torch.nn.functional.linear
    suffix = "_".join([f"l{layer}", *["reverse"] * reverse])
    outside, inside = ([getattr(module, f"{of}_{kind}_{suffix}", None) for of in ("weight", "bias")] for kind in ("ih", "hh"))
    rows = rows.flip(1) if reverse else rows
    asked = linear(rows, *outside)
    asked = asked if asked.requires_grad else asked.requires_grad_()
    states, resets = [held[place][0]], []
    for outer in asked.unbind(1):
        held[place], reset = _step(module, outer, linear(states[-1], *inside), *held[place])
        states.append(held[place][0])
        resets.append(reset)
    before, reset = torch.stack(states[:-1], 1).detach(), None if resets[0] is None else torch.stack(resets, 1)
    note(GateUse(rows.detach(), rows._version, torch.autograd.graph.get_gradient_edge(asked), suffix, before, reset))
    return torch.stack(states[:0:-1] if reverse else states[1:], 1)


def _step(module: Any, outer: Any, inner: Any, state: Any, cell: Any = None) -> tuple[tuple[Any, ...], Any]:
    """((h_t, c_t) or (h_t,), r) from A x_t, B h_{t-1}, h_{t-1}, c_{t-1}."""
    if isinstance(module, torch.nn.RNN):
        return ((torch.tanh if module.nonlinearity == "tanh" else torch.relu)(outer + inner),), None
    if isinstance(module, torch.nn.LSTM):
        write, keep, new, show = (outer + inner).chunk(4, 1)
        cell = keep.sigmoid() * cell + write.sigmoid() * new.tanh()
        return (show.sigmoid() * cell.tanh(), cell), None
    (reset, keep, new), (more_reset, more_keep, more_new) = outer.chunk(3, 1), inner.chunk(3, 1)
    reset, keep = (reset + more_reset).sigmoid(), (keep + more_keep).sigmoid()
    new = (new + reset * more_new).tanh()
    return (new + keep * (state - new),), reset.detach()
