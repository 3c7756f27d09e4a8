"""The clipped gradients of one batch: what backward passes left on the parameters, checked, added in parts, and read once, with noise.

    p.grad_sample                                   [B, *p.shape], from Opacus's GradSampleModule or per_example_gradients
    p.clipped_sum, p.clipped_rows, p.clipped_norm   a sum of gradients clipped during the backward pass (ghost clipping)
    p.grad                                          the gradient of the batch, where the batch is what is clipped
    p.grad_batch                                    a BatchMark, where the backward pass is this library's
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from hushvec._native import _core
from hushvec._native.arrays import DEFAULT_DTYPE, TORCH_DTYPES, dtype_name, new_array
from hushvec._util.validate import kind
from hushvec.training import shards
from hushvec.training.clip_rules import ClipRule
from hushvec.training.clipped_sums import ClippedSum, EarlierNoise
from hushvec.training.gradients import warn_if_lost
from hushvec.training.samples import Sample, drawn
from hushvec.training.schedule import Settings, require_norm_for_each

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
    """p.grad_batch of one backward pass, whose gradients all go into one step: accounting assumes steps on separate samples."""

    def __init__(self) -> None:
        self.taken = False
        self.samples, self.is_read = drawn.take()  # for it, or before

    def note_samples(self) -> None:
        samples, is_read = drawn.take()
        if is_read:
            self.samples, self.is_read = {**(self.samples if self.is_read else {}), **samples}, True


def mark(parameters: Iterable[torch.nn.Parameter]) -> None:
    new = BatchMark()
    for parameter in parameters:
        parameter.grad_batch = new  # type: ignore[attr-defined]


def note_samples(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Add what was read for one more backward pass to the marks that are there."""
    for parameter in parameters:
        if (found := getattr(parameter, "grad_batch", None)) is not None:
            found.note_samples()


def untaken_marks(parameters: Named) -> list[BatchMark]:
    """The marks on these parameters' gradients. Refuses those of which another step has taken part."""
    marks = {id(found): found for _, parameter in parameters if (found := getattr(parameter, "grad_batch", None)) is not None}
    if any(found.taken for found in marks.values()):
        raise ValueError(
            "gradients of a backward pass must be taken by one step of one optimizer, got some that another step has taken part of: "
            "the batch would be released twice and accounted for as two samples (step all parameters together)"
        )
    return list(marks.values())


def all_of(groups: Iterable[dict[str, Any]]) -> Named:
    found: Named = []
    for number, group in enumerate(groups):
        names = group.get("param_names")
        for index, parameter in enumerate(group["params"]):
            found.append((repr(names[index]) if names else f"param_groups[{number}]['params'][{index}]", parameter))
    return found


def trainable(groups: Iterable[dict[str, Any]]) -> Named:
    return [(name, parameter) for name, parameter in all_of(groups) if parameter.requires_grad]


def clear(parameters: Named) -> None:
    for _, parameter in parameters:
        if getattr(parameter, "clipped_sum", None) is not None:
            parameter.clipped_rows = 0  # type: ignore[attr-defined]
        for name in ("grad_sample", "clipped_sum", "grad_batch"):
            if getattr(parameter, name, None) is not None:
                setattr(parameter, name, None)


def of_examples(parameters: Named, clip_norm: float) -> Rows | Sums | None:
    """Gradients of examples on the parameters, or None if no parameter has any."""
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
    """Refuse torch's GradScaler, which passes itself to `step`, or sets its scale and what it found on the optimizer."""
    if any(one is not None for one in (value, getattr(optimizer, "grad_scale", None), getattr(optimizer, "found_inf", None))):
        raise ValueError(
            "grad_scaler must be None, got a GradScaler: it skips a step when a gradient of the batch overflows, and its scale "
            "follows the batches, both of which anyone can see (use bfloat16, or Clipping(loss_scale=), a public constant)"
        )


def _rows(parameters: Named, found: list[Any]) -> Rows:
    parts: list[torch.Tensor] = []
    for (name, parameter), value in zip(parameters, found):
        if isinstance(value, list):  # Opacus keeps one if gradients of several backward passes were accumulated
            if len(value) != 1:
                raise ValueError(
                    f"grad_sample of {name} must be of one backward pass, got {len(value)}: an example in two of them would count "
                    "twice (call accumulate() after each part of a batch, or zero_grad() between batches)"
                )
            (value,) = value
        _require_tensor("grad_sample", name, value)
        if value.ndim != parameter.ndim + 1 or tuple(value.shape[1:]) != tuple(parameter.shape):
            expected = ("examples", *parameter.shape)
            raise ValueError(f"grad_sample of {name} must have shape ({', '.join(map(str, expected))}), got {tuple(value.shape)}")
        if parts and len(value) != len(parts[0]):
            raise ValueError(f"grad_sample of {name} must have {len(parts[0])} examples like {parameters[0][0]}, got {len(value)}")
        parts.append(value.detach())
    return Rows(parts, [f"grad_sample of {name}" for name, _ in parameters])


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


