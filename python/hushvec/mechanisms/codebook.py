"""Rows as one of k public rows: randomized response over a public codebook, exactly epsilon-DP: docs/proofs/codebook.md."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec.mechanisms.public_arrays import (  # isort: skip
    FITTED_ROWS, FORMAT, FittedRows, PublicArrays, Rows, as_float32, as_narrow_rows, checked_public_rows, copy_on_device, frozen,
    load_npz, nearest_codes, require_other_rows, unit_public_rows, unit_rows,
)
from hushvec._native import _core, arrays, kernels, rowwise
from hushvec._native.arrays import CheckedRows
from hushvec._native.products import inner_products
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec._util.rounding import product_up, quotient_down
from hushvec.accounting import PureDP, Shuffled
from hushvec.mechanisms.base import Mechanism, RowKeys, result_of
from hushvec.mechanisms.privunit import PrivUnit
from hushvec.mechanisms.randomized_response import RandomizedResponse, response_variation

AUTO = "auto"
COSINE, SEARCH = "cosine", "search"

_FEWEST_FOR_SEARCH = 16
_MOST_SEARCHED = 2**13  # rows that are searched for choosing the number of codes
_MOST_TRIED = 2**15  # public rows that the number of codes is chosen by; of more, as many at random
_ROUNDS = 20  # of k-means

FEWEST = 8
NEIGHBORS = 10

_ARRAYS = ("codes", "sums")
_MOST_CODES = 2**24


class Tried(NamedTuple):
    """A number of codes (0 for a release without a codebook), and its score in [0, 1]."""

    codes: int
    share: float


def counts_up_to(rows: int) -> list[int]:
    counts, count = [], FEWEST
    while count < rows:
        counts.append(count)
        count *= 2
    return [*counts, rows]


def tried_until_past(counts: Iterable[int], score: Callable[[int], float]) -> list[Tried]:
    """Scores of rising numbers of codes, until they fall to half of the best: further codes only dilute the truth."""
    tried: list[Tried] = []
    for count in counts:
        tried.append(Tried(count, score(count)))
        if tried[-1].share < best(tried).share / 2:
            break
    return tried


def best(tried: Iterable[Tried]) -> Tried:
    return max(tried, key=lambda one: one.share)


def count_for(rows: int, count: int, *, tried_on: int) -> int:
    """A number of codes that was chosen on some of the rows, for all of them: a code for each row stays a code for each row."""
    return rows if count == tried_on else count


def gains(depth: int) -> NDArray[np.float64]:
    """Discounted gains 1 / log2(1 + rank) of the first ranks, adding up to 1."""
    values = 1 / np.log2(np.arange(depth) + 2)
    shares: NDArray[np.float64] = values / values.sum()
    return shares


def found_share(rows: Rows, queries: Rows, stored: Rows, most: int = 1024) -> float:
    """The share of the discounted gain of the ten nearest other rows that the ten best among the others' stored rows have.

    `rows` are unit rows [n, d], n > 10, in random order; `queries` and `stored` [n, e] are what each is on the sides of a search.
    """
    asked = np.arange(min(most, len(rows)))
    wanted, found = (nearest_others(given[asked], among, asked) for given, among in ((rows, rows), (queries, stored)))
    hits = (found[:, :, None] == wanted[:, None, :]).any(axis=2)
    return float((hits * gains(hits.shape[1])).sum(axis=1).mean())


def nearest_others(asked: Rows, among: Rows, own: NDArray[np.int64]) -> NDArray[np.int64]:
    """Places [m, 10] of the rows of `among` with the largest inner products, best first, without one row of its own for each."""
    scores = inner_products(asked, among)
    scores[np.arange(len(asked)), own] = -np.inf
    places: NDArray[np.int64] = np.argsort(-scores, axis=1, kind="stable")[:, :NEIGHBORS]
    return places


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
class PublicCodebook(PublicArrays):
    """k public unit rows, the codes, and the sums of the public rows that are nearest to each.

    Made by `fit`, `of` or `load`; two codebooks are equal if their arrays are. The length of a row has no influence.

    Args:
        codes: float32 [k, d], rows of unit length, 2 <= k <= 2^24.
        sums: float32 [k, d], for each code the sum of the public unit rows of its cell.
        rows: how many public rows there were.
        fitted_rows: digests of those rows; None if unknown.

    Guarantees:
        `codebook.mechanism(epsilon)` is epsilon-DP for rows that the codebook was not made from. A release of one of its rows is
        refused; that catches a mistake, not every misuse (`PublicProjection.require_other_rows`).

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

    kind = "codebook"
    codes: Rows
    sums: Rows
    rows: int
    fitted_rows: FittedRows | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            object.__setattr__(self, name, frozen(name, getattr(self, name), 2))
        validate.whole_number("rows", self.rows, at_least=1)
        if not 2 <= len(self.codes) <= _MOST_CODES:
            raise ValueError(f"codes must be at least 2 and at most 2^24, got {len(self.codes)}")
        if self.sums.shape != self.codes.shape:
            raise ValueError(f"sums must have shape {self.codes.shape}, that of codes, got {self.sums.shape}")
        lengths = np.linalg.norm(self.codes.astype(np.float64), axis=1)
        if (np.abs(lengths - 1) > 1e-5).any():
            raise ValueError(f"codes must have unit length, got {float(lengths[np.abs(lengths - 1).argmax()])!r}")

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def dimension(self) -> int:
        """d of the rows."""
        return int(self.codes.shape[1])

    @classmethod
    def fit(
        cls, public_rows: Any, *, epsilon: float | None = None, codes: int | str = AUTO, purpose: str = COSINE, seed: int = 0
    ) -> PublicCodebook:
        """The centers of a spherical k-means of public rows. Needs FAISS (extra `faiss`).

        Args:
            public_rows: float array [n, d], numpy or torch: public rows of the kind to be released, never those themselves.
                At least 16 for "auto", 32 with "search", none of zeros.
            epsilon: > 0, of one release; needed with codes="auto".
            codes: k, at most n. "auto": as many as serve held-out public rows best at this epsilon.
            purpose: what "auto" measures. "cosine": of a row and its release. "search": how many of the ten nearest rows clean
                queries find among releases; it takes more codes.
            seed: of the initial centers and of the rows held out, in [0, 2^31). Not secret.

        Edge cases:
            The same rows may give another codebook on another machine: copy the file (`save`) and compare digests. Cells that stay
            empty are dropped, so there may be fewer codes than asked for.
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
        """Every one of at least two public rows is a code: for a public index that is searched, or where there are few rows."""
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
        """Randomized response over the codes, for `hushvec.privatize`; epsilon > 0 is of all rows of a person together."""
        return CodebookResponse(codebook=self, epsilon=epsilon, dimension=self.dimension, rows_per_person=rows_per_person)

    def check(self, public_sample: Any, *, epsilon: float) -> CodebookFit:
        """How well the codebook serves rows of the kind that it is meant for, at this epsilon > 0, before any is spent.

        Args:
            public_sample: float array [n, d]: **public** rows like those to be released, and not those that the codebook was made
                from, which it fits too well. Never private ones: the answer is not private.
        """
        rows = unit_public_rows(public_sample, "public_sample")
        if rows.shape[1] != self.dimension:
            raise ValueError(f"public_sample must have {self.dimension} columns, got {rows.shape[1]}")
        cells = nearest_codes(rows, self.codes)
        privunit = PrivUnit(epsilon=validate.positive("epsilon", epsilon), dimension=self.dimension)
        return CodebookFit(
            nearest_cosine=float(np.einsum("nd,nd->n", rows, self.codes[cells], dtype=np.float64).mean()),
            expected_cosine=_expected_cosine(self, rows, cells, epsilon), privunit_cosine=privunit.expected_cosine(),
            epsilon=float(epsilon),
        )

    def encode(self, x: Any) -> Any:
        """The number of the nearest code of each row, int32 [n], on x's device: private, not to be released.

        Args:
            x: float array [d] or [n, d], numpy, torch (CPU, CUDA) or CuPy, or a list, as in `hushvec.privatize`. Not changed.

        Guarantees:
            A row's code depends on the row and the codes alone, and is the same under every instruction set but the portable one,
            and on CUDA. Of codes with equal scores the first. float64 rows are brought to unit length first, which a device
            rounds by docs/format.md section 10.
        """
        given, x = x, as_array("x", x)
        arrays.require_array("x", x)
        count, dimension = arrays.rows_and_dimension(x)
        if dimension != self.dimension:
            raise ValueError(f"x must have {self.dimension} columns, got {dimension}")
        if arrays.on_cuda(x):
            kernels.require_device(x)
            x = arrays.in_order(x)
        rowwise.require_finite("x", x)
        if arrays.on_cuda(x):
            return kernels.nearest_codes(as_narrow_rows(x), copy_on_device(self, "codes", self.codes, x))
        return arrays.returned(given, nearest_codes(as_float32(x).reshape(count, dimension), self.codes))

    def decode(self, codes: Any, epsilon: float) -> Rows:
        """A unit row, float32 [n, d], for each released code: the direction of a public row's posterior mean. Costs nothing.

        Args:
            codes: whole numbers in [0, k), released by randomized response with this epsilon for each.
            epsilon: > 0, of one row.
        """
        numbers = np.asarray(codes)
        if numbers.dtype.kind not in "iu":
            raise TypeError(f"codes must be whole numbers, got {numbers.dtype}")
        outside = numbers[(numbers < 0) | (numbers >= len(self))]
        if outside.size:
            raise ValueError(f"codes must be >= 0 and < {len(self)}, got {int(outside.flat[0])}")
        decoded: Rows = self.decoded_codes(RandomizedResponse(epsilon=epsilon, k=len(self)))[numbers]
        return decoded

    def decoded_codes(self, response: RandomizedResponse) -> Rows:
        """[k, d]: sum over public rows u of P(code | u) u, to unit length."""
        truth, other = response.probability_of_truth, response.probability_of_each_other
        sums = self.sums.astype(np.float64)
        return unit_rows((truth - other) * sums + other * sums.sum(axis=0))

    def require_other_rows(self, x: Any, *, first_row: int = 0) -> None:
        """As `PublicProjection.require_other_rows`. Errors count from `first_row`, the number of x's first row in the input."""
        require_other_rows("codebook", self.fitted_rows, x, first_row=first_row)

    def for_any_row(self) -> PublicCodebook:
        """The codebook without digests of its rows, for rows that may be among them, such as questions to a public index."""
        found = copy(self)
        object.__setattr__(found, "fitted_rows", None)
        return found

    def _stored(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in _ARRAYS}

    def _counts(self) -> dict[str, int]:
        return {"rows": self.rows}

    def __repr__(self) -> str:
        return f"PublicCodebook({len(self)} codes, dimension {self.dimension}, digest {self.digest[:12]})"

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> PublicCodebook:
        """The codebook that `save` wrote; ValueError where it is not such a file, or its digest is not that of its contents."""

        def made(stored: dict[str, Any]) -> PublicCodebook:
            return cls(stored["codes"], stored["sums"], int(stored["rows"]), FittedRows.stored(stored[FITTED_ROWS]))

        return load_npz(path, "codebook", FORMAT, (FITTED_ROWS, "rows", *_ARRAYS), made)


