"""A private index in Haystack: `PrivateDocumentStore`, and `PrivateEmbeddingRetriever`, which searches it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.integrations._index_store import IndexStore
from hushvec.integrations._source import OnReceipt, in_thread
from hushvec.retrieval.index.content import StoredDocument
from hushvec.retrieval.index.private_index import PrivateIndex

with needs_extra("hushvec.integrations.haystack_store", "haystack"):
    from haystack import Document, component
    from haystack.document_stores.errors import DuplicateDocumentError
    from haystack.document_stores.types import DuplicatePolicy, FilterPolicy, apply_filter_policy
    from haystack.utils.filters import document_matches_filter

Filters = dict[str, Any]
_TYPES: dict[type, str] = {bool: "boolean", int: "int", float: "float"}  # as Haystack's own store names them


class PrivateDocumentStore:
    """A Haystack document store over a `PrivateIndex`. The index adds the noise, to the sides that it was made with.

    Args:
        index, keep_texts, on_receipt, person_key: see `hushvec.integrations`, also for what stores raise and guarantee. Documents come
            with embeddings.
        model: embeds the content of documents that come without embedding, if given: anything that `hushvec.wrap_embedding_model`
            takes.
        return_embedding: whether documents come back with the stored row: what was released, where documents have noise.
            ValueError with noise on scores alone.

    Edge cases:
        `DuplicatePolicy.NONE` is FAIL, as in Haystack's own store in memory. Refused are documents without text, without
        embedding where the store has no model, with a blob or a sparse embedding, which nothing would protect, and with nested
        meta. Filters are evaluated by Haystack. `to_dict` is refused.

    Example:
        >>> from haystack import Document
        >>> from hushvec.integrations.haystack_store import PrivateDocumentStore, PrivateEmbeddingRetriever
        >>> from hushvec.retrieval import PrivateIndex, VectorNoise
        >>> store = PrivateDocumentStore(PrivateIndex(4, documents=VectorNoise(epsilon=200.0, mechanism="gaussian")))
        >>> rows = {"a": [1.0, 0.0, 0.0, 0.0], "b": [0.0, 1.0, 0.0, 0.0]}
        >>> store.write_documents([Document(content=text, embedding=row) for text, row in rows.items()])
        2
        >>> answer = PrivateEmbeddingRetriever(store, top_k=1).run(rows["b"])
        >>> answer["documents"][0].content, store.index.receipts[0].rows
        ('b', 2)
    """

    def __init__(
        self, index: PrivateIndex, model: Any = None, *, keep_texts: bool = True, return_embedding: bool = False,
        on_receipt: OnReceipt | None = None, person_key: str | None = None,
    ) -> None:
        self._store = IndexStore(index, model, keep_texts=keep_texts, on_receipt=on_receipt, person_key=person_key)
        self.return_embedding = validate.flag("return_embedding", return_embedding)
        if return_embedding:
            self._store.require_public_rows("return_embedding")

    @property
    def index(self) -> PrivateIndex:
        """The index, which holds the documents, their receipts and budgets, and saves them."""
        return self._store.index

    def to_dict(self) -> NoReturn:
        """Refused with TypeError: a pipeline with this store cannot be written to a file."""
        raise TypeError(
            "PrivateDocumentStore cannot be serialized: it holds an index and perhaps a budget; save the index (store.index.save) and "
            "make the store of it in Python"
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> NoReturn:
        """Refused, as `to_dict`."""
        raise TypeError("PrivateDocumentStore cannot be read from a dict: load the index (PrivateIndex.load) and make the store of it")

    def write_documents(self, documents: list[Document], policy: DuplicatePolicy = DuplicatePolicy.NONE) -> int:
        """Write documents in one release; how many were written. The policy is for ids that are there or come twice: FAIL (as
        NONE; DuplicateDocumentError), SKIP, OVERWRITE. After an error nothing is stored, overwritten or charged."""
        chosen = self._chosen(documents, policy)
        if not chosen:
            return 0
        batch = self._store.batch(
            [document.content for document in chosen], [document.meta for document in chosen], [document.id for document in chosen]
        )
        rows = [document.embedding for document in chosen]
        self._store.refuse_released_rows(rows)
        if any(row is None for row in rows):
            embedded = iter(self._store.embed([document.content for document in chosen if document.embedding is None]))
            rows = [next(embedded) if row is None else row for row in rows]
        self._store.write(batch, rows, replace=policy == DuplicatePolicy.OVERWRITE)
        return len(documents) if policy == DuplicatePolicy.OVERWRITE else len(chosen)

    def update_by_filter(self, filters: Filters, meta: dict[str, Any]) -> int:
        """Merge fields into the meta of the documents that match. Their vectors stay: nothing is released or charged."""
        with self._store.lock:
            matching = self._matching(filters)
            self.index.update(_ids(matching), metadata=[{**stored.metadata, **meta} for stored in matching])
        return len(matching)

    def delete_documents(self, document_ids: list[str]) -> None:
        """Delete documents; unknown ids are passed over. No budget gets anything back."""
        self._store.delete(document_ids)

    def delete_all_documents(self) -> None:
        """Delete all documents. No budget gets anything back."""
        self.delete_by_filter({})

    def delete_by_filter(self, filters: Filters) -> int:
        """Delete the documents that match; how many they were."""
        return self._store.delete(_ids(self._matching(filters)))

    def count_documents(self) -> int:
        """Return how many documents there are."""
        return len(self.index)

    def count_documents_by_filter(self, filters: Filters) -> int:
        """Return how many documents match."""
        return len(self._matching(filters))

    def count_unique_metadata_by_filter(self, filters: Filters, metadata_fields: list[str]) -> dict[str, int]:
        """Count the different values that each of these fields of meta has among the documents that match, by its bare name."""
        matching = self._matching(filters)
        return {_bare(field): len(_different(field, matching)) for field in metadata_fields}

    def get_metadata_fields_info(self) -> dict[str, dict[str, str]]:
        """Return the fields of meta in use, each with the "type" of its last value: keyword, int, float or boolean."""
        return {
            field: {"type": _TYPES.get(type(value), "keyword")}
            for stored in self._store.get()
            for field, value in stored.metadata.items()
            if value is not None
        }

    def get_metadata_field_min_max(self, metadata_field: str) -> dict[str, Any]:
        """Return the "min" and "max" of a field of meta; None where no document has it, or its values cannot be compared."""
        values = [value for value in _different(metadata_field, self._store.get()) if isinstance(value, (int, float, str))]
        try:
            return {"min": min(values, default=None), "max": max(values, default=None)}
        except TypeError:   # numbers and strings
            return {"min": None, "max": None}

    def get_metadata_field_unique_values(
        self, metadata_field: str, search_term: str | None = None, from_: int = 0, size: int = 10, filters: Filters | None = None
    ) -> tuple[list[Any], int]:
        """`size` different values of a field of meta from place `from_` on, in the order of their text, and how many there are in all.

        With `search_term` only values whose text contains it, whatever the case; with `filters` those of documents that match.
        """
        place = validate.whole_number("from_", from_, at_least=0)
        most = validate.whole_number("size", size, at_least=0)
        term = (search_term or "").lower()
        values = [value for value in _different(metadata_field, self._matching(filters)) if term in str(value).lower()]
        values.sort(key=lambda value: (str(value), type(value).__name__))
        return values[place : place + most], len(values)

    def filter_documents(self, filters: Filters | None = None) -> list[Document]:
        """Return the documents that match, in the order in which they were written; all without filters."""
        with self._store.lock:
            return self._documents(self._matching(filters))

    def embedding_retrieval(self, query_embedding: list[float], *, filters: Filters | None = None, top_k: int = 10) -> list[Document]:
        """Return the documents nearest to the row of a question, with their inner products as score (None with "gumbel")."""
        with self._store.lock:
            found = self._store.search(query_embedding, top_k, among=_ids(self._matching(filters)) if filters else None)
            return self._documents([each.document for each in found], [each.score for each in found])

    write_documents_async = in_thread(write_documents)
    update_by_filter_async = in_thread(update_by_filter)
    delete_documents_async = in_thread(delete_documents)
    delete_all_documents_async = in_thread(delete_all_documents)
    delete_by_filter_async = in_thread(delete_by_filter)
    count_documents_async = in_thread(count_documents)
    count_documents_by_filter_async = in_thread(count_documents_by_filter)
    count_unique_metadata_by_filter_async = in_thread(count_unique_metadata_by_filter)
    get_metadata_fields_info_async = in_thread(get_metadata_fields_info)
    get_metadata_field_min_max_async = in_thread(get_metadata_field_min_max)
    get_metadata_field_unique_values_async = in_thread(get_metadata_field_unique_values)
    filter_documents_async = in_thread(filter_documents)

    def _chosen(self, documents: Any, policy: DuplicatePolicy) -> list[Document]:
        """Return the documents that a policy writes, each id once."""
        if isinstance(documents, (str, Mapping)) or not isinstance(documents, Iterable):
            raise ValueError(f"documents must be a list of Document objects, got {validate.kind(documents)}")
        chosen: dict[str, Document] = {}
        listed = list(documents)
        for place, document in enumerate(listed):
            _require_storable(place, document)
        known = set(_ids(self._store.get([document.id for document in listed])))
        for document in listed:
            if policy != DuplicatePolicy.OVERWRITE and (document.id in known or document.id in chosen):
                if policy == DuplicatePolicy.SKIP:
                    continue
                raise DuplicateDocumentError(f"id must be new with policy FAIL, got {document.id!r}, which is there")
            chosen[document.id] = document
        return list(chosen.values())

    def _matching(self, filters: Filters | None) -> list[StoredDocument]:
        stored = self._store.get()
        if not filters:
            return stored
        return [each for each in stored if document_matches_filter(filters, _document(each))]

    def _documents(self, stored: list[StoredDocument], scores: list[float | None] | None = None) -> list[Document]:
        nothing: list[Any] = [None] * len(stored)
        rows = self.index.vectors(_ids(stored)).tolist() if self.return_embedding and stored else nothing
        return [_document(each, embedding=row, score=score) for each, row, score in zip(stored, rows, scores or nothing)]


@component
class PrivateEmbeddingRetriever:
    """A Haystack retriever over a `PrivateDocumentStore`: by the embedding of a question.

    Args:
        document_store: the store. A search is charged only where its index has noise on queries or scores.
        filters: of every search.
        top_k: most documents of an answer.
        filter_policy: whether filters of a run replace those above or are merged with them.

    `run` raises what `PrivateIndex.search` does, in a pipeline as the cause of a PipelineRuntimeError.
    """

    def __init__(
        self, document_store: PrivateDocumentStore, filters: Filters | None = None, top_k: int = 10,
        filter_policy: FilterPolicy = FilterPolicy.REPLACE,
    ) -> None:
        if not isinstance(document_store, PrivateDocumentStore):
            raise TypeError(f"document_store must be a PrivateDocumentStore, got {validate.kind(document_store)}")
        self.document_store = document_store
        self.filters = filters
        self.top_k = validate.whole_number("top_k", top_k, at_least=1)
        self.filter_policy = filter_policy

    def to_dict(self) -> dict[str, Any]:
        """Refused with the store's."""
        return {"document_store": self.document_store.to_dict()}

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    def run(self, query_embedding: list[float], filters: Filters | None = None, top_k: int | None = None) -> dict[str, Any]:
        """Return the documents nearest to the embedding of a question."""
        chosen = apply_filter_policy(self.filter_policy, self.filters, filters)
        most = self.top_k if top_k is None else top_k
        return {"documents": self.document_store.embedding_retrieval(query_embedding, filters=chosen, top_k=most)}

    @component.output_types(documents=list[Document])  # type: ignore[untyped-decorator]
    async def run_async(
        self, query_embedding: list[float], filters: Filters | None = None, top_k: int | None = None
    ) -> dict[str, Any]:
        """`run` as a coroutine, in a thread."""
        return await asyncio.to_thread(self.run, query_embedding, filters, top_k)


def _require_storable(place: int, document: Any) -> None:
    if not isinstance(document, Document):
        raise ValueError(f"documents must be Document objects, got {validate.kind(document)} at position {place}")
    if not isinstance(document.content, str):
        raise ValueError(f"documents must have text content, got {validate.kind(document.content)} at position {place}")
    for name in ("blob", "sparse_embedding"):
        if getattr(document, name) is not None:
            raise ValueError(f"documents must have no {name}, which nothing here protects, got one at position {place}")


def _ids(documents: list[StoredDocument]) -> list[str]:
    return [str(each.id) for each in documents]


def _bare(field: str) -> str:
    return field.removeprefix("meta.")


def _different(field: str, documents: list[StoredDocument]) -> list[Any]:
    """Return values of a field of meta, each once: 1, 1.0, "1" and True are four."""
    values = [document.metadata.get(_bare(field)) for document in documents]
    return list({(type(value), repr(value)): value for value in values if value is not None}.values())


def _document(stored: StoredDocument, **fields: Any) -> Document:
    return Document(id=stored.id, content=stored.text, meta=stored.metadata, **fields)
