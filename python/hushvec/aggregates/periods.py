"""Topics of many periods with one guarantee for a person in all of them, and noise that goes away in totals of many periods."""

from __future__ import annotations

import hashlib
import json
import math
import os
from fractions import Fraction
from functools import partial
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec._util.rounding import float32_up, root_up
from hushvec.aggregates.journals import Journal
from hushvec.aggregates.rows import PrivateRows, RowsInParts
from hushvec.aggregates.spending import People, Spending, Terms
from hushvec.aggregates.topics import PrivateTopics, PublicTopics, tally
from hushvec.aggregates.totals import chosen
from hushvec.extend import NotCopied
from hushvec.receipts import AggregateReceipt

_MOST_PERIODS = 1024
_FINE = 1 << 12  # of the whole numbers that mix counts


class TopicPeriods(NotCopied):
    """Reports of what people write about, one a period, of which all together cost each person epsilon once.

    A person has at most `rows_per_person` rows in all periods together. What is drawn in a period is a mixture of its counts with
    those of all before, so that the noise of a total over n periods grows with log n, not with the root of n: after 52 weeks it is
    a third of that of independent reports with the same guarantee. That of one week alone is 1.5 to 1.7 times as large.

    Args:
        pool: `PublicTopics`, the same in all periods.
        periods: n, how many there will be at most, up to 1,024.
        epsilon, delta, adjacency, generator: as in `Terms`.
        rows_per_person: the most rows of one person in all periods together. With `with_people` the first ones enter.
        with_people: whether every report is given ids of people. Without, rows_per_person is your word.
        budget: charged once, before the first draw.
        journal: a file that keeps exact counts, ids and reports, written before a report is returned; it goes on from there after a
            restart. As private as the rows. A copy is refused: a period that is drawn twice costs twice.

    Guarantees:
        (epsilon, delta)-DP for one person with all rows of all periods, whatever is asked of the reports, and although later rows may
        depend on earlier reports. Each mixture is a sum of rows times whole numbers, of which a row's are of length 1 in all periods
        together; noise is exact.

    Reference:
        Fichtenberger, Henzinger, Upadhyay (2023), "Constant matters": the square root of prefix sums. Denisov, McMahan, Rush, Smith,
        Thakurta (2022), theorem 2.1: streams that depend on earlier releases. docs/proofs/aggregates.md, claim 10.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import PublicTopics, TopicPeriods
        >>> pool = PublicTopics.fit(np.eye(8)[[0, 1, 2] * 20] + 0.01 * np.arange(60)[:, None] ** 0.5, topics=2)
        >>> weeks = TopicPeriods(pool, 52, epsilon=1.0, delta=1e-5)
        >>> first, second = weeks.report(np.eye(8)[:5]), weeks.report(np.eye(8)[:5])
        >>> weeks.between(1, 2).sigma < 1.5 * first.sigma
        True
    """

    def __init__(
        self,
        pool: PublicTopics,
        periods: int,
        *,
        epsilon: float,
        delta: float,
        adjacency: str = "add-remove",
        rows_per_person: int = 1,
        with_people: bool = False,
        budget: Any = None,
        journal: str | os.PathLike[str] | None = None,
        generator: Any = None,
    ) -> None:
        self.pool = validate.instance("pool", pool, PublicTopics, "a PublicTopics")
        self.periods = validate.whole_number("periods", periods, at_least=1, at_most=_MOST_PERIODS)
        with_people = validate.flag("with_people", with_people)
        self._terms = Terms(epsilon, delta, adjacency, () if with_people else None, rows_per_person, budget, generator)
        self._spending = Spending(self._terms, f"topics of {self.periods} periods")
        self._people = People(self._spending.rows_per_person) if with_people else None
        kinds = len(pool.centers) + 1
        # coefficients of (1 - x)^(-1/2), a square root of prefix sums, cut to whole numbers
        self._mixing = [math.comb(2 * k, k) * _FINE // 4**k for k in range(self.periods)]
        square = sum(one * one for one in self._mixing)
        of_counts = self._spending.counts(f"votes for topics, mixed over {self.periods} periods", kinds * self.periods, None)
        self._sigma = float(float32_up(Fraction(root_up(Fraction(of_counts) ** 2 * square))))
        self._exact, self._drawn = np.zeros((0, kinds), np.int64), np.zeros((0, kinds))
        self._journal, self._lock = Journal(journal, "TopicPeriods", "this pool and these terms", self._digest()), Lock()
        if (found := self._journal.read("exact", "drawn", "people")) is not None:
            self._exact, self._drawn, people = found
            if self._people is not None:
                self._people.seen = dict(json.loads(str(people)))
        self._journal.charge(self._spending, budget, "topics")
        self._keep(self._exact, self._drawn)

    def report(self, rows: Any, people: Any = None) -> PrivateTopics:
        """The topics of the next period's rows, float array [n, d], or `RowsInParts` without people.

        Args:
            people: ids [n] of whose they are, if `with_people`.

        ValueError for what `private_topics` refuses, and after the last period: nothing has been drawn then.
        """
        self.require_own_process()
        with self._lock:
            if len(self._exact) == self.periods:
                raise ValueError(f"report must be called at most {self.periods} times, once a period")
            if (people is None) != (self._people is None):
                raise ValueError(f"people must be {'given' if people is None else 'left out'} in every period, as at the start")
            exact = np.vstack([self._exact, self._counted(rows, people)])
            mixed = np.array(self._mixing[: len(exact)][::-1], np.int64) @ exact
            self._keep(exact, np.vstack([self._drawn, self._spending.noisy_counts(mixed, self._sigma)]))
            return self.between(len(exact), len(exact))

    def between(self, first: int, last: int) -> PrivateTopics:
        """The topics of periods first to last together, counted from 1: post-processing, which costs nothing."""
        reported = len(self._drawn)
        begin = validate.whole_number("first", first, at_least=1)
        if not begin <= validate.whole_number("last", last, at_least=1) <= reported:
            raise ValueError(f"first and last must be periods in order, up to the {reported} reported, got {first} and {last}")
        mixing = np.array(self._mixing[:reported], np.float64)
        lower = np.tril(mixing[np.abs(np.subtract.outer(np.arange(reported), np.arange(reported)))])
        wanted = np.zeros(reported)
        wanted[begin - 1 : last] = 1
        weights = np.linalg.solve(lower.T, wanted)
        pool, noise = self.pool, self._sigma * weights
        return PrivateTopics(
            weights @ self._drawn, float(np.linalg.norm(noise)), pool.examples, pool.threshold, pool.digest, self.receipt,
            self._journal.id, tuple(noise.tolist()),
        )  # fmt: skip

    @property
    def receipt(self) -> AggregateReceipt:
        """The guarantee of all periods together. It does not say how many rows there are: of one period that is private."""
        return self._spending.receipt(None)

    def _counted(self, rows: Any, people: Any) -> NDArray[np.int64]:
        if isinstance(rows, RowsInParts) and (rows.with_people or self._people is not None):
            raise TypeError("rows must be an array with people, whose rows are counted over all periods; got RowsInParts")
        given = PrivateRows(rows, self._terms._replace(people=None, budget=None), "")
        if self._people is not None:
            given.rows = chosen(given.rows, self._people.kept(people, len(given.rows)))
        return given.total(partial(tally, pool=self.pool))

    def _keep(self, exact: NDArray[np.int64], drawn: NDArray[np.float64]) -> None:
        """Before a report is known, so that no period is drawn again."""
        seen = [] if self._people is None else list(self._people.after().items())
        self._journal.write(exact=exact, drawn=drawn, people=json.dumps(seen))
        self._exact, self._drawn = exact, drawn
        if self._people is not None:
            self._people.commit()

    def _digest(self) -> str:
        terms = (self.periods, *self._terms[:3], self._terms.rows_per_person, self._people is not None)
        return hashlib.sha256(f"{self.pool.digest} {terms!r}".encode()).hexdigest()

    def __repr__(self) -> str:
        return f"TopicPeriods({len(self._drawn)} of {self.periods} reported, is_dp_claim={self.receipt.is_dp_claim})"
