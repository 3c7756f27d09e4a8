"""A private index in LlamaIndex: `PrivateVectorStore`, wherever a `vector_store` is asked for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from hushvec._util import validate
from hushvec._util.lazy import needs_extra
from hushvec.integrations._index_store import Found, IndexStore
from hushvec.integrations._source import OnReceipt, in_thread
from hushvec.retrieval.index.content import StoredDocument
from hushvec.retrieval.index.private_index import PrivateIndex

with needs_extra("hushvec.integrations.llama_index_store", "llama-index"):
    from llama_index.core.bridge.pydantic import PrivateAttr
    from llama_index.core.indices.query.embedding_utils import get_top_k_mmr_embeddings
    from llama_index.core.schema import BaseNode, MetadataMode
    from llama_index.core.vector_stores.types import (
        BasePydanticVectorStore,
        FilterCondition,
        MetadataFilters,
        VectorStoreQuery,
        VectorStoreQueryMode,
        VectorStoreQueryResult,
    )
    from llama_index.core.vector_stores.utils import build_metadata_filter_fn, metadata_dict_to_node, node_to_metadata_dict

_DOCUMENT = "ref_doc_id"
_NAMES = (_DOCUMENT, "document_id", "doc_id", "_node_type")  # all that `node_to_metadata_dict` adds, but for the node with its text


class PrivateVectorStore(BasePydanticVectorStore):  # type: ignore[misc]
    """A LlamaIndex vector store over a `PrivateIndex`. The index adds the noise, to the sides that it was made with.

    Args:
        index, stores_text, on_receipt, person_key: see `hushvec.integrations`, also for what stores raise and guarantee. LlamaIndex
            copies the rows of nodes, so the store cannot tell released ones from others: **put noise on documents into the index
            or into the model, not both**. Without stores_text, LlamaIndex keeps nodes in its docstore; texts are read there.

    Edge cases:
        Each `add` is one release; LlamaIndex adds `insert_batch_size` nodes at a time, 2,048 if not named. Query modes other than
        "default" and "mmr" are refused. Mode "mmr" ranks all nodes by stored rows, as LlamaIndex's own store does: refused with noise
        on queries, with noise on scores alone, and behind a projection. Filters are those of LlamaIndex, nested ones too. `persist`
        writes nothing: save the index.

    Example:
        >>> from llama_index.core.schema import TextNode
        >>> from llama_index.core.vector_stores.types import VectorStoreQuery
        >>> from hushvec.integrations.llama_index_store import PrivateVectorStore
        >>> from hushvec.retrieval import PrivateIndex, VectorNoise
        >>> store = PrivateVectorStore(PrivateIndex(4, documents=VectorNoise(epsilon=200.0, mechanism="gaussian")))
        >>> store.add([TextNode(text="a", id_="1", embedding=[1.0, 0, 0, 0]), TextNode(text="b", id_="2", embedding=[0, 1.0, 0, 0])])
        ['1', '2']
        >>> found = store.query(VectorStoreQuery(query_embedding=[0, 1.0, 0, 0]))
        >>> found.nodes[0].text, found.ids, store.index.receipts[0].rows
        ('b', ['2'], 2)
    """

    stores_text: bool = True

    _store: IndexStore = PrivateAttr()

    def __init__(
        self, index: PrivateIndex, *, stores_text: bool = True, on_receipt: OnReceipt | None = None, person_key: str | None = None
    ) -> None:
        super().__init__(stores_text=validate.flag("stores_text", stores_text))
        self._store = IndexStore(index, keep_texts=stores_text, on_receipt=on_receipt, person_key=person_key)

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex reports the store."""
        return "HushvecPrivateVectorStore"

    @property
    def client(self) -> PrivateIndex:
        """The index."""
        return self._store.index

    @property
    def index(self) -> PrivateIndex:
        """The index, which holds the nodes, their receipts and budgets, and saves them."""
        return self._store.index

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Add nodes in one release, or replace those with known ids; their ids."""
        texts = [node.get_content(metadata_mode=MetadataMode.NONE) for node in nodes]
        batch = self._store.batch(texts, [self._fields(node) for node in nodes], [node.node_id for node in nodes])
        return self._store.write(batch, [node.get_embedding() for node in nodes])

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Delete the nodes of a document. No budget gets anything back."""
        with self._store.lock:
            self._store.delete(map(str, self.index.find({_DOCUMENT: ref_doc_id})))

    def delete_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any) -> None:
        """Delete the nodes that have one of these ids and match the filters; all without either."""
        self._store.delete([str(stored.id) for stored in self._matching(node_ids, filters)])

    def get_nodes(self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None) -> list[BaseNode]:
        """Return nodes that have one of these ids and match the filters, without rows; all without either. Needs stores_text."""
        if not self.stores_text:
            raise ValueError("stores_text must be True to get nodes: they are in LlamaIndex's docstore")
        return [_node(stored) for stored in self._matching(node_ids, filters)]

    def clear(self) -> None:
        """Delete all nodes. No budget gets anything back."""
        self.delete_nodes()

    def query(self, query: VectorStoreQuery, *, mmr_threshold: float | None = None, **_: Any) -> VectorStoreQueryResult:
        """Return the nodes nearest to the row of a question: of those that filters, node_ids and doc_ids all leave.

        No node_ids or doc_ids, as a VectorStoreIndex gives them to stores with texts, leave all. In mode "mmr", nodes near to the
        question and far from each other: mmr_threshold (0.5 if not given here or in the query) is 1 for the question alone, 0 for the
        distance alone. ValueError for another mode, no row, or a filter that LlamaIndex does not have.
        """
        diverse = query.mode == VectorStoreQueryMode.MMR
        if not diverse and query.mode != VectorStoreQueryMode.DEFAULT:
            raise ValueError(f"mode must be 'default' or 'mmr', got {query.mode!r}")
        if query.query_embedding is None:
            raise ValueError("query_embedding must be given: this store embeds nothing")
        among = None
        if query.filters is not None or query.node_ids or query.doc_ids:
            among = [str(stored.id) for stored in self._matching(query.node_ids or None, query.filters, query.doc_ids or None)]
        if diverse:
            threshold = query.mmr_threshold if mmr_threshold is None else mmr_threshold
            found = self._diverse(query.query_embedding, query.similarity_top_k, among, 0.5 if threshold is None else threshold)
        else:
            found = self._store.search(query.query_embedding, query.similarity_top_k, among=among)
        named = [each.score for each in found if each.score is not None]
        return VectorStoreQueryResult(
            nodes=[_node(each.document) for each in found] if self.stores_text else None,
            similarities=named if len(named) == len(found) else None,
            ids=[str(each.document.id) for each in found],
        )

    async_add = in_thread(add)
    adelete = in_thread(delete)
    adelete_nodes = in_thread(delete_nodes)
    aget_nodes = in_thread(get_nodes)
    aclear = in_thread(clear)
    aquery = in_thread(query)

    def _diverse(self, row: Any, k: int, among: list[str] | None, threshold: float) -> list[Found]:
        most, share = validate.whole_number("k", k, at_least=1), validate.number("mmr_threshold", threshold)
        if not 0 <= share <= 1:
            raise ValueError(f"mmr_threshold must be in [0, 1], got {share!r}")
        found, rows, question = self._store.search_for_diverse(row, max(1, len(self.index)), among=among)
        scores, places = get_top_k_mmr_embeddings(question, list(rows), np.dot, most, mmr_threshold=share)
        return [Found(found[place].document, float(score)) for score, place in zip(scores, places)]

    def _fields(self, node: BaseNode) -> dict[str, Any]:
        fields: dict[str, Any] = node_to_metadata_dict(node, remove_text=True)
        return fields if self.stores_text else {name: fields[name] for name in fields if name in node.metadata or name in _NAMES}

    def _matching(
        self, node_ids: Sequence[str] | None, filters: MetadataFilters | None, documents: Sequence[str] | None = None
    ) -> list[StoredDocument]:
        stored = self._store.get(node_ids)
        if documents is not None:
            stored = [each for each in stored if each.metadata.get(_DOCUMENT) in documents]
        matches = _matcher({str(each.id): each.metadata for each in stored}.__getitem__, filters)
        return [each for each in stored if matches(str(each.id))]


def _matcher(metadata: Callable[[str], Mapping[str, Any]], filters: MetadataFilters | None) -> Callable[[str], bool]:
    """Return whether a node matches, by LlamaIndex's own rules, which leave nested filters out: those are put together here."""
    if filters is None or not any(isinstance(part, MetadataFilters) for part in filters.filters):
        host: Callable[[str], bool] = build_metadata_filter_fn(metadata, filters)
        return host
    parts = [
        _matcher(metadata, part if isinstance(part, MetadataFilters) else MetadataFilters(filters=[part])) for part in filters.filters
    ]
    if filters.condition == FilterCondition.OR:
        return lambda one: any(part(one) for part in parts)
    if filters.condition == FilterCondition.NOT:
        return lambda one: not any(part(one) for part in parts)
    return lambda one: all(part(one) for part in parts)


def _node(stored: StoredDocument) -> BaseNode:
    return metadata_dict_to_node(stored.metadata, text=stored.text)
