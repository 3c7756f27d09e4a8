"""Answers by a noisy vote of the documents that a question concerns, each of which pays only for the votes that it casts."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Hashable
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.arrays import as_matrix
from hushvec._native.products import inner_products
from hushvec._native.rowwise import given_rows
from hushvec._util import validate
from hushvec._util.display import Sheet, number, plural, shown
from hushvec.aggregates.journals import Journal
from hushvec.aggregates.rows import unit
from hushvec.aggregates.spending import Spending, Terms, group_codes
from hushvec.extend import Budget, NotCopied, release_sheet
from hushvec.receipts import AggregateReceipt

_SURE = 2.0  # deviations above the largest of k noises, from which the most votes are an answer


@shown
class PrivateVotes(NotCopied):
    """Labels of questions, by votes of private documents that lie close to them.

    A document whose cosine with a question is at least `threshold` votes for its label; the label with the most noisy votes is the
    answer, or None where too few have voted. A document that has cast `votes_per_document` votes drops out; one that never votes
    pays nothing. So hundreds of questions are answered, if they concern different documents.

    Args:
        rows: float array [n, d]: one row of each document, and one document of each person.
        groups: the label of each document.
        labels: the public list of all labels, or k for 0 ... k - 1.
        threshold: of cosines, in (-1, 1); public.
        epsilon_per_document, delta: of everything that is ever answered, for the person of one document.
        votes_per_document: m, the most votes that a document casts; the noise of a count is sqrt(m) times that of one vote.
        noise: in place of votes_per_document, the standard deviation of a count's noise; the votes follow from it.
        adjacency: "add-remove" or "replace-one", as `hushvec.aggregates.Terms`.
        budget: charged (epsilon_per_document, delta) once, before the first answer can be given. A resumed journal asks it again
            under the same id, which a PrivacyBudget knows; any other budget is not charged twice.
        journal: a file that keeps how often each document has voted, and the charge, written before every answer: with it the
            guarantee holds over restarts. It is as private as the documents, and locked while it is in use. A copy of it is refused,
            as votes may be missing in it: never restore one. Without a journal a process that starts anew starts at the full budget
            again, and charges it again.
        generator: key stream; the process-wide one if None. A seeded one gives no privacy.

    Raises:
        ValueError: NaN or Inf in rows, a group that is not in labels, an argument out of range, an epsilon that does not pay for one
            vote with this noise, a journal of other documents or terms, a copy of one, or one in use; nothing is charged.
        TypeError: `copy` and `pickle` of the object, which would count votes twice.

    Guarantees:
        (epsilon_per_document, delta)-DP for one document against everyone who sees the answers and may choose each question in view
        of the answers before: a filter of individual losses, exact as sampled. `remaining` is for the holder alone. How long an
        answer takes does not depend on who votes, but on n.

    Reference:
        Feldman and Zrnic, "Individual Privacy Accounting via a Renyi Filter" (2021); Koskela, Tobaben, Honkela (2023), the same for
        Gaussian DP; Papernot et al. (2018), votes with a threshold; docs/proofs/aggregates.md, claim 9.

    Example:
        >>> import numpy as np
        >>> from hushvec.aggregates import PrivateVotes
        >>> rng = np.random.default_rng(0)
        >>> topics = rng.integers(0, 2, 2000)
        >>> rows = rng.normal(size=(2000, 8)) + 4 * np.eye(8)[topics]
        >>> votes = PrivateVotes(rows, topics, labels=2, threshold=0.5, epsilon_per_document=1.0, delta=1e-5)
        >>> votes.ask(np.eye(8)[1])
        1
    """

    def __init__(
        self,
        rows: Any,
        groups: Any,
        *,
        labels: Any,
        threshold: float,
        epsilon_per_document: float,
        delta: float,
        votes_per_document: int | None = None,
        noise: float | None = None,
        adjacency: str = "add-remove",
        budget: Budget | None = None,
        journal: str | os.PathLike[str] | None = None,
        generator: Any = None,
    ) -> None:
        given = given_rows("rows", rows, finite=True)
        self._codes, self.labels = group_codes(groups, labels, given.rows)
        self.threshold = validate.number("threshold", threshold)
        if not -1 < self.threshold < 1:
            raise ValueError(f"threshold must be > -1 and < 1, got {self.threshold!r}")
        terms = Terms(epsilon_per_document, delta, adjacency, budget=budget, generator=generator)
        self._spending = Spending(terms, f"votes for {plural(len(self.labels), 'label')}")
        self.votes_per_document = _votes(self._spending, votes_per_document, noise)
        self.noise = self._spending.counts("votes for each label", len(self.labels), None, repeats=self.votes_per_document)
        self._rows = unit(as_matrix(given.values))
        self._cast, self._lock = np.zeros(given.rows, np.int64), Lock()
        self._journal = Journal(journal, "PrivateVotes", "these documents, labels and terms", self._digest)
        found = self._journal.read("cast")
        if found is not None:
            (self._cast,) = found
        self._journal.charge(self._spending, budget, "votes")
        if found is None or budget is not None:
            self._journal.write(cast=self._cast)
        self.receipt: AggregateReceipt = self._spending.receipt(given.rows)

    @property
    def least_votes(self) -> float:
        """From so many noisy votes on a label is an answer: two deviations above the largest of k noises."""
        return self.noise * (math.sqrt(2 * math.log(len(self.labels))) + _SURE)

    def ask(self, question: Any) -> Any:
        """Return the label of one question [d], or None. Documents near it have voted once more, whatever the answer.

        ValueError for NaN or Inf or another number of columns: nobody has voted then. RuntimeError in a child process, which would
        count votes twice.
        """
        return self.ask_all(np.asarray(question)[None] if getattr(question, "ndim", 1) == 1 else question)[0]

    def ask_all(self, questions: Any) -> list[Hashable | None]:
        """The labels of questions [q, d], one after the other."""
        given = given_rows("questions", questions, finite=True)
        if given.dimension != self._rows.shape[1]:
            raise ValueError(f"questions must have {self._rows.shape[1]} columns, got {given.dimension}")
        self.require_own_process()
        directions = unit(as_matrix(given.values)).astype(self._rows.dtype)
        with self._lock:
            return [self._answer(direction) for direction in directions]

    def remaining(self) -> NDArray[np.int64]:
        """How many votes each document has left, int64 [n]. For the holder of the documents alone: it is not private."""
        return self.votes_per_document - self._cast

    def _answer(self, direction: NDArray[Any]) -> Hashable | None:
        near = inner_products(self._rows, direction[None])[:, 0] >= self.threshold
        voting = near & (self._cast < self.votes_per_document)
        self._cast += voting
        self._journal.write(cast=self._cast)
        counts = self._spending.noisy_counts(np.bincount(self._codes[voting], minlength=len(self.labels)), self.noise)
        return self.labels[int(counts.argmax())] if counts.max() >= self.least_votes else None

    @property
    def _digest(self) -> str:
        """Of the documents in their order and the terms of their votes."""
        terms = f"{self.noise!r} {self.votes_per_document} {self.threshold!r} {self.labels!r} {self._rows.dtype} {self._rows.shape}"
        return hashlib.sha256(terms.encode() + self._rows.tobytes() + self._codes.tobytes()).hexdigest()

    def __repr__(self) -> str:
        return f"PrivateVotes({len(self.labels)} labels, noise={self.noise:.3g}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        what = f"answers by votes; a label needs {number(self.least_votes)} noisy votes"
        return release_sheet(what, self.receipt)


def _votes(spending: Spending, votes: int | None, noise: float | None) -> int:
    """How many votes a document may cast."""
    if noise is None:
        return 16 if votes is None else validate.whole_number("votes_per_document", votes, at_least=1)
    if votes is not None:
        raise TypeError("votes_per_document and noise must not both be given: one follows from the other")
    one = spending.noise_multiplier * (math.sqrt(2) if spending.replaces else 1)
    found = int((validate.positive("noise", noise) / one) ** 2 * (1 + 1e-6))
    if found < 1:
        raise ValueError(f"noise must be at least {one:.6g} for one vote at this epsilon and delta, got {noise!r}")
    return found
