"""Opacus's optimizers with hushvec's noise: exact sums of per-example gradients, or noise on the sums of Opacus's ghost clipping."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from opacus.optimizers import DPOptimizer as OpacusOptimizer
from opacus.optimizers import DPOptimizerFastGradientClipping as OpacusGhostOptimizer

from hushvec._native import _core
from hushvec._native.clipped_sums import ClippedSum
from hushvec.training import batch_gradients
from hushvec.training.batch_gradients import Named, Rows
from hushvec.training.batch_sum import most_rows, released
from hushvec.training.gradients import sigma_of
from hushvec.training.model_watch import OTHERS_PARAMETERS, ModelWatch, leave, stepped_by_another
from hushvec.training.ranks import Processes


class _Guarded:
    """What steps of both optimizers refuse, and how they clean up after a failure."""

    hushvec_generator: _core.Generator
    hushvec_watch: ModelWatch
    hushvec_independent: bool
    hushvec_steps: int = 0
    hushvec_processes: Processes | None = None  # of one run, if it has several
    hushvec_met = False  # in this step
    # torch's GradScaler then calls step() in every iteration, with itself as an argument, in place of skipping it silently.
    _step_supports_amp_scaling = True

    original_optimizer: Any
    param_groups: Any
    pre_step: Callable[[], Any]

    def step(self, closure: Callable[[], float] | None = None, *, grad_scaler: Any = None) -> Any:
        """As Opacus. Raises ValueError for a GradScaler, ModelChangedError for a model that a forward pass has written to."""
        self.hushvec_met = False
        try:
            batch_gradients.require_no_scaler(self, grad_scaler)
            if closure is not None:
                with torch.enable_grad():
                    closure()
            parameters = [parameter for _, parameter in _named(self)]
            if not parameters:
                raise ValueError("optimizer must have a parameter that requires a gradient, got none")
            if not self.hushvec_independent and stepped_by_another(parameters, self):
                raise ValueError(OTHERS_PARAMETERS)
            self.hushvec_watch.require_before_step(self.hushvec_steps)
            steps = self.pre_step()
        except BaseException as error:
            self._drop_batch()
            if self.hushvec_processes is not None and not self.hushvec_met and isinstance(error, Exception):
                self.hushvec_processes.tell_of_failure()
            raise
        if not steps:
            return None
        for _, parameter in batch_gradients.all_of(self.param_groups):
            if not parameter.requires_grad:
                parameter.grad = None  # a raw gradient that was left there would step it
        self.hushvec_steps += 1
        try:
            return self.original_optimizer.step()
        finally:
            self.hushvec_watch.stepped(parameters, self.hushvec_steps, self)

    def accept_changes(self) -> None:
        """Accept the model as it is now, after a change that used no private data."""
        self.hushvec_watch.rebase()
        leave((parameter for _, parameter in _named(self)), self)

    def _drop_batch(self) -> None:
        """Drop sums and gradients, so that a repeated batch counts once."""
        for _, parameter in _named(self):
            parameter.summed_grad = parameter.grad = None  # type: ignore[attr-defined]


class ExactOptimizer(_Guarded, OpacusOptimizer):  # type: ignore[misc]
    """Opacus's optimizer with exact clipping, sums and noise."""

    _sum: ClippedSum | None = None
    _sum_made_for: tuple[list[tuple[int, ...]], float, float] | None = None

    def clip_and_accumulate(self) -> None:
        """Add per-example gradients to the exact sum, in place of p.summed_grad."""
        parameters = _named(self)
        for _, parameter in parameters:
            if getattr(parameter.grad_sample, "_processed", False):  # type: ignore[attr-defined]
                raise ValueError("grad_sample must be new: call zero_grad() after every step")
        rows = batch_gradients.of_examples(parameters, self.max_grad_norm)
        if not isinstance(rows, Rows):
            raise ValueError("step() needs grad_sample on every parameter, got none")
        total = self._current_sum(parameters)
        if rows.count:
            total.add(rows.parts, rows.names)
        for _, parameter in parameters:
            passes = parameter.grad_sample if isinstance(parameter.grad_sample, list) else [parameter.grad_sample]  # type: ignore[attr-defined]
            for part in passes:
                part._processed = True

    def _drop_batch(self) -> None:
        super()._drop_batch()
        if self._sum is not None:
            self._sum.reset()

    def add_noise(self) -> None:
        """Write the noisy sum to p.grad."""
        parameters = _named(self)
        total = self._current_sum(parameters)
        if self.hushvec_processes is None:
            parts = released(total, parameters, self.hushvec_generator)
        else:
            self.hushvec_met = True
            settings = f"{self.noise_multiplier!r} {self.max_grad_norm!r} {self.expected_batch_size!r}"
            parts = self.hushvec_processes.noisy_sum(total, settings, parameters, self.hushvec_generator)
        for (_, parameter), noisy in zip(parameters, parts):
            parameter.grad = noisy.to(parameter.dtype)

    def _current_sum(self, parameters: Named) -> ClippedSum:
        """The sum for these parameters, clip norm and noise, which schedulers of Opacus may change between batches."""
        shapes = [tuple(parameter.shape) for _, parameter in parameters]
        sigma = sigma_of(float(self.noise_multiplier), float(self.max_grad_norm))
        wanted = (shapes, self.max_grad_norm, sigma)
        if self._sum is None or wanted != self._sum_made_for:
            if self._sum is not None and self._sum.rows:
                raise ValueError("max_grad_norm, noise_multiplier and parameters must not change within a batch")
            most = most_rows(self.expected_batch_size or 2**14)
            self._sum = ClippedSum(shapes, clip_norm=self.max_grad_norm, sigma=sigma, most_rows=most)
            self._sum_made_for = wanted
        return self._sum


class ExactNoiseOptimizer(_Guarded, OpacusGhostOptimizer):  # type: ignore[misc]
    """Opacus's optimizer of ghost clipping with this library's noise on Opacus's sums."""

    def add_noise(self) -> None:
        """Write p.summed_grad with noise to p.grad."""
        parameters = _named(self)
        if any(getattr(parameter.summed_grad, "_processed", False) for _, parameter in parameters):  # type: ignore[attr-defined]
            raise ValueError("summed_grad must be new: call zero_grad() after every step")
        sums = [parameter.summed_grad for _, parameter in parameters]  # type: ignore[attr-defined]
        shapes = [tuple(parameter.shape) for _, parameter in parameters]
        multiplier: Any = getattr(self, "_adjusted_noise_multiplier", self.noise_multiplier)
        sigma = sigma_of(float(multiplier), float(self.max_grad_norm))
        noise = ClippedSum(shapes, clip_norm=self.max_grad_norm, sigma=sigma, most_rows=1)
        for (_, parameter), noisy, summed in zip(parameters, released(noise, parameters, self.hushvec_generator), sums):
            parameter.grad = noisy.to(parameter.dtype)
            parameter.grad += summed.view_as(parameter)
            summed._processed = True


def _named(optimizer: Any) -> Named:
    return batch_gradients.trainable(optimizer.param_groups)
