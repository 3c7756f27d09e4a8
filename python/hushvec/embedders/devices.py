"""On which device of torch a model runs."""

from __future__ import annotations

from typing import Any

from hushvec._util.lazy import needs_extra


def chosen_device(device: Any) -> Any:
    """A torch.device that there is: the one that is named; for None CUDA's first if there is one, else the CPU.

    Raises:
        MissingExtraError: torch is not installed.
        ValueError: it is none that torch knows, or CUDA is not there.
    """
    with needs_extra("a model of text", "text"):
        import torch
    if device is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        known = torch.device(device)
    except (RuntimeError, TypeError):
        raise ValueError(f"device must be a device of torch, such as 'cpu' or 'cuda', got {device!r}") from None
    if known.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device must be one that is there: torch finds no CUDA here, got {device!r}")
    return known
