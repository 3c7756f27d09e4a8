"""How long one search takes, and how much memory the process has needed."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

_BYTES_PER_GIB = 2**30


@dataclass(frozen=True)
class Latency:
    """Times of single searches in milliseconds.

    Args:
        mean_ms, std_ms: mean and standard deviation; std_ms is 0 for a single search.
        p99_ms: 99th percentile, between the two nearest times.
        searches: how many were timed.
    """

    mean_ms: float
    std_ms: float
    p99_ms: float
    searches: int


def time_each(search: Callable[[Any], Any], queries: Any) -> tuple[list[Any], Latency]:
    """What `search` returns for each query alone, and how long that took.

    Args:
        search: takes an array [1, d].
        queries: [m, d], m >= 1.
    """
    results, times = [], []
    for row in range(len(queries)):
        start = time.perf_counter()
        results.append(search(queries[row : row + 1]))
        times.append(1e3 * (time.perf_counter() - start))
    spread = float(np.std(times, ddof=1)) if len(times) > 1 else 0.0
    return results, Latency(float(np.mean(times)), spread, float(np.quantile(times, 0.99)), len(times))


def peak_memory_gb() -> float:
    """Peak memory of this process in GiB; nan where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024) / _BYTES_PER_GIB
