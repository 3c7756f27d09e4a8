"""A private index in LangChain: `PrivateVectorStore`, wherever a `VectorStore` or a retriever is asked for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hushvec._util.lazy import needs_extra
from hushvec.integrations._index_store import Found, IndexStore
from hushvec.integrations._source import OnReceipt
from hushvec.retrieval.index.content import StoredDocument
from hushvec.retrieval.index.private_index import PrivateIndex

with needs_extra("hushvec.integrations.langchain_store", "langchain"):
    from langchain_core.documents import Document
    from langchain_core.embeddings import Embeddings
    from langchain_core.vectorstores import VectorStore

Filter = Mapping[str, Any]
Metadatas = Sequence[Mapping[str, Any]] | None
Ids = Sequence[str | None] | None
Row = Sequence[float] | NDArray[Any]


class PrivateVectorStore(VectorStore):  # type: ignore[misc]
    """A LangChain vector store over a `PrivateIndex`. The index adds the noise, to the sides that it was made with.

    Args:
        embeddings: any LangChain embedder, private or not.
        index, keep_texts, on_receipt, person_key: see `hushvec.integrations`, also for what stores raise and guarantee. Documents
            without texts come back with an empty `page_content`.

    Edge cases:
        `delete()` without ids deletes all. Maximal marginal relevance ranks by stored rows: refused with noise on queries, and
        with noise on scores alone. A score is an inner product, larger is better; relevance scores need cosines, so documents
        with noise need `renormalize=True`.

    Example:
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from hushvec.integrations.langchain_store import PrivateVectorStore
        >>> from hushvec.retrieval import PrivateIndex, VectorNoise
        >>> index = PrivateIndex(16, documents=VectorNoise(epsilon=100.0))
        >>> store = PrivateVectorStore(DeterministicFakeEmbedding(size=16), index)
        >>> store.add_texts(["a record", "another"], [{"year": 2020}, {"year": 2021}], ids=["1", "2"])
        ['1', '2']
        >>> store.similarity_search("a record", filter={"year": {"$gte": 2021}})[0].page_content, store.index.receipts[0].epsilon
        ('another', 100.0)
    """

    def __init__(
        self, embeddings: Embeddings, index: PrivateIndex, *, keep_texts: bool = True, on_receipt: OnReceipt | None = None,
        person_key: str | None = None,
    ) -> None:
        if not isinstance(embeddings, Embeddings):
            raise TypeError(f"embeddings must be LangChain Embeddings, got {type(embeddings).__name__}")
        self._embeddings = embeddings
        self._store = IndexStore(index, embeddings, keep_texts=keep_texts, on_receipt=on_receipt, person_key=person_key)

    @property
    def embeddings(self) -> Embeddings:
        """The embedder of documents and questions."""
        return self._embeddings

    @property
    def index(self) -> PrivateIndex:
        """The index, which holds the documents, their receipts and budgets, and saves them."""
        return self._store.index

    def add_texts(self, texts: Iterable[str], metadatas: Metadatas = None, *, ids: Ids = None, **_: Any) -> list[str]:
        """Add texts in one release, or replace those with known ids; their ids."""
        return self._store.write(self._store.batch(texts, metadatas, ids))

    async def aadd_texts(self, texts: Iterable[str], metadatas: Metadatas = None, *, ids: Ids = None, **_: Any) -> list[str]:
        """`add_texts` as a coroutine."""
        return await self._store.awrite(self._store.batch(texts, metadatas, ids))

    def delete(self, ids: Sequence[str] | None = None, **_: Any) -> bool:
        """Delete documents, all without ids; unknown ids are passed over. No budget gets anything back."""
        self._store.delete([str(document.id) for document in self._store.get()] if ids is None else ids)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents with these ids, without those that are not there."""
        return [_document(stored) for stored in self._store.get(ids)]

    @classmethod
    def from_texts(
        cls, texts: Iterable[str], embedding: Embeddings, metadatas: Metadatas = None, *, ids: Ids = None, **options: Any
    ) -> PrivateVectorStore:
        """Make a store with these texts, as `add_texts` takes them. `options` are those of the store: `index` must be given, since it
        says which noise there is."""
        store = cls._empty(embedding, **options)
        store.add_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    async def afrom_texts(
        cls, texts: Iterable[str], embedding: Embeddings, metadatas: Metadatas = None, *, ids: Ids = None, **options: Any
    ) -> PrivateVectorStore:
        """`from_texts` as a coroutine."""
        store = cls._empty(embedding, **options)
        await store.aadd_texts(texts, metadatas, ids=ids)
        return store

    @classmethod
    def _empty(cls, embedding: Embeddings, index: PrivateIndex | None = None, **options: Any) -> PrivateVectorStore:
        if index is None:
            raise TypeError("index must be given: a hushvec.retrieval.PrivateIndex, which says what noise there is")
        return cls(embedding, index, **options)

    def similarity_search(self, query: str, k: int = 4, *, filter: Filter | None = None) -> list[Document]:
        """Return the k documents nearest to a question; fewer where fewer match the filter."""
        return self.similarity_search_by_vector(self._store.embed_query(query), k, filter=filter)

    async def asimilarity_search(self, query: str, k: int = 4, *, filter: Filter | None = None) -> list[Document]:
        """`similarity_search` as a coroutine."""
        row = await self._store.aembed_query(query)
        return await asyncio.to_thread(self.similarity_search_by_vector, row, k, filter=filter)

    def similarity_search_by_vector(self, embedding: Row, k: int = 4, *, filter: Filter | None = None) -> list[Document]:
        """Return the k documents nearest to a vector."""
        return [_document(found.document) for found in self._store.search(embedding, k, where=filter)]

    def similarity_search_with_score(self, query: str, k: int = 4, *, filter: Filter | None = None) -> list[tuple[Document, float]]:
        """Return documents and inner products, the largest first. ValueError if the index names no scores ("gumbel")."""
        self._require_scores()
        return _with_scores(self._store.search(self._store.embed_query(query), k, where=filter))

    async def asimilarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Filter | None = None
    ) -> list[tuple[Document, float]]:
        """`similarity_search_with_score` as a coroutine."""
        self._require_scores()
        row = await self._store.aembed_query(query)
        return _with_scores(await asyncio.to_thread(self._store.search, row, k, where=filter))

    def max_marginal_relevance_search(
        self, query: str, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, *, filter: Filter | None = None
    ) -> list[Document]:
        """Return k documents near to a question and far from each other, of the `fetch_k` nearest."""
        row = self._store.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(row, k, fetch_k, lambda_mult, filter=filter)

    def max_marginal_relevance_search_by_vector(
        self, embedding: Row, k: int = 4, fetch_k: int = 20, lambda_mult: float = 0.5, *, filter: Filter | None = None
    ) -> list[Document]:
        """Return the same for a vector."""
        found, rows, question = self._store.search_for_diverse(embedding, fetch_k, where=filter)
        return [_document(found[place].document) for place in _most_marginal(question, rows, k, lambda_mult)] if found else []

    def _select_relevance_score_fn(self) -> Callable[[float], float]:
        settings = self.index.settings
        noised = [side for side in (settings.documents, settings.queries) if side is not None and not side.renormalize]
        if settings.scores is not None or noised or not settings.normalize:
            raise ValueError(
                "relevance scores need cosines: an index with normalize=True, without noise on scores, and with renormalize=True "
                "in its noise on documents or queries"
            )
        return lambda score: min(1.0, max(0.0, (1.0 + score) / 2.0))

    def _require_scores(self) -> None:
        noise = self.index.settings.scores
        if noise is not None and noise.mechanism == "gumbel":
            raise ValueError("scores must be released to be returned: noise on scores with mechanism 'gumbel' names the order alone")


def _most_marginal(question: NDArray[Any], rows: NDArray[Any], k: int, share: float) -> list[int]:
    """Choose up to k rows as LangChain's `maximal_marginal_relevance` does, by inner products in place of cosines."""
    relevance, overlaps = rows @ question, rows @ rows.T
    chosen = [int(np.argmax(relevance))]
    while len(chosen) < min(k, len(rows)):
        gain = share * relevance - (1 - share) * overlaps[chosen].max(axis=0)
        gain[chosen] = -np.inf
        chosen.append(int(np.argmax(gain)))
    return chosen[: max(k, 0)]


def _document(stored: StoredDocument) -> Document:
    return Document(id=stored.id, page_content=stored.text or "", metadata=stored.metadata)


def _with_scores(found: list[Found]) -> list[tuple[Document, float]]:
    return [(_document(each.document), float(each.score or 0.0)) for each in found]
