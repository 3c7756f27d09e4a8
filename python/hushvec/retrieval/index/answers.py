"""What a search returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from hushvec._util.display import Sheet, at_least, plural, shown

if TYPE_CHECKING:
    from hushvec.receipts.labels import RowReceipt
    from hushvec.receipts.selections import SelectionReceipt


_SHOWN_QUERIES = 4
_SHOWN_ROWS, _SHOWN_ROWS_OF_ONE = 5, 15  # of each of several queries, and of a single one


@shown
class SearchResult(NamedTuple):
    """The answer to m queries. `print` shows the best rows of the first ones.

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

    def _sheet(self) -> Sheet:
        queries, most = self.ids.shape
        answers = [(f"query {query}", self._row(query)) for query in range(min(queries, _SHOWN_QUERIES))]
        if queries > _SHOWN_QUERIES:
            answers.append(("...", plural(queries - _SHOWN_QUERIES, "more query", "more queries")))
        noise = [("query noise", _noise(self.query_receipt)), ("score noise", _noise(self.score_receipt))]
        best = f"the best {plural(most, 'row')}{' each' if queries > 1 else ''}"
        return Sheet(f"Search: {plural(queries, 'query', 'queries')}, {best}", (*answers, *noise))

    def _row(self, query: int) -> str:
        """The best rows of one query in a line: ids, and scores where there are some."""
        most = _SHOWN_ROWS if len(self.ids) > 1 else _SHOWN_ROWS_OF_ONE
        ids = self.ids[query].tolist()
        scores = [None] * len(ids) if self.scores is None else self.scores[query].tolist()
        found = [str(one) if score is None else f"{one} ({score:.3g})" for one, score in zip(ids[:most], scores)]
        more = len(ids) - len(found)
        return ", ".join((*found, f"{more:,} more") if more else found) or "no rows"


def _noise(receipt: RowReceipt | SelectionReceipt | None) -> str:
    if receipt is None:
        return "none"
    claim = "" if receipt.is_dp_claim else "; NOT A DP CLAIM"
    return f"{receipt.mechanism}, epsilon {at_least(receipt.epsilon)}, delta {at_least(receipt.delta)} for this search{claim}"
