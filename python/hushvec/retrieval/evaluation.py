"""`evaluate`: the quality of a private index's answers, with intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hushvec._native import arrays, rowwise
from hushvec._native.rowwise import as_array
from hushvec._util import validate
from hushvec._util.display import Sheet, confidence_of, number, plural, shown
from hushvec._util.statistics import Estimate
from hushvec.audit.bootstrap import bootstrap, group_numbers, require_settings
from hushvec.extend import RowReceipt, released_rows
from hushvec.receipts import Receipt
from hushvec.retrieval.measures import MEAN_COSINE, cosines, cutoffs, judgements, per_query, right_documents, theoretical_cosine

_SHARES = (0.0, 1.0)
_NOT_PRIVATE = "measured on the queries and the right answers themselves, without noise: publishing it is not a private release"

__all__ = ["Evaluation", "Index", "evaluate", "evaluate_results"]


class Index(Protocol):
    """An index as `evaluate` needs it; `hushvec.retrieval.PrivateIndex` is one."""

    def search(self, queries: Any, k: int) -> Any:
        """An answer whose `ids` are [m, k], best first."""


@shown
@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The result of `evaluate`. `print` shows every metric with its interval.

    Args:
        metrics: name -> `Estimate`: recall_at_k and ndcg_at_k for each k, mrr, and mean_cosine where clean rows were given.
        per_query: name -> float64 [m], what the metrics but mean_cosine are means of.
        cosines, groups: float64 [n], what mean_cosine is the mean of; [m] numbers of the groups resampled together; or None.
        k: the cut-offs, rising; the largest one is the depth of mrr.
        confidence, resamples, seed: of the bootstrap.
        theoretical_cosine, theoretical_query_cosine: of a document or query and its noisy version, 1 without noise; or None.
        index_build_time_s: as the index reports it, else None.
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
    index_build_time_s: float | None = None

    def _sheet(self) -> Sheet:
        queries = len(next(iter(self.per_query.values())))
        grouped = "" if self.groups is None else f" in {int(self.groups.max()) + 1:,} groups, resampled together"
        facts = [(name, str(estimate)) for name, estimate in self.metrics.items()]
        for side, cosine in (("a document", self.theoretical_cosine), ("a query", self.theoretical_query_cosine)):
            if cosine is not None:
                facts.append(("expected cosine", f"{number(cosine)} of {side} with its release"))
        facts.append(("intervals", f"{confidence_of(self.confidence)}, bootstrap over queries{grouped}, {self.resamples:,} resamples"))
        return Sheet(f"Evaluation of {plural(queries, 'query', 'queries')}", tuple(facts), (_NOT_PRIVATE,))

    def to_dict(self) -> dict[str, Any]:
        """Everything except per-query and per-row values, ready for strict JSON."""
        return {
            "queries": len(next(iter(self.per_query.values()))),
            "groups": None if self.groups is None else int(self.groups.max()) + 1,
            "k": list(self.k),
            "resamples": self.resamples,
            "seed": self.seed,
            "metrics": {name: estimate.to_dict() for name, estimate in self.metrics.items()},
            **{name: getattr(self, name) for name in ("theoretical_cosine", "theoretical_query_cosine", "index_build_time_s")},
        }


def evaluate(
    index: Index, queries: Any, relevant: Any, *, k: int | Iterable[int] = (1, 5, 10), confidence: float = 0.95,
    resamples: int = 1000, seed: int = 2025, clean: Any = None, groups: Any = None,
) -> Evaluation:
    """Ask all queries in one search and measure the answers, by the formulas of `measures` and `hushvec.audit.bootstrap`.

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

    Guarantees:
        Each query is asked exactly once, and budgets of the index are charged for one search (PrivacyBudgetExhaustedError if it does
        not fit into them). Bad input is refused before that. The figures depend on `relevant` and `clean`, which are not protected:
        publishing them is not a private release, even if the index is private.

    Edge cases:
        An id in `relevant` that the index does not have is never found.

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
    group_numbers(groups, len(queries))
    require_settings(confidence=confidence, resamples=resamples, seed=seed)
    row_cosines = None
    if clean is not None:  # with the stored rows, behind the index's public map
        vectors = getattr(index, "vectors", None)
        if not callable(vectors):
            raise TypeError(f"index must have vectors() where clean is given, got {validate.kind(index)}")
        projection = getattr(getattr(index, "settings", None), "projection", None)
        row_cosines = cosines(clean if projection is None else projection.transform(clean), vectors())
    answer = index.search(queries, depths[-1])
    settings: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed, "groups": groups}
    evaluation = evaluate_results(answer.ids, relevant, k=depths, **settings, row_cosines=row_cosines)
    # 1 if the index brings rows to unit length; else None, and rows are taken to have the clip norm as their length
    norm = 1.0 if getattr(getattr(index, "settings", None), "normalize", None) else None
    of_queries = None
    if hasattr(answer, "query_receipt"):
        receipt = answer.query_receipt
        of_queries = 1.0 if receipt is None else _expected_cosine("queries", index, receipt, norm)
    return replace(
        evaluation, theoretical_cosine=_theory_of_documents(index, norm), theoretical_query_cosine=of_queries,
        index_build_time_s=getattr(index, "build_time_s", None),
    )


def evaluate_results(
    ids: Any, relevant: Any, *, k: int | Iterable[int] = (1, 5, 10), confidence: float = 0.95, resamples: int = 1000,
    seed: int = 2025, groups: Any = None, row_cosines: Any = None,
) -> Evaluation:
    """`evaluate` for answers from elsewhere; fields that need an index are None.

    Args:
        ids: [m, depth], the ids that came back for each query, the best first; depth >= max(k). mrr looks at the first max(k).
        row_cosines: float array [n]: of each document and what the index holds of it, for mean_cosine.
    """
    depths = cutoffs(k)
    answers = np.asarray(ids)
    if answers.ndim == 2 and answers.shape[1] < depths[-1]:
        raise ValueError(f"k must be at most {answers.shape[1]}, the columns of ids, got {depths[-1]}")
    values = per_query(judgements(answers[:, : depths[-1]] if answers.ndim == 2 else answers, relevant), depths)
    settings: dict[str, Any] = {"confidence": confidence, "resamples": resamples, "seed": seed}
    metrics = bootstrap(values, groups=groups, limits=_SHARES, **settings)
    if row_cosines is not None:
        metrics |= bootstrap({MEAN_COSINE: row_cosines}, **settings)
    return Evaluation(
        metrics=metrics,
        per_query=values,
        cosines=None if row_cosines is None else np.asarray(row_cosines, np.float64),
        groups=group_numbers(groups, len(answers)), k=depths, **settings,
    )


def _theory_of_documents(index: Any, norm: float | None) -> float | None:
    """The expected cosine, averaged over all added documents by the receipts of their releases."""
    receipts = getattr(index, "receipts", None)
    if not receipts:
        return None if receipts is None else 1.0
    theory = [_expected_cosine("documents", index, receipt, norm) for receipt in receipts]
    if None in theory:
        return None
    return float(np.average(theory, weights=[released_rows(receipt) for receipt in receipts]))  # type: ignore[arg-type]


def _expected_cosine(side: str, index: Any, receipt: RowReceipt, norm: float | None) -> float | None:
    """By the receipt; by the mechanism for codes of a codebook, or None where an index does not show it."""
    settings = getattr(index, "settings", None)
    if isinstance(receipt, Receipt):
        return theoretical_cosine(receipt, norm)
    return theoretical_cosine(getattr(settings, side).mechanism) if side in getattr(settings, "codebooks", ()) else None
