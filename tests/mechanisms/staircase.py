"""A mechanism that the library does not have: one class, made of what docs/extend.md describes."""

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

import hushvec as hv
from hushvec.extend import VectorMechanism, float32_at_least, result_of, uniform_integers

BITS = 20  # of a step: 2^20 cells of the grid


@dataclass(frozen=True, kw_only=True)
class Staircase(VectorMechanism):
    """The staircase mechanism with gamma = 1/2 on every element: a density that falls by one factor from step to step.

    Args:
        epsilon: > 0, of all d r elements of a person together.
        dimension, clip_norm, rows_per_person: as in `Mechanism`.

    Guarantees:
        (epsilon, 0)-DP as released. A step is at least 2C wide, as far as an element of a clipped row moves, so that this moves it by
        one step at most, and costs step / scale; d r elements cost epsilon. Rows are rounded to the grid, towards zero, and the
        noise is step * K + V, with P(K = k) ~ exp(-|k| step / scale) and V uniform over the cells of a step, both exact.

    Reference:
        Geng and Viswanath, "The optimal mechanism in differential privacy" (2014), definition 1; for one number.
    """

    name = "staircase"
    law = "staircase"
    grade = "exact"
    half_words = False
    sensitivity_norm = "l1"
    parameter_name = "scale"
    density_top = 0.5  # P(K = 0) / step = tanh(step / (2 scale)) / step
    epsilon: float

    def __post_init__(self):
        super().__post_init__()
        if not 2.0**-6 <= self.scale / self.step <= 2.0**20:
            raise ValueError(f"epsilon must leave noise of 2^-6 to 2^20 steps an element for 'staircase', got {self.epsilon!r}")

    @classmethod
    def _squared_sensitivity(cls, one_row, rows, dimension):
        return (step_of(one_row) * rows * dimension) ** 2

    @property
    def step(self):
        return float(step_of(2 * Fraction(self.clip_norm)))

    @cached_property
    def scale(self):
        return float32_at_least(Fraction(self.sensitivity) / Fraction(self.epsilon))

    def _grid_of(self, half_words):
        return self.step * 2.0**-BITS

    @property
    def noise_norm(self):
        return self.step * math.sqrt(self.dimension * (0.5 / math.sinh(self.step / (2 * self.scale)) ** 2 + 1 / 12))

    def _log_densities(self, rows, centers):
        steps = [np.abs(np.floor((rows - center) / self.step + 0.5)).sum(axis=1, dtype=np.float64) for center in centers]
        return -np.stack(steps, axis=1) * self.step / self.scale

    def _release(self, x, out, source, out_is_fresh):
        clipped = np.asarray(hv.clip(x, self.clip_norm), np.float64)
        shape, grid = clipped.shape, self._grid_of(half_words=False)
        falls = hv.discrete_laplacian(shape, self.scale / self.step, generator=source)
        within = uniform_integers(shape, BITS, generator=source) - 2 ** (BITS - 1)
        return result_of((np.trunc(clipped / grid) + falls * 2**BITS + within) * grid, x, out)


def step_of(distance):
    """The smallest power of two that is not below how far an element moves, a fraction."""
    share, exponent = math.frexp(float(distance))
    return Fraction(2) ** (exponent - (share == 0.5))
