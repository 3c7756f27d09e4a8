"""What one backward pass left on the parameters, checked: rows of gradients, a sum of clipped ones, or one gradient of a batch.

    p.grad_sample                                   [B, *p.shape], from Opacus's GradSampleModule or per_example_gradients
    p.clipped_sum, p.clipped_rows, p.clipped_norm   a sum of gradients clipped during the backward pass (ghost clipping)
    p.grad                                          the gradient of the batch, where the batch is what is clipped
    p.grad_batch                                    a BatchMark, where the backward pass is this library's
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from hushvec._native.arrays import TORCH_DTYPES, dtype_name
from hushvec._util.validate import kind

Named = list[tuple[str, torch.nn.Parameter]]


@dataclass(frozen=True)
class Rows:
    """Per-example gradients, one array [B, *shape] for each parameter. B may be 0."""

    parts: list[torch.Tensor]
    names: list[str]

    @property
    def count(self) -> int:
        return len(self.parts[0])


@dataclass(frozen=True)
class Sums:
    """Sums of clipped gradients of `count` examples, one for each parameter."""

    parts: list[torch.Tensor]
    count: int


class BatchMark:
    """Marks the gradients of one backward pass, as p.grad_batch: they must all go into the same step.

    Two steps on parts of one gradient release it as two vectors of norm clip_norm, from one sample of the data; accounting
    assumes that steps use separate samples.
    """

    def __init__(self) -> None:
        self.taken = False


def mark(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Mark these parameters as having gradients of a new backward pass."""
    new = BatchMark()
    for parameter in parameters:
        parameter.grad_batch = new  # type: ignore[attr-defined]


def untaken_marks(parameters: Named) -> list[BatchMark]:
    """The marks on these parameters' gradients.

    Raises:
        ValueError: another step has taken part of them.
    """
    marks = {id(found): found for _, parameter in parameters if (found := getattr(parameter, "grad_batch", None)) is not None}
    if any(found.taken for found in marks.values()):
        raise ValueError(
            "gradients of a backward pass must be taken by one step of one optimizer, got some that another step has taken part of: "
            "the batch would be released twice and accounted for as two samples (step all parameters together)"
        )
    return list(marks.values())


def all_of(groups: Iterable[dict[str, Any]]) -> Named:
    """Parameters of an optimizer, each with the name that an error gives it."""
    found: Named = []
    for number, group in enumerate(groups):
        names = group.get("param_names")
        for index, parameter in enumerate(group["params"]):
            found.append((repr(names[index]) if names else f"param_groups[{number}]['params'][{index}]", parameter))
    return found


def trainable(groups: Iterable[dict[str, Any]]) -> Named:
    """Those that require a gradient."""
    return [(name, parameter) for name, parameter in all_of(groups) if parameter.requires_grad]


def clear(parameters: Named) -> None:
    """Clear per-example gradients, so that none is used twice."""
    for _, parameter in parameters:
        if getattr(parameter, "grad_sample", None) is not None:
            parameter.grad_sample = None  # type: ignore[attr-defined]
        if getattr(parameter, "clipped_sum", None) is not None:
            parameter.clipped_sum = None  # type: ignore[attr-defined]
            parameter.clipped_rows = 0  # type: ignore[attr-defined]
        if getattr(parameter, "grad_batch", None) is not None:
            parameter.grad_batch = None  # type: ignore[attr-defined]


def of_examples(parameters: Named, clip_norm: float) -> Rows | Sums | None:
    """Gradients of examples on the parameters, or None if no parameter has any.

    Raises:
        ValueError: some parameters have one and others not; shapes or numbers of examples differ; both kinds are there; a sum
            was clipped to another norm, or is not finite.
        TypeError: something is no tensor, or of a dtype that is not floating.
    """
    rows = [getattr(parameter, "grad_sample", None) for _, parameter in parameters]
    sums = [getattr(parameter, "clipped_sum", None) for _, parameter in parameters]
    has_rows, has_sums = (any(one is not None for one in found) for found in (rows, sums))
    if has_rows and has_sums:
        raise ValueError("gradients must be of one kind, got both grad_sample and clipped_sum")
    if has_rows:
        return _rows(parameters, rows)
    return _sums(parameters, sums, clip_norm) if has_sums else None


