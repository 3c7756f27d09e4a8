"""Whether the caller is being recorded into a program: exported, traced, or run on tensors that have no values.

Such a recorder runs a function once and keeps the torch operations that it saw. It does not see the kernels of the core, which
write memory: of a noisy release it would keep the uninitialised result, the input alone, or this one draw as a constant.
torch.compile is no recorder in this sense: it turns the calls into operators (`_torch_ops`) and runs them anew each time.
"""

from __future__ import annotations

import sys
from typing import Any


def require_no_recorder(what: str = "noise") -> None:
    """Raise where the caller is being recorded; called before anything is drawn, charged or released."""
    recorder = _recorder()
    if recorder is not None:
        raise recording_error(what, recorder)


def recording_error(what: str, recorder: str) -> RuntimeError:
    return RuntimeError(
        f"{what} cannot be recorded into a program, which would repeat or lose it: got a call under {recorder} "
        "(record the rest, and call hushvec on what the program returns; torch.compile works, and draws anew at each call)"
    )


def _recorder() -> str | None:
    """What records this thread's calls, as an error names it; None where nothing does."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "compiler"):  # not loaded, or another thread is loading it
        return None
    if torch.compiler.is_dynamo_compiling():
        # The rest is nothing that dynamo could follow. torch before 2.7 cannot say whether it exports.
        return "torch.export" if hasattr(torch.compiler, "is_exporting") and torch.compiler.is_exporting() else None
    core = torch._C
    if core._len_torch_dispatch_stack():
        return _name_of_mode(torch)
    if core._get_tracing_state() is not None:
        return "torch.jit.trace"
    if core._functorch.peek_interpreter_stack() is not None:
        return "a transform of torch.func (vmap, grad, functionalize, ...)"
    tracer = sys.modules.get("torch.fx._symbolic_trace")
    return "torch.fx.symbolic_trace or make_fx" if getattr(tracer, "_is_fx_tracing_flag", False) else None


def _name_of_mode(torch: Any) -> str | None:
    """Other modes only watch: they count operations, or print them."""
    core, key = torch._C, torch._C._TorchDispatchModeKey
    if core._get_dispatch_mode(key.PROXY) is not None:
        return "make_fx"
    if core._get_dispatch_mode(key.FAKE) is not None:
        return "torch.export" if torch.compiler.is_compiling() else "FakeTensorMode"
    return None if core._get_dispatch_mode(key.FUNCTIONAL) is None else "FunctionalTensorMode"
