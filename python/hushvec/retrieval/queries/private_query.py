"""`PrivateQuery`: search public documents without revealing the question."""

from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.retrieval.queries.question import (  # isort: skip
    Answer, Asked, AskedQuestions, Candidates, Holder, Question, candidates, ranked, unit,
)
from hushvec._native import _core, arrays, rowwise
from hushvec._native.kernels import require_generator
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec.extend import Budget, require_budget, require_secret_key
from hushvec.mechanisms import PublicCodebook
from hushvec.mechanisms.codebook import Tried
from hushvec.release import privatize
from hushvec.retrieval.index.prepared import as_rows, require_rows
from hushvec.retrieval.index.private_index import PrivateIndex
from hushvec.retrieval.queries.choice import best_of

Rows = NDArray[np.float32]


class PrivateQuery:
    """Private questions to a server of public documents (the holder): the client sends a private row and ranks what comes back.

    The client finds the nearest code of a public codebook and releases it by randomized response; where no codebook serves better, it
    releases a PrivUnit direction. The server answers with the `fetch` documents nearest to that row. The client ranks them with the
    clean query, which is never sent: the ranking costs no privacy, only the bandwidth of `fetch` documents.

    Args:
        public: float array [n, d], numpy or torch: rows of the public documents that are searched, or of public documents like them,
            n >= 32. Or a PublicCodebook made before: `query.codebook.save(path)`.
        epsilon: > 0, of one question, with delta = 0.
        fetch: w, how many documents the server sends for a question.
        questions: float array [m, d]: **public** rows like the questions that will be asked (titles, published queries), for choosing
            the number of codes; None uses held-out public documents.
        budget: charged epsilon for every question that is released.
        memo: file that keeps asked questions and their answers for the next process; None keeps them in memory. It is as secret as
            the questions; only its owner can read it. For one process at a time: what another one adds later is not seen.
        generator: as for `PrivateIndex`.
        seed: of the codebook and its choice; not secret. Both need FAISS (extra `faiss`).

    Guarantees:
        Each released row is (epsilon, 0)-DP under replace-one of the question (local model: only the client sees the question);
        questions of one person add up, and the budget sums them. An answered question is answered again from the client's own copy:
        nothing is sent or charged. Not covered: who asks, how many questions and when, which document is opened afterwards, and
        that a question is sent again before it had an answer. Documents are public and not protected.

    Edge cases:
        Use one `PrivateQuery` per index; cached answers are not refreshed. Two rows that differ in any bit are two questions. Two
        processes that ask the same question with one memo release it twice, and are charged twice.

    Reference:
        docs/retrieval.md, "Private questions"; docs/proofs/codebook.md. Randomized response: Kairouz, Oh, Viswanath, "Extremal
        mechanisms for local differential privacy" (2016). PrivUnit: Asi, Feldman, Talwar, "Optimal algorithms for mean estimation
        under local differential privacy" (2022).

    Example:
        >>> import numpy as np
        >>> from hushvec.retrieval import PrivateIndex, PrivateQuery
        >>> documents = np.random.default_rng(0).standard_normal((200, 16)).astype(np.float32)
        >>> index = PrivateIndex(16, store="numpy")     # at the server; documents without noise
        >>> index.add(documents)
        >>> client = PrivateQuery(documents, epsilon=8.0, fetch=50)
        >>> answer = client.search(documents[7], index, k=5)
        >>> answer.ids.shape, answer.released.fetch, answer.receipt.epsilon
        ((5,), 50, 8.0)
    """

    def __init__(
        self, public: Any, *, epsilon: float = 8.0, fetch: int = 50, questions: Any = None, budget: Budget | None = None,
        memo: str | os.PathLike[str] | None = None, generator: _core.Generator | None = None, seed: int = 0,
    ) -> None:
        self._epsilon = validate.positive("epsilon", epsilon)
        self._fetch = validate.whole_number("fetch", fetch, at_least=1)
        self._budget, self._generator = budget, require_generator(generator)
        if budget is not None:
            require_budget(budget)
            require_secret_key(self._generator)
        if isinstance(public, PublicCodebook):
            if questions is not None:
                raise ValueError("questions must be None with a codebook, whose number of codes is chosen already")
            self._codebook: PublicCodebook | None = public
            self._tried: tuple[Tried, ...] = ()
            self._mechanism: Any = public.mechanism(self._epsilon)
        else:
            self._mechanism, self._tried = best_of(
                public, questions, epsilon=self._epsilon, fetch=self._fetch, seed=validate.whole_number("seed", seed, at_least=0)
            )
            self._codebook = getattr(self._mechanism, "codebook", None)
        if self._codebook is not None:
            self._mechanism = self._codebook.for_any_row().mechanism(self._epsilon)
        book = "privunit" if self._codebook is None else self._codebook.digest
        whose = f"{book} {self._epsilon!r} {self._fetch} {self.dimension}"  # what answers depend on
        self._asked = AskedQuestions(memo, hashlib.sha256(whose.encode()).hexdigest())

    # ---- what it is ----

    @property
    def codebook(self) -> PublicCodebook | None:
        """The public codebook; None if questions are released as PrivUnit directions."""
        return self._codebook

    @property
    def mechanism(self) -> Any:
        """The mechanism that releases a question."""
        return self._mechanism

    @property
    def dimension(self) -> int:
        """d of the questions."""
        return int(self._mechanism.dimension)

    @property
    def fetch(self) -> int:
        """w, documents fetched per question."""
        return self._fetch

    @property
    def tried(self) -> tuple[Tried, ...]:
        """The numbers of codes that were tried, with the share of the wanted gain that simulated questions get."""
        return self._tried

    def __repr__(self) -> str:
        codes = "PrivUnit" if self._codebook is None else f"{len(self._codebook)} codes"
        return f"PrivateQuery({codes}, dimension {self.dimension}, epsilon={self._epsilon:g}, fetch={self._fetch})"

    def describe(self) -> tuple[str, ...]:
        """Lines that say what a question costs, what leaves, and what can be expected."""
        if self._codebook is None:
            leaves = "a PrivUnit direction: no codebook serves simulated questions better"
        else:
            truth = float(self._mechanism.response.probability_of_truth)
            leaves = f"one of {len(self._codebook):,} public rows, the nearest with probability {truth:.4g}"
        lines = [
            f"a question costs epsilon = {self._epsilon:g}, delta = 0; questions of one person add up",
            f"what leaves: {leaves}; and that {self._fetch} documents are wanted",
        ]
        if self._tried:
            share = max(tried.share for tried in self._tried)
            lines.append(f"simulated questions get {share:.0%} of what they find without privacy (gain of the ten nearest documents)")
        if self._generator.seeded:
            lines.append("key from a user-given seed: NOT a DP claim")
        return (*lines, "not covered: the number and the time of questions, and what is opened afterwards")

    # ---- asking ----

    def search(self, query: Any, holder: PrivateIndex | Holder, k: int = 10) -> Answer:
        """`ask`, `answer_for` and `rank` in one, for a server in this process.

        Args:
            query: float array [d] or [1, d], numpy or torch, or a list of numbers: the clean question.
            holder: as for `answer_for`. It is not called for a question that was answered before.
            k: how many ids; at most `fetch`. Fewer come where the server has fewer.

        An invalid `query`, k or index is refused before anything is charged. After an error of the server the charge stands, and the
        same call sends the same release again without one.
        """
        row = self._row(query)
        most = self._most(k)
        _require_holder(holder, self.dimension)
        known = self.answered(row, most)
        return self.rank(row, self.answer_for(self.ask(row), holder), most) if known is None else known

    def ask(self, query: Any) -> Question:
        """Return the question to send to the server; the same one again, without a charge, for what was asked before.

        Send it again only if the answer was lost, because two equal messages show that two questions were equal; otherwise
        `answered` has the answer.

        PrivacyBudgetExhaustedError if the budget has not enough left: nothing was released. OSError if the memo cannot be written:
        the charge stands, and this object keeps the release.
        """
        row = self._row(query)
        with self._asked.lock:
            known = self._asked.get(row)
            if known is None:
                release = privatize(row[None], mechanism=self._mechanism, budget=self._budget, generator=self._generator)
                known = Asked(Question(unit(release.values)[0], self._fetch), release.receipt)
                self._asked.keep(row, known)
        return known.question

    @staticmethod
    def answer_for(question: Question, holder: PrivateIndex | Holder) -> Candidates:
        """The server's side: the documents nearest to a released row, in the server's order. Keeps nothing between questions.

        Args:
            question: from `ask`, or `Question.from_json`.
            holder: a PrivateIndex of the documents, without projection and without noise on queries or scores; or a function
                (row float32 [d], count) -> (ids [w], vectors [w, d]) over any store, 1 <= w <= count.
        """
        validate.instance("question", question, Question, "a Question")
        _require_holder(holder, len(question.row))
        if isinstance(holder, PrivateIndex):
            ids = holder.search(question.row, min(question.fetch, len(holder))).ids[0]
            return Candidates(ids, holder.vectors(ids))
        found = candidates(*holder(question.row, question.fetch))
        if len(found.ids) > question.fetch:
            raise ValueError(f"holder must return at most {question.fetch} documents, got {len(found.ids)}")
        return found

    def rank(self, query: Any, found: Candidates, k: int = 10) -> Answer:
        """The best k of the server's documents for the question that was asked, by cosine, at no cost. The answer is kept."""
        row, most = self._row(query), self._most(k)
        validate.instance("found", found, Candidates, "Candidates")
        checked = candidates(found.ids, found.vectors)
        if checked.vectors.shape[1] != self.dimension:
            raise ValueError(f"found must have vectors of {self.dimension} columns, got {checked.vectors.shape[1]}")
        with self._asked.lock:
            known = self._asked.get(row)
            if known is None:
                raise ValueError("query must be a question that was asked: ask(query) comes first")
            ids, scores = ranked(row, checked)
            known = replace(known, ids=ids, scores=scores)
            self._asked.keep(row, known)
        return _answer(known, most)

    def answered(self, query: Any, k: int = 10) -> Answer | None:
        """The kept answer to a question, of at most `fetch` ids; None if it was not answered."""
        row, most = self._row(query), self._most(k)
        known = self._asked.get(row)
        return None if known is None or known.ids is None else _answer(known, most)

    # ---- parts ----

    def _row(self, query: Any) -> Rows:
        query = as_array("query", query)
        arrays.require_array("query", query)
        count, _ = arrays.rows_and_dimension(query)
        if count != 1:
            raise ValueError(f"query must be one row, got {count}: each question is asked by itself")
        query = require_rows("query", query, self.dimension)
        rowwise.require_finite("query", query)
        row: Rows = as_rows(query)[0]
        rowwise.require_finite("query in the range of float32", row)
        return row

    def _most(self, k: int) -> int:
        most = validate.whole_number("k", k, at_least=1)
        if most > self._fetch:
            raise ValueError(f"k must be at most {self._fetch}, the documents that are fetched, got {most}")
        return most


def _require_holder(holder: Any, dimension: int) -> None:
    if not isinstance(holder, PrivateIndex):
        if not callable(holder):
            raise TypeError(f"holder must be a PrivateIndex or a function (row, count) -> (ids, vectors), got {validate.kind(holder)}")
        return
    refused = {
        "queries": "noise on queries: a question has its noise already",
        "scores": "noise on scores: it sends stored rows, which that noise does not protect",
        "projection": "projection: it sends stored rows, and the question that ranks them is as it was asked",
    }
    for name, reason in refused.items():
        if getattr(holder.settings, name) is not None:
            raise ValueError(f"holder must have no {reason}")
    if holder.dimension != dimension:
        raise ValueError(f"holder must have rows of {dimension} elements like the question, got {holder.dimension}")
    if not len(holder):
        raise ValueError("holder is empty: add documents before it is asked")


def _answer(asked: Asked, k: int) -> Answer:
    assert asked.ids is not None and asked.scores is not None
    return Answer(asked.ids[:k].copy(), asked.scores[:k].copy(), asked.question, asked.receipt)
