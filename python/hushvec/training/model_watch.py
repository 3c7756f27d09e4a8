"""What a forward pass may not do: write what it has seen into the model. Parameters and buffers, compared before and after.

A gradient is clipped and gets noise; a buffer that a layer updates, or a row of an embedding that it rescales, gets neither, and a
checkpoint then carries it. Comparing every number after every batch would cost as much as the batch, so a batch compares each
tensor's identity, address and version counter, and the values of small buffers: some of torch's own kernels (batch normalization)
write without counting. Digests of everything are compared where a claim is made and, to notice writes through `.data`, in batches
1, 2, 4, 8, ....
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

import torch
from torch.nn.modules.module import _EXTRA_STATE_KEY_SUFFIX
from torch.utils.weak import WeakIdKeyDictionary

from hushvec import _validate

# Elements up to which a buffer's values are compared in every batch. Running statistics are below it, tables of masks above.
SMALL = 2**14

Tensors = dict[str, torch.Tensor]


class ModelChangedError(ValueError):
    """A parameter or buffer has changed outside of the private steps. The message names it."""


@dataclass(frozen=True)
class Stamp:
    """What changes when a tensor is replaced (it, or its storage) or written to."""

    tensor: torch.Tensor
    address: int
    version: int

    def same(self, other: Stamp) -> bool:
        return self.tensor is other.tensor and (self.address, self.version) == (other.address, other.version)


def stamp_of(tensor: torch.Tensor) -> Stamp:
    # Tensors made in inference mode count no writes; they cannot be written to outside of it either.
    version = 0 if tensor.is_inference() else tensor._version
    return Stamp(tensor, tensor.data_ptr() if tensor.layout == torch.strided else 0, version)


def tensors_of(model: torch.nn.Module) -> Tensors:
    """Every parameter and buffer, under every name that it has."""
    return {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}


def digest_of(tensor: torch.Tensor) -> str:
    """SHA-256 of the values; of the kind alone for what has no plain memory (sparse tensors)."""
    if tensor.layout != torch.strided:
        return str(tensor.layout)
    plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(plain).hexdigest()


class Glance:
    """The cheap look at tensors: stamps of all, values of small buffers."""

    def __init__(self, tensors: Tensors) -> None:
        self.stamps = {name: stamp_of(tensor) for name, tensor in tensors.items()}
        self._groups: dict[Any, list[tuple[str, torch.Tensor]]] = {}
        for name, tensor in tensors.items():
            if not isinstance(tensor, torch.nn.Parameter) and tensor.numel() <= SMALL and tensor.layout == torch.strided:
                self._groups.setdefault((tensor.dtype, tensor.device), []).append((name, tensor.detach()))
        self._values = {kind: _bytes_of([tensor for _, tensor in group]) for kind, group in self._groups.items()}

    def differences(self, later: Glance) -> list[str]:
        """Names of what was replaced, written to, added or taken away in between."""
        found = [
            name
            for name in {**self.stamps, **later.stamps}
            if name not in self.stamps or name not in later.stamps or not self.stamps[name].same(later.stamps[name])
        ]
        for kind in self._groups.keys() & later._groups.keys():
            if not torch.equal(self._values[kind], later._values[kind]):
                found += self._written(kind, later)
        return found

    def _written(self, kind: Any, later: Glance) -> list[str]:
        """Which of the small buffers of a kind have other values."""
        before, after = (
            dict(zip((name for name, _ in one._groups[kind]), one._values[kind].split([_size(t) for _, t in one._groups[kind]])))
            for one in (self, later)
        )
        return [name for name in before.keys() & after.keys() if not torch.equal(before[name], after[name])]


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _bytes_of(tensors: list[torch.Tensor]) -> torch.Tensor:
    """A copy of their values, in one run."""
    return torch.cat([tensor.reshape(-1) for tensor in tensors]).view(torch.uint8)


def look_at(model: torch.nn.Module) -> Glance:
    """Before a forward pass, for `require_untouched` after it."""
    return Glance(tensors_of(model))


def require_untouched(model: torch.nn.Module, before: Glance) -> None:
    """The forward pass in between has written nothing.

    Raises:
        ModelChangedError: it has.
    """
    allowed = _allowed.get(model, frozenset())
    for name in before.differences(look_at(model)):
        if name not in allowed:
            raise ModelChangedError(_WRITTEN.format(name=repr(name)))


class ModelWatch:
    """Parameters and buffers as they should be: as they were, or as the last private step left them.

    Args:
        model: all of whose parameters and buffers are watched; None: only `parameters`.
        parameters: gives those to watch by name, where there is no model.
        allow_buffers: names of buffers that forward passes may write, because they hold nothing of the examples (the vectors of a
            spectral norm are a function of the weights).

    Raises:
        TypeError, ValueError: no module; a name that no buffer has.
    """

    def __init__(
        self, model: torch.nn.Module | None, parameters: Callable[[], Tensors] = dict, *, allow_buffers: Sequence[str] = ()
    ) -> None:
        self.model, self._parameters = model, parameters
        if model is not None and not isinstance(model, torch.nn.Module):
            raise TypeError(f"model must be a torch.nn.Module or None, got {_validate.kind(model)}")
        _validate.strings("allow_buffers", allow_buffers)
        buffers = dict(model.named_buffers(remove_duplicate=False)) if model is not None else {}
        for name in allow_buffers:
            if name not in buffers:
                there = ", ".join(buffers) or "none"
                raise ValueError(f"allow_buffers must name buffers of the model, got {name!r}; there are {there}")
        if model is not None:
            announce(model, frozenset(allow_buffers))
        self.rebase()

    @property
    def allowed(self) -> frozenset[str]:
        """Names of buffers that forward passes may write: what all watches of the model were told."""
        return _allowed.get(self.model, frozenset()) if self.model is not None else frozenset()

    def rebase(self) -> None:
        """Everything is as it should be now."""
        now = self._tensors()
        self._before = Glance(now)
        self._digests = {name: digest_of(tensor) for name, tensor in now.items() if name not in self.allowed}

    def covers(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether there is a model, and these are among its parameters."""
        if self.model is None:
            return False
        own = {id(parameter) for parameter in self.model.parameters()}
        return all(id(parameter) in own for parameter in parameters)

    def require_all_of(self, model: torch.nn.Module) -> None:
        """Raises:
        ValueError: a parameter or buffer of this model is not watched, or a module has state of another kind.
        """
        own = {id(tensor) for tensor in self._tensors().values()}
        for name, tensor in tensors_of(model).items():
            if id(tensor) not in own:
                raise ValueError(f"model must be the one that the optimizer watches, got one with {name!r}, which it does not")
        for name in model.state_dict():
            if name.endswith(_EXTRA_STATE_KEY_SUFFIX):
                raise ValueError(f"model must keep its state in parameters and buffers, which are watched, got {name!r} beside them")

    def changes(self, *, exact: bool) -> list[str]:
        """Names of what is not as it should be.

        Args:
            exact: compare digests of all values too, where there are some.
        """
        now = self._tensors()
        glance = Glance(now)
        found = set(self._before.differences(glance))
        # Another DPOptimizer's private step is no write of a forward pass: that optimizer accounts for it.
        stepped = {name for name in found if name in now and _left_by(now[name], glance.stamps[name])}
        if exact:
            found |= {name for name, known in self._digests.items() if name in now and digest_of(now[name]) != known}
        return sorted(found - stepped - self.allowed)

    def require_unchanged(self, *, exact: bool) -> None:
        """Raises:
        ModelChangedError: something is not as it should be.
        """
        if found := self.changes(exact=exact):
            raise ModelChangedError(_WRITTEN.format(name=repr(found[0])))

    def require_before_step(self, steps: int) -> None:
        """`require_unchanged`, with digests in the steps after 0, 1, 2, 4, 8, ... others."""
        self.require_unchanged(exact=_is_exact(steps))

    def stepped(self, parameters: Iterable[torch.Tensor], steps: int) -> None:
        """These parameters should be as they are now: a private step has left them so.

        Args:
            steps: how many there were so far. Before some of the next, digests of these parameters are compared, too.
        """
        for name, tensor in self.forget(parameters).items():
            if _is_exact(steps):
                self._digests[name] = digest_of(tensor)

    def forget(self, parameters: Iterable[torch.Tensor]) -> Tensors:
        """Whatever these parameters were, they should be as they are now. Returns them under all of their names."""
        ours = {id(parameter) for parameter in parameters}
        found = {name: tensor for name, tensor in self._tensors().items() if id(tensor) in ours}
        for name, tensor in found.items():
            self._before.stamps[name] = stamp_of(tensor)
            self._digests.pop(name, None)
        return found

    def _tensors(self) -> Tensors:
        return self._parameters() if self.model is None else tensors_of(self.model)


