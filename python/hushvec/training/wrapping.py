"""`WrappingOptimizer`: an optimizer whose parameter groups and state are those of another one, which steps."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from hushvec._util import validate
from hushvec.training import batch_gradients


class WrappingOptimizer(torch.optim.Optimizer):
    """Looks like an optimizer to learning-rate schedulers and isinstance; all state is that of the wrapped one.

    Raises:
        TypeError: it is no torch.optim.Optimizer, or wraps one itself.
        ValueError: it needs a closure, or has no parameter that requires a gradient.
    """

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = _require_optimizer(optimizer)

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = groups

    @property
    def state(self) -> Any:
        return self.optimizer.state

    @state.setter
    def state(self, state: Any) -> None:
        self.optimizer.state = state

    @property
    def defaults(self) -> dict[str, Any]:
        return self.optimizer.defaults

    @defaults.setter
    def defaults(self, defaults: dict[str, Any]) -> None:
        self.optimizer.defaults = defaults


def _require_optimizer(value: Any) -> torch.optim.Optimizer:
    if not isinstance(value, torch.optim.Optimizer):
        raise TypeError(f"optimizer must be a torch.optim.Optimizer, got {validate.kind(value)}")
    if isinstance(value, WrappingOptimizer):
        raise TypeError("optimizer must be an ordinary one, got a DPOptimizer: noise would be added twice and counted once")
    closure = inspect.signature(type(value).step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise ValueError(f"optimizer must step without a closure, got {type(value).__name__}")
    if not batch_gradients.trainable(value.param_groups):
        raise ValueError("optimizer must have a parameter that requires a gradient, got none")
    return value
