"""Models of torch's `fully_shard` (FSDP2), of whose parameters each process holds a part (a DTensor).

Gradients of examples need whole parameters. FSDP's own hooks gather them layer by layer, as often as there are passes; processes
pass as often as their examples say, which differs, and torch.func cannot transform those hooks. So the parameters are gathered once
for a batch, in every process, and FSDP's hooks rest meanwhile. Its backward hooks, which average raw gradients, never run.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

from hushvec._util.validate import kind

if _missing := [name for name in ("_forward_pre_hooks", "_forward_hooks") if not hasattr(torch.nn.Module(), name)]:
    raise ImportError(f"torch must have {', '.join(_missing)}, by which hooks rest, got torch {torch.__version__} without")


def is_sharded(tensor: torch.Tensor) -> bool:
    return hasattr(tensor, "placements")


def modules_of(model: torch.nn.Module) -> list[Any]:
    """The modules that `fully_shard` was called on."""
    fsdp = getattr(sys.modules.get("torch.distributed.fsdp"), "FSDPModule", None)
    if fsdp is None or not torch.distributed.is_initialized():  # asked in every step
        return []
    return [module for module in model.modules() if isinstance(module, fsdp)]


def reshard(model: torch.nn.Module) -> None:
    """Let the model hold its shards: a forward pass of FSDP's own leaves the whole parameters of its root."""
    for module in modules_of(model):
        module.reshard()


def parameters_of(model: torch.nn.Module) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, parameter) for name, parameter in model.named_parameters() if is_sharded(parameter)]


@torch.no_grad()
def local_of(tensor: Any) -> Any:
    return tensor.to_local() if is_sharded(tensor) else tensor


@torch.no_grad()
def whole_of(tensor: Any) -> Any:
    """The whole tensor; of a part it is gathered, for which all processes must ask."""
    return tensor.full_tensor() if is_sharded(tensor) else tensor


def part_of(whole: torch.Tensor, like: Any) -> torch.Tensor:
    """This process's part of a tensor that all processes hold whole, cut like `like`. Nothing is sent."""
    if not is_sharded(like):
        return whole
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.detach(), like.device_mesh, like.placements, src_data_rank=None)


def require_same_cut(model: torch.nn.Module | None, parameters: list[tuple[str, torch.nn.Parameter]]) -> None:
    """Refuse parameters that `fully_shard` has replaced in the model since the optimizer was made."""
    if model is not None and modules_of(model) and not any(is_sharded(parameter) for _, parameter in parameters):
        raise ValueError("fully_shard() must come before the optimizers are made, got whole parameters of a model that is sharded")


def require_cut_by_fsdp(model: torch.nn.Module, processes: int) -> None:
    """Refuse sharded parameters of another kind than `fully_shard` over all processes makes."""
    for name, parameter in parameters_of(model):
        cut: Any = parameter
        kinds, size = [type(one).__name__ for one in cut.placements], cut.device_mesh.size()
        if kinds not in (["Shard"], ["Replicate", "Shard"]) or size != processes:
            raise ValueError(
                f"fully_shard() must be over all {processes} processes, with no other parallelism, got {kinds} over {size} for {name}"
            )
    for module in modules_of(model):
        policy = getattr(getattr(module, "_get_fsdp_state", lambda: None)(), "_mp_policy", None)
        if policy is not None and (policy.param_dtype or policy.output_dtype):
            raise ValueError(f"fully_shard() must have no mixed precision, got {policy} for a {kind(module)}: use torch.autocast")


@contextmanager
def resting_hooks(model: torch.nn.Module) -> Iterator[None]:
    """Forward passes without FSDP's hooks."""
    modules = model.modules() if modules_of(model) else ()
    kept = [(hooks, dict(hooks)) for module in modules for hooks in (module._forward_pre_hooks, module._forward_hooks)]
    try:
        for hooks, every in kept:
            for key, hook in every.items():
                if getattr(hook, "__module__", "").startswith("torch.distributed.fsdp."):
                    del hooks[key]
        yield
    finally:
        for hooks, every in kept:
            hooks.clear()
            hooks.update(every)
