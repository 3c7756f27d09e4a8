"""Which part of torch records this thread's calls. Checked at every draw, so its functions are looked up once: 0.5 us in all."""

from __future__ import annotations

import torch
import torch.fx._symbolic_trace as symbolic_trace

_is_compiled = torch.compiler.is_dynamo_compiling
_modes = torch._C._len_torch_dispatch_stack
_mode = torch._C._get_dispatch_mode
_is_traced = torch._C._is_tracing
_transform = torch._C._functorch.peek_interpreter_stack
_RECORDING_MODES = {
    torch._C._TorchDispatchModeKey.PROXY: "make_fx",
    torch._C._TorchDispatchModeKey.FAKE: "FakeTensorMode",
    torch._C._TorchDispatchModeKey.FUNCTIONAL: "FunctionalTensorMode",
}


def recorder() -> str | None:
    """The recorder as an error names it; None if nothing records."""
    if _is_compiled():  # dynamo could not follow the rest
        return "torch.export" if is_exporting() else None
    if not (_modes() or _is_traced() or symbolic_trace._is_fx_tracing_flag) and _transform() is None:
        return None
    if _is_traced():
        return "torch.jit.trace"
    if _transform() is not None:
        return "a transform of torch.func (vmap, grad, functionalize, ...)"
    for key, name in _RECORDING_MODES.items():
        if _mode(key) is not None:
            return "torch.export" if is_exporting() else name
    # The remaining modes only observe: they count operations, or print them.
    return "torch.fx.symbolic_trace or make_fx" if symbolic_trace._is_fx_tracing_flag else None


def keeps_operators() -> bool:
    """Whether calls of torch operators are recorded as such: a program then makes them each time, and loses nothing of them."""
    if _is_compiled():
        return True
    if not (_modes() or _is_traced() or symbolic_trace._is_fx_tracing_flag):
        return False
    return _transform() is None and recorder() is not None


def is_exporting() -> bool:
    """torch before 2.7 does not report a strict export."""
    return hasattr(torch.compiler, "is_exporting") and torch.compiler.is_exporting()
