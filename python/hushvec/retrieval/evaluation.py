"""`evaluate`: the quality of a private index's answers, with intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays, rowwise
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec._util.display import Sheet, confidence_of, number, plural, shown
from hushvec._util.statistics import Estimate
from hushvec.audit.bootstrap import bootstrap, group_numbers, require_settings
from hushvec.retrieval.measures.cosines import MEAN_COSINE, cosines, theoretical_cosine
from hushvec.retrieval.measures.paired import PairedTest, compare
from hushvec.retrieval.measures.ranking import cutoffs, judge, per_query, right_documents
from hushvec.retrieval.measures.timings import Latency, peak_memory_gb, time_each

__all__ = ["Evaluation", "Index", "compare", "evaluate", "evaluate_results"]

_NOT_PRIVATE = "measured on the queries and the right answers themselves, without noise: publishing it is not a private release"

# Bounds of a share.
_SHARES = (0.0, 1.0)


class Index(Protocol):
    """What `evaluate` needs of an index; `hushvec.retrieval.PrivateIndex` is one."""

    def search(self, queries: Any, k: int) -> Any:
        """An answer whose `ids` are [m, k], best first."""


@shown
@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What `evaluate` returns. `print` shows every metric with its interval.

    Args:
        metrics: name -> `Estimate`: recall_at_k and ndcg_at_k for each k, mrr, and mean_cosine where clean rows were given.
        per_query: name -> float64 [m], what the metrics but mean_cosine are means of.
        cosines: float64 [n], what mean_cosine is the mean of; None without clean rows.
        groups: [m] numbers of the groups of queries that were resampled together, or None.
        k: the cut-offs, rising; the largest one is the depth of mrr.
        confidence, resamples, seed: of the bootstrap.
        theoretical_cosine: of a document and what the index holds of it; 1 without noise; None where the index does not say.
        theoretical_query_cosine: the same of a query and its noisy version.
        latency_mean_ms, latency_std_ms, latency_p99_ms: of single searches; None where none was timed.
        index_build_time_s: as the index reports it (`build_time_s`), else None.
        peak_memory_gb: peak memory of the whole process so far, in GiB.
        against_baseline: name -> `PairedTest` of this evaluation minus the baseline; empty without one.
    """

    metrics: dict[str, Estimate]
    per_query: dict[str, NDArray[np.float64]]
    cosines: NDArray[np.float64] | None
    groups: NDArray[np.intp] | None
    k: tuple[int, ...]
    confidence: float
    resamples: int
    seed: int
    theoretical_cosine: float | None = None
    theoretical_query_cosine: float | None = None
    latency_mean_ms: float | None = None
    latency_std_ms: float | None = None
    latency_p99_ms: float | None = None
    index_build_time_s: float | None = None
    peak_memory_gb: float = field(default_factory=peak_memory_gb)
    against_baseline: dict[str, PairedTest] = field(default_factory=dict)

    def _sheet(self) -> Sheet:
        queries = len(next(iter(self.per_query.values())))
        grouped = "" if self.groups is None else f" in {int(self.groups.max()) + 1:,} groups, resampled together"
        facts = [(name, f"{estimate}{self._beside_baseline(name)}") for name, estimate in self.metrics.items()]
        for side, cosine in (("a document", self.theoretical_cosine), ("a query", self.theoretical_query_cosine)):
            if cosine is not None:
                facts.append(("expected cosine", f"{number(cosine)} of {side} with its release"))
        if self.latency_mean_ms is not None:
            facts.append(("latency", f"{number(self.latency_mean_ms)} ms per search (p99 {number(self.latency_p99_ms)} ms)"))
        facts.append(("intervals", f"{confidence_of(self.confidence)}, bootstrap over queries{grouped}, {self.resamples:,} resamples"))
        return Sheet(f"Evaluation of {plural(queries, 'query', 'queries')}", tuple(facts), (_NOT_PRIVATE,))

    def _beside_baseline(self, name: str) -> str:
        test = self.against_baseline.get(name)
        return "" if test is None else f"; minus the baseline {test.difference}, p = {number(test.p_value)}"

    def to_dict(self) -> dict[str, Any]:
        """Everything except per-query and per-row values, ready for strict JSON."""
        first = next(iter(self.per_query.values()))
        plain = (
            "theoretical_cosine",
            "theoretical_query_cosine",
            "latency_mean_ms",
            "latency_std_ms",
            "latency_p99_ms",
            "index_build_time_s",
        )
        return {
            "queries": len(first),
            "groups": None if self.groups is None else int(self.groups.max()) + 1,
            "k": list(self.k),
            "resamples": self.resamples,
            "seed": self.seed,
            "metrics": {name: estimate.to_dict() for name, estimate in self.metrics.items()},
            **{name: getattr(self, name) for name in plain},
            "peak_memory_gb": self.peak_memory_gb if math.isfinite(self.peak_memory_gb) else None,
            "against_baseline": {name: test.to_dict() for name, test in self.against_baseline.items()},
        }


