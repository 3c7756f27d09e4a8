"""Shared base of the stores: a `PrivateIndex` with texts, metadata and string ids, for hosts that call from several threads."""

from __future__ import annotations

import asyncio
import hashlib
import threading
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hushvec._util import validate
from hushvec.budget import PrivacyBudget
from hushvec.embedders.protocol import KINDS, Embeddings, Kind
from hushvec.errors import StoreError
from hushvec.integrations._source import OnReceipt, PrivateSource, require_on_receipt
from hushvec.middleware import EmbeddingMiddleware, WrappedEmbeddingModel, wrap_embedding_model
from hushvec.retrieval.index.content import Documents, StoredDocument
from hushvec.retrieval.index.private_index import PrivateIndex

_SIDES: dict[Kind, str] = {"document": "documents", "query": "queries"}


class Found(NamedTuple):
    """A document that a search found; no score where the index releases none (noise on scores, "gumbel")."""

    document: StoredDocument
    score: float | None


class Batch(NamedTuple):
    """Documents on their way into the index, with unique ids."""

    ids: list[str]
    texts: list[str]
    metadata: list[Mapping[str, Any]]
    asked: bytes | None  # digest of what came, if an id was missing: the same again gets the same ids where the store failed
    people: list[Any] | None  # whom each is about, where the store was told which field of the metadata says so