def _is_exact(steps: int) -> bool:
    return steps & (steps - 1) == 0


# ---- who has said what about whom, in this process ----

_models: WeakIdKeyDictionary = WeakIdKeyDictionary()  # parameter -> weak reference to the model that gradients of it came from
_allowed: WeakIdKeyDictionary = WeakIdKeyDictionary()  # model -> names of buffers that forward passes may write
_left: WeakIdKeyDictionary = WeakIdKeyDictionary()  # parameter -> (address, version) after its last private step, and the run's id


def announce(model: torch.nn.Module, allowed: frozenset[str] = frozenset()) -> None:
    """Gradients on the model's parameters come from this model, for `model_of`; its forward passes may write these buffers."""
    if allowed:
        _allowed[model] = allowed | _allowed.get(model, frozenset())
    for parameter in model.parameters():
        known = _models.get(parameter)
        if known is None or known() is not model:
            _models[parameter] = ref(model)


def model_of(parameters: Iterable[torch.Tensor]) -> torch.nn.Module | None:
    """The one model that all of them were announced with."""
    found = {known() if (known := _models.get(parameter)) is not None else None for parameter in parameters}
    return found.pop() if len(found) == 1 else None


def leave(parameters: Iterable[torch.Tensor], run: object) -> None:
    """A run's private step has left them as they are."""
    for parameter in parameters:
        stamp = stamp_of(parameter)
        _left[parameter] = (stamp.address, stamp.version, ref(run))


def stepped_by_another(parameters: Iterable[torch.Tensor], run: object) -> bool:
    """Whether the last private step of one of them was another run's."""
    return any((known := _left.get(parameter)) is not None and known[2]() is not run for parameter in parameters)


def _left_by(tensor: torch.Tensor, stamp: Stamp) -> bool:
    known = _left.get(tensor)
    return known is not None and known[:2] == (stamp.address, stamp.version)


OTHERS_PARAMETERS = (
    "optimizer must have parameters of its own, got one that another DPOptimizer has stepped: its steps are not in this account (give "
    "both one accountant and independent_batches=True, or start from fresh parameters)"
)
_WRITTEN = (
    "the model must not change outside of the private steps, got another {name}: a forward pass that writes into the model (running "
    "statistics, max_norm, an average of its own) keeps what it has seen without noise. If no private data came into the change, call "
    "accept_changes() of the optimizer; buffers that hold none go into its allow_buffers"
)
