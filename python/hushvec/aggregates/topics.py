"""What many people's rows are about: votes for clusters of public rows, counted with exact noise; and what grew between periods."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.arrays import as_matrix
from hushvec._native.products import inner_products
from hushvec._native.rowwise import given_rows
from hushvec._util import validate
from hushvec._util.display import Sheet, number, plural, share, shown
from hushvec._util.statistics import adjusted, norm_sf
from hushvec.aggregates.rows import PrivateRows, unit
from hushvec.aggregates.spending import Terms
from hushvec.aggregates.totals import blocks
from hushvec.extend import release_sheet
from hushvec.mechanisms import nearest_codes, unit_public_rows
from hushvec.receipts import AggregateReceipt

_Rows = NDArray[np.float32]
_Values = NDArray[np.float64]

AUTO, UNCOVERED = "auto", "uncovered"
UNLIKE = 0.05  # of pool rows, the share that is less like its nearest other one than a row must be to count as covered
_EXAMPLES, _MOST_TOPICS, _SHOWN = 5, 200, 30
_ROUNDS, _MOST_MERGED = 25, 4096  # of k-means, and rows from whose groups it starts
_FORMAT = "hushvec topics 1"


@dataclass(frozen=True, eq=False)
class PublicTopics:
    """Clusters of public rows, for which private rows vote. Made by `fit`; periods that are compared need the same.

    Args:
        centers, pool: float32 [k, d] and [m, d], rows of unit length; of pool rows that are equal only the first is kept.
        threshold: the cosine with its nearest pool row from which a row is covered; a function of the pool alone.
        examples: of each topic the texts of the pool rows nearest to its center, or their numbers, the nearest first.
    """

    centers: _Rows
    pool: _Rows
    threshold: float
    examples: tuple[tuple[str, ...], ...]

    @classmethod
    def fit(cls, pool: Any, *, texts: Sequence[str] | None = None, topics: int | str = AUTO) -> PublicTopics:
        """Spherical k-means of public rows, which starts at Ward's groups and has no chance in it.

        Args:
            pool: float array [m, d] of public rows of the kind that people have, never theirs; at least 3 different, none of zeros.
            texts: their m public texts, for examples.
            topics: k, from 2 to the number of different rows, at most 4,096. "auto": 1.5 sqrt(m), at most 200.
        """
        given = unit_public_rows(pool, "pool")
        names = [f"row {row}" for row in range(len(given))] if texts is None else texts_of_pool(texts, len(given))
        # a row that is there twice would be its own nearest other
        first = np.sort(np.unique(given, axis=0, return_index=True)[1])
        rows = given[first]
        if len(rows) < 3:
            raise ValueError(f"pool must have at least 3 different rows, got {len(rows)}")
        if isinstance(topics, str):
            validate.choice("topics", topics, (AUTO,))
            topics = min(max(2, round(1.5 * math.sqrt(len(rows)))), len(rows), _MOST_TOPICS)
        count = validate.whole_number("topics", topics, at_least=2, at_most=min(len(rows), _MOST_MERGED))
        centers = _centers(rows, count)
        cosines = inner_products(rows, centers)
        cosines[cosines.argmax(axis=1)[:, None] != np.arange(len(centers))] = -np.inf  # examples of a topic are of its own rows
        places = np.argsort(-cosines, axis=0, kind="stable")[:_EXAMPLES]
        examples = [[names[first[row]] for row in places[:, code] if cosines[row, code] > -2] for code in range(len(centers))]
        # of a row's cosines with all rows the largest is its own
        near = [np.partition(inner_products(block, rows), -2, axis=1)[:, -2] for block in blocks(rows, len(rows))]
        return cls(centers, rows, float(np.quantile(np.concatenate(near), UNLIKE)), tuple(map(tuple, examples)))

    @property
    def digest(self) -> str:
        """SHA-256 of all of it."""
        content = hashlib.sha256(f"{self.centers.shape} {self.threshold!r} {json.dumps(self.examples)}".encode())
        content.update(self.centers.tobytes() + self.pool.tobytes())
        return content.hexdigest()

    def votes(self, rows: Any) -> NDArray[np.int64]:
        """The number of each row's topic, int64 [n]; k for uncovered. For the holder of the rows alone: it is not private."""
        given = given_rows("rows", rows, finite=True)
        require_columns_of_pool(given.dimension, self.pool)
        matrix = as_matrix(given.values)
        found = [np.empty(0, np.int64)]
        for block in blocks(matrix, len(self.pool)):
            turned = unit(block).astype(np.float32, copy=False)
            nearest, covered = nearest_codes(turned, self.centers), np.zeros(len(turned), np.bool_)
            for code in np.unique(nearest):  # most rows are covered by pool rows of their topic, and need no others
                some = np.flatnonzero(nearest == code)
                covered[some] = self._covers(turned[some], self.pool[self._own == code])
            rest = np.flatnonzero(~covered)
            covered[rest] = self._covers(turned[rest], self.pool)
            found.append(np.where(covered, nearest, len(self.centers)))
        return np.concatenate(found)

    @cached_property
    def _own(self) -> NDArray[np.int32]:
        return nearest_codes(self.pool, self.centers)

    def _covers(self, rows: _Rows, pool: _Rows) -> NDArray[np.bool_]:
        return np.asarray((inner_products(rows, pool) >= self.threshold).any(axis=1))


