"""Exact sums of clipped rows, with Gaussian noise at their release: the gradients of one training step.

A row may be cut into parts, one array for each parameter of a model; its norm is that of all parts together. Rows can be added in
several calls (virtual batches): the sum is held in whole units, so that no split, order or number of threads changes a bit of it.
docs/format.md section 7 is the specification, docs/proofs/clipped_sum.md the proof of the sensitivity.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

from hushvec._native import _core, cuda
from hushvec._native.arrays import (
    DEFAULT_DTYPE,
    array_kind,
    device_of,
    dtype_name,
    is_torch,
    new_array,
    on_cuda,
    require_array,
    require_finite,
    require_form,
    require_same_kind,
)
from hushvec._native.generators import require_generator
from hushvec._util import validate

CLIPPINGS = ("auto", "exact", "estimated")

# From this length on a row is clipped by a guess that is checked in the same pass: it no longer fits the caches, and a second
# pass would cost as much as the first. It affects the result's accuracy, so it depends only on the shapes.
ESTIMATED_FROM = 2**20
MOST_ROWS = 2**27


class ClippedSum:
    """The sum of rows that are clipped one by one, held exactly, and released with Gaussian noise.

    Args:
        shapes: the shape of each part of a row; [(d,)] for rows in one piece. A row of parts has the length of all of them together.
        clip_norm: C, the largest L2 norm with which a row enters the sum, in [2^-100, 2^100].
        sigma: the standard deviation of the noise; 0 releases the sum itself, without any privacy.
        most_rows: the most rows of one sum, at most 2^27; a public number, on which neither the noise nor the bits depend.
        clipping: "exact" scales a row longer than C to C (1 - 2^-20), by its norm. "estimated" guesses the norm from a sample of
            the row, checks the guess while it adds the row, and corrects the row where the guess was wrong: one pass instead of
            two, for a length between 0.97 C and C. "auto" is "estimated" for rows of 2^20 elements and more, else "exact".

    Raises:
        ValueError, TypeError: a parameter out of range or of the wrong kind.

    Guarantees:
        A row adds a vector of norm at most C in real arithmetic, and that vector depends on no other row: adding or removing a row
        moves the sum by at most C, replacing one by at most 2 C. Release adds N(0, sigma^2) to every element, rounded as an ideal
        Gaussian would be: rounding is post-processing. float64 rows are always clipped exactly. NaN and Inf are refused.
        This assumes that nobody changes the rows during `add`, which reads them once for their norms and again for the sum.

    Example:
        >>> import numpy as np
        >>> from hushvec._native.clipped_sums import ClippedSum
        >>> total = ClippedSum([(3,), (2, 2)], clip_norm=1.0, sigma=0.0)
        >>> total.add([np.full((2, 3), 4.0), np.full((2, 2, 2), 2.0)])
        >>> [part.round(3).tolist() for part in total.release()]
        [[1.0, 1.0, 1.0], [[0.5, 0.5], [0.5, 0.5]]]
    """

    def __init__(
        self,
        shapes: Sequence[tuple[int, ...]],
        *,
        clip_norm: float,
        sigma: float,
        most_rows: int = 2**20,
        clipping: str = "auto",
    ) -> None:
        self._shapes = [tuple(validate.whole_number("shapes", n, at_least=0) for n in shape) for shape in shapes]
        if not self._shapes:
            raise ValueError("shapes must name at least one part, got none")
        self._lengths = [math.prod(shape) for shape in self._shapes]
        self._clip_norm = validate.clip_norm(clip_norm)
        self._sigma = validate.not_negative("sigma", sigma)
        self._most_rows = validate.whole_number("most_rows", most_rows, at_least=1)
        if self._most_rows > MOST_ROWS:
            raise ValueError(f"most_rows must be <= 2^27, got {self._most_rows}")
        chosen = validate.choice("clipping", clipping, CLIPPINGS)
        if chosen == "auto":
            chosen = "estimated" if sum(self._lengths) >= ESTIMATED_FROM else "exact"
        self._clipping = chosen
        self._sum = _core.ClippedSum(self._lengths, self._clip_norm, self._sigma, self._most_rows, chosen)
        self._model: Any = np.empty(0, np.float32)  # an array of the library that results are made with
        self._on_device: list[Any] = []  # rows in CUDA memory, in one piece each: summed at the release
        self._lock = Lock()

    @property
    def rows(self) -> int:
        """How many rows have been added since the last release."""
        return self._sum.rows + sum(int(rows.shape[0]) for rows in self._on_device)

    @property
    def clipping(self) -> str:
        """ "exact" or "estimated"."""
        return self._clipping

    @property
    def corrected_rows(self) -> int:
        """Of these, how many had a guess that was wrong and were added again."""
        return self._sum.corrected_rows

    def add(self, parts: Sequence[Any], names: Sequence[str] | None = None) -> None:
        """Add rows: one array [B, *shape] for each part, B >= 1, float32, float16, bfloat16 or float64.

        Arrays of numpy or torch, all on one device. In CUDA memory the rows stay where they are until the release, so they must not
        change before it; several parts are copied into one array there. Errors call the parts by `names`: parts[0], parts[1], ...
        if None.

        Raises:
            ValueError: B differs or is 0, a shape does not fit, NaN or Inf (its part and row are named), or more than most_rows rows.
            TypeError: another kind of array or dtype. Whatever is raised, nothing has changed.
        """
        given = list(parts)
        if len(given) != len(self._shapes):
            raise ValueError(f"parts must have {len(self._shapes)} arrays, got {len(given)}")
        called = [f"parts[{number}]" for number in range(len(given))] if names is None else names
        matrices = [self._matrix(number, part, given[0], called) for number, part in enumerate(given)]
        rows = int(matrices[0].shape[0])
        with self._lock:
            if on_cuda(given[0]):
                self._keep_on_device(matrices, rows, called)
            elif self._on_device:
                raise ValueError(f"parts must be on {device_of(self._on_device[0])} like the rows added before, got cpu")
            else:
                self._add_on_cpu(matrices, called)
            self._model = new_array(given[0], (0,))  # not a view, which would keep the rows alive

    def release(self, generator: _core.Generator | None = None, out: Sequence[Any] | None = None) -> list[Any]:
        """The sum plus N(0, sigma^2), one float32 array for each part; the sum is empty afterwards.

        A sum of no rows is released like any other: pure noise. Results are arrays of the library that rows were last added from, or
        `out`, float32 arrays of the parts' shapes. Each part draws from its own nonce.

        Raises:
            TypeError, ValueError: generator or out is of the wrong kind; nothing has changed.
        """
        source = require_generator(generator)
        with self._lock:
            results = self._targets(out)
            if self._on_device:
                self._release_on_device(source, results)
                return results
            in_order = [_is_contiguous(result) for result in results]
            runs = [
                result.reshape(-1) if views else new_array(result, (math.prod(result.shape),))
                for result, views in zip(results, in_order, strict=True)
            ]
            self._sum.release(runs, source)
            for result, run, views in zip(results, runs, in_order, strict=True):
                if not views:
                    result[...] = run.reshape(result.shape)
            return results

    def reset(self) -> None:
        """Drop the rows added so far."""
        with self._lock:
            self._sum.reset()
            self._on_device.clear()

    def _units(self) -> list[Any]:
        """The exact sums, in units of 2^-25 of the power of two at or above clip_norm: for the tests."""
        return [units.reshape(shape) for units, shape in zip(self._sum._units(), self._shapes, strict=True)]

    # ---- arguments ----

    def _matrix(self, number: int, part: Any, first: Any, names: Sequence[str]) -> Any:
        """The part as rows by elements; a copy only where its elements do not lie in order."""
        name = names[number]
        rows = int(first.shape[0]) if getattr(first, "ndim", 0) else 0
        if not hasattr(part, "reshape") or not hasattr(part, "ndim"):
            require_array(name, part)
        shape = (rows, *self._shapes[number])
        if tuple(part.shape) != shape:
            raise ValueError(f"{name} must have shape {_named(self._shapes[number], rows)}, got {tuple(part.shape)}")
        if rows == 0:
            raise ValueError("parts must have at least 1 row, got 0")
        matrix = part.reshape(rows, self._lengths[number])
        require_array(name, matrix)
        if part is not first:
            require_same_kind(name, matrix, names[0], first)
        return matrix

    def _targets(self, out: Sequence[Any] | None) -> list[Any]:
        if out is None:
            return [new_array(self._model, shape, dtype=DEFAULT_DTYPE) for shape in self._shapes]
        targets = list(out)
        if len(targets) != len(self._shapes):
            raise ValueError(f"out must have {len(self._shapes)} arrays, got {len(targets)}")
        for target, shape in zip(targets, self._shapes, strict=True):
            _require_target(target, shape)
        return targets

    def _add_on_cpu(self, matrices: list[Any], names: Sequence[str]) -> None:
        try:
            self._sum.add(matrices)
        except ValueError:  # the core knows no names: what is not finite is looked for again
            for name, matrix in zip(names, matrices, strict=True):
                require_finite(name, matrix)
            raise

    # ---- rows in CUDA memory ----

    def _keep_on_device(self, matrices: list[Any], rows: int, names: Sequence[str]) -> None:
        if self._sigma == 0:
            raise ValueError("sigma must be > 0 for rows on a CUDA device, got 0.0")
        if self._sum.rows:
            raise ValueError(f"parts must be on the CPU like the rows added before, got {device_of(matrices[0])}")
        if self.rows + rows > self._most_rows:
            raise ValueError(f"rows of the sum must be <= most_rows = {self._most_rows}, got {self.rows} + {rows}")
        for name, matrix in zip(names, matrices, strict=True):
            if dtype_name(matrix) == "float64":
                raise TypeError(f"{name} must be float32, float16 or bfloat16 on a CUDA device, got float64")
            require_finite(name, matrix)
        self._on_device.append(matrices[0] if len(matrices) == 1 else _joined(matrices, 1))

    def _release_on_device(self, source: _core.Generator, results: list[Any]) -> None:
        rows = self._on_device[0] if len(self._on_device) == 1 else _joined(self._on_device, 0)
        total = new_array(rows, (int(rows.shape[1]),), dtype=DEFAULT_DTYPE)
        cuda.clip_sum_and_noise(rows, self._clip_norm, self._sigma, total, source)
        first = 0
        for result, length in zip(results, self._lengths, strict=True):
            result[...] = total[first : first + length].reshape(result.shape)
            first += length
        self._on_device.clear()


def _named(shape: tuple[int, ...], rows: int) -> str:
    return str((rows, *shape)) if rows else "(rows, " + ", ".join(map(str, shape)) + ")"


def _require_target(target: Any, shape: tuple[int, ...]) -> None:
    if not hasattr(target, "reshape") or not hasattr(target, "ndim"):
        require_array("out", target)
    require_form(target, shape, DEFAULT_DTYPE)
    require_array("out", target.reshape(-1))


def _is_contiguous(array: Any) -> bool:
    return bool(array.is_contiguous() if is_torch(array) else array.flags.c_contiguous)


def _joined(arrays: list[Any], axis: int) -> Any:
    if is_torch(arrays[0]):
        return sys.modules["torch"].cat(arrays, axis)
    if array_kind(arrays[0]) != "cupy.ndarray":
        raise TypeError(f"parts must be torch or CuPy arrays, got {array_kind(arrays[0])}")
    return sys.modules["cupy"].concatenate(arrays, axis)