class BatchSum:
    """The sum of a batch so far: exact rows in `sum`, or float sums of backward passes beside it, for which it draws noise."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.overflowed = 0
        self.begun = False
        self._failed = False
        self._marks: list[BatchMark] = []
        self._samples: dict[int, Sample] = {}
        self._examples = 0
        self.sum: ClippedSum | None = None
        self.norm = settings.row_norm()
        self._beside: torch.nn.Parameter | None = None  # stands for the coordinate beside an adaptive clip norm
        self._made_for: tuple[list[tuple[bool, tuple[int, ...]]], float] | None = None
        self._summed: list[int] = []
        self.float_totals: list[torch.Tensor] | None = None
        self._earlier = None if settings.noise is None else EarlierNoise(settings.noise.coefficients)

    @property
    def is_float(self) -> bool:
        return self.float_totals is not None

    def take(self, parameters: Named) -> bool:
        """Add the parameters' gradients to the sum; False if there are none. If it raises, nothing has changed."""
        self._require_whole()
        if not parameters:
            raise ValueError("optimizer must have a parameter that requires a gradient, got none")
        total = self.sum_for(self.with_coordinate(parameters))
        clips_batches, clip_norm = self._settings.clips_batches, self._settings.clip_norm * self._settings.loss_scale
        found: Rows | Sums | None = of_batch(parameters) if clips_batches else of_examples(parameters, clip_norm)
        if found is None:
            return False
        marks = untaken_marks(parameters)
        samples = {name: one for mark in marks for name, one in mark.samples.items()}
        if not any(mark.is_read for mark in marks):
            last, is_read = drawn.take()
            samples = last if is_read or not marks else samples
        if self._settings.sampling_probability < 1 and self._samples and samples.keys() != self._samples.keys():
            raise ValueError(
                "the parts of a batch must be of one Poisson sample, got more of another one: an example of both would count twice "
                "(one step for each sample)"
            )
        if isinstance(found, Rows):
            self._add_rows(total, found)
        else:
            self._add_sums(total, found)
        for mark in marks:
            mark.taken = True
        self._samples |= samples
        self._examples += found.count
        self._marks += marks
        self.begun = True
        return True

    @property
    def sample(self) -> Sample | None:
        """The Poisson sample that all of the batch is of; None where it is not known, or a row is missing or was made twice."""
        found = list(self._samples.values())
        whole = len(found) == 1 and (self._settings.clips_batches or self._examples == list.__len__(found[0]))
        return found[0] if whole else None

    @property
    def has_seeded_sample(self) -> bool:
        return self._settings.sampling_probability < 1 and any(one.seeded for one in self._samples.values())

    @property
    def has_examples(self) -> bool:
        return self.is_float or (self.sum is not None and self.sum.rows > 0)

    def take_nothing(self, parameters: Named) -> None:
        self._require_whole()
        self.sum_for(self.with_coordinate(parameters))
        self._samples |= drawn.take()[0]
        self.begun = True

    def with_coordinate(self, parameters: Named) -> Named:
        """What the sum is of: the parameters, and with a clip norm that adapts the coordinate beside them."""
        if not self.norm.adapts or not parameters:
            return parameters
        if self._beside is None:
            self._beside = torch.nn.Parameter(torch.zeros(1, device=parameters[0][1].device), requires_grad=False)
        return [*parameters, ("the coordinate beside", self._beside)]

    def followed(self, noisy: list[torch.Tensor]) -> list[torch.Tensor]:
        """The noisy sums of the parameters; the clip norm follows the coordinate beside them."""
        if self.norm.adapts:
            *noisy, beside = noisy
            self.norm.follow(float(beside) / self._settings.expected_batch_size)
        return noisy

    def discard(self) -> None:
        if self.sum is not None:
            self.sum.reset()
        self.float_totals = None
        self.begun = self._failed = False
        self._marks, self._samples, self._examples = [], {}, 0

    @contextmanager
    def dropped_on_error(self) -> Iterator[None]:
        """An exception inside drops the sum. If the batch was added in parts, no more parts are accepted until `discard`."""
        in_parts = self.has_examples or self._failed
        try:
            yield
        except BaseException:
            for mark in self._marks:  # nothing of them was released
                mark.taken = False
            self.discard()
            self._failed = in_parts
            raise

    def _require_whole(self) -> None:
        if self._failed:
            raise ValueError(
                "the batch must be whole, got more of one whose parts were dropped because one of them failed: call discard(), then "
                "give it again from its first part, or go on to the next"
            )

    def draw(self, parameters: Named, generator: _core.Generator) -> list[torch.Tensor]:
        self._marks, totals, self.float_totals = [], self.float_totals, None
        noisy = released(self.sum_for(parameters), parameters, generator, self._earlier)
        if totals is not None:
            noisy = [total.to(torch.float64) + part for total, part in zip(totals, noisy)]
        self.discard()
        return noisy if self._settings.loss_scale == 1 else [part / self._settings.loss_scale for part in noisy]

    def float_totals_for(self, parameters: Named) -> list[torch.Tensor]:
        """The sums in floating point, float64; zeros of a process without examples."""
        if self.float_totals is not None:
            return self.float_totals
        return [torch.zeros(parameter.shape, dtype=torch.float64, device=parameter.device) for _, parameter in parameters]

    def _add_rows(self, total: ClippedSum, found: Rows) -> None:
        if self.is_float:
            raise ValueError("gradients must be of one kind within a batch, got grad_sample after clipped_sum")
        if found.count and self._settings.noise_multiplier == 0:
            warn_if_lost(found.parts, self._settings.clip_norm)
        if not found.count:
            return
        require_norm_for_each(self._settings.clip_norms, found.parts)   # parameters may have been frozen
        total.add(self._without_overflow(found.parts), found.names, self._rule)

    @property
    def _rule(self) -> ClipRule | None:
        return self._settings.rule(self.norm)

    def _without_overflow(self, parts: list[torch.Tensor]) -> list[torch.Tensor]:
        """The gradients, with 0 for an example that overflowed: a function of that example alone, as every clipped gradient is."""
        if self._settings.loss_scale == 1:
            return parts
        finite = torch.stack([part.isfinite().reshape(len(part), -1).all(1) for part in parts]).all(0)
        if bool(finite.all()):
            return parts
        self.overflowed += int((~finite).sum())
        return [torch.where(finite.view(-1, *[1] * (part.ndim - 1)), part, 0) for part in parts]

    def _add_sums(self, total: ClippedSum, found: Sums) -> None:
        if total.rows:
            raise ValueError("gradients must be of one kind within a batch, got clipped_sum after grad_sample")
        if self._rule is not None:
            raise ValueError("gradients must be p.grad_sample with adaptive, normalize or a list of clip norms, got p.clipped_sum")
        wide, before = [part.double() for part in found.parts], self.float_totals
        self.float_totals = wide if before is None else [a + b for a, b in zip(before, wide)]

    def sum_for(self, parameters: Named) -> ClippedSum:
        """The sum for these parameters: a new one where they have changed, which they must not within a batch."""
        forms = [(parameter.is_cuda, tuple(parameter.shape)) for _, parameter in parameters]
        if self.begun and [id(parameter) for _, parameter in parameters] != self._summed:
            raise ValueError("parameters must not change within a batch, got others that require a gradient than before")
        self._summed = [id(parameter) for _, parameter in parameters]
        if self.sum is None or (forms, self.norm.of_rows) != self._made_for:
            settings, scale = self._settings, self._settings.loss_scale
            if self.sum is not None and self._earlier is not None:
                kept = "their number and shapes, and be on the CPU or CUDA throughout,"
                raise ValueError(f"parameters must keep {kept} in a run with correlated noise, got others than before")
            self.sum = ClippedSum(
                [shape for _, shape in forms],
                clip_norm=self.norm.of_rows * scale, sigma=settings.sigma_of(self.norm.of_rows) * scale,
                most_rows=1 if settings.clips_batches else most_rows(settings.expected_batch_size),
                clipping="exact" if settings.clips_batches or self._rule is not None else settings.clipping,
            )
            self._made_for = forms, self.norm.of_rows
        return self.sum


def most_rows(expected_batch_size: float) -> int:
    """A public bound on the examples of a batch that a Poisson sample of the expected size never reaches."""
    return 1 << math.ceil(math.log2(8 * expected_batch_size + 64))


def exact_units(total: ClippedSum, parameters: Named) -> list[torch.Tensor]:
    """The exact sum for every parameter, in whole units, float64, where the parameter is."""
    found: list[torch.Tensor] = [torch.as_tensor(units) for units in total.units(parameters[0][1])]
    return [units.reshape(parameter.shape) for units, (_, parameter) in zip(found, parameters)]


def released(
    total: ClippedSum, parameters: Named, generator: _core.Generator, earlier: EarlierNoise | None = None
) -> list[torch.Tensor]:
    out = [new_array(shards.local_of(parameter.detach()), tuple(parameter.shape), dtype=DEFAULT_DTYPE) for _, parameter in parameters]
    return total.release(generator, out, earlier)
