"""Randomized response over the codes of a public codebook, as a mechanism for rows."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from hushvec._native import _core, arrays
from hushvec._native.arrays import CheckedRows
from hushvec._util import validate
from hushvec._util.rounding import quotient_down
from hushvec.mechanisms.base import Mechanism
from hushvec.mechanisms.public_arrays import Rows, copy_on_device
from hushvec.mechanisms.public_codes import PublicCodes
from hushvec.mechanisms.randomized_response import RandomizedResponse

if TYPE_CHECKING:
    from hushvec.accounting import Shuffled


@dataclass(frozen=True, kw_only=True)
class CodebookResponse(Mechanism):
    """For every row its code by randomized response, decoded to a public unit row. Made by `PublicCodebook.mechanism`.

    Args:
        codebook: public.
        epsilon: > 0, of all rows of a person together; each answer gets epsilon / rows_per_person.
        dimension: d, that of the codebook.

    Guarantees:
        (epsilon, 0)-DP under replace-one of one person's rows, exact as sampled: the code is a function of the row and of public
        data, whatever floating point makes of it; it is released by `RandomizedResponse`, and decoding sees the answer alone.

    Edge cases:
        Rows are directions: their length has no influence, and what is released has unit length.

    Reference:
        docs/proofs/codebook.md; Kairouz, Oh, Viswanath (2016).
    """

    name = "codebook"
    law = "randomized_response"
    grade = "exact"
    directions_only = True
    codebook: PublicCodes = field(repr=False)
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.codebook, PublicCodes):
            raise TypeError(f"codebook must be a PublicCodebook, got {validate.kind(self.codebook)}")
        self._keep("epsilon", validate.positive("epsilon", self.epsilon))
        if self.dimension != self.codebook.dimension:
            raise ValueError(f"dimension must be {self.codebook.dimension}, that of the codebook, got {self.dimension}")
        if self.clip_norm != 1:
            raise ValueError(f"clip_norm must be 1.0 for a codebook, which releases unit rows, got {self.clip_norm!r}")
        truth, other = self.response.law
        if truth <= other:
            raise ValueError(
                f"epsilon must be large enough to prefer the truth among {len(self.codebook)} codes, got {self.epsilon!r}"
            )

    @cached_property
    def response(self) -> RandomizedResponse:
        """Over the codes, for one row."""
        return RandomizedResponse(epsilon=quotient_down(self.epsilon, self.rows_per_person), k=len(self.codebook))

    @cached_property
    def table(self) -> Rows:
        """[k, d]: what is released for each answer."""
        table = self.codebook.decoded_codes(self.response)
        table.flags.writeable = False
        return table

    @property
    def cost(self) -> tuple[float, float]:
        return self.epsilon, 0.0

    def shuffled(self, n: int) -> Shuffled:
        """What one person's releases cost against an observer who sees only the shuffled releases of n people.

        Args:
            n: >= 1, how many people release by this mechanism in the batch. Only those count who follow the protocol.

        Returns:
            A loss for `hushvec.accounting.compose`: ``codebook.mechanism(8.0).shuffled(10**6).epsilon(1e-6)``.

        Raises:
            TypeError, ValueError: n is no whole number >= 1.

        Guarantees:
            For one batch to which every person sends `rows_per_person` rows, under replacement of all rows of one person, by `epsilon`
            and n, as `Shuffled` says. It takes an honest shuffler that puts all released rows in random order and removes names,
            times and whatever else tells people apart. Against the shuffler, and everyone who sees a row before it was shuffled,
            `epsilon` holds and nothing smaller.

        Reference:
            docs/proofs/shuffling.md.

        Example:
            >>> import numpy as np
            >>> from hushvec.mechanisms import PublicCodebook
            >>> loss = PublicCodebook.of(np.eye(32, dtype=np.float32)).mechanism(8.0).shuffled(10**6)
            >>> round(loss.epsilon(1e-6), 3)
            0.304
        """
        from hushvec.accounting import Shuffled

        return Shuffled(epsilon=self.epsilon, n=n)

    def expected_cosine(self, norm: float | None = None) -> float:
        """About the cosine between a public row and its release, over the rows that the codebook was made from.

        Args:
            norm: has no influence: only the direction is released.
        """
        if norm is not None:
            validate.positive("norm", norm)
        sums = self.codebook.sums.astype(np.float64)
        truth, other = self.response.probability_of_truth, self.response.probability_of_each_other
        hit = float(np.einsum("kd,kd->", sums, self.table))
        anything = float(sums.sum(axis=0) @ self.table.sum(axis=0, dtype=np.float64))
        return ((truth - other) * hit + other * anything) / self.codebook.rows

    def describe(self) -> tuple[str, ...]:
        epsilon, delta = self.cost
        rows = f", {self.rows_per_person:,} rows per person" if self.rows_per_person > 1 else ""
        return (
            f"{self.name}, {len(self.codebook):,} public codes, dimension {self.dimension}{rows}",
            f"an answer is the nearest code with probability {self.response.probability_of_truth:.4g}",
            f"one release costs epsilon = {epsilon!r}, delta = {delta!r}",
            f"expected cosine {self.expected_cosine():.4f} for rows like the public ones; check(sample, epsilon=) says it for yours",
            "grade exact: the released bits carry the claim",
        )

    def require_release(self, x: Any) -> None:
        super().require_release(x)
        self.codebook.require_other_rows(x.values if isinstance(x, CheckedRows) else x)

    def _release(self, x: Any, out: Any, source: _core.Generator, out_is_fresh: bool) -> Any:
        answers = self.response.respond(self.codebook.encode(x), generator=source)
        out = arrays.empty_like(x) if out is None else out
        if arrays.on_cuda(x):
            with arrays.device_scope(x):
                out[...] = copy_on_device(self, "table", self.table, x)[answers].reshape(tuple(x.shape))
            return out
        decoded = self.table[answers].reshape(tuple(x.shape))
        if arrays.is_torch(out):
            out.copy_(sys.modules["torch"].from_numpy(decoded))
        else:
            out[...] = decoded
        return out
