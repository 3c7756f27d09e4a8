"""Rows as one of k public rows: randomized response over a public codebook.

A noisy vector spends epsilon on every direction in which a row could differ. Where public rows of the same kind exist, most of those
directions never occur: a row is close to one of k codes, and randomized response releases which one. It tells the truth with
probability e^epsilon / (e^epsilon + k - 1), so that from epsilon = 2 + ln k on nearly every release is the best code there is.

The codebook must be **public**: fitted on rows that nobody needs protection from. docs/proofs/codebook.md says why such a release is
exactly epsilon-DP, and docs/retrieval.md has measured figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec._util.extras import needs_extra
from hushvec.mechanisms.code_counts import FEWEST, best, count_for, counts_up_to, found_share, tried_until_past
from hushvec.mechanisms.codebook_response import CodebookResponse
from hushvec.mechanisms.fitted_rows import FittedRows
from hushvec.mechanisms.privunit import PrivUnit
from hushvec.mechanisms.public_arrays import Rows, checked_public_rows, nearest_codes, unit_public_rows, unit_rows
from hushvec.mechanisms.public_codes import PublicCodes
from hushvec.mechanisms.randomized_response import RandomizedResponse

AUTO = "auto"
COSINE, SEARCH = "cosine", "search"

_FEWEST_FOR_SEARCH = 16
_MOST_SEARCHED = 2**13  # rows that are searched for choosing the number of codes
_MOST_TRIED = 2**15  # public rows that the number of codes is chosen by; of more, as many at random
_ROUNDS = 20  # of k-means


class CodebookFit(NamedTuple):
    """How well a codebook serves rows, measured on a public sample of them. Cosines are means over the sample.

    Args:
        nearest_cosine: between a row and its nearest code: what the codebook keeps at epsilon = infinity.
        expected_cosine: between a row and what is released for it, at the epsilon asked for.
        privunit_cosine: what PrivUnit keeps at the same epsilon.
        epsilon: that was asked for.
    """

    nearest_cosine: float
    expected_cosine: float
    privunit_cosine: float
    epsilon: float

    @property
    def is_worth_it(self) -> bool:
        """Whether the codebook is expected to keep more than PrivUnit does."""
        return self.expected_cosine > self.privunit_cosine

    def __str__(self) -> str:
        better = "the codebook is expected to do better" if self.is_worth_it else "PrivUnit is expected to do better"
        return (
            f"this codebook explains {self.nearest_cosine:.2f} of your sample's cosine; at epsilon {self.epsilon:g} a release keeps "
            f"{self.expected_cosine:.2f}, PrivUnit {self.privunit_cosine:.2f}: {better}"
        )


@dataclass(frozen=True, eq=False)
class PublicCodebook(PublicCodes):
    """k public unit rows, the codes, and the sums of the public rows that are nearest to each.

    Made by `fit`, `of` or `load`; two codebooks are equal if their arrays are.

    Args:
        codes: float32 [k, d], rows of unit length, 2 <= k <= 2^24.
        sums: float32 [k, d], for each code the sum of the public unit rows of its cell.
        rows: how many public rows there were.
        fitted_rows: digests of those rows; None if unknown.

    Raises:
        TypeError: wrong kinds.
        ValueError: shapes that do not fit, fewer than two codes, NaN or Inf, codes that are not of unit length.

    Guarantees:
        `codebook.mechanism(epsilon)` is epsilon-DP for rows that the codebook was not made from. Fitted on the private rows the codes
        are themselves a release of them, without any noise: nothing that a receipt says is true then. So a release of one of its
        rows is refused; that catches a mistake, not every misuse (`PublicProjection.require_other_rows`).

    Edge cases:
        Cosines only: the length of a row has no influence. A row of zeros is nearest to the first code.

    Reference:
        Kairouz, Oh, Viswanath, "Extremal mechanisms for local differential privacy" (2016): randomized response is optimal for a
        wide class of utilities at large epsilon. docs/proofs/codebook.md.

    Example:
        >>> import hushvec as hv, numpy as np
        >>> from hushvec.mechanisms import PublicCodebook
        >>> rng = np.random.default_rng(0)
        >>> public, private = rng.standard_normal((500, 16)), rng.standard_normal((3, 16)).astype(np.float32)
        >>> codebook = PublicCodebook.of(public[:64])
        >>> release = hv.privatize(private, mechanism=codebook.mechanism(epsilon=8.0))
        >>> release.values.shape, release.receipt.epsilon, release.receipt.codebook == codebook.digest
        ((3, 16), 8.0, True)
    """

    @classmethod
    def fit(
        cls, public_rows: Any, *, epsilon: float | None = None, codes: int | str = AUTO, purpose: str = COSINE, seed: int = 0
    ) -> PublicCodebook:
        """The centers of a spherical k-means of public rows. Needs FAISS (extra `faiss`).

        Args:
            public_rows: float array [n, d], numpy or torch: rows that nobody needs protection from, of the same kind as those that are
                to be released, and never those themselves.
            epsilon: > 0, of one release; needed with codes="auto".
            codes: k, at most n. "auto": as many as serve public rows best that the centers were not made from, at this epsilon; all
                rows themselves where nothing smaller is better.
            purpose: what "auto" measures. "cosine": the expected cosine of a row and its release. "search": how many of the ten
                nearest rows clean queries find among releases; it takes more codes, as releases of one code cannot be told apart.
            seed: of the initial centers and of the rows held out, in [0, 2^31). No secret.

        Edge cases:
            The same rows may give another codebook on another machine: its linear algebra rounds differently. To use the same
            one, copy the file (`save`) and compare digests. Cells that stay empty are dropped, so there may be fewer codes than asked
            for.

        Raises:
            TypeError: wrong kinds; codes="auto" without epsilon.
            ValueError: not two-dimensional, fewer than 16 rows for "auto" (32 with "search"), NaN or Inf, a row of zeros, more codes
                than rows.
            MissingExtraError: FAISS is not installed.
        """
        rows = unit_public_rows(public_rows)
        start = validate.whole_number("seed", seed, at_least=0)
        if isinstance(codes, str):
            validate.choice("codes", codes, (AUTO,))
            validate.choice("purpose", purpose, (COSINE, SEARCH))
            if epsilon is None:
                raise TypeError("epsilon must be given with codes='auto', which depends on it")
            count = _best_count(rows, validate.positive("epsilon", epsilon), purpose, start)
        else:
            count = validate.whole_number("codes", codes, at_least=2)
        if count > len(rows):
            raise ValueError(f"codes must be at most {len(rows)}, the public rows, got {count}")
        return cls.of(public_rows) if count == len(rows) else cls._of_cells(_centers(rows, count, start), rows, public_rows)

    @classmethod
    def of(cls, public_rows: Any) -> PublicCodebook:
        """Every public row is a code: for a public index that is searched, or where there are few rows.

        Args:
            public_rows: as for `fit`; at least two.
        """
        rows = unit_public_rows(public_rows)
        return cls(rows, rows, len(rows), FittedRows.of(checked_public_rows("public_rows", public_rows)))

    @classmethod
    def _of_cells(cls, centers: Rows, rows: Rows, given: Any) -> PublicCodebook:
        """Empty cells are dropped: their codes would take probability from the others and mean nothing."""
        used, cells = np.unique(nearest_codes(rows, centers), return_inverse=True)
        sums = np.zeros((len(used), rows.shape[1]), np.float64)
        np.add.at(sums, cells, rows)
        return cls(unit_rows(sums), sums.astype(np.float32), len(rows), FittedRows.of(checked_public_rows("public_rows", given)))

    def mechanism(self, epsilon: float, *, rows_per_person: int = 1) -> CodebookResponse:
        """Randomized response over the codes, for `hushvec.privatize(mechanism=)`.

        Args:
            epsilon: > 0, of all rows of a person together.
            rows_per_person: as in every mechanism.
        """
        return CodebookResponse(codebook=self, epsilon=epsilon, dimension=self.dimension, rows_per_person=rows_per_person)

    def check(self, public_sample: Any, *, epsilon: float) -> CodebookFit:
        """How well the codebook serves rows of the kind that it is meant for, before any epsilon is spent.

        Args:
            public_sample: float array [n, d]: **public** rows like those to be released, and not those that the codebook was made
                from, which it fits too well. Never private ones: the answer is not private.
            epsilon: > 0, of one release.

        Raises:
            TypeError, ValueError: as for `fit`.
        """
        rows = unit_public_rows(public_sample, "public_sample")
        if rows.shape[1] != self.dimension:
            raise ValueError(f"public_sample must have {self.dimension} columns, got {rows.shape[1]}")
        cells = nearest_codes(rows, self.codes)
        privunit = PrivUnit(epsilon=validate.positive("epsilon", epsilon), dimension=self.dimension)
        return CodebookFit(
            nearest_cosine=float(np.einsum("nd,nd->n", rows, self.codes[cells], dtype=np.float64).mean()),
            expected_cosine=_expected_cosine(self, rows, cells, epsilon),
            privunit_cosine=privunit.expected_cosine(),
            epsilon=float(epsilon),
        )


def _best_count(rows: Rows, epsilon: float, purpose: str, seed: int) -> int:
    """k: of powers of two, and of all rows, what serves rows held out best."""
    least = 2 * (_FEWEST_FOR_SEARCH if purpose == SEARCH else FEWEST)
    if len(rows) < least:
        raise ValueError(f"public_rows must be at least {least} with codes='auto', which holds half of them out, got {len(rows)}")
    order = np.random.default_rng(seed).permutation(len(rows))[:_MOST_TRIED]
    seen, held_out = rows[order[::2]], rows[order[1::2]]

    def score(count: int) -> float:
        given = PublicCodebook.of(seen) if count == len(seen) else PublicCodebook._of_cells(_centers(seen, count, seed), seen, seen)
        if purpose == SEARCH:
            return _found_share(given, held_out[:_MOST_SEARCHED], epsilon, seed)
        return _expected_cosine(given, held_out, nearest_codes(held_out, given.codes), epsilon)

    count = best(tried_until_past(counts_up_to(len(seen)), score)).codes
    return count_for(len(rows), count, tried_on=len(seen))


def _found_share(codebook: PublicCodebook, rows: Rows, epsilon: float, seed: int) -> float:
    """By one release of each row, which is public: the seed is no secret."""
    released = np.empty_like(rows)
    codebook.mechanism(epsilon).apply(rows, released, _core.Generator.unsafe_seeded(seed))
    return found_share(rows, rows, released)


def _expected_cosine(codebook: PublicCodebook, rows: Rows, cells: NDArray[np.int32], epsilon: float) -> float:
    """Mean over the rows of E<row, release>: T <row, its own> + M (the sum over all others)."""
    response = RandomizedResponse(epsilon=epsilon, k=len(codebook))
    table = codebook.decoded_codes(response)
    truth, other = response.probability_of_truth, response.probability_of_each_other
    hit = np.einsum("nd,nd->n", rows, table[cells], dtype=np.float64)
    anything = rows.astype(np.float64) @ table.sum(axis=0, dtype=np.float64)
    return float(((truth - other) * hit + other * anything).mean())


def _centers(rows: Rows, count: int, seed: int) -> Rows:
    with needs_extra("hushvec.mechanisms.PublicCodebook.fit", "faiss"):
        import faiss
    means = faiss.Kmeans(
        rows.shape[1], count, niter=_ROUNDS, seed=seed, spherical=True, min_points_per_centroid=1, verbose=False
    )
    means.train(rows)
    centers: Rows = unit_rows(means.centroids)
    return centers
