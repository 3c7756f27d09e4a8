"""LoRA adapters through PEFT, and a check that an adapter has trained. docs/lora.md is the guide."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.errors import HushvecError
from hushvec.training.model_watch import digest_of, require_module, tensors_of

__all__ = ["AdapterChange", "AdapterCheck", "AdapterUnchangedError", "BaseChangedError", "add_lora"]


def add_lora(
    model: Any, *, rank: int = 8, target_modules: Sequence[str], alpha: float | None = None, dropout: float = 0.0,
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
        ValueError: a name that no layer has, a layer that is neither Linear nor Conv1D, a model that has an adapter already.

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
        from peft import LoraConfig, get_peft_model

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
    """The layers with LoRA matrices, by their names without what PEFT puts before them."""
    with needs_extra("LoRA adapters", "peft"):
        from peft.tuners.lora import LoraLayer
    return {name.removeprefix("base_model.model."): module for name, module in model.named_modules() if isinstance(module, LoraLayer)}


def _require_targets(model: Any, targets: Sequence[str]) -> None:
    if not targets:
        raise ValueError("target_modules must name a layer, got none")
    named = dict(model.named_modules())
    adaptable = {name for name, module in named.items() if isinstance(module, torch.nn.Linear) or type(module).__name__ == "Conv1D"}
    for target in targets:
        found = [name for name in named if name == target or name.endswith(f".{target}")]
        if not found:
            there = sorted({name.rpartition(".")[2] for name in adaptable})
            raise ValueError(f"target_modules must name layers of the model, got {target!r}; there are {', '.join(there)}")
        for name in found:
            if name not in adaptable:
                raise ValueError(f"target_modules must be Linear or Conv1D layers, got {name} of {type(named[name]).__name__}")


class AdapterUnchangedError(HushvecError, RuntimeError):
    """Training left the adapter as it was, or can only leave it so. The message says what was found."""


class BaseChangedError(HushvecError, RuntimeError):
    """Weights beneath the adapter, which should be frozen, have changed. The message names one."""


@dataclass(frozen=True)
class AdapterChange:
    """How far an adapter has moved: the Frobenius norm of the change of alpha / r B A for each layer by name, and the largest
    change of an output on the probe, or None without one."""

    layers: Mapping[str, float]
    outputs: float | None


class AdapterCheck:
    """A snapshot of an adapter before training, to compare with afterwards.

    Fine-tuning can do nothing without an error, and with a loss that looks normal: docs/lora.md lists how, and which of
    `require_changed` and `require_base_unchanged`, called after training, finds it.

    Args:
        model: with LoRA layers of PEFT, before training.
        probe: an input of the model: a tensor, or a mapping of keyword arguments; public, as any input will do. None: outputs are
            not compared.
        optimizer: a torch optimizer, or one that has `param_groups` as they do; None: not checked.

    Raises:
        AdapterUnchangedError: training could not change the adapter: no LoRA layer, adapters switched off or merged, a matrix
            that does not require gradients, an optimizer without one of them.

    Example:
        >>> import torch
        >>> from hushvec.training.lora import AdapterCheck, add_lora
        >>> model = add_lora(torch.nn.Sequential(torch.nn.Linear(4, 4)), rank=1, target_modules=["0"])
        >>> AdapterCheck(model, probe=torch.ones(1, 4)).require_changed()
        Traceback (most recent call last):
        hushvec.training.lora.AdapterUnchangedError: the adapter must change in every layer, got the old B A in 0
    """

    def __init__(self, model: Any, *, probe: Any = None, optimizer: Any = None) -> None:
        require_module(model)
        validate.instance("probe", probe, torch.Tensor | Mapping | None, "a tensor or a mapping")
        self._model, self._probe = model, probe
        _require_trainable(model, optimizer)
        self._before = _matrices(model)
        self._outputs = _answers(model, probe)
        self._base = _base_digests(model)

    def require_changed(self, model: Any = None) -> AdapterChange:
        """Compare the adapter with how it was, and say how far each layer moved.

        Args:
            model: the model given at first, if None; else one with the same layers, as one that an adapter was loaded into.

        Raises:
            AdapterUnchangedError: a layer adds what it added before, has other LoRA matrices than before, or NaN or Inf in them;
                or the outputs on the probe are the same, bit for bit.
        """
        model = self._model if model is None else model
        after = _matrices(model)
        if set(after) != set(self._before):
            name = sorted(set(after) ^ set(self._before))[0]
            raise AdapterUnchangedError(f"the model must have the LoRA layers that it had, got a difference in {name}")
        layers = {name: self._distance(name, after[name]) for name in after}
        still = [name for name, distance in layers.items() if distance == 0]
        if still:
            more = f" and {len(still) - 1} more" if len(still) > 1 else ""
            raise AdapterUnchangedError(f"the adapter must change in every layer, got the old B A in {still[0]}{more}")
        outputs = None
        if self._outputs is not None:
            outputs = float((_answers(model, self._probe) - self._outputs).abs().max())
            if outputs == 0:
                raise AdapterUnchangedError(
                    "the model must answer the probe differently, got the same outputs: its adapter changed and is not in use"
                )
        return AdapterChange(layers, outputs)

    def require_base_unchanged(self, model: Any = None) -> None:
        """Compare everything beneath the adapter with how it was, to the bit; BaseChangedError names what differs."""
        after = _base_digests(self._model if model is None else model)
        for name in sorted(set(self._base) | set(after)):
            if self._base.get(name) != after.get(name):
                raise BaseChangedError(f"weights beneath the adapter must stay as they are, got another {name}")

    def _distance(self, name: str, after: tuple[Any, Any, float]) -> float:
        first, second, scaling = self._before[name]
        if first.shape != after[0].shape or second.shape != after[1].shape:
            raise AdapterUnchangedError(f"the adapter must keep its rank, got other matrices in {name}")
        distance = float((after[1] @ after[0] * after[2] - second @ first * scaling).norm())
        if distance != distance or distance == float("inf"):
            raise AdapterUnchangedError(f"the adapter must be finite, got NaN or Inf in {name}")
        return distance


def _require_trainable(model: Any, optimizer: Any) -> None:
    layers = lora_layers(model)
    if not layers:
        raise AdapterUnchangedError("the model must have LoRA layers, got none: no adapter was put in, or no layer has its names")
    groups = () if optimizer is None else optimizer.param_groups
    held = {id(parameter) for group in groups for parameter in group["params"]}
    for name, layer in layers.items():
        if layer.disable_adapters or layer.merged or not layer.active_adapters:
            raise AdapterUnchangedError(f"the adapter must be in use, got one that is switched off or merged in {name}")
        for matrix, parameter in _parameters(layer).items():
            if not parameter.requires_grad:
                raise AdapterUnchangedError(f"the adapter's matrices must require gradients, got {name}.{matrix} that does not")
            if optimizer is not None and id(parameter) not in held:
                raise AdapterUnchangedError(
                    f"the optimizer must hold the adapter's matrices, got one without {name}.{matrix}: make it after the adapter"
                )


def _parameters(layer: Any) -> dict[str, Any]:
    return {
        f"{matrix}.{adapter}": getattr(layer, matrix)[adapter].weight
        for adapter in layer.active_adapters
        for matrix in ("lora_A", "lora_B")
        if adapter in getattr(layer, matrix)
    }


def _matrices(model: Any) -> dict[str, tuple[Any, Any, float]]:
    """layer and adapter -> (A, B, alpha / r), float64 copies."""
    found = {}
    for name, layer in lora_layers(model).items():
        for adapter in layer.active_adapters:
            if adapter in layer.lora_A:
                first, second = (one[adapter].weight.detach().double().clone() for one in (layer.lora_A, layer.lora_B))
                found[name if adapter == "default" else f"{name}, {adapter}"] = (first, second, float(layer.scaling[adapter]))
    return found


def _answers(model: Any, probe: Any) -> Any:
    """Outputs on the probe, with dropout and the like switched off."""
    if probe is None:
        return None
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            answered = model(**probe) if isinstance(probe, Mapping) else model(probe)
    finally:
        model.train(training)
    output = getattr(answered, "logits", answered)
    if not isinstance(output, torch.Tensor):
        raise TypeError(f"the model must answer the probe with a tensor or with logits, got {validate.kind(output)}")
    return output.detach().double().clone()


def _base_digests(model: Any) -> dict[str, str]:
    return {name: digest_of(value) for name, value in tensors_of(model).items() if "lora_" not in name}
