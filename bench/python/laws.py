"""Does a contestant's output follow the law it claims?  A fast wrong answer must not be timed."""

from __future__ import annotations

import math

import numpy as np

import workloads

# Central moments 2, 4, 6 and 8 of the law with sigma = 1 or scale = 1.
STANDARD_MOMENTS = {"gaussian": (1.0, 3.0, 15.0, 105.0), "laplace": (2.0, 24.0, 720.0, 40320.0)}

# Three moments of five tables of twenty contestants are checked in one run:
# at 6 standard errors a true law is refused about once in a million runs.
MAX_STANDARD_ERRORS = 6.0

# Enough to see a scale that is 1 % off at 14 standard errors.
CHECKED_SAMPLES = 1 << 20

# A sigma that is stored as float32 moves delta by about 3e-6 of itself.
DELTA_TOLERANCE = 1e-5
CHECKED_PAIRS = 1_000


def moment_complaint(samples: np.ndarray, law: str, scale: float) -> str:
    """Compares mean, second and fourth moment with `law`, a key of STANDARD_MOMENTS."""
    if not np.isfinite(samples).all():
        return "output has values that are not finite"
    second, fourth, _, eighth = STANDARD_MOMENTS[law]
    z = samples.astype(np.float64).ravel() / scale
    squares = z * z
    root = math.sqrt(z.size)
    for moment, seen, expected, spread in (
        ("mean", z.mean(), 0.0, math.sqrt(second)),
        ("second moment", squares.mean(), second, math.sqrt(fourth - second**2)),
        ("fourth moment", (squares * squares).mean(), fourth, math.sqrt(eighth - fourth**2)),
    ):
        errors = abs(seen - expected) * root / spread
        if errors > MAX_STANDARD_ERRORS:
            return (
                f"{moment} must be {expected:g} for a {law} law of scale 1, "
                f"got {seen:.6g} ({errors:.0f} standard errors off)"
            )
    return ""


def clipped(x: np.ndarray, clip_norm: float) -> np.ndarray:
    """Rows of `x` clipped to L2 norm `clip_norm`, in float64."""
    wide = x.astype(np.float64)
    norm = np.sqrt((wide * wide).sum(axis=1, keepdims=True))
    return wide * np.minimum(1.0, clip_norm / np.maximum(norm, np.finfo(np.float64).tiny))


def gaussian_delta(epsilon: float, sigma: float) -> float:
    """delta of the Gaussian mechanism at sensitivity 1 (Balle and Wang 2018, theorem 8)."""

    def upper_tail(t: float) -> float:
        return 0.5 * math.erfc(t / math.sqrt(2.0))

    a, b = 0.5 / sigma, epsilon * sigma
    return upper_tail(b - a) - math.exp(epsilon) * upper_tail(a + b)


def sigma_complaint(sigma: np.ndarray, epsilon: np.ndarray, delta: np.ndarray) -> str:
    for e, s, asked in list(zip(epsilon, sigma, delta))[:CHECKED_PAIRS]:
        given = gaussian_delta(float(e), float(s))
        if abs(given / asked - 1.0) > DELTA_TOLERANCE:
            return f"sigma {s!r} at epsilon {e!r} gives delta {given!r}, asked {asked!r}"
    return ""


def privunit_complaint(x: np.ndarray, first: np.ndarray, second: np.ndarray, sigma: float) -> str:
    """What is wrong with two calls of PrivUnitG at C = 1.

    Along a row's direction the mean is 1; across it lies N(0, sigma^2).  With new
    noise along the direction the latter is N(0, sigma^2) in every element.
    """
    if np.array_equal(first, second):
        return "two calls gave the same noise"
    wide, released = x.astype(np.float64), second.astype(np.float64)
    directions = wide / np.linalg.norm(wide, axis=1, keepdims=True)
    along = (released * directions).sum(axis=1)
    errors = abs(along.mean() - 1.0) * math.sqrt(along.size) / along.std()
    if not errors <= MAX_STANDARD_ERRORS:
        return f"inner product must be 1, got {along.mean():.6g} ({errors:.0f} standard errors off)"
    new = np.random.default_rng().normal(0.0, sigma, along.size)
    return moment_complaint(_both_ends(released + (new - along)[:, None] * directions), "gaussian", sigma)


def _both_ends(values: np.ndarray) -> np.ndarray:
    """At most CHECKED_SAMPLES of them, half from each end: tails of blocks are at the end."""
    flat = values.ravel()
    if flat.size <= CHECKED_SAMPLES:
        return flat
    half = CHECKED_SAMPLES // 2
    return np.concatenate((flat[:half], flat[-half:]))


def complaint(workload: workloads.Workload, rows: int, first: np.ndarray, second: np.ndarray) -> str:
    """What is wrong with the results of two calls for so many rows, or an empty string."""
    if workload.operation == "calibrate":
        epsilon, delta = workload.pairs
        return sigma_complaint(second, epsilon[:rows], delta[:rows])
    if np.array_equal(first, second):
        return "two calls gave the same noise"
    if workload.operation == "laplace":
        return moment_complaint(_both_ends(second), "laplace", workloads.SCALE)
    if workload.operation == "clip_and_noise":
        second = second - clipped(workload.x[:rows], workloads.CLIP_NORM)
    return moment_complaint(_both_ends(second), "gaussian", workloads.SIGMA)
