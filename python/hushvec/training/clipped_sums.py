"""Exact sums of clipped rows, with Gaussian noise at their release: the gradients of one training step.

A row may be cut into parts, whose common norm counts. The sum is held in whole units: no split, order or number of threads
changes a bit of it (docs/format.md section 7, docs/proofs/clipped_sum.md).
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import Any

import numpy as np

from hushvec._native.arrays import (  # isort: skip
    DEFAULT_DTYPE, copy_beside, device_of, dtype_name, in_order, is_contiguous, is_torch, library_of, new_array, on_cuda,
    require_array, require_form, require_same_kind,
)
from hushvec._native import _core, cuda
from hushvec._native.kernels import require_generator
from hushvec._native.rowwise import require_finite
from hushvec._util import validate
from hushvec.training.clip_rules import ClipRule


class DeviceSums:
    """Exact sums in CUDA memory: a float64 array of whole units for each part of a row, the same bits as on the CPU."""

    def __init__(self, like: Any, lengths: Sequence[int], clip_norm: float, sigma: float, most_rows: int) -> None:
        self.device = device_of(like)
        self.rows = 0
        self._clip_norm, self._sigma, self._most_rows = clip_norm, sigma, most_rows
        self._sums = [new_array(like, (length,), dtype="float64") for length in lengths]
        for sums in self._sums:
            sums[...] = 0

    def add(self, matrices: Sequence[Any], names: Sequence[str], rule: ClipRule | None = None) -> None:
        """Add rows: [B, length] for each part. If it raises, nothing has changed."""
        rows = int(matrices[0].shape[0])
        self._require_room(matrices, names, rows)
        for block in [matrices] if rule is None else _scaled_on_device(matrices, names, rule):
            self._add(block, names)
        self.rows += rows

    def _require_room(self, matrices: Sequence[Any], names: Sequence[str], rows: int) -> None:
        most = min(self._most_rows, cuda.most_rows_of_sum(matrices[0], self._clip_norm, self._sigma))
        if self.rows + rows > most:
            reason = "most_rows" if most == self._most_rows else "the most on a CUDA device with this clip_norm and sigma"
            raise ValueError(f"rows of the sum must be <= {reason} = {most}, got {self.rows} + {rows}")
        for name, matrix in zip(names, matrices, strict=True):
            if device_of(matrix) != self.device:
                raise ValueError(f"{name} must be on {self.device} like the rows added before, got {device_of(matrix)}")

    def _add(self, matrices: Sequence[Any], names: Sequence[str]) -> None:
        given = [(in_order(matrix), sums) for matrix, sums in zip(matrices, self._sums, strict=True) if matrix.shape[1]]
        if given:
            scales, bad_row = cuda.sum_scales([matrix for matrix, _ in given], self._clip_norm)
            if bad_row is not None:
                for name, matrix in zip(names, matrices, strict=True):
                    require_finite(name, matrix)
                raise ValueError(f"parts must be finite, got NaN or Inf in row {bad_row}")
            for matrix, sums in given:
                cuda.add_to_sum(matrix, scales, sums)

    def units(self) -> list[Any]:
        """Copies of the sums."""
        return [1.0 * sums for sums in self._sums]

    def replace(self, units: Sequence[Any], rows: int) -> None:
        """Hold these as the sums of so many rows. If it raises, nothing has changed."""
        most = min(self._most_rows, cuda.most_rows_of_sum(units[0], self._clip_norm, self._sigma))
        if rows > most:
            raise ValueError(f"rows of the sum must be <= {most}, got {rows}")
        for sums, part in zip(self._sums, units, strict=True):
            sums[...] = part
        self.rows = rows

    def release(self, results: Sequence[Any], source: _core.Generator, earlier: EarlierNoise | None) -> None:
        """Write the sums plus noise: float32[length] for each part, in order in memory."""
        if earlier is not None:
            streams, coefficients = earlier.with_next(source._reserve_for_device())
            cuda.release_correlated(self._sums, self._clip_norm, self._sigma, results, streams, coefficients)
        elif self._sigma > 0:
            cuda.release_sums(self._sums, self._clip_norm, self._sigma, results, source)
        else:
            for sums, result in zip(self._sums, results, strict=True):
                result[...] = sums * _core.sum_unit(self._clip_norm)


# Elements that are scaled at a time on a device.
_BLOCK = 2**22


def _scaled_on_device(matrices: Sequence[Any], names: Sequence[str], rule: ClipRule) -> Iterator[list[Any]]:
    """Yield blocks of the scaled rows, in float32 or float64, and of the coordinate beside them."""
    found = [library_of(part).linalg.norm(_wide(part), axis=1) for part in matrices]
    norms = np.stack([norm.cpu().numpy() if is_torch(norm) else norm.get() for norm in found]).astype("float64")
    if not np.isfinite(norms).all():
        for name, part in zip(names, matrices):
            require_finite(name, part)
    factors, beside = (copy_beside(matrices[0], of_rows) for of_rows in rule.factors(norms))
    step = max(1, _BLOCK // max(1, sum(part.shape[1] for part in matrices)))
    for first in range(0, matrices[0].shape[0], step):
        rows = slice(first, first + step)
        blocks = [_wide(part[rows]) for part in matrices]
        scaled = [block * _as_dtype(factor[rows, None], dtype_name(block)) for block, factor in zip(blocks, factors)]
        yield [*scaled, *(coordinate[rows, None] for coordinate in beside)]


def _wide(part: Any) -> Any:
    return part if dtype_name(part) == "float64" else _as_dtype(part, "float32")


def _as_dtype(x: Any, name: str) -> Any:
    return x.to(getattr(library_of(x), name)) if is_torch(x) else x.astype(name, copy=False)


class EarlierNoise:
    """The key streams of the last steps of a run, from which correlated noise draws the raw noise of those steps again.

    They are in locked memory, and go with the process: a run that is resumed begins its noise anew.
    """

    def __init__(self, coefficients: Sequence[float]) -> None:
        self.coefficients = tuple(coefficients)
        self._streams: deque[Any] = deque(maxlen=len(self.coefficients))

    def with_next(self, stream: Any) -> tuple[list[Any], tuple[float, ...]]:
        """The stream of a new step and those of the steps before it, newest first, and their coefficients."""
        self._streams.appendleft(stream)
        return list(self._streams), self.coefficients[: len(self._streams)]


CLIPPINGS = ("auto", "exact", "estimated")


def _all_plain(arrays: Sequence[Any]) -> bool:
    """Whether these are float32 torch tensors in memory of the CPU with nothing hidden, as nearly always: only shapes are left to ask
    about. The checks one by one take longer than the rows of a small batch."""
    torch = sys.modules.get("torch")
    if torch is None or torch.compiler.is_dynamo_compiling():
        return False
    return all(
        type(x) is torch.Tensor
        and x.dtype is torch.float32
        and x.is_cpu
        and x.layout is torch.strided
        and not (x.requires_grad or x.is_neg())
        for x in arrays
    )


# From here on a row no longer fits the caches: it is clipped by a guess that is checked in the same pass. Depends on shapes only.
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

    Guarantees:
        A row adds a vector of norm at most C in real arithmetic, and that vector depends on no other row: adding or removing a
        row moves the sum by at most C, replacing one by at most 2 C. Release adds N(0, sigma^2) to every element, rounded as an
        ideal Gaussian would be: rounding is post-processing. float64 rows are always clipped exactly. NaN and Inf are refused.
        This assumes that nobody changes the rows during `add`, which reads them once for their norms and again for the sum.
    """

    def __init__(
        self, shapes: Sequence[tuple[int, ...]], *, clip_norm: float, sigma: float, most_rows: int = 2**20, clipping: str = "auto"
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
        self._on_device: DeviceSums | None = None  # rows in CUDA memory are added there
        self._lock = Lock()

    @property
    def rows(self) -> int:
        """How many rows have been added since the last release."""
        return self._sum.rows + (0 if self._on_device is None else self._on_device.rows)

    @property
    def clipping(self) -> str:
        """ "exact" or "estimated"."""
        return self._clipping

    @property
    def corrected_rows(self) -> int:
        """How many rows had a guess that was wrong and were added again."""
        return self._sum.corrected_rows

    def add(self, parts: Sequence[Any], names: Sequence[str] | None = None, rule: ClipRule | None = None) -> None:
        """Add rows: an array [B, *shape] for each part, B >= 1, all on one device, where they are added; all of them or none.

        With a rule, rows are first scaled by it and then clipped exactly; the coordinate that it may put beside them is the last part.
        On a CUDA device the scale is the exact one for every `clipping`. Errors call the parts by `names`.
        """
        given = list(parts)
        wanted = len(self._shapes) - (rule is not None and rule.beside is not None)
        if len(given) != wanted:
            raise ValueError(f"parts must have {wanted} arrays, got {len(given)}")
        called = [f"parts[{number}]" for number in range(len(given))] if names is None else names
        plain = _all_plain(given)
        matrices = [self._matrix(number, part, given[0], called, plain) for number, part in enumerate(given)]
        with self._lock:
            if on_cuda(given[0]):
                sums = self._sums_on_device(given[0], "parts")
                sums.add(matrices, called, rule)
                self._on_device = sums
            elif self._on_device is not None:
                raise ValueError(f"parts must be on {self._on_device.device} like the rows added before, got cpu")
            else:
                self._add_on_cpu(matrices, called, rule)
            if not (plain and _all_plain([self._model])):
                self._model = new_array(given[0], (0,))  # not a view, which would keep the rows alive

    def release(
        self, generator: _core.Generator | None = None, out: Sequence[Any] | None = None, earlier: EarlierNoise | None = None
    ) -> list[Any]:
        """The sum plus N(0, sigma^2), one float32 array for each part, which draws from its own nonce; the sum is empty afterwards.

        Results are `out`, or arrays of the library that rows were last added from. With `earlier`, of one run, the noise is
        sigma (Z_0 + c_1 Z_1 + ...), with Z_j the raw noise of the release j before this one: one rounding of the real number, in
        float32 arrays of the same lengths each time, all on the CPU or all on a CUDA device.
        """
        source = require_generator(generator)
        with self._lock:
            results = self._targets(out)
            in_order = [is_contiguous(result) for result in results]
            runs = [
                result.reshape(-1) if views else new_array(result, (math.prod(result.shape),))
                for result, views in zip(results, in_order, strict=True)
            ]
            self._release(runs, source, earlier)
            for result, run, views in zip(results, runs, in_order, strict=True):
                if not views:
                    result[...] = run.reshape(result.shape)
            return results

    def reset(self) -> None:
        """Drop the rows added so far."""
        with self._lock:
            self._sum.reset()
            self._on_device = None

    def units(self, like: Any) -> list[Any]:
        """The exact sums, one float64 run for each part, in units of 2^-25 of the power of two at or above clip_norm: numpy arrays, or
        on a device arrays of the library of `like`, which lies there. Those of several processes add up, for `replace`."""
        with self._lock:
            if on_cuda(like):
                self._on_device = self._sums_on_device(like, "like")
                return self._on_device.units()
            return list(self._sum._units())

    def replace(self, units: Sequence[Any], rows: int) -> None:
        """Hold these sums as those of so many rows, which several processes may have added; nothing changes if they cannot be."""
        with self._lock:
            if on_cuda(units[0]):
                sums = self._sums_on_device(units[0], "units")
                sums.replace(units, rows)
                self._on_device = sums
            else:
                self._sum._replace(rows, [np.asarray(part) for part in units])

    def _units(self) -> list[Any]:
        """`units` of the CPU in the shapes of the parts: for the tests."""
        return [units.reshape(shape) for units, shape in zip(self._sum._units(), self._shapes, strict=True)]

    def _matrix(self, number: int, part: Any, first: Any, names: Sequence[str], plain: bool) -> Any:
        name = names[number]
        rows = int(first.shape[0]) if getattr(first, "ndim", 0) else 0
        if not hasattr(part, "reshape") or not hasattr(part, "ndim"):
            require_array(name, part)
        shape = (rows, *self._shapes[number])
        if tuple(part.shape) != shape:
            wanted = shape if rows else f"(rows, {', '.join(map(str, self._shapes[number]))})"
            raise ValueError(f"{name} must have shape {wanted}, got {tuple(part.shape)}")
        if rows == 0:
            raise ValueError("parts must have at least 1 row, got 0")
        matrix = part.reshape(rows, self._lengths[number])
        if plain:
            return matrix
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
        plain = _all_plain(targets)
        for target, shape in zip(targets, self._shapes, strict=True):
            if plain and target.shape == shape:
                continue
            if not hasattr(target, "reshape") or not hasattr(target, "ndim"):
                require_array("out", target)
            require_form(target, shape, DEFAULT_DTYPE)
            require_array("out", target.reshape(-1))
        return targets

    def _add_on_cpu(self, matrices: list[Any], names: Sequence[str], rule: ClipRule | None) -> None:
        try:
            if rule is None:
                self._sum.add(matrices)
                return
            squares = _core.squares_of_parts(matrices)
            factors, beside = rule.factors(np.sqrt(squares))
            self._sum.add_scaled(
                [*matrices, *beside[:, :, None]], np.concatenate([squares, beside * beside]),
                np.concatenate([factors, np.ones(beside.shape)]),
            )
        except ValueError:  # the core knows no names: what is not finite is looked for again
            for name, matrix in zip(names, matrices, strict=True):
                require_finite(name, matrix)
            raise

    def _sums_on_device(self, like: Any, name: str) -> DeviceSums:
        if self._sum.rows:
            raise ValueError(f"{name} must be on the CPU like the rows added before, got {device_of(like)}")
        if self._on_device is not None:
            return self._on_device
        return DeviceSums(like, self._lengths, self._clip_norm, self._sigma, self._most_rows)

    def _release(self, runs: list[Any], source: _core.Generator, earlier: EarlierNoise | None) -> None:
        """A sum of no rows is released where the results are."""
        if earlier is None and self._on_device is None and not on_cuda(runs[0]) and _all_plain(runs):
            self._sum.release(runs, source)
            return
        places = {device_of(run) for run in runs}
        wanted = next(iter(places)) if self._on_device is None else self._on_device.device
        if places != {wanted}:
            raise ValueError(f"out must be on {wanted} like the rows, got {', '.join(sorted(places))}")
        if not on_cuda(runs[0]) and earlier is not None:
            self._sum.release_correlated(runs, *earlier.with_next(source._reserve()))
            return
        if not on_cuda(runs[0]):
            self._sum.release(runs, source)
            return
        self._sums_on_device(runs[0], "out").release(runs, source, earlier)
        self._on_device = None