class IndexStore:
    """Documents in a private index, as `hushvec.integrations` says. Calls of the index that bypass the store hold its `lock`."""

    def __init__(
        self, index: Any, model: Any = None, *, keep_texts: bool = True, on_receipt: OnReceipt | None = None,
        person_key: str | None = None,
    ) -> None:
        if not isinstance(index, PrivateIndex):
            raise TypeError(f"index must be a hushvec.retrieval.PrivateIndex, got {validate.kind(index)}")
        if len(index) and index.ids.dtype != object:
            raise TypeError("index must have strings as ids, or no rows yet, got integers")
        for kind in _noised_kinds(model):
            self._refuse_two_noises(index, kind, "the model")
        if person_key is not None and not isinstance(getattr(index.settings.documents, "budget", None), PrivacyBudget):
            raise ValueError("person_key must be None for an index whose documents have no PrivacyBudget: nobody would be charged")
        self.index, self.person_key = index, person_key
        self.keep_texts = validate.flag("keep_texts", keep_texts)
        self._on_receipt = require_on_receipt(on_receipt)
        if model is not None and not isinstance(model, WrappedEmbeddingModel):
            model = wrap_embedding_model(model, EmbeddingMiddleware())
        self._model: WrappedEmbeddingModel | None = model
        self._unstored: dict[bytes, list[str]] = {}  # new ids of batches that met a store that failed
        self.lock = threading.RLock()  # for adapters too, around calls that belong together

    def batch(self, texts: Iterable[str], metadata: Sequence[Mapping[str, Any]] | None, ids: Sequence[str | None] | None) -> Batch:
        """Check documents before a model runs or a budget is charged; where an id is missing, they get a new one."""
        listed = list(texts)
        fields = [{} for _ in listed] if metadata is None else list(metadata)
        Documents.checked(listed, fields, len(listed))
        names = [None] * len(listed) if ids is None else list(ids)
        if len(names) != len(listed):
            raise ValueError(f"ids must be as many as the {len(listed)} texts, got {len(names)}")
        for name in names:
            if name is not None and not isinstance(name, str):
                raise TypeError(f"ids must be strings or None, got {validate.kind(name)}")
        asked = None if all(names) else hashlib.sha256(repr((names, listed, fields)).encode("utf-8", "backslashreplace")).digest()
        people = None if self.person_key is None else [one.get(self.person_key) for one in fields]
        if people and None in people:
            raise ValueError(f"metadata must have {self.person_key!r}, whom a document is about, got none at {people.index(None)}")
        given = [name or str(uuid.uuid4()) for name in names]
        for name, count in Counter(given).items():
            if count > 1:
                raise ValueError(f"ids must be unique, got {name!r:.80} {count} times")
        return Batch(given, listed, fields, asked, people)

    def write(self, batch: Batch, rows: Any = None, *, replace: bool = True) -> list[str]:
        """Store documents in one release; their ids. Without documents nothing happens, and without rows the model embeds the texts.

        With `replace` a known id is deleted and comes back as a new release, with a new charge; else it is refused.
        """
        if not batch.ids:
            return []
        array = as_array("embeddings", self.embed(batch.texts) if rows is None else rows, 2)
        with self.lock:
            ids = batch.ids if batch.asked is None else self._unstored.pop(batch.asked, batch.ids)
            texts = batch.texts if self.keep_texts else None
            try:
                receipt = self.index.add(array, ids, batch.metadata, texts, replace=replace, people=batch.people)
            except StoreError:
                if batch.asked is not None:
                    self._unstored[batch.asked] = ids
                raise
        self._report(receipt)
        return ids

    async def awrite(self, batch: Batch) -> list[str]:
        """`write` as a coroutine: with the model's own, and the index in a thread."""
        if not batch.ids:
            return []
        rows = await self._required_model.aembed(batch.texts, "document")
        return await asyncio.to_thread(self.write, batch, self._noised_once(rows, "document"))

    def delete(self, ids: Iterable[str]) -> int:
        """Delete documents; ids that are not there are passed over."""
        with self.lock:
            return self.index.delete(self._known(ids))

    def get(self, ids: Iterable[str] | None = None) -> list[StoredDocument]:
        """Return documents by their ids, without those that are not there; None for all."""
        with self.lock:
            return self.index.get(None if ids is None else self._known(ids))

    def embed(self, texts: Sequence[str]) -> NDArray[Any]:
        return self._noised_once(self._required_model.embed(texts, "document"), "document")

    def embed_query(self, text: str) -> NDArray[Any]:
        return self._noised_once(self._required_model.embed([text], "query"), "query").reshape(-1)

    async def aembed_query(self, text: str) -> NDArray[Any]:
        return self._noised_once(await self._required_model.aembed([text], "query"), "query").reshape(-1)

    def search(self, row: Any, k: int, *, where: Mapping[str, Any] | None = None, among: Sequence[str] | None = None) -> list[Found]:
        """Find at most k documents for a query's row, best first. Where none is left nothing is found or charged."""
        if getattr(row, "receipts", ()):
            self._refuse_two_noises(self.index, "query", "a private embedder")
        query = as_array("query", row, 1)
        most = validate.whole_number("k", k, at_least=1)
        with self.lock:
            if not len(self.index):
                return []
            if where is None and among is None:
                most = min(most, len(self.index))
            there = None if among is None else self._known(among)
            answer = self.index.search(query, most, where=where, among=there)
            documents = self.index.get(answer.ids[0])
        self._report(answer.query_receipt)
        self._report(answer.score_receipt)
        scores = [None] * len(documents) if answer.scores is None else answer.scores[0].tolist()
        return [Found(document, score) for document, score in zip(documents, scores)]

    @property
    def _required_model(self) -> WrappedEmbeddingModel:
        if self._model is None:
            raise ValueError("model must be given to embed texts: this store has none")
        return self._model

    def require_public_rows(self, what: str) -> None:
        """Refuse what hands out rows, or ranks by them, where only answers are protected."""
        if self.index.settings.scores is not None and self.index.settings.documents is None:
            raise ValueError(f"{what} needs the stored rows, which noise on scores does not protect")

    def search_for_diverse(self, row: Any, k: int, **narrowed: Any) -> tuple[list[Found], NDArray[Any], NDArray[Any]]:
        """Search for documents to choose far ones among: these, their rows, and the question at norm 1.

        The index ranks by inner products; noisy rows differ in norm, and cosines would rank them differently. At norm 1 the
        question's products are comparable with those among rows. ValueError where rows are not public, or the question asked is
        another one.
        """
        self.require_public_rows("maximal marginal relevance")
        if self.index.settings.queries is not None:
            raise ValueError("maximal marginal relevance needs the clean question, which an index with noise on queries does not use")
        if self.index.projection is not None:
            raise ValueError("maximal marginal relevance needs rows of the question's dimension: the index has a projection")
        question = np.asarray(as_array("query", row, 1), np.float64)
        with self.lock:
            found = self.search(row, k, **narrowed)
            rows = self.index.vectors([each.document.id for each in found]) if found else np.empty((0, len(question)))
        return found, np.asarray(rows, np.float64), question / (np.linalg.norm(question) or 1.0)

    def refuse_released_rows(self, rows: Iterable[Any]) -> None:
        """Rows with receipts, that is with noise, do not go into an index that adds noise itself."""
        if any(getattr(row, "receipts", ()) for row in rows):
            self._refuse_two_noises(self.index, "document", "a private embedder")

    def _known(self, ids: Iterable[str]) -> list[str]:
        """Return those of the ids that are there, each once."""
        wanted = list(dict.fromkeys(ids))
        return [one for one, there in zip(wanted, self.index.has(wanted)) if there]

    def _report(self, receipt: Any) -> None:
        if receipt is not None and self._on_receipt is not None:
            self._on_receipt(receipt)

    def _noised_once(self, rows: Embeddings, kind: Kind) -> NDArray[Any]:
        """Return rows of the model, which may turn out to be released only now."""
        if rows.receipts:
            self._refuse_two_noises(self.index, kind, "what embedded them")
        for receipt in rows.receipts:
            self._report(receipt)
        return np.asarray(rows)

    @staticmethod
    def _refuse_two_noises(index: PrivateIndex, kind: Kind, whose: str) -> None:
        side = _SIDES[kind]
        if getattr(index.settings, side) is not None:
            raise ValueError(
                f"{side} must get noise once, got it from {whose} and from the index: both would be charged. "
                f"Give the index {side}=None, or the store a model without noise on them"
            )


def _noised_kinds(model: Any) -> tuple[Kind, ...]:
    """Return the kinds of text whose rows a model of hushvec releases."""
    source = getattr(model, "_source", None)
    if isinstance(source, PrivateSource):
        return tuple(kind for kind in KINDS if source.side(kind).adds_noise)
    return KINDS if isinstance(model, WrappedEmbeddingModel) and model.adds_noise else ()


def as_array(name: str, rows: Any, dimensions: int) -> NDArray[Any]:
    """Return rows of a host, which are arrays or lists of numbers."""
    try:
        array = rows if isinstance(rows, np.ndarray) else np.array(rows, np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be numbers in rows of one length, got {validate.kind(rows)}") from None
    if array.ndim != dimensions:
        raise ValueError(f"{name} must have {dimensions} dimensions, got {array.ndim}")
    return np.asarray(array)
