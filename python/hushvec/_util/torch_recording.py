"""Which part of torch records this thread's calls, by what torch shows in public.

torch has no function for the last two of `recorder`: what they change is tried instead, which takes a few microseconds. This is
checked at every draw, so two private functions say first that nothing is there to be found. A torch without them is only slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx


@torch.fx.wrap
def _leaf() -> None:
    """torch.fx.Tracer, and so make_fx, puts another function in its place while it traces."""


_TRANSFORM = "a transform of torch.func (vmap, grad, functionalize, ...)"
_untraced_leaf = _leaf
_is_compiled = torch.compiler.is_dynamo_compiling
_is_traced: Callable[[], bool] = torch.jit.is_tracing  # type: ignore[attr-defined]


def _asked_of_torch() -> bool:
    return torch.compiler.is_exporting()


# Asked at once where dynamo follows a program: up to some release after 2.10 it takes torch's function for true in every program.
_constant: Any = torch.compiler.assume_constant_result
is_exporting: Callable[[], bool] = _constant(_asked_of_torch)


class _Single(torch.autograd.Function):
    """torch.func refuses to run it: it has no `setup_context`."""

    @staticmethod
    def forward(ctx: Any) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> None:
        pass


def _is_transformed() -> bool:
    try:
        _Single.apply()  # type: ignore[no-untyped-call]
    except RuntimeError:
        return True
    return False


def _private(path: str, otherwise: Callable[[], Any]) -> Callable[[], Any]:
    """A function of torch._C, or `otherwise`, which must say at least as often that something may be there."""
    found: Any = torch
    for name in ("_C", *path.split(".")):
        found = getattr(found, name, None)
    return found if callable(found) else otherwise


_modes = _private("_len_torch_dispatch_stack", lambda: 1)
_transform = _private("_functorch.peek_interpreter_stack", lambda: 1)


def recorder() -> str | None:
    """The recorder as an error names it; None if nothing records."""
    if _is_compiled():  # dynamo could not follow the rest
        return "torch.export" if is_exporting() else None
    modes, transform = _modes(), _transform()
    if not modes and transform is None and _leaf is _untraced_leaf and not _is_traced():
        return None
    if transform is not None and _is_transformed():
        return _TRANSFORM
    if _is_traced():
        return "torch.jit.trace"
    if is_exporting():
        return "torch.export"
    if _leaf is not _untraced_leaf:
        return "torch.fx.symbolic_trace or make_fx"
    return "FakeTensorMode" if modes and (type(torch.empty(0, device="cpu")) is not torch.Tensor) else None


def keeps_operators() -> bool:
    """Whether calls of torch operators are recorded as such: a program then makes them each time, and loses nothing of them."""
    if _is_compiled():
        return True
    return recorder() not in (None, _TRANSFORM)