def evaluate(
    index: Index,
    queries: Any,
    relevant: Any,
    *,
    k: int | Iterable[int] = (1, 5, 10),
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 2025,
    clean: Any = None,
    groups: Any = None,
    latency_queries: int = 200,
    baseline: Evaluation | None = None,
) -> Evaluation:
    """Run every query once and measure the quality of the answers.

    Args:
        index: a `PrivateIndex`, or any object with `search(queries, k)` whose answer has `ids` [m, k], the best first.
        queries: float array [m, d], or a list of rows, as in `hushvec.privatize`.
        relevant: for each query the one right id, or a collection of right ids, or a mapping id -> grade >= 0. Ids of the kind that
            the index returns: whole numbers or strings.
        k: cut-offs; the search is for the largest one.
        confidence, resamples, seed: of the bootstrap intervals.
        clean: float array [n, d], the rows of all documents before any noise, in the order of the index's `ids`: needed for
            mean_cosine. They go through the index's public map, if it has one.
        groups: [m] labels: queries with one label (about one document or person) are resampled together. None: each for itself.
        latency_queries: how many of the queries, the last ones, are searched one at a time and timed, after the others in one batch.
            At least one query is in the batch, unless there is only one, so that loading at the first search does not count.
        baseline: an evaluation of the same queries to compare with.

    Raises:
        TypeError: wrong kinds.
        ValueError: a value out of its range, shapes that do not fit, a query without a relevant id, NaN or Inf.
        PrivacyBudgetExhaustedError: the index has a budget for queries or scores and the searches do not fit into it. What was
            charged before stays charged.

    Guarantees:
        Each query is asked exactly once. Budgets of the index are charged for the batch and for each timed query;
        latency_queries=0 makes it one search in all. Bad input is refused before that. The figures depend on `relevant` and
        `clean`, which are not protected: publishing them is not a private release, even if the index is private.

    Edge cases:
        An id in `relevant` that the index does not have is never found. Documents with the same vector: the index's order decides.

    Reference:
        hushvec.retrieval.measures.ranking and hushvec.audit.bootstrap, for the formulas.

    Example:
        >>> import numpy as np
        >>> from types import SimpleNamespace
        >>> from hushvec.retrieval import evaluate
        >>> rows = np.eye(50, dtype=np.float32)
        >>> exact = SimpleNamespace(search=lambda queries, k: SimpleNamespace(ids=np.argsort(-queries @ rows.T, axis=1)[:, :k]))
        >>> print(evaluate(exact, rows, np.arange(50), k=(1, 5)).metrics["recall_at_1"])
        1.000 [0.929, 1.000]
    """
    depths = cutoffs(k)
    queries = as_array("queries", queries)
    arrays.require_array("queries", queries)
    if queries.ndim != 2 or len(queries) == 0:
        raise ValueError(f"queries must have shape (queries, dimension) with at least one query, got {tuple(queries.shape)}")
    rowwise.require_finite("queries", queries)
    right_documents(relevant, len(queries))
    _require_baseline(baseline, len(queries), group_numbers(groups, len(queries)))
    require_settings(confidence=confidence, resamples=resamples, seed=seed)
    timed = validate.whole_number("latency_queries", latency_queries, at_least=0)
    row_cosines = None if clean is None else _document_cosines(index, clean)
    answers, latency = _searched(index, queries, depths[-1], timed)
    evaluation = evaluate_results(
        np.concatenate([np.asarray(answer.ids) for answer in answers]),
        relevant,
        k=depths,
        confidence=confidence,
        resamples=resamples,
        seed=seed,
        groups=groups,
        row_cosines=row_cosines,
        latency=latency,
        baseline=baseline,
    )
    return replace(
        evaluation,
        theoretical_cosine=_theory_of_documents(index),
        theoretical_query_cosine=_theory_of_queries(index, answers[0]),
        index_build_time_s=getattr(index, "build_time_s", None),
    )


