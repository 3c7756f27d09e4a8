"""Checkpoints with the account in them, written atomically."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch

from hushvec._util import validate
from hushvec._util.publish import published_bytes
from hushvec.training import ranks, shards
from hushvec.training.dp_optimizer import DPOptimizer
from hushvec.training.model_watch import require_module

FORMAT = "hushvec-training/1"


def save_checkpoint(
    path: str | os.PathLike[str], optimizer: DPOptimizer, model: torch.nn.Module, *, extra: dict[str, Any] | None = None
) -> None:
    """Write model, optimizer and account to a file beside `path`, sync it, and rename it into place.

    Args:
        path: the file; an older one is replaced. Its folder must exist.
        optimizer: with no batch begun.
        model: whose state_dict is written; of a DistributedDataParallel the module's in it. One of `fully_shard` is gathered: call it
            in all processes; rank 0 writes what a single process would.
        extra: more to keep (an epoch, a scheduler's state): tensors, numbers, texts, and lists and dicts of them.

    Raises:
        ValueError: a batch is begun; the model has a parameter or buffer that the optimizer does not watch, or state of its own
            (`get_extra_state`), which cannot be inspected.
        ModelChangedError: a parameter or buffer has changed outside of the private steps, and would carry examples without noise.

    Guarantees:
        Killed at any moment, `path` is the old checkpoint or the new one. No key, nonce or seed is written.

    Example:
        >>> import tempfile, torch
        >>> from hushvec.training import DPOptimizer, load_checkpoint, save_checkpoint
        >>> def fresh():
        ...     model = torch.nn.Linear(2, 1)
        ...     return model, DPOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), clip_norm=1.0, noise_multiplier=1.0,
        ...                               expected_batch_size=4, sampling_probability=0.1, delta=1e-5)
        >>> model, optimizer = fresh()
        >>> optimizer.empty_batch()
        >>> optimizer.step()
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     save_checkpoint(f"{folder}/checkpoint.pt", optimizer, model, extra={"epoch": 1})
        ...     model, resumed = fresh()
        ...     load_checkpoint(f"{folder}/checkpoint.pt", resumed, model)
        {'epoch': 1}
        >>> resumed.epsilon() == optimizer.epsilon()
        True
    """
    model = _checked(optimizer, model)
    sharded = bool(shards.modules_of(model))
    with optimizer._steps.failing_together() if sharded else nullcontext():
        optimizer.require_unchanged(model)
        content = {
            "format": FORMAT,
            "optimizer": optimizer.state_dict(),
            "model": model.state_dict(),
            "extra": {} if extra is None else dict(extra),
        }
    if sharded:
        ranks.meet_to_gather(shards.parameters_of(model))
        content = _gathered(content)
        if not optimizer._steps.is_first:
            return
    with published_bytes(Path(path)) as file:
        torch.save(content, file)


def load_checkpoint(path: str | os.PathLike[str], optimizer: DPOptimizer, model: torch.nn.Module) -> dict[str, Any]:
    """Put a checkpoint's state into a model and an optimizer that has not stepped, built as they were then; return its `extra`.

    Raises:
        ValueError: the file is something else or damaged; the model has other names or shapes; a setting differs; the optimizer
            has stepped (docs/training_runs.md, "Checkpoints"). Model, optimizer and accountant are then as before.

    Guarantees:
        The account continues from the checkpoint. Noise and batches are drawn anew. Only tensors and plain values are read
        from the file (`weights_only`).
    """
    model = _checked(optimizer, model)
    content = _read(Path(path))
    _require_fitting(model, content["model"])
    if shards.modules_of(model):
        _cut(content, optimizer, model)
    optimizer.load_state_dict(content["optimizer"])
    model.load_state_dict(content["model"])
    optimizer._take_as_is()
    extra: dict[str, Any] = content["extra"]
    return extra


def _checked(optimizer: Any, model: Any) -> Any:
    validate.instance("optimizer", optimizer, DPOptimizer, "a DPOptimizer")
    require_module(model)
    return ranks.unwrapped(model)


def _gathered(content: Any) -> Any:
    """With whole tensors, in the CPU's memory, in place of parts."""
    if isinstance(content, dict):
        return {name: _gathered(part) for name, part in content.items()}
    return shards.whole_of(content).cpu() if shards.is_sharded(content) else content


def _cut(content: dict[str, Any], optimizer: DPOptimizer, model: torch.nn.Module) -> None:
    """Replace what each process has a part of: the model's parameters, and the optimizer's state of their shapes."""
    for name, own in model.state_dict().items():
        content["model"][name] = shards.part_of(content["model"][name], own)
    parameters = [parameter for _, parameter in optimizer._all_parameters()]
    for place, state in content["optimizer"]["optimizer"]["state"].items():
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and value.shape == parameters[place].shape:
                state[name] = shards.part_of(value, parameters[place])


def _read(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        try:
            content = torch.load(file, map_location="cpu", weights_only=True)
        except Exception as error:  # torch passes on any exception of its unpickler
            raise ValueError(f"{path}: must be a checkpoint of save_checkpoint, got {validate.kind(error)}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT or set(content) != {"format", "optimizer", "model", "extra"}:
        raise ValueError(f"{path}: must be a checkpoint of save_checkpoint, got something else")
    return content


def _require_fitting(model: torch.nn.Module, state: dict[str, Any]) -> None:
    """Check names and shapes first, so that loading cannot stop halfway."""
    own = {name: tuple(value.shape) for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)}
    stored = {name: tuple(value.shape) for name, value in state.items() if isinstance(value, torch.Tensor)}
    for name in sorted({*own, *stored}):
        if own.get(name) != stored.get(name):
            raise ValueError(f"model must have {name!r} of shape {stored.get(name)} as in the checkpoint, got {own.get(name)}")
