"""A name for a model that differs between any two of its trainings."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec._util.validate import kind

# Fields of a configuration that do not affect the numbers that a model computes.
_NOT_THE_MODEL = {"_name_or_path", "architectures", "transformers_version"}
_NOT_THE_ADAPTER = {"auto_mapping", "base_model_name_or_path", "inference_mode", "peft_version", "revision"}

# Of an adapter layer: scratch space, how it was loaded, and what the property active_adapters says in one form.
_NOT_THE_LAYER = {"_caches", "kwargs", "active_adapter", "_active_adapter"}


def model_digest(model: Any) -> str:
    """SHA-256 over a model's configuration, all its weights and the state of its adapters, as 64 hexadecimal digits.

    Two trainings of one architecture, an adapter before and after a step, two precisions of one checkpoint, and one model with
    another PEFT adapter active, disabled, merged or scaled: each has its own digest. Every weight is read, inactive adapters too.

    Edge cases:
        Adapters count as they are at the call: ask again after switching them. Hooks, replaced methods and the attention kernel are
        not seen. Another release of transformers may write a configuration with other fields: the digest then differs, and a cache
        saved before is refused.
    """
    with needs_extra("the digest of a model", "secure"):
        import torch
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"model must be a torch module, got {type(model).__name__}")
    config: Any = getattr(model, "config", None)
    fields = config.to_dict() if hasattr(config, "to_dict") else None
    described = {} if fields is None else {name: value for name, value in fields.items() if name not in _NOT_THE_MODEL}
    digest = hashlib.sha256(b"" if fields is None else json.dumps(described, sort_keys=True, default=str).encode())
    state = _adapter_state(model)
    digest.update(len(state).to_bytes(8, "little") + state)
    for name, weight in sorted(model.state_dict().items()):
        if not isinstance(weight, torch.Tensor) or weight.is_quantized:
            found = f"{kind(weight)} for {name}"
            raise TypeError(f"weights must be plain tensors to be told apart, got {found}: give a model_id of your own")
        header = json.dumps([name, str(weight.dtype), list(weight.shape)])
        digest.update(len(header).to_bytes(8, "little") + header.encode())
        content: Any = weight.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy()
        digest.update(content)
    return digest.hexdigest()


def _adapter_state(model: Any) -> bytes:
    """The active adapters, and how they are active. PEFT keeps that in its layers: inactive adapters have weights too."""
    import torch

    own = vars(torch.nn.Module()).keys() | _NOT_THE_LAYER
    layers = []
    for name, module in model.named_modules():
        if isinstance(getattr(type(module), "active_adapters", None), property):
            fields = {field: value for field, value in vars(module).items() if field not in own}
            layers.append([name, type(module).__name__, _plain(module.active_adapters), _plain(fields)])
    return json.dumps(layers, sort_keys=True).encode() if layers else b""


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    if isinstance(value, (set, frozenset)):
        return sorted(json.dumps(_plain(one), sort_keys=True) for one in value)
    if callable(getattr(value, "to_dict", None)):
        return _plain({name: one for name, one in value.to_dict().items() if name not in _NOT_THE_ADAPTER})
    return kind(value)