def of_batch(parameters: Named) -> Rows | None:
    """The ordinary gradient as the one row of a batch, or None if no parameter has any."""
    gradients = [parameter.grad for _, parameter in parameters]
    if all(gradient is None for gradient in gradients):
        return None
    for (name, parameter), gradient in zip(parameters, gradients):
        _require_tensor("grad", name, gradient)
        assert gradient is not None
        _require_shape("grad", name, tuple(gradient.shape), tuple(parameter.shape))
    parts = [gradient.detach()[None] for gradient in gradients if gradient is not None]
    return Rows(parts, [f"grad of {name}" for name, _ in parameters])


def require_no_scaler(optimizer: Any, value: Any) -> None:
    """Refuse what torch.amp.GradScaler passes to `step` of an optimizer that claims to support it.

    It warns that it will stop passing itself, and set its scale and what it found on the optimizer instead.
    """
    if any(one is not None for one in (value, getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None))):
        raise ValueError(
            "grad_scaler must be None, got a GradScaler: it skips a step when a gradient of the batch overflows, and its scale "
            "follows the batches, both of which anyone can see (use bfloat16, or call step() yourself on losses times a public "
            "constant)"
        )


def _rows(parameters: Named, found: list[Any]) -> Rows:
    parts: list[torch.Tensor] = []
    for (name, parameter), value in zip(parameters, found):
        if isinstance(value, list):
            value = _one_pass(name, value)
        _require_tensor("grad_sample", name, value)
        if value.ndim != parameter.ndim + 1 or tuple(value.shape[1:]) != tuple(parameter.shape):
            expected = ("examples", *parameter.shape)
            raise ValueError(f"grad_sample of {name} must have shape ({', '.join(map(str, expected))}), got {tuple(value.shape)}")
        if parts and len(value) != len(parts[0]):
            raise ValueError(
                f"grad_sample of {name} must have {len(parts[0])} examples like {parameters[0][0]}, got {len(value)}"
            )
        parts.append(value.detach())
    return Rows(parts, [f"grad_sample of {name}" for name, _ in parameters])


def _one_pass(name: str, passes: list[Any]) -> Any:
    """The only element: Opacus keeps a list if gradients of several backward passes were accumulated."""
    if len(passes) != 1:
        raise ValueError(
            f"grad_sample of {name} must be of one backward pass, got {len(passes)}: an example in two of them would count twice "
            "(call accumulate() after each part of a batch, or zero_grad() between batches)"
        )
    return passes[0]


def _sums(parameters: Named, found: list[Any], clip_norm: float) -> Sums:
    parts: list[torch.Tensor] = []
    first: int | None = None
    for (name, parameter), value in zip(parameters, found):
        _require_tensor("clipped_sum", name, value)
        _require_shape("clipped_sum", name, tuple(value.shape), tuple(parameter.shape))
        rows, norm = getattr(parameter, "clipped_rows", None), getattr(parameter, "clipped_norm", None)
        if isinstance(rows, bool) or not isinstance(rows, int) or rows < 0:
            raise ValueError(f"clipped_rows of {name} must be a whole number >= 0, got {rows!r}")
        if norm != clip_norm:
            raise ValueError(f"clipped_sum of {name} must be of gradients clipped to clip_norm = {clip_norm!r}, got {norm!r}")
        first = rows if first is None else first
        if rows != first:
            raise ValueError(f"clipped_rows of {name} must be {first} like that of {parameters[0][0]}, got {rows}")
        if not bool(torch.isfinite(value).all()):
            raise ValueError(f"clipped_sum of {name} must be finite, got NaN or Inf in it")
        parts.append(value.detach())
    assert first is not None
    return Sums(parts, first)


def _require_tensor(what: str, name: str, value: Any) -> None:
    if value is None:
        raise ValueError(
            f"{what} of {name} must be there, got None: it took no part in the backward pass (freeze it, or leave it out)"
        )
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{what} of {name} must be a tensor, got {kind(value)}")
    if dtype_name(value) not in TORCH_DTYPES:
        raise TypeError(f"{what} of {name} must be {' or '.join(TORCH_DTYPES)}, got {dtype_name(value)}")


def _require_shape(what: str, name: str, shape: tuple[int, ...], expected: tuple[int, ...]) -> None:
    if shape != expected:
        raise ValueError(f"{what} of {name} must have shape {expected}, got {shape}")
