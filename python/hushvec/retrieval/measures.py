"""Measures of a search: recall, reciprocal rank and discounted gain of each query, and cosines with noisy rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.extend import RowReceipt
from hushvec.mechanisms import MECHANISMS, Mechanism
from hushvec.receipts import LabelReceipt
from hushvec.receipts.vectors import stated_mechanism

# What nearest-neighbor libraries return for missing results.
NOBODY = -1
MEAN_COSINE = "mean_cosine"
# Elements that are widened at once: three float64 blocks of them stay in a core's cache.
_ELEMENTS_AT_ONCE = 1 << 14


@dataclass(frozen=True)
class Judgements:
    """The grade of every returned document."""

    gains: NDArray[np.float64]  # [m, depth], the grade of the document at each rank, 0 where it is not relevant
    ideal: NDArray[np.float64]  # [m, depth], the largest grades there are, in falling order
    relevant: NDArray[np.float64]  # [m], how many documents are relevant


def cutoffs(k: Any) -> tuple[int, ...]:
    """The values of k, ascending; one number becomes a tuple of one."""
    given = tuple(k) if isinstance(k, Iterable) and not isinstance(k, str) else (k,)
    checked = tuple(sorted(validate.whole_number("k", one, at_least=1) for one in given))
    if not checked or len(set(checked)) < len(checked):
        raise ValueError(f"k must be different whole numbers and at least one, got {list(given)!r}")
    return checked


def per_query(judged: Judgements, k: tuple[int, ...]) -> dict[str, NDArray[np.float64]]:
    """Each measure of each query: recall_at_k and ndcg_at_k for each k, and mrr, float64 [m] in [0, 1].

    recall_at_k = (relevant documents among the first k) / min(k, relevant documents), which is 1 if the first k could not hold more.
    ndcg_at_k = sum over the first k of grade / log2(1 + rank), over the same sum of the best order. mrr = 1 / rank of the first
    relevant document, 0 where none was returned. `judged` are of at least max(k) documents for each query.

    Reference:
        Järvelin and Kekäläinen, "Cumulated gain-based evaluation of IR techniques" (2002), with linear gain and log2(1 + rank).
    """
    gains, ideal = judged.gains, judged.ideal
    ranks = np.arange(1, gains.shape[1] + 1)
    found = (gains > 0).cumsum(axis=1)
    reached, possible = ((grades / np.log2(ranks + 1)).cumsum(axis=1) for grades in (gains, ideal))
    recall = {f"recall_at_{one}": found[:, one - 1] / np.minimum(one, judged.relevant) for one in k}
    # min: the two sums of a perfect order are added up alike, but not those of grades that differ in their last bits
    gain = {f"ndcg_at_{one}": np.minimum(reached[:, one - 1] / possible[:, one - 1], 1.0) for one in k}
    reciprocal = np.where(found[:, -1] > 0, 1.0 / (1 + (gains > 0).argmax(axis=1)), 0.0)
    return {**recall, "mrr": reciprocal, **gain}


def judgements(ids: Any, relevant: Any) -> Judgements:
    """Grades of returned documents, for ids [m, depth], the best first, -1 for a place left empty, and `relevant` as in `evaluate`.

    An id twice in one answer is refused, and a query without a relevant document.
    """
    returned = _returned(ids)
    wanted = right_documents(relevant, len(returned))
    ordered = np.sort(returned, axis=1)
    twice = ordered[:, 1:] == ordered[:, :-1]
    if returned.dtype.kind == "i":
        twice &= ordered[:, 1:] != NOBODY
    if twice.any():
        row = int(twice.any(axis=1).argmax())
        raise ValueError(f"ids[{row}] must name each document once, got {ordered[row, 1:][twice[row]].tolist()[0]!r} twice")
    kind, other = _kind_of(returned[0, 0]), _kind_of(next(iter(wanted[0])))
    if other != kind:
        raise TypeError(f"relevant must hold {kind} as the returned ids do, got {other}")
    gains, ideal = np.zeros(returned.shape), np.zeros(returned.shape)
    count = np.empty(len(returned))
    for row, (answer, grades) in enumerate(zip(returned.tolist(), wanted)):
        gains[row] = [grades.get(one, 0.0) for one in answer]
        best = sorted(grades.values(), reverse=True)[: returned.shape[1]]
        ideal[row, : len(best)] = best
        count[row] = sum(grade > 0 for grade in grades.values())
    return Judgements(gains, ideal, count)


def right_documents(relevant: Any, queries: int) -> list[dict[int | str, float]]:
    """`relevant` as grades by id for each query. Refuses what is wrong before any search."""
    validate.instance("relevant", relevant, Iterable, "a sequence with one entry for each query", but=(str, Mapping))
    wanted = relevant.tolist() if isinstance(relevant, np.ndarray) else list(relevant)
    if len(wanted) != queries:
        raise ValueError(f"relevant must have one entry for each of {queries} queries, got {len(wanted)}")
    found = [_grades(f"relevant[{row}]", entry) for row, entry in enumerate(wanted)]
    if len({_kind_of(one) for grades in found for one in grades}) > 1:
        raise TypeError("relevant must hold whole numbers or strings, got both")
    return found


def _returned(ids: Any) -> NDArray[Any]:
    array = np.asarray(ids)
    if array.dtype.kind not in "iuUO":
        raise TypeError(f"ids must be whole numbers or strings, got {array.dtype}")
    if array.ndim != 2 or 0 in array.shape:
        raise ValueError(f"ids must have shape (queries, depth), none of them 0, got {array.shape}")
    if array.dtype.kind == "O" and not all(isinstance(one, str) for one in array.ravel()):
        raise TypeError("ids must be whole numbers or strings, got an array of other objects")
    return array


def _grades(name: str, entry: Any) -> dict[int | str, float]:
    if isinstance(entry, Mapping):
        grades = {_plain(name, one): validate.not_negative(f"{name}[{one!r}]", grade) for one, grade in entry.items()}
    elif isinstance(entry, (Collection, np.ndarray)) and not isinstance(entry, str):
        grades = {_plain(name, one): 1.0 for one in entry}
    else:
        grades = {_plain(name, entry): 1.0}
    if not any(grade > 0 for grade in grades.values()):
        raise ValueError(f"{name} must name at least one relevant document, got {entry!r}")
    return grades


def _plain(name: str, one: Any) -> int | str:
    if not isinstance(one, (str, int, np.integer)) or isinstance(one, (bool, np.bool_)):
        raise TypeError(f"{name} must hold ids, whole numbers or strings, got {validate.kind(one)}")
    if one == NOBODY:
        raise ValueError(f"{name} must not name {NOBODY}, which stands for a place left empty")
    return str(one) if isinstance(one, str) else int(one)


def _kind_of(one: int | str) -> str:
    return "strings" if isinstance(one, str) else "whole numbers"


def cosines(clean: Any, noisy: Any) -> NDArray[np.float64]:
    """The cosine of each row of `clean` [n, d] with the same row of `noisy`, float64 [n]; 0 where one of them is zero."""
    first, second = _rows("clean", clean), _rows("noisy", noisy)
    if first.shape != second.shape:
        raise ValueError(f"clean and noisy must have the same shape, got {first.shape} and {second.shape}")
    at_once = max(1, _ELEMENTS_AT_ONCE // max(1, first.shape[1]))
    blocks = [slice(start, start + at_once) for start in range(0, len(first), at_once)]
    found = [np.empty(0)]
    for block in blocks:
        a, b = first[block].astype(np.float64), second[block].astype(np.float64)
        products, squares, others = (np.einsum("ij,ij->i", *pair) for pair in ((a, b), (a, a), (b, b)))
        norms = np.sqrt(squares) * np.sqrt(others)
        found.append(np.divide(products, norms, out=np.zeros_like(products), where=norms > 0))
    return np.concatenate(found)


def theoretical_cosine(release: Mechanism | RowReceipt, norm: float | None = None) -> float:
    """About the mean cosine of a row and its release, from a mechanism or the receipt of a release.

    norm / sqrt(norm^2 + mean square of the noise's norm) for additive noise, which is 1 / sqrt(1 + d sigma^2) for Gaussian noise on
    unit rows; E / sqrt(d + threshold E) for PrivUnit, where E is the mean inner product. The error is of order 1/d.

    `norm` is the L2 norm of the rows, clip_norm if None; longer rows are clipped. It does not matter for PrivUnit. For a codebook give
    its mechanism: the cosine is that of rows like the public ones, and a receipt has the codebook's digest alone.
    """
    if isinstance(release, LabelReceipt):
        raise TypeError("release must be the codebook's mechanism, got a receipt of its answers, which has its digest alone")
    length = release.clip_norm if norm is None else min(validate.positive("norm", norm), release.clip_norm)
    if isinstance(release, Mechanism):
        return release.expected_cosine(length)
    validate.choice("mechanism", release.mechanism, MECHANISMS)
    return stated_mechanism(release).expected_cosine(length)


def _rows(name: str, value: Any) -> NDArray[Any]:
    rows = np.asarray(value)
    if rows.dtype.kind != "f":
        raise TypeError(f"{name} must be a float array, got {rows.dtype}")
    if rows.ndim != 2:
        raise ValueError(f"{name} must have shape (rows, dimension), got {rows.shape}")
    if not np.isfinite(rows).all():
        bad = int((~np.isfinite(rows)).any(axis=1).argmax())
        raise ValueError(f"{name} must be finite, row {bad} is not")
    return rows
