"""Private embeddings in LangChain: `PrivateEmbeddings`, wherever an `Embeddings` is asked for."""

from __future__ import annotations

from hushvec._util.lazy import needs_extra
from hushvec.integrations._source import Adapter, ReleasedList

with needs_extra("hushvec.integrations.langchain", "langchain"):
    from langchain_core.embeddings import Embeddings


class PrivateEmbeddings(Adapter, Embeddings):  # type: ignore[misc]
    """A LangChain embedder whose rows of documents, queries or both are private releases.

    See `hushvec.integrations`. Rows are lists of floats that also have `receipt` (None for clean ones), and so are lists of such
    rows. Asynchronous methods use the model's own.

    Edge cases:
        A cache around it (CacheBackedEmbeddings) gives equal texts equal rows, which no release covers: do not use one.
        Store only what `embed_documents` answers: rows of `embed_query` are clean unless noise_on says otherwise.

    Example:
        >>> import hushvec as hv
        >>> from langchain_core.embeddings import DeterministicFakeEmbedding
        >>> from hushvec.integrations.langchain import PrivateEmbeddings
        >>> noise = hv.dp_embedding_middleware(epsilon=8.0, normalize=True)
        >>> private = PrivateEmbeddings(DeterministicFakeEmbedding(size=16), noise)
        >>> rows = private.embed_documents(["a", "b"])
        >>> len(rows), len(rows[0]), rows.receipt.epsilon, private.embed_query("c").receipt
        (2, 16, 8.0, None)
    """

    _distances = (
        "LangChain's FAISS and Chroma take the L2 distance by default (FAISS with DistanceStrategy.COSINE too) and lose most of the "
        "search; normalize_L2=True of FAISS and collection_configuration={'hnsw': {'space': 'cosine'}} of Chroma keep it"
    )

    def embed_documents(self, texts: list[str]) -> ReleasedList[ReleasedList[float]]:
        """Return rows for texts that are stored."""
        return self._source.rows(texts, "document")

    def embed_query(self, text: str) -> ReleasedList[float]:
        """Return a row for a text that is searched with."""
        return self._source.rows([text], "query")[0]

    async def aembed_documents(self, texts: list[str]) -> ReleasedList[ReleasedList[float]]:
        """`embed_documents` as a coroutine."""
        return await self._source.arows(texts, "document")

    async def aembed_query(self, text: str) -> ReleasedList[float]:
        """`embed_query` as a coroutine."""
        return (await self._source.arows([text], "query"))[0]
