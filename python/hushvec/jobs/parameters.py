"""What determines a job's result besides its key and the rows, checked."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from hushvec._native import arrays
from hushvec._util import validate
from hushvec.jobs import derivation
from hushvec.mechanisms import Mechanism
from hushvec.release.vectors import plan_release


@dataclass(frozen=True, kw_only=True, eq=False)
class JobParameters:
    """The mechanism of every row, one row per person; the dtype of batches; what brings rows to unit length before and after it;
    what the noise is drawn from."""

    mechanism: Mechanism
    dtype: str
    normalize: bool
    renormalize: bool
    cipher: str = derivation.FIRST_CIPHER

    @property
    def dimension(self) -> int:
        return self.mechanism.dimension

    @cached_property
    def parameters(self) -> str:
        """Everything that determines the result besides the key and the rows, as docs/format.md section 10 writes it."""
        return derivation.parameters_text(
            self.mechanism, cipher=self.cipher, dtype=self.dtype, normalize=self.normalize, renormalize=self.renormalize
        )


def planned_parameters(*, dimension: int, dtype: str, cipher: str, **arguments: Any) -> dict[str, Any]:
    """The fields of `JobParameters`, from the arguments of `NoiseJob.start`."""
    validate.choice("cipher", cipher, derivation.JOB_VERSIONS)
    plan = plan_release(
        rows=1,
        dimension=validate.whole_number("dimension", dimension, at_least=1),
        dtype=validate.choice("dtype", dtype, arrays.NUMPY_DTYPES),
        per="record",
        generator=None,
        **arguments,
    )
    if plan.mechanism.grade != "exact":
        raise ValueError(f"mechanism must have an exact form in a job, got {plan.mechanism.name!r}")
    return dict(mechanism=plan.mechanism, dtype=dtype, normalize=plan.normalize, renormalize=plan.renormalize, cipher=cipher)