def evaluate_results(
    ids: Any,
    relevant: Any,
    *,
    k: int | Iterable[int] = (1, 5, 10),
    confidence: float = 0.95,
    resamples: int = 1000,
    seed: int = 2025,
    groups: Any = None,
    row_cosines: Any = None,
    latency: Latency | None = None,
    baseline: Evaluation | None = None,
) -> Evaluation:
    """`evaluate` for answers from elsewhere; fields that need an index are None.

    Args:
        ids: [m, depth], the ids that came back for each query, the best first; depth >= max(k). mrr looks at the first max(k).
        row_cosines: float array [n]: of each document and what the index holds of it, for mean_cosine.
        latency: what `hushvec.retrieval.measures.timings.time_each` measured.
    """
    depths = cutoffs(k)
    answers = np.asarray(ids)
    if answers.ndim == 2 and answers.shape[1] < depths[-1]:
        raise ValueError(f"k must be at most {answers.shape[1]}, the columns of ids, got {depths[-1]}")
    values = per_query(judge(answers[:, : depths[-1]] if answers.ndim == 2 else answers, relevant), depths)
    count = len(answers)
    settings: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    metrics = bootstrap(values, groups=groups, limits=_SHARES, **settings)
    if row_cosines is not None:
        metrics |= bootstrap({MEAN_COSINE: row_cosines}, **settings)
    evaluation = Evaluation(
        metrics=metrics,
        per_query=values,
        cosines=None if row_cosines is None else np.asarray(row_cosines, np.float64),
        groups=group_numbers(groups, count),
        k=depths,
        **settings,
        latency_mean_ms=None if latency is None else latency.mean_ms,
        latency_std_ms=None if latency is None else latency.std_ms,
        latency_p99_ms=None if latency is None else latency.p99_ms,
    )
    if baseline is None:
        return evaluation
    shared = [name for name in evaluation.metrics if name in baseline.metrics]
    return replace(evaluation, against_baseline={name: compare(evaluation, baseline, name) for name in shared})


def _require_baseline(baseline: Any, queries: int, groups: NDArray[np.intp] | None) -> None:
    """Check that a baseline has as many queries in the same groups. None is accepted."""
    if baseline is None:
        return
    if not isinstance(baseline, Evaluation):
        raise TypeError(f"baseline must be an Evaluation or None, got {validate.kind(baseline)}")
    other = len(next(iter(baseline.per_query.values())))
    if other != queries:
        raise ValueError(f"baseline must be of the same {queries} queries, got one of {other}")
    same = baseline.groups is groups is None or (
        baseline.groups is not None and groups is not None and np.array_equal(baseline.groups, groups)
    )
    if not same:
        raise ValueError("baseline must have the same groups of queries")


def _searched(index: Index, queries: Any, depth: int, timed: int) -> tuple[list[Any], Latency | None]:
    """Answers to all queries in order, the last ones searched one at a time, and how long those took."""
    alone = min(timed, max(len(queries) - 1, 1))
    batch = queries[: len(queries) - alone]
    answers = [index.search(batch, depth)] if len(batch) else []
    if alone == 0:
        return answers, None
    singles, latency = time_each(lambda query: index.search(query, depth), queries[len(batch) :])
    return answers + singles, latency


def _document_cosines(index: Any, clean: Any) -> NDArray[np.float64]:
    """The cosine of each document with its stored row, behind the index's public map."""
    vectors = getattr(index, "vectors", None)
    if not callable(vectors):
        raise TypeError(f"index must have vectors() where clean is given, got {validate.kind(index)}")
    projection = _setting(index, "projection")
    return cosines(clean if projection is None else projection.transform(clean), vectors())


def _theory_of_documents(index: Any) -> float | None:
    """The expected cosine, averaged over all added documents by the receipts of their releases."""
    receipts = getattr(index, "receipts", None)
    if receipts is None:
        return None
    if not receipts:
        return 1.0
    theory = [theoretical_cosine(receipt, _row_norm(index)) for receipt in receipts]
    return float(np.average(theory, weights=[receipt.rows for receipt in receipts]))


def _theory_of_queries(index: Any, answer: Any) -> float | None:
    if not hasattr(answer, "query_receipt"):
        return None
    receipt = answer.query_receipt
    return 1.0 if receipt is None else theoretical_cosine(receipt, _row_norm(index))


def _row_norm(index: Any) -> float | None:
    """1 if the index brings rows to unit length; else None, and rows are taken to have the clip norm as their length."""
    return 1.0 if _setting(index, "normalize") else None


def _setting(index: Any, name: str) -> Any:
    """A setting of the index; None if the index does not state it."""
    return getattr(getattr(index, "settings", None), name, None)
