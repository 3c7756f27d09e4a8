"""Parameters and buffers, compared before and after: a forward pass must not write what it has seen into the model.

A gradient is clipped and gets noise; what a layer writes into the model gets neither, and a checkpoint carries it. Every batch
compares the identity, address and version counter of each tensor, and values of small buffers, as some kernels of torch write
without counting. Digests, which find writes through `.data`, are compared in batches 1, 2, 3, 5, 9, 17, ... and where a claim is
made; between those such a write to a parameter that is trained goes unnoticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar
from weakref import WeakSet, ref

import torch

from hushvec._util import validate
from hushvec.errors import HushvecError
from hushvec.training import shards

# torch has no public names for these, or slow ones.
_READ = ((torch.nn.Module(), ("_parameters", "_buffers", "_modules")), (torch.zeros(0), ("_version",)))
if _missing := [name for owner, names in _READ for name in names if not hasattr(owner, name)]:
    raise ImportError(f"torch must have {', '.join(_missing)}, by which a model is watched, got torch {torch.__version__} without")

# Elements up to which a buffer's values are compared in every batch. Running statistics are below it, tables of masks above.
SMALL = 2**14

Tensors = dict[str, torch.Tensor]


class ModelChangedError(HushvecError, ValueError):
    """A parameter or buffer has changed outside of the private steps. The message names it."""


# A tensor, its address and its version counter: what changes when it or its storage is replaced, or written to. A plain tuple, as
# there are some for every parameter in every step; never compared by ==, which would compare the tensors' elements.
Stamp = tuple[torch.Tensor, int, int]


def require_module(model: object) -> None:
    validate.instance("model", model, torch.nn.Module, "a torch.nn.Module")


def stamp_of(tensor: torch.Tensor) -> Stamp:
    # Tensors made in inference mode count no writes; they cannot be written to outside of it either.
    own = shards.local_of(tensor)
    version = 0 if own.is_inference() else own._version
    return tensor, own.data_ptr() if own.layout is torch.strided else 0, version


def tensors_of(model: torch.nn.Module) -> Tensors:
    """Every parameter and buffer by its names. Runs in every step: named_parameters and named_buffers take five times as long."""
    found: Tensors = {}
    seen: set[int] = set()
    waiting: list[tuple[str, torch.nn.Module]] = [("", model)]
    while waiting:
        path, module = waiting.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        for held in (module._parameters, module._buffers):
            for name, tensor in held.items():
                if tensor is not None:
                    found[path + name] = tensor
        for name, inner in module._modules.items():
            if inner is not None:
                waiting.append((f"{path}{name}.", inner))
    return found


def digest_of(tensor: torch.Tensor) -> str:
    """SHA-256 of the values, of this process's part if there are parts; of the kind alone for what has no plain memory (sparse)."""
    tensor = shards.local_of(tensor)
    if tensor.layout != torch.strided:
        return str(tensor.layout)
    plain = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(plain.data).hexdigest()


def _small_buffers(tensors: Tensors) -> list[str]:
    return [
        name
        for name, tensor in tensors.items()
        if not isinstance(tensor, torch.nn.Parameter) and tensor.numel() <= SMALL and tensor.layout == torch.strided
    ]


class Glance:
    """The cheap check of tensors: stamps of all, values of small buffers (reused from the last check, if there was one)."""

    def __init__(self, tensors: Tensors, after: Glance | None = None) -> None:
        self.stamps = {name: stamp_of(tensor) for name, tensor in tensors.items()}
        small = _small_buffers(tensors) if after is None else after.small
        self.small: list[str] = [name for name in small if name in tensors]
        self._groups: dict[Any, list[tuple[str, torch.Tensor]]] = {}
        for name in self.small:
            tensor = tensors[name].detach()
            self._groups.setdefault((tensor.dtype, tensor.device), []).append((name, tensor))
        self._values = {
            kind: torch.cat([tensor.reshape(-1) for _, tensor in group]).view(torch.uint8) for kind, group in self._groups.items()
        }

    def differences(self, later: Glance) -> list[str]:
        """Names of what was replaced, written to, added or taken away in between."""
        found = [
            name
            for name in {**self.stamps, **later.stamps}
            if (first := self.stamps.get(name)) is None
            or (second := later.stamps.get(name)) is None
            or not (first[0] is second[0] and first[1:] == second[1:])
        ]
        for kind in self._groups.keys() & later._groups.keys():
            if not torch.equal(self._values[kind], later._values[kind]):
                found += self._written(kind, later)
        return found

    def _written(self, kind: Any, later: Glance) -> list[str]:
        def by_name(glance: Glance) -> Tensors:
            group, values = glance._groups[kind], glance._values[kind]
            ends = list(accumulate(tensor.numel() * tensor.element_size() for _, tensor in group))
            return {name: values[begin:end] for (name, _), begin, end in zip(group, [0, *ends], ends)}

        before, after = by_name(self), by_name(later)
        return [name for name in before.keys() & after.keys() if not torch.equal(before[name], after[name])]


