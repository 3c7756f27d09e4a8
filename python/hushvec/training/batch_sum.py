"""`BatchSum`: the clipped gradients of one batch, added in parts and read once, with noise."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from hushvec._native import _core
from hushvec._native.clipped_sums import ClippedSum
from hushvec.training import batch_gradients
from hushvec.training.batch_gradients import BatchMark, Named, Rows, Sums
from hushvec.training.gradients import warn_if_lost
from hushvec.training.settings import Settings


class BatchSum:
    """What a batch has put into its sum so far.

    Rows of gradients are clipped and summed exactly, in `sum`. Sums that a backward pass clipped itself are added in floating
    point beside it, and `sum` then holds no rows: the noise of both kinds is drawn from it.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.begun = False
        self._failed = False
        self._marks: list[BatchMark] = []
        self.sum: ClippedSum | None = None
        self._shapes: list[tuple[int, ...]] = []
        self._summed: list[int] = []
        self._float_totals: list[torch.Tensor] | None = None

    @property
    def is_float(self) -> bool:
        """Whether any part was summed in floating point."""
        return self._float_totals is not None

    def take(self, parameters: Named) -> bool:
        """Add the parameters' gradients to the sum; False if there are none. If it raises, nothing has changed."""
        self._require_whole()
        if not parameters:
            raise ValueError("optimizer must have a parameter that requires a gradient, got none")
        total = self._sum_for(parameters)
        found: Rows | Sums | None
        if self._settings.clips_batches:
            found = batch_gradients.of_batch(parameters)
        else:
            found = batch_gradients.of_examples(parameters, self._settings.clip_norm)
        if found is None:
            return False
        marks = batch_gradients.untaken_marks(parameters)
        if isinstance(found, Rows):
            self._add_rows(total, found)
        else:
            self._add_sums(total, found)
        for mark in marks:
            mark.taken = True
        self._marks += marks
        self.begun = True
        return True

    @property
    def has_examples(self) -> bool:
        """Whether anything but empty samples has been added."""
        return self.is_float or (self.sum is not None and self.sum.rows > 0)

    def take_nothing(self, parameters: Named) -> None:
        """Begin the batch with an empty sample."""
        self._require_whole()
        self._sum_for(parameters)
        self.begun = True

    def discard(self) -> None:
        """Drop the batch."""
        if self.sum is not None:
            self.sum.reset()
        self._float_totals = None
        self.begun = self._failed = False
        self._marks = []

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
        """The noisy sum for every parameter; ends the batch."""
        self._marks, totals, self._float_totals = [], self._float_totals, None
        noisy = released(self._sum_for(parameters), parameters, generator)
        if totals is not None:
            noisy = [total.to(torch.float64) + part for total, part in zip(totals, noisy)]
        self.discard()
        return noisy

    # ---- what the sums of other processes are added to ----

    def units(self, parameters: Named) -> list[torch.Tensor]:
        """The exact sums, float64 tensors of whole units."""
        return exact_units(self._sum_for(parameters), parameters)

    def replace_units(self, units: list[torch.Tensor], rows: int) -> None:
        """Hold these as the sums of so many rows."""
        assert self.sum is not None
        replace_exact_units(self.sum, units, rows)

    def float_totals(self, parameters: Named) -> list[torch.Tensor]:
        """The sums in floating point, float64; zeros of a process without examples."""
        if self._float_totals is not None:
            return self._float_totals
        return [torch.zeros(parameter.shape, dtype=torch.float64, device=parameter.device) for _, parameter in parameters]

    def replace_float_totals(self, totals: list[torch.Tensor]) -> None:
        """Hold these as the sums in floating point."""
        self._float_totals = totals

    def _add_rows(self, total: ClippedSum, found: Rows) -> None:
        if self.is_float:
            raise ValueError("gradients must be of one kind within a batch, got grad_sample after clipped_sum")
        if found.count and self._settings.noise_multiplier == 0:
            warn_if_lost(found.parts, self._settings.clip_norm)
        if found.count:
            total.add(found.parts, found.names)

    def _add_sums(self, total: ClippedSum, found: Sums) -> None:
        if total.rows:
            raise ValueError("gradients must be of one kind within a batch, got clipped_sum after grad_sample")
        wide, before = [part.double() for part in found.parts], self._float_totals
        self._float_totals = wide if before is None else [a + b for a, b in zip(before, wide)]

    def _sum_for(self, parameters: Named) -> ClippedSum:
        """The sum for these parameters: a new one where they have changed, which they must not within a batch."""
        shapes = [tuple(parameter.shape) for _, parameter in parameters]
        if self.begun and [id(parameter) for _, parameter in parameters] != self._summed:
            raise ValueError("parameters must not change within a batch, got others that require a gradient than before")
        self._summed = [id(parameter) for _, parameter in parameters]
        if self.sum is None or shapes != self._shapes:
            settings = self._settings
            self.sum = ClippedSum(
                shapes,
                clip_norm=settings.clip_norm,
                sigma=settings.sigma,
                most_rows=1 if settings.clips_batches else most_rows(settings.expected_batch_size),
                clipping="exact" if settings.clips_batches else settings.clipping,
            )
            self._shapes = shapes
        return self.sum


def most_rows(expected_batch_size: float) -> int:
    """A public bound on the examples of a batch that a Poisson sample of the expected size never reaches."""
    return 1 << math.ceil(math.log2(8 * expected_batch_size + 64))


def exact_units(total: ClippedSum, parameters: Named) -> list[torch.Tensor]:
    """The exact sum for every parameter, in whole units, float64, where the parameter is."""
    found: list[torch.Tensor] = [torch.as_tensor(units) for units in total.units(parameters[0][1])]
    return [units.reshape(parameter.shape) for units, (_, parameter) in zip(found, parameters)]


def replace_exact_units(total: ClippedSum, units: list[torch.Tensor], rows: int) -> None:
    """Hold these as the sum of so many rows."""
    total.replace([part.reshape(-1) for part in units], rows)


def released(total: ClippedSum, parameters: Named, generator: _core.Generator) -> list[torch.Tensor]:
    """The noisy sum for every parameter, where the parameter is."""
    out = [torch.empty(parameter.shape, dtype=torch.float32, device=parameter.device) for _, parameter in parameters]
    noisy: list[torch.Tensor] = total.release(generator, out)
    return noisy
