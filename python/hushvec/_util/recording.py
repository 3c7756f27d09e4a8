"""Whether the caller is being recorded into a program: exported, traced, or run on tensors that have no values.

Such a recorder runs a function once and keeps the torch operations that it saw. It does not see the kernels of the core, which
write memory: of a noisy release it would keep the uninitialized result, the input alone, or this one draw as a constant.
torch.compile is not a recorder in this sense: it turns the calls into operators (`_native/torch_ops.py`) and runs them each time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

__all__ = ["require_no_recorder"]

# `torch_recording.recorder` once torch is loaded: before that nothing records, and hushvec does not load torch.
_recorder: Callable[[], str | None] | None = None


def require_no_recorder(what: str = "noise") -> None:
    """Raise where the caller is being recorded; called before anything is drawn, charged or released."""
    if _recorder is None and sys.modules.get("torch") is None:
        return
    name = (_recorder or _found_recorder())()
    if name is not None:
        raise recording_error(what, name)


def recording_error(what: str, recorder: str) -> RuntimeError:
    return RuntimeError(
        f"{what} cannot be recorded into a program, which would repeat or lose it: got a call under {recorder} "
        "(record the rest, and call hushvec on what the program returns; torch.compile works, and draws anew at each call)"
    )


def _found_recorder() -> Callable[[], str | None]:
    global _recorder
    from hushvec._util.torch_recording import recorder

    _recorder = recorder
    return recorder
