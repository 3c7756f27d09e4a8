"""What a search returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

if TYPE_CHECKING:
    from hushvec.receipts.labels import RowReceipt
    from hushvec.receipts.selections import SelectionReceipt


class SearchResult(NamedTuple):
    """The answer to m queries.

    Args:
        ids: [m, k], best first: int64, or object (str) where the index has strings.
        scores: float32 [m, k], noisy and in that order where scores have noise; None for "gumbel", which releases the order alone.
        query_receipt: of the noise on the queries; None without it.
        score_receipt: of the noise on the scores, a SelectionReceipt for "gumbel"; None without it.
    """

    ids: NDArray[Any]
    scores: NDArray[Any] | None
    query_receipt: RowReceipt | None = None
    score_receipt: RowReceipt | SelectionReceipt | None = None