@shown
@dataclass(frozen=True)
class TopicGrowth:
    """The result of `PrivateTopics.growth`. `print` shows what grew most and what fell most.

    Args:
        difference: float64 [k + 1]: the later share less the earlier one, of each topic, then of uncovered rows.
        standard_error: where nothing has grown, with the noise of both releases and both samples of people.
        p_values: two-sided, that nothing has grown among those whom both periods are samples of; Holm's correction over all.
        order: int64 [k + 1]: topics by difference in standard errors, the largest growth first.
        names: as `PrivateTopics.names`.
    """

    difference: _Values
    standard_error: _Values
    p_values: _Values
    order: NDArray[np.int64]
    names: tuple[str, ...]

    def __repr__(self) -> str:
        return f"TopicGrowth({len(self.names)} topics, first {self.names[self.order[0]]!r})"

    def cells(self, most: int) -> list[tuple[str, ...]]:
        """What to show of the topics that grew most and fell most: name, difference, error and p-value."""
        ends = [*self.order[: most // 2], *self.order[most // 2 :][-(most // 2) :]]
        points = ((100 * self.difference[one], 100 * self.standard_error[one]) for one in ends)
        numbers = [(f"{grown:+.2f} points", f"± {error:.2f}") for grown, error in points]
        return [(self.names[one], *two, f"{self.p_values[one]:.2g}") for one, two in zip(ends, numbers)]

    def _sheet(self) -> Sheet:
        said = "two-sided, by Holm over all topics; the standard error has the noise of both and both samples of people"
        return Sheet("what grew, and what fell", (("p", said),), (), (("topic", "growth", "error", "p"), *self.cells(_SHOWN)))


@shown
@dataclass(frozen=True)
class PrivateTopics:
    """The result of `private_topics`. `print` shows the topics by size, and the receipt in words.

    Args:
        counts: float64 [k + 1]: rows that voted for each topic, then uncovered ones, plus noise, hence perhaps negative.
        sigma: standard deviation of the noise of every count.
        examples, threshold: as `PublicTopics` has them.
        pool: `PublicTopics.digest`.
        receipt: the guarantee.
        series, noise: of a report of `TopicPeriods`, which series it is of, and how much of each of its draws the noise has.
    """

    counts: _Values
    sigma: float
    examples: tuple[tuple[str, ...], ...]
    threshold: float
    pool: str
    receipt: AggregateReceipt
    series: str = ""
    noise: tuple[float, ...] = ()

    @property
    def total(self) -> float:
        """The sum of all counts, with their noise; at least 1."""
        return max(1.0, float(self.counts.sum()))

    @property
    def shares(self) -> _Values:
        """Counts over their sum. That of a topic that nobody has may be below 0."""
        return self.counts / self.total

    @property
    def names(self) -> tuple[str, ...]:
        """The first example of each topic, cut where it is long, and "uncovered"."""
        return (*(text if len(text) <= 80 else f"{text[:77]}..." for text, *_ in self.examples), UNCOVERED)

    def intervals(self, confidence: float = 0.95) -> _Values:
        """float64 [k + 1, 2]: between them is the exact share of the rows that were counted, for each topic with this probability.

        By the law of the noise (Fieller's interval of a ratio). It says nothing about other people, as errors of a sample would.
        """
        limit = NormalDist().inv_cdf((1 + validate.probability("confidence", confidence)) / 2)
        square, kinds, total = (limit * self.sigma) ** 2, len(self.counts), float(self.counts.sum())
        # count - share * total is normal: at the exact share p its variance is sigma^2 (1 - 2 p + (k + 1) p^2)
        leading, middle = total**2 - square * kinds, self.counts * total - square
        if leading <= 0 or total <= 0:  # too few rows for this noise
            return np.tile([0.0, 1.0], (kinds, 1))
        root = np.sqrt(np.maximum(middle**2 - leading * (self.counts**2 - square), 0))
        return np.clip(np.stack([middle - root, middle + root], axis=1) / leading, 0.0, 1.0)

    def growth(self, earlier: PrivateTopics) -> TopicGrowth:
        """What has grown since an earlier release with the same pool: post-processing, which costs nothing.

        The test takes both periods for random samples of people; it is milder where people are in both. ValueError: another pool.
        """
        validate.instance("earlier", earlier, PrivateTopics, "a PrivateTopics")
        if earlier.pool != self.pool:
            raise ValueError(
                f"earlier must have the pool {self.pool:.16}..., that of the later result, got {earlier.pool:.16}..."
            )
        common = np.clip((earlier.counts + self.counts + 1) / (earlier.total + self.total), 0.0, 1.0)
        of_noise = 1 - 2 * common + len(common) * common**2
        square = np.zeros(len(common))
        for one in (earlier, self):  # all rows of a person may be about one topic
            of_sample = common * (1 - common) * one.receipt.rows_per_person / one.total
            square += (one.sigma / one.total) ** 2 * of_noise + of_sample
        if self.series and self.series == earlier.series:
            shared = math.fsum(one * other for one, other in zip(self.noise, earlier.noise))
            square -= 2 * shared / (self.total * earlier.total) * of_noise
        difference, error = self.shares - earlier.shares, np.sqrt(square)
        p_values = np.array([2 * norm_sf(abs(score)) for score in (difference / error).tolist()])
        order = np.argsort(-difference / error, kind="stable")
        return TopicGrowth(difference, error, adjusted(p_values, "holm"), order, self.names)

    def to_json(self) -> str:
        """All of it, for `from_json`."""
        return json.dumps({"format": _FORMAT, **asdict(self), "counts": self.counts.tolist(), "receipt": self.receipt.to_dict()})

    @classmethod
    def from_json(cls, text: str) -> PrivateTopics:
        """What `to_json` wrote. ValueError for anything else."""
        try:
            found = json.loads(text)
            validate.choice("format", found.pop("format"), (_FORMAT,))
            counts, examples = np.array(found.pop("counts"), np.float64), tuple(map(tuple, found.pop("examples")))
            receipt, noise = AggregateReceipt.from_dict(found.pop("receipt")), tuple(map(float, found.pop("noise")))
            made = cls(counts=counts, examples=examples, receipt=receipt, noise=noise, **found)
            if counts.shape != (len(examples) + 1,) or not np.isfinite(counts).all() or not all(examples) or not made.sigma > 0:
                raise ValueError("each topic must have a finite count and an example")
        except (AttributeError, KeyError, TypeError, ValueError) as mistake:
            raise ValueError(f"text must be of PrivateTopics.to_json, got {text!r:.40}: {mistake}") from None
        return made

    def __repr__(self) -> str:
        return f"PrivateTopics({len(self.examples)} topics, sigma={self.sigma:.3g}, is_dp_claim={self.receipt.is_dp_claim})"

    def order(self) -> list[int]:
        """Topics by their counts, the largest first, then uncovered rows."""
        return [*np.argsort(-self.counts[:-1], kind="stable").tolist(), len(self.examples)]

    def _sheet(self) -> Sheet:
        ends, shares = self.intervals(), np.maximum(self.shares, 0).tolist()
        cells = [(self.names[one], share(shares[one]), f"{share(ends[one, 0])} to {share(ends[one, 1])}") for one in self.order()]
        shown = cells if len(cells) <= _SHOWN else [*cells[: _SHOWN - 1], cells[-1]]
        sheet = release_sheet(f"votes for {plural(len(self.examples), 'topic')}", self.receipt)
        said = (
            f"no public row has a cosine of {number(self.threshold)} with them; {share(UNLIKE)} if people write as the pool does"
        )
        return sheet._replace(facts=((UNCOVERED, said), *sheet.facts), table=(("topic", "share", "95 %, of noise"), *shown))


def private_topics(
    rows: Any,
    *,
    pool: Any,
    texts: Sequence[str] | None = None,
    topics: int | str = AUTO,
    epsilon: float,
    delta: float,
    **terms: Any,
) -> PrivateTopics:
    """How many of many people's rows are about each of some public topics.

    Args:
        rows: float array [n, d]; only directions count.
        pool: public rows [m, d] of which topics are made, or `PublicTopics`; texts and topics: as `PublicTopics.fit`.
        epsilon, delta, and in `terms` adjacency, people, rows_per_person, budget, generator: `hushvec.aggregates.Terms`.

    Guarantees:
        As `private_histogram` of votes, of which everything else is post-processing. A row votes once, for the topic with the
        nearest center, or for "uncovered" if no pool row has a cosine of the threshold with it: as this row and the pool say,
        no other row. ValueError for NaN or Inf in rows; nothing is charged.

    Reference:
        docs/proofs/aggregates.md, claim 2.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import private_topics
        >>> rng = np.random.default_rng(0)
        >>> around = lambda codes: np.eye(8)[codes] + 0.1 * rng.normal(size=(len(codes), 8))
        >>> found = private_topics(around([0] * 900 + [1] * 100), pool=around([0, 1, 2] * 50), topics=3, epsilon=1.0, delta=1e-5)
        >>> bool(0.7 < found.shares[:-1].max() < 0.95)
        True
    """
    if isinstance(pool, PublicTopics) and (texts is not None or topics != AUTO):
        raise TypeError("texts and topics must not be given with PublicTopics, which have their own")
    given = PrivateRows(rows, Terms(epsilon, delta, **terms), "topics")
    public = pool if isinstance(pool, PublicTopics) else PublicTopics.fit(pool, texts=texts, topics=topics)
    return votes_of(given, public)


def votes_of(given: PrivateRows, pool: PublicTopics) -> PrivateTopics:
    """As `private_topics`, for all that is left to spend."""
    counts = given.total(partial(tally, pool=pool))
    sigma = given.spending.counts("votes for topics", len(counts), None)
    given.spending.charge()
    released = given.spending.noisy_counts(counts, sigma)
    return PrivateTopics(released, sigma, pool.examples, pool.threshold, pool.digest, given.spending.receipt(given.count))


def tally(rows: Any, codes: Any, *, pool: PublicTopics) -> NDArray[np.int64]:
    """How many of these rows vote for each topic, then of uncovered ones."""
    return np.bincount(pool.votes(rows), minlength=len(pool.centers) + 1)


def texts_of_pool(texts: Any, rows: int) -> Sequence[str]:
    """ValueError unless there is one for each row of the pool."""
    given = validate.strings("texts", texts)
    if len(given) != rows:
        raise ValueError(f"texts must have {rows} elements, one for each row of pool, got {len(given)}")
    return given


def require_columns_of_pool(columns: int, pool: _Rows) -> None:
    """ValueError for rows of other columns than the pool."""
    if columns != pool.shape[1]:
        raise ValueError(f"rows must have {pool.shape[1]} columns, those of pool, got {columns}")


def _centers(rows: _Rows, count: int) -> _Rows:
    """Centers of a spherical k-means that starts at the groups of `_merged`, without empty cells."""
    start = rows[np.linspace(0, len(rows) - 1, min(len(rows), _MOST_MERGED)).astype(np.int64)]
    groups = _merged(start, count)
    centers = np.stack([start[groups == one].sum(axis=0, dtype=np.float64) for one in np.unique(groups)])
    for _ in range(_ROUNDS):
        lengths = np.linalg.norm(centers, axis=1, keepdims=True)
        turned = (centers / np.maximum(lengths, 1e-30)).astype(np.float32)
        own = nearest_codes(rows, turned)
        centers = np.zeros(centers.shape)
        np.add.at(centers, own, rows)
        centers = np.where(np.bincount(own, minlength=len(centers))[:, None] > 0, centers, turned)
    found: _Rows = turned[np.unique(own)]
    return found


def _merged(rows: _Rows, count: int) -> NDArray[np.int64]:
    """The group of each row: Ward's merges (1963) until so many are left, along chains of nearest neighbors (Murtagh, 1983)."""
    far = 1.0 - inner_products(rows, rows).astype(np.float64)
    np.fill_diagonal(far, np.inf)
    merges: list[tuple[float, int, int]] = []
    size, chain = np.ones(len(rows)), [0]
    while len(merges) < len(rows) - 1:
        here = chain[-1] if chain else int(np.flatnonzero(size)[0])
        chain = chain or [here]
        near = int(far[here].argmin())
        if len(chain) < 2 or far[here, near] < far[here, chain[-2]]:
            chain.append(near)
            continue
        one, other = chain.pop(), chain.pop()
        merges.append((far[one, other], one, other))
        total = size[one] + size[other] + size
        joined = ((size[one] + size) * far[one] + (size[other] + size) * far[other] - size * far[one, other]) / total
        joined[size == 0] = joined[[one, other]] = np.inf
        far[other], far[:, other] = joined, joined
        far[one], far[:, one] = np.inf, np.inf
        size[other], size[one] = size[one] + size[other], 0.0
    groups = np.arange(len(rows))
    for _, one, other in sorted(merges, key=lambda merge: merge[0])[: len(rows) - count]:
        groups[groups == groups[one]] = groups[other]
    return groups
