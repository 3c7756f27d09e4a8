"""The content of an index: settings, rows in a store, ids, receipts, texts and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec.errors import StoreError
from hushvec.receipts.labels import RowReceipt
from hushvec.retrieval.index.documents import Beside, Documents, StoredDocument
from hushvec.retrieval.index.filters import matcher
from hushvec.retrieval.index.row_ids import RowIds
from hushvec.retrieval.index.settings import IndexSettings
from hushvec.retrieval.index.subset import rows_at
from hushvec.retrieval.stores import Store


@dataclass
class Content:
    """All state of an index except its generator. `PrivateIndex` documents the methods."""

    settings: IndexSettings
    store: Store
    ids: RowIds = field(default_factory=RowIds)
    receipts: list[RowReceipt] = field(default_factory=list)
    documents: Documents = field(default_factory=Documents)

    def __len__(self) -> int:
        return len(self.ids)

    def vectors(self, ids: Any) -> NDArray[np.float32]:
        return self.store.vectors() if ids is None else rows_at(self.store, self.ids.found(ids))

    def get(self, ids: Any) -> list[StoredDocument]:
        places = np.arange(len(self)) if ids is None else self.ids.found(ids)
        return [self.documents.document(one, place) for one, place in zip(self.ids.values[places].tolist(), places.tolist())]

    def update(self, ids: Any, metadata: Any, texts: Any) -> None:
        places = self.ids.found(ids, once=True)
        new = Beside.checked(texts, metadata, len(places))
        if texts is not None:
            self.documents.set_texts(places, new.texts)
        if metadata is not None:
            self.documents.set_metadata(places, new.metadata)

    def matching(self, where: Mapping[str, Any]) -> NDArray[np.int64]:
        """Places of the rows whose metadata a filter matches, ascending."""
        matches = matcher(where)
        return np.flatnonzero(np.fromiter(map(matches, self.documents.metadata()), np.bool_, len(self)))

    def candidates(self, where: Mapping[str, Any] | None, among: Any) -> NDArray[np.int64] | None:
        """Places of the rows to be searched, ascending; None for all of them."""
        if where is None and among is None:
            return None
        places = np.arange(len(self)) if among is None else np.unique(self.ids.found(among))
        return places if where is None else np.intersect1d(places, self.matching(where), assume_unique=True)


def store_error(outcome: str, error: Exception, receipt: RowReceipt | None) -> StoreError:
    """An error with the store's message, and what to do about it."""
    kept = "" if receipt is None else "; the charge stands and its release is kept: the same call again costs nothing"
    return StoreError(f"{str(error) or type(error).__name__}; {outcome}{kept}")
