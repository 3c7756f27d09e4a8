"""What is timed: the operation, its size, its arrays and its parameters."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

SIGMA = 0.6
SCALE = 0.6
CLIP_NORM = 1.0
INPUT_SEED = 20_260_101
EPSILON_RANGE = (0.1, 20.0)
DELTA_RANGE = (1e-10, 1e-3)

# 2^24 float32 are 64 MB: past the L2 of every core, so the fill must reach memory
# (or a very large L3).  2^20 are 4 MB: the result of one batch, still in cache.
FILL_SAMPLES = 1 << 24
CACHED_FILL_SAMPLES = 1 << 20
QUICK_FILL_SAMPLES = 1 << 22
QUICK_CACHED_FILL_SAMPLES = 1 << 18
EMBEDDINGS_SHAPE = (10_000, 768)
# 384 KB of x and as much of the result: in a 1 MB L2, and long enough that a call's own cost is 2 to 3 %.
CACHED_EMBEDDINGS_SHAPE = (128, 768)
SHORT_EMBEDDINGS_SHAPE = (10_000, 384)
CALIBRATION_PAIRS = 10_000


@dataclass(frozen=True)
class Workload:
    """One table of the benchmark.

    Attributes:
        name: key in the results file.
        title: heading of the table.
        operation: a name in `contestant.OPERATIONS`.
        shape: of the result.
        references: names of the contestants that the ratio columns compare with.
    """

    name: str
    title: str
    operation: str
    shape: tuple[int, ...]
    references: tuple[str, ...] = field(default=())

    @property
    def unit(self) -> str:
        return "pair" if self.operation == "calibrate" else "sample"

    @property
    def row_length(self) -> int:
        return self.shape[1] if len(self.shape) == 2 else 1

    @cached_property
    def out(self) -> np.ndarray:
        # Written once here so that no contestant pays for the first page faults.
        return np.full(self.shape, 1.0, dtype=np.float32)

    @cached_property
    def x(self) -> np.ndarray:
        """Rows with norms from 0.2 to 5 times the clip norm: some clipped, some not."""
        rng = np.random.Generator(np.random.PCG64(INPUT_SEED))
        x = rng.standard_normal(self.shape, dtype=np.float32)
        norm = CLIP_NORM * np.exp(rng.uniform(np.log(0.2), np.log(5.0), self.shape[0]))
        x *= (norm / np.linalg.norm(x, axis=1)).astype(np.float32)[:, None]
        return x

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.Generator(np.random.PCG64(INPUT_SEED))
        epsilon, delta = (
            np.exp(rng.uniform(np.log(low), np.log(high), self.shape))
            for low, high in (EPSILON_RANGE, DELTA_RANGE)
        )
        return epsilon, delta

    def spec(self) -> dict[str, Any]:
        """What `workload_from_spec` needs to build the same workload in another process."""
        return asdict(self)


def workload_from_spec(spec: dict[str, Any]) -> Workload:
    return Workload(**{**spec, "shape": tuple(spec["shape"])})


def _references(ours: str) -> tuple[str, ...]:
    return (f"hushvec {ours}aes256", f"hushvec {ours}chacha20", "memcpy (no noise)")


def _clip_and_noise(name: str, shape: tuple[int, int], where: str = "") -> Workload:
    rows, columns = shape
    title = f"Clip-and-noise, {rows:,} x {columns} float32{where}, C = {CLIP_NORM}, sigma = {SIGMA}"
    return Workload(name, title, "clip_and_noise", shape, _references("exact "))


def standard_workloads(quick: bool = False) -> list[Workload]:
    """The tables of one run.  A quick run differs in the sizes of the fills only."""
    samples = QUICK_FILL_SAMPLES if quick else FILL_SAMPLES
    cached = QUICK_CACHED_FILL_SAMPLES if quick else CACHED_FILL_SAMPLES
    noise = _references("")
    return [
        Workload("gaussian_fill", f"Gaussian fill, 2^{samples.bit_length() - 1} float32, to memory",
                 "gaussian", (samples,), noise),
        Workload("gaussian_fill_cached",
                 f"Gaussian fill, 2^{cached.bit_length() - 1} float32, in cache",
                 "gaussian", (cached,), noise),
        Workload("laplace_fill", f"Laplace fill, 2^{samples.bit_length() - 1} float32, to memory",
                 "laplace", (samples,), noise),
        _clip_and_noise("clip_and_noise", EMBEDDINGS_SHAPE),
        _clip_and_noise("clip_and_noise_cached", CACHED_EMBEDDINGS_SHAPE, ", in cache"),
        _clip_and_noise("clip_and_noise_384", SHORT_EMBEDDINGS_SHAPE),
        Workload("calibrate", f"Gaussian sigma of {CALIBRATION_PAIRS:,} (epsilon, delta) pairs",
                 "calibrate", (CALIBRATION_PAIRS,), ("hushvec gaussian_sigma",)),
    ]
