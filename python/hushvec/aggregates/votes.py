"""Answers by a noisy vote of the documents that a question concerns, each of which pays only for the votes that it casts."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import weakref
from collections.abc import Hashable
from dataclasses import asdict
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native.arrays import as_matrix
from hushvec._native.products import inner_products
from hushvec._native.rowwise import given_rows
from hushvec._util import os_files, validate
from hushvec._util.display import Sheet, number, plural, shown
from hushvec._util.publish import private_opener, published_bytes
from hushvec.aggregates.rows import unit
from hushvec.aggregates.spending import Spending, Terms, group_codes
from hushvec.budget import PrivacyBudget
from hushvec.extend import Budget, NotCopied, release_sheet
from hushvec.receipts import AggregateReceipt, LedgerEntry

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
        self._journal = None if journal is None else Path(journal)
        if self._journal is not None:
            self._unlock = weakref.finalize(self, os.close, _locked(self._journal))
        self._cast, self._lock = np.zeros(given.rows, np.int64), Lock()
        self._paid: dict[str, Any] = {"id": secrets.token_hex(16), "charged": False, "charge": None}
        is_new = not self._resumed()
        if budget is not None and (isinstance(budget, PrivacyBudget) or not self._paid["charged"]):
            self._spending.charge(f"votes-{self._paid['id']}")
            entry = self._spending.entry
            self._paid |= {"charged": True, "charge": None if entry is None else asdict(entry)}
        elif self._paid["charge"] is not None:
            self._spending.entry = LedgerEntry(**self._paid["charge"])
        if is_new or budget is not None:
            self._write()
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
        self._write()
        counts = self._spending.noisy_counts(np.bincount(self._codes[voting], minlength=len(self.labels)), self.noise)
        return self.labels[int(counts.argmax())] if counts.max() >= self.least_votes else None

    def _resumed(self) -> bool:
        """Whether there is a journal to go on from; its votes and its charge are then those of this object."""
        if self._journal is None or not self._journal.exists():
            return False
        try:
            with np.load(self._journal, allow_pickle=False) as stored:
                cast: NDArray[np.int64] = stored["cast"]
                same = str(stored["digest"]) == self._digest and cast.shape == (len(self._rows),) and cast.dtype == np.int64
                paid = json.loads(str(stored["paid"])) if "paid" in stored else self._paid  # of older ones it is not known
                made_as = paid.pop("file", None)
        except Exception as mistake:  # whatever the readers raise for a damaged archive
            raise ValueError(f"journal must be a file of PrivateVotes, got {self._journal}: {mistake}") from None
        if not same:
            raise ValueError(f"journal must be of these documents, labels and terms, got another one: {self._journal}")
        if made_as not in (None, self._journal.stat().st_ino):
            raise ValueError(f"journal must be the file that was written, got a copy, in which votes may be missing: {self._journal}")
        self._cast, self._paid = cast, paid
        return True

    def _write(self) -> None:
        if self._journal is not None:
            with published_bytes(self._journal) as file:
                paid = {**self._paid, "file": os.fstat(file.fileno()).st_ino}  # a copy has another number
                np.savez(file, cast=self._cast, digest=self._digest, paid=json.dumps(paid))

    @cached_property
    def _digest(self) -> str:
        """Of the documents in their order and the terms of their votes."""
        terms = f"{self.noise!r} {self.votes_per_document} {self.threshold!r} {self.labels!r} {self._rows.dtype} {self._rows.shape}"
        return hashlib.sha256(terms.encode() + self._rows.tobytes() + self._codes.tobytes()).hexdigest()

    def __repr__(self) -> str:
        return f"PrivateVotes({len(self.labels)} labels, noise={self.noise:.3g}, is_dp_claim={self.receipt.is_dp_claim})"

    def _sheet(self) -> Sheet:
        what = f"answers by votes; a label needs {number(self.least_votes)} noisy votes"
        return release_sheet(what, self.receipt)


def _locked(journal: Path) -> int:
    """A lock beside the journal, for as long as this descriptor is open."""
    descriptor = private_opener(f"{journal}.lock", os.O_WRONLY)
    try:
        os_files.lock(descriptor, wait=False)
    except BlockingIOError:
        os.close(descriptor)
        raise ValueError(f"journal must be in use by one PrivateVotes, got one that is in use already: {journal}") from None
    return descriptor


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
