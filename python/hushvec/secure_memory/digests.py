"""A name for a model that tells any two trainings of it apart."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hushvec.errors import MissingExtraError

# Of a configuration, what says nothing about the numbers that a model computes.
_NOT_THE_MODEL = {"_name_or_path", "architectures", "transformers_version"}


def model_digest(model: Any) -> str:
    """SHA-256 over a model's configuration and all its weights, as 64 hexadecimal digits.

    Keys and values belong to the weights that made them. Two trainings of one architecture, an adapter before and after a step,
    two precisions of one checkpoint: each has a digest of its own. Every weight is read once.

    Args:
        model: a torch module; its `config` counts if it has one.

    Raises:
        MissingExtraError: torch is not installed.
        TypeError: model is no torch module.

    Edge cases:
        Another release of transformers may write a configuration with other fields: the digest is then another one, and a cache
        saved before is refused, never used wrongly.
    """
    try:
        import torch
    except ImportError:
        raise MissingExtraError("the digest of a model", "secure") from None
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch module, got {type(model).__name__}")
    digest = hashlib.sha256()
    digest.update(_configuration(getattr(model, "config", None)))
    for name, weight in sorted(model.state_dict().items()):
        described = json.dumps([name, str(weight.dtype), list(weight.shape)])
        digest.update(len(described).to_bytes(8, "little") + described.encode())
        digest.update(weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy())
    return digest.hexdigest()


def _configuration(config: Any) -> bytes:
    if config is None or not hasattr(config, "to_dict"):
        return b""
    fields = {name: value for name, value in config.to_dict().items() if name not in _NOT_THE_MODEL}
    return json.dumps(fields, sort_keys=True, default=str).encode()
