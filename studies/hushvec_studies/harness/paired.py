"""Two values for each query: their difference, with its interval and the p-value of a sign-flip test."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.audit.bootstrap import UNITS_PER_KIND, bootstrap, group_numbers, matrix_of, unit_sums
from hushvec.extend.helpers import Estimate, product

# Two sums of the same numbers in another order are the same sum: a flip that changes nothing must count as such.
_SAME_WITHIN = 1e-9
# Units whose signs are drawn at once: 8 MiB of them.
_SIGNS_AT_ONCE = 1 << 20


@dataclass(frozen=True)
class PairedTest:
    """The result of `paired_test`."""

    difference: Estimate  # mean of first - second, with its bootstrap interval
    p_value: float  # of the two-sided sign-flip test
    cohens_d: float  # mean of the differences over their standard deviation; 0 if all are 0, infinite if all are alike, nan for one
    n: int  # units that were compared: queries, or groups of queries


def paired_test(
    first: Any,
    second: Any,
    *,
    groups: Any = None,
    confidence: float = 0.95,
    resamples: int = 1000,
    flips: int = 9999,
    seed: int = 2025,
    limits: tuple[float, float] | None = None,
) -> PairedTest:
    """Compare two values for each query.

    Args:
        first, second: float arrays [m], the same queries in the same order.
        groups, confidence, resamples, seed, limits: as in `hushvec.audit.bootstrap.bootstrap`, for the differences.
        flips: >= 1, how many times all signs are drawn.

    Guarantees:
        If every unit's difference is as likely to be -x as x, the p-value is at most p with probability at most p: it is
        (1 + flips at least as far from 0) / (1 + flips), so it is never 0 and at least 1 / (flips + 1).

    Reference:
        Fisher, "The design of experiments" (1935), section 21 (the sign-flip test); Phipson and Smyth, "Permutation p-values should
        never be zero" (2010); Cohen, "Statistical power analysis for the behavioral sciences" (1988), section 2.3.5 (d of pairs).
    """
    count = validate.whole_number("flips", flips, at_least=1)
    values = matrix_of({"first": first, "second": second})
    differences = values[:, 0] - values[:, 1]
    estimate = bootstrap(
        {"difference": differences}, groups=groups, limits=limits, confidence=confidence, resamples=resamples, seed=seed
    )
    sums, sizes = unit_sums(differences[:, None], group_numbers(groups, len(differences)))
    rng = np.random.default_rng([validate.whole_number("seed", seed, at_least=0), 1])
    p_value = sign_flip_p_value(sums[:, 0], count, rng)
    return PairedTest(estimate["difference"], p_value, _effect(sums[:, 0] / sizes), len(sums))


def sign_flip_p_value(differences: NDArray[np.float64], flips: int, rng: np.random.Generator) -> float:
    """(1 + flips whose sum is at least as far from 0 as the real one) / (1 + flips)."""
    observed = abs(math.fsum(differences))
    reached = observed - _SAME_WITHIN * float(np.abs(differences).sum())
    extreme = sum(int((np.abs(sums) >= reached).sum()) for sums in _flipped_sums(differences, flips, rng))
    return (1 + extreme) / (1 + flips)


def _flipped_sums(differences: NDArray[np.float64], flips: int, rng: np.random.Generator) -> Iterator[NDArray[np.float64]]:
    """`flips` sums under random signs, in blocks. Units of equal size flip together: k signs have the sum 2 Binomial(k, 1/2) - k."""
    sizes, counts = np.unique(np.abs(differences[differences != 0]), return_counts=True)
    by_size = len(sizes) * UNITS_PER_KIND <= counts.sum()
    terms = sizes if by_size else np.repeat(sizes, counts)
    at_once = max(1, _SIGNS_AT_ONCE // max(1, len(terms)))
    for first in range(0, flips, at_once):
        rows = min(at_once, flips - first)
        if by_size:
            yield product((2 * rng.binomial(counts, 0.5, size=(rows, len(terms))) - counts).astype(np.float64), terms)
        else:
            bits = np.frombuffer(rng.bytes(rows * -(-len(terms) // 8)), np.uint8).reshape(rows, -1)
            yield 2.0 * product(np.unpackbits(bits, axis=1, count=len(terms)).astype(np.float64), terms) - terms.sum()


def _effect(differences: NDArray[np.float64]) -> float:
    """Cohen's d of paired differences; nan for a single pair, which has no spread."""
    if len(differences) < 2:
        return math.nan
    mean = float(differences.mean())
    if (differences == differences[0]).all():
        return math.copysign(math.inf, mean) if mean else 0.0
    return mean / float(differences.std(ddof=1))
