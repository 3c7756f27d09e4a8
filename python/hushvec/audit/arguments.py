"""Arguments that all methods share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from hushvec._util import validate
from hushvec.audit.codebook_target import CodebookTarget
from hushvec.audit.targets import AuditTarget, MechanismTarget
from hushvec.mechanisms import CodebookResponse

FEWEST_SAMPLES = 1000

# Outputs come in runs of about this many numbers: 8 MB as float64.
CHUNK_NUMBERS = 1 << 20

Progress = Callable[[int], None]


def as_target(audited: Any) -> AuditTarget:
    """A target as it is; a mechanism as a MechanismTarget, or as a CodebookTarget where it answers with public codes."""
    if isinstance(audited, AuditTarget):
        return audited
    return CodebookTarget(audited) if isinstance(audited, CodebookResponse) else MechanismTarget(audited)


def require_samples(value: Any) -> int:
    return validate.whole_number("samples", value, at_least=FEWEST_SAMPLES)


def require_confidence(value: Any) -> float:
    return validate.probability("confidence", value)


def parts(rows: int, width: int) -> Iterator[int]:
    """Numbers of rows that add up to `rows`, each about CHUNK_NUMBERS numbers of `width` a row."""
    largest = max(1, CHUNK_NUMBERS // width)
    for first in range(0, rows, largest):
        yield min(largest, rows - first)