def look_at(model: torch.nn.Module) -> Glance:
    """Before a forward pass, for `require_untouched` after it."""
    return Glance(tensors_of(model))


def require_untouched(model: torch.nn.Module, before: Glance) -> None:
    allowed = allowed_of(model)
    for name in before.differences(Glance(tensors_of(model), before)):
        if name not in allowed:
            raise ModelChangedError(_WRITTEN.format(name=repr(name)))


class ModelWatch:
    """The expected parameters and buffers: as they were, or as the last private step left them.

    All those of the model are watched, or without one what `parameters` gives by name; `frozen_only` leaves those that require a
    gradient to another watch. Forward passes may write `allow_buffers`.
    """

    def __init__(
        self, model: torch.nn.Module | None, parameters: Callable[[], Tensors] = dict, *, allow_buffers: Sequence[str] = (),
        frozen_only: bool = False,
    ) -> None:
        self.model, self._parameters, self._frozen_only = model, parameters, frozen_only
        validate.instance("model", model, torch.nn.Module | None, "a torch.nn.Module or None")
        validate.strings("allow_buffers", allow_buffers)
        tensors = tensors_of(model) if model is not None and allow_buffers else {}
        buffers = [name for name, tensor in tensors.items() if not isinstance(tensor, torch.nn.Parameter)]
        for name in allow_buffers:
            if name not in buffers:
                there = ", ".join(buffers) or "none"
                raise ValueError(f"allow_buffers must name buffers of the model, got {name!r}; there are {there}")
        if model is not None:
            announce(model, frozenset(allow_buffers))
        self._take_as_is()
        if frozen_only:
            _of_frozen.add(self)

    @property
    def allowed(self) -> frozenset[str]:
        return allowed_of(self.model) if self.model is not None else frozenset()

    def rebase(self) -> None:
        """Take the current state as expected, also for the sources of the model's gradients."""
        for watch in (self, *(other for other in _of_frozen if other.model is self.model and other is not self)):
            watch._take_as_is()

    def _take_as_is(self) -> None:
        now = self._seen = self._tensors()
        self._before = Glance(now)
        self._digests = {name: digest_of(tensor) for name, tensor in now.items() if name not in self.allowed}

    def covers(self, parameters: Iterable[torch.Tensor]) -> bool:
        """Whether there is a model, and these are among its parameters, as they were last seen."""
        if self.model is None:
            return False
        own = set(map(id, self._seen.values()))
        return all(id(parameter) in own for parameter in parameters)

    def require_all_of(self, model: torch.nn.Module) -> None:
        """Refuse a model with a parameter or buffer that is not watched, or with a module that has state of another kind."""
        own = {id(tensor) for tensor in self._tensors().values()}
        for name, tensor in tensors_of(model).items():
            if id(tensor) not in own:
                raise ValueError(f"model must be the one that the optimizer watches, got one with {name!r}, which it does not")
        for name, module in model.named_modules():
            if type(module).get_extra_state is not torch.nn.Module.get_extra_state:
                raise ValueError(
                    f"model must keep its state in parameters and buffers, which are watched, got get_extra_state() of "
                    f"{name or 'the model'} beside them"
                )

    def changes(self, *, exact: bool) -> list[str]:
        """Names of everything that differs from the expected state; `exact`: by digests of all values too, where there are some."""
        now = self._seen = self._tensors()
        glance = Glance(now, self._before)
        found = set(self._before.differences(glance))
        # Another DPOptimizer's private step is no write of a forward pass: that optimizer accounts for it.
        stepped = {
            name
            for name in found
            if name in now and (known := _left.get(now[name])) is not None and known[:2] == glance.stamps[name][1:]
        }
        if exact:
            found |= {name for name, known in self._digests.items() if name in now and digest_of(now[name]) != known}
        return sorted(found - stepped - self.allowed)

    def require_unchanged(self, *, exact: bool) -> None:
        if found := self.changes(exact=exact):
            raise ModelChangedError(_WRITTEN.format(name=repr(found[0])))

    def require_before_step(self, steps: int) -> None:
        """`require_unchanged`, with digests in the steps after 0, 1, 2, 4, 8, ... others."""
        self.require_unchanged(exact=_is_exact(steps))

    def stepped(self, parameters: Iterable[torch.Tensor], steps: int, run: object) -> None:
        """Take these parameters as left by a private step of `run`; before some of the next `steps`, compare digests, too."""
        ours, whose = {id(parameter) for parameter in parameters}, ref(run)
        for name, tensor in self._seen.items():
            if id(tensor) in ours:
                self._before.stamps[name] = stamp = stamp_of(tensor)
                _left[tensor] = stamp[1], stamp[2], whose
                if _is_exact(steps):
                    self._digests[name] = digest_of(tensor)
                else:
                    self._digests.pop(name, None)

    def _tensors(self) -> Tensors:
        if self.model is None:
            return self._parameters()
        shards.reshard(self.model)
        found = tensors_of(self.model)
        return {name: tensor for name, tensor in found.items() if not tensor.requires_grad} if self._frozen_only else found


