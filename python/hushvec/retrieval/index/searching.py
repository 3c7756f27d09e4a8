"""Searching an index: check, charge and release the query; look up the best rows, or add noise to every score."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core, rowwise
from hushvec._util import validate
from hushvec.receipts.labels import RowReceipt
from hushvec.retrieval.index.answers import SearchResult
from hushvec.retrieval.index.content import Content, store_error
from hushvec.retrieval.index.kept import KeptReleases
from hushvec.retrieval.index.prepared import prepare, require_rows
from hushvec.retrieval.index.private_scores import ScoreSearch
from hushvec.retrieval.index.subset import Chosen, best_of_some
from hushvec.retrieval.stores import MatrixStore

# Releases of queries kept for another try. Every abandoned search leaves one.
_MOST_UNANSWERED = 256

Places = NDArray[np.int64]


class Searching:
    """`PrivateIndex.search`."""

    def __init__(self, content: Content, generator: _core.Generator) -> None:
        self._content, self._generator = content, generator
        self.unanswered: KeptReleases[tuple[NDArray[np.float32], RowReceipt]] = KeptReleases(_MOST_UNANSWERED)

    def search(self, queries: Any, k: int, where: Mapping[str, Any] | None, among: Any) -> SearchResult:
        content, settings = self._content, self._content.settings
        x = require_rows("queries", queries, settings.dimension)
        most = validate.whole_number("k", k, at_least=1)
        if not len(content):
            raise ValueError("the index is empty: add vectors before searching it")
        places = content.candidates(where, among)
        if places is None and most > len(content):
            raise ValueError(f"k must be at most the {len(content)} rows of the index, got {most}")
        rowwise.require_finite("queries", x)
        prepared = prepare("queries", x, settings.queries, settings, self._generator)
        if places is not None:
            most = min(most, len(places))
            if not most:
                return self._no_answer(len(x))
        private = self._score_search(len(x), most, len(content) if places is None else len(places))
        score_receipt = None if private is None else private.charge()
        asked, query_receipt = self.unanswered.find(x) or prepared.release()
        found: Places
        values: NDArray[np.float32] | None
        if private is None:
            try:
                found, values = self._best(asked, most, places)
            except Exception as error:
                if query_receipt is not None:
                    self.unanswered.keep((asked, query_receipt), x)
                raise store_error("nothing was answered", error, query_receipt) from error
            self.unanswered.drop(x)
        else:
            found, values = self._noisy_best(private, asked, places)
        return SearchResult(content.ids.values[found], values, query_receipt, score_receipt)

    def _no_answer(self, queries: int) -> SearchResult:
        """The answer of a search among no rows: nothing was computed, released or charged."""
        scores = self._content.settings.scores
        ids = self._content.ids.values[np.empty((queries, 0), np.int64)]
        return SearchResult(ids, np.empty((queries, 0), np.float32) if scores is None or scores.releases_scores else None)

    def _score_search(self, queries: int, k: int, documents: int) -> ScoreSearch | None:
        noise = self._content.settings.scores
        if noise is None:
            return None
        return ScoreSearch(noise=noise, documents=documents, queries=queries, k=k, generator=self._generator)

    def _best(self, asked: NDArray[np.float32], k: int, places: Places | None) -> tuple[Places, NDArray[np.float32]]:
        store = self._content.store
        return store.search(asked, k) if places is None else best_of_some(store, asked, k, places)

    def _noisy_best(
        self, private: ScoreSearch, asked: NDArray[np.float32], places: Places | None
    ) -> tuple[Places, NDArray[np.float32] | None]:
        assert isinstance(self._content.store, MatrixStore)
        matrix = self._content.store.matrix()
        if places is None:
            return private.answer(matrix, asked)
        found, values = private.answer(Chosen(matrix, places), asked)
        return places[found], values
