"""Adding and deleting rows. A release that was charged but could not be stored is kept for a repeated call."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._native import _core
from hushvec._util import validate
from hushvec.receipts.labels import RowReceipt
from hushvec.retrieval.index.content import Content, store_error
from hushvec.retrieval.index.documents import NOTE_BESIDE, Beside
from hushvec.retrieval.index.kept import KeptReleases
from hushvec.retrieval.index.prepared import prepare, require_rows


class Adding:
    """`PrivateIndex.add` and `delete`."""

    def __init__(self, content: Content, generator: _core.Generator) -> None:
        self._content, self._generator = content, generator
        self.unstored: KeptReleases[tuple[NDArray[np.float32], RowReceipt]] = KeptReleases()

    def add(self, vectors: Any, ids: Any, metadata: Any, texts: Any, *, replace: bool) -> RowReceipt | None:
        content, settings = self._content, self._content.settings
        x = require_rows("vectors", vectors, settings.dimension)
        new = content.ids.checked(ids, len(x), replace=validate.flag("replace", replace))
        beside = Beside.checked(texts, metadata, len(x))
        content.store.require_room(len(x))
        notes = () if beside.is_nothing else (NOTE_BESIDE,)
        call = x, None if ids is None else new, notes
        kept = self.unstored.find(*call)
        released, receipt = kept or prepare("vectors", x, settings.documents, settings, self._generator, notes).release()
        try:
            if replace:
                self.delete(new[content.ids.known(new)])
            content.store.add(released)
        except BaseException as error:
            if receipt is not None:
                self.unstored.keep((released, receipt), *call)
            if not isinstance(error, Exception):
                raise
            raise store_error("no row was added", error, receipt) from error
        self.unstored.drop(*call)
        content.ids.append(new)
        content.documents.append(beside)
        if receipt is not None:
            content.receipts.append(receipt)
        return receipt

    def delete(self, ids: Any) -> int:
        content = self._content
        places = content.ids.places(ids)
        if len(places):
            try:
                content.store.delete(places)
            except Exception as error:
                raise store_error("the rows count as there until the same call succeeds", error, None) from error
            content.ids.remove(places)
            content.documents.remove(places)
        return len(places)
