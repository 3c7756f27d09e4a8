"""LoRA layers of a model, put there by PEFT."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from hushvec._util import validate
from hushvec._util.lazy import needs_extra


def add_lora(
    model: Any,
    *,
    rank: int = 8,
    target_modules: Sequence[str],
    alpha: float | None = None,
    dropout: float = 0.0,
    seed: int | None = None,
) -> Any:
    """A model with frozen weights and LoRA matrices in the named layers.

    Args:
        model: a transformers model, or another torch module.
        rank: r >= 1, the inner size of the matrices.
        target_modules: names of Linear or Conv1D layers, or ends of their names ("c_attn", "q_proj").
        alpha: > 0; a layer adds alpha / r times its product. None: 2 r.
        dropout: in [0, 1), of the adapter's input.
        seed: of the matrices' first values; None: from torch's generator as it is. The second matrix begins with zeros either
            way, so that the model is the same as before until it is trained.

    Returns:
        A peft.PeftModel around the model, which is changed in place.

    Raises:
        TypeError, ValueError: a bad argument, a name that no layer has, a layer that is neither Linear nor Conv1D, a model that has an
            adapter already.
        MissingExtraError: PEFT is not installed.

    Guarantees:
        Every name in target_modules has at least one adapted layer. PEFT itself is satisfied if one of the names has.
        Only the adapter's matrices are trained.

    Reference:
        Hu, Shen, Wallis, Allen-Zhu, Li, Wang, Chen, "LoRA: Low-rank adaptation of large language models" (2021).

    Example:
        >>> import torch
        >>> from hushvec.training.lora import add_lora
        >>> model = add_lora(torch.nn.Sequential(torch.nn.Linear(8, 8)), rank=2, target_modules=["0"])
        >>> sorted(name.split(".")[-3] for name, one in model.named_parameters() if one.requires_grad)
        ['lora_A', 'lora_B']
    """
    rank = validate.whole_number("rank", rank, at_least=1)
    alpha = 2.0 * rank if alpha is None else validate.positive("alpha", alpha)
    if not 0 <= (dropout := validate.number("dropout", dropout)) < 1:
        raise ValueError(f"dropout must be >= 0 and < 1, got {dropout!r}")
    validate.strings("target_modules", target_modules)
    targets = list(dict.fromkeys(target_modules))
    with needs_extra("LoRA adapters", "peft"):
        import torch
        from peft import LoraConfig, get_peft_model

        from hushvec.training.model_watch import require_module
    require_module(model)
    if any("lora_" in name for name, _ in model.named_modules()):
        raise ValueError("model must have no adapter yet, got one with LoRA layers")
    _require_targets(model, targets)
    settings = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=dropout, target_modules=targets, bias="none")
    with torch.random.fork_rng(enabled=seed is not None), warnings.catch_warnings():
        # PEFT notes that Conv1D keeps its weight the other way round and sets the option itself; transformers renames an attribute.
        warnings.filterwarnings("ignore", message=".*fan_in_fan_out.*")
        warnings.filterwarnings("ignore", category=FutureWarning)
        if seed is not None:
            torch.manual_seed(validate.whole_number("seed", seed, at_least=0))
        return get_peft_model(model, settings)


def lora_layers(model: Any) -> dict[str, Any]:
    """The layers with LoRA matrices, by their names without what PEFT puts before them.

    Raises:
        MissingExtraError: PEFT is not installed.
    """
    with needs_extra("LoRA adapters", "peft"):
        from peft.tuners.lora import LoraLayer
    return {name.removeprefix("base_model.model."): module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


def _require_targets(model: Any, targets: Sequence[str]) -> None:
    import torch

    if not targets:
        raise ValueError("target_modules must name a layer, got none")
    named = dict(model.named_modules())
    for target in targets:
        found = [name for name in named if name == target or name.endswith(f".{target}")]
        if not found:
            there = sorted({name.rpartition(".")[2] for name, module in named.items() if _adaptable(module, torch)})
            raise ValueError(f"target_modules must name layers of the model, got {target!r}; there are {', '.join(there)}")
        for name in found:
            if not _adaptable(named[name], torch):
                raise ValueError(f"target_modules must be Linear or Conv1D layers, got {name} of {type(named[name]).__name__}")


def _adaptable(module: Any, torch: Any) -> bool:
    return isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"
