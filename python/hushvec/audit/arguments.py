"""Arguments that all methods share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hushvec._util import validate

FEWEST_SAMPLES = 1000

# Outputs come in runs of about this many numbers: 8 MB as float64.
CHUNK_NUMBERS = 1 << 20

Progress = Callable[[int], None]


def require_samples(value: Any) -> int:
    return validate.whole_number("samples", value, at_least=FEWEST_SAMPLES)


def require_confidence(value: Any) -> float:
    return validate.probability("confidence", value)


def parts(rows: int, width: int) -> Iterator[int]:
    """Numbers of rows that add up to `rows`, each about CHUNK_NUMBERS numbers of `width` a row."""
    largest = max(1, CHUNK_NUMBERS // width)
    for first in range(0, rows, largest):
        yield min(largest, rows - first)