def _is_exact(steps: int) -> bool:
    return steps & (steps - 1) == 0


Value = TypeVar("Value")


class ByIdentity(Generic[Value]):
    """A weak mapping for objects that compare by their elements, or not at all. Each step asks it for every parameter, and
    torch.utils.weak.WeakIdKeyDictionary makes a step of 80 small parameters 7 % slower."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[ref[Any], Value]] = {}

    def get(self, key: object) -> Value | None:
        known = self._held.get(id(key))
        return known[1] if known is not None and known[0]() is key else None

    def __setitem__(self, key: object, value: Value) -> None:
        number = id(key)
        known = self._held.get(number)
        holder = known[0] if known is not None and known[0]() is key else ref(key, lambda gone: self._forget(number, gone))
        self._held[number] = holder, value

    def _forget(self, number: int, gone: ref[Any]) -> None:
        if self._held[number][0] is gone:
            del self._held[number]


_models: ByIdentity[ref[torch.nn.Module]] = ByIdentity()  # parameter -> the model that gradients of it came from
_allowed: ByIdentity[frozenset[str]] = ByIdentity()  # model -> names of buffers that forward passes may write
_of_frozen: WeakSet[ModelWatch] = WeakSet()  # those that sources of gradients have
_left: ByIdentity[tuple[int, int, ref[Any]]] = ByIdentity()  # parameter -> address, version, run of its last private step


def announce(model: torch.nn.Module, allowed: frozenset[str] = frozenset()) -> None:
    """Announce this model for `model_of` as the source of its parameters' gradients; its forward passes may write these buffers."""
    if allowed:
        _allowed[model] = allowed | allowed_of(model)
    for parameter in model.parameters():
        known = _models.get(parameter)
        if known is None or known() is not model:
            _models[parameter] = ref(model)


def allowed_of(model: torch.nn.Module) -> frozenset[str]:
    return _allowed.get(model) or frozenset()


def model_of(parameters: Iterable[torch.Tensor]) -> torch.nn.Module | None:
    """The one model that all of the parameters were announced with."""
    found = {known() if (known := _models.get(parameter)) is not None else None for parameter in parameters}
    return found.pop() if len(found) == 1 else None


def leave(parameters: Iterable[torch.Tensor], run: object) -> None:
    whose = ref(run)
    for parameter in parameters:
        _, address, version = stamp_of(parameter)
        _left[parameter] = address, version, whose


def stepped_by_another(parameters: Iterable[torch.Tensor], run: object) -> bool:
    """Whether another run made the last private step of one of the parameters."""
    return any((known := _left.get(parameter)) is not None and known[2]() is not run for parameter in parameters)


OTHERS_PARAMETERS = (
    "optimizer must have parameters of its own, got one that another DPOptimizer has stepped: its steps are not in this account (give "
    "both one accountant and independent_batches=True, or start from fresh parameters)"
)
_WRITTEN = (
    "the model must not change outside of the private steps, got another {name}: a forward pass that writes into the model (running "
    "statistics, max_norm, an average of its own) keeps what it has seen without noise. If no private data came into the change, call "
    "accept_changes() of the optimizer; buffers that hold none go into its allow_buffers"
)