@dataclass(frozen=True, kw_only=True)
class CodebookResponse(Mechanism):
    """For every row its code by randomized response, decoded to a public unit row. Made by `PublicCodebook.mechanism`.

    Args:
        codebook: public.
        epsilon: > 0, of all rows of a person together; each answer gets epsilon / rows_per_person.
        dimension: d, that of the codebook.

    Guarantees:
        (epsilon, 0)-DP, exact as sampled: the code is a function of the row and of public data, whatever floating point makes of
        it; it is released by `RandomizedResponse`, and decoding sees the answer alone.

    Reference:
        docs/proofs/codebook.md; Kairouz, Oh, Viswanath (2016).
    """

    name = "codebook"
    law = "randomized_response"
    grade = "exact"
    directions_only = True
    in_jobs = True
    codebook: PublicCodebook = field(repr=False)
    epsilon: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.codebook, PublicCodebook):
            raise TypeError(f"codebook must be a PublicCodebook, got {validate.kind(self.codebook)}")
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
        return RandomizedResponse(epsilon=quotient_down(self.epsilon, self.rows_per_person), k=len(self.codebook))

    @cached_property
    def loss(self) -> PureDP:
        """Of all rows of a person together; a receipt has it for each."""
        variation = product_up(self.rows_per_person, response_variation(*self.response.law))
        return PureDP(epsilon=self.epsilon, total_variation=variation, adjacency=self.adjacency)

    @cached_property
    def table(self) -> Rows:
        """[k, d]: what is released for each answer."""
        table = self.codebook.decoded_codes(self.response)
        table.flags.writeable = False
        return table

    def shuffled(self, n: int) -> Shuffled:
        """Cost of one person's releases against an observer who sees only the shuffled releases of n people.

        Args:
            n: >= 1, how many people release by this mechanism in the batch. Only those count who follow the protocol.

        Guarantees:
            Those of `hushvec.accounting.Shuffled`, for one batch to which every person sends `rows_per_person` rows, under
            replacement of all rows of one person.

        Example:
            >>> import numpy as np
            >>> from hushvec.mechanisms import PublicCodebook
            >>> loss = PublicCodebook.of(np.eye(32, dtype=np.float32)).mechanism(8.0).shuffled(10**6)
            >>> round(loss.epsilon(1e-6), 3)
            0.304
        """
        return Shuffled(epsilon=self.epsilon, n=n)

    def log_densities(self, rows: Rows, centers: Rows) -> NDArray[np.float64]:
        """Return ln of the chance of each released row [m, d] behind each clean one [c, d], as [m, c].

        A row that stands for n codes has (n M + T - M) / 2^64 if the center's is one of them, else n M / 2^64.
        """
        released, place, count = np.unique(self.table, axis=0, return_inverse=True, return_counts=True)
        place = place.reshape(-1)
        known = {row.tobytes(): number for number, row in enumerate(released)}
        # a store or a narrower dtype may have rounded a row: the nearest one then
        answers = np.array([known.get(row.tobytes(), -1) for row in np.ascontiguousarray(rows, np.float32)], np.intp)
        for row in np.flatnonzero(answers < 0):
            answers[row] = np.square(released.astype(np.float64) - rows[row]).sum(axis=1).argmin()
        truth, other = self.response.probability_of_truth, self.response.probability_of_each_other
        hit = answers[:, None] == place[self.codebook.encode(centers)]
        return np.asarray(np.log(count[answers][:, None] * other + hit * (truth - other)))

    def expected_cosine(self, norm: float | None = None) -> float:
        """About the cosine between a row that the codebook was made from and its release, whatever the norm."""
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
        self.require_other_rows(x.values if isinstance(x, CheckedRows) else x)

    def require_other_rows(self, x: Any, *, first_row: int = 0) -> None:
        self.codebook.require_other_rows(x, first_row=first_row)

    def further_parameters(self) -> dict[str, str]:
        table = np.ascontiguousarray(self.table, "<f4")
        return {"codebook": self.codebook.digest, "table": hashlib.sha256(table.tobytes()).hexdigest()}

    def release_keyed(self, x: Any, out: Any, keys: RowKeys, *, half_words: bool) -> None:
        content = x.copy()  # read once, so that key and code come from one read
        self.require_other_rows(content)
        codes = np.asarray(self.codebook.encode(content), np.int32)
        answers = np.empty_like(codes)
        for place, row in enumerate(content):
            one = codes[place : place + 1]
            source = keys.of_row(place, row.tobytes() + one.astype("<i4").tobytes())
            answers[place] = _core.randomized_response(one, len(self.codebook), self.response.law, source)[0]
        out[...] = self.table[answers].astype(x.dtype)

    def _release(self, x: Any, out: Any, source: _core.Generator, out_is_fresh: bool) -> Any:
        answers = self.response.respond(self.codebook.encode(x), generator=source)
        if arrays.on_cuda(x):
            out = arrays.empty_like(x) if out is None else out
            with arrays.device_scope(x):
                out[...] = copy_on_device(self, "table", self.table, x)[answers].reshape(tuple(x.shape))
            return out
        return result_of(self.table[answers].reshape(tuple(x.shape)), x, out)


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
            searched = held_out[:_MOST_SEARCHED]
            released = np.empty_like(searched)
            # the rows are public, so the seed is not secret
            given.mechanism(epsilon).apply(searched, released, _core.Generator.unsafe_seeded(seed))
            return found_share(searched, searched, released)
        return _expected_cosine(given, held_out, nearest_codes(held_out, given.codes), epsilon)

    count = best(tried_until_past(counts_up_to(len(seen)), score)).codes
    return count_for(len(rows), count, tried_on=len(seen))


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
    means = faiss.Kmeans(rows.shape[1], count, niter=_ROUNDS, seed=seed, spherical=True, min_points_per_centroid=1, verbose=False)
    means.train(rows)
    centers: Rows = unit_rows(means.centroids)
    return centers
