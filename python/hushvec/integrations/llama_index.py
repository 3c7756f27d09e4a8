"""Private embeddings in LlamaIndex: `PrivateEmbedding`, wherever an `embed_model` is asked for."""

from __future__ import annotations

import pickle
import secrets
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.integrations._source import NoiseOn, OnReceipt, PrivateSource, ReleasedList, Steps

with needs_extra("hushvec.integrations.llama_index", "llama-index"):
    from llama_index.core.base.embeddings.base import BaseEmbedding
    from llama_index.core.bridge.pydantic import PrivateAttr

# The most that LlamaIndex allows. Each batch is a release with a charge of its own, so few large ones cost least.
LARGEST_BATCH = 2048
_DISTANCES = "LlamaIndex's own store takes cosines; a FaissVectorStore over an IndexFlatL2 loses most of the search"


class PrivateEmbedding(BaseEmbedding):  # type: ignore[misc]
    """A LlamaIndex embedding model whose rows of documents, queries or both are private releases.

    Args:
        model, middleware, on_receipt, noise_on, unit_rows: see `hushvec.integrations`.
        embed_batch_size: most texts of one release.
        options: further fields of BaseEmbedding, such as callback_manager. An embeddings_cache is refused: it gives equal texts
            the same row, and so tells everyone who sees rows that the texts are equal, which no guarantee of a release covers.

    Rows are lists of floats that also have `receipt`. LlamaIndex copies them into its nodes, where they are plain lists.

    Edge cases:
        No texts: LlamaIndex answers with no rows by itself, and nothing is charged. An IngestionPipeline finds nothing in its cache
        for this model, for the reason above. A `to_dict` cannot be turned back into a model.

    Example:
        >>> import hushvec as hv
        >>> from llama_index.core.embeddings import MockEmbedding
        >>> from hushvec.integrations.llama_index import PrivateEmbedding
        >>> private = PrivateEmbedding(MockEmbedding(embed_dim=4), hv.dp_embedding_middleware(epsilon=8.0))
        >>> row = private.get_text_embedding("a")
        >>> len(row), row.receipt.epsilon
        (4, 8.0)
    """

    _source: PrivateSource = PrivateAttr()

    def __init__(
        self, model: Any, middleware: Steps | None = None, *, on_receipt: OnReceipt | None = None,
        noise_on: NoiseOn = "documents", unit_rows: bool = True, embed_batch_size: int = LARGEST_BATCH, **options: Any,
    ) -> None:
        source = PrivateSource(model, middleware, on_receipt, noise_on, unit_rows, _DISTANCES)
        named = {"model_name": source.wrapped.model_id or "unknown", **options}
        super().__init__(embed_batch_size=embed_batch_size, **named)
        self._source = source
        _ = self._uncached

    @classmethod
    def class_name(cls) -> str:
        """Return the name under which LlamaIndex reports the model."""
        return "HushvecPrivateEmbedding"

    def __getstate__(self) -> dict[str, Any]:
        pickle.dumps(self._source)  # LlamaIndex leaves out in silence what cannot be pickled
        state: dict[str, Any] = super().__getstate__()
        return state

    def to_dict(self, **options: Any) -> dict[str, Any]:
        """Return the model's description, different at every call: by it, an IngestionPipeline looks for earlier results."""
        return {**super().to_dict(**options), "release": secrets.token_hex(16)}

    def _get_query_embedding(self, query: str) -> ReleasedList[float]:
        return self._uncached.rows([query], "query")[0]

    async def _aget_query_embedding(self, query: str) -> ReleasedList[float]:
        return (await self._uncached.arows([query], "query"))[0]

    def _get_text_embedding(self, text: str) -> ReleasedList[float]:
        return self._uncached.rows([text], "document")[0]

    async def _aget_text_embedding(self, text: str) -> ReleasedList[float]:
        return (await self._uncached.arows([text], "document"))[0]

    def _get_text_embeddings(self, texts: list[str]) -> ReleasedList[ReleasedList[float]]:
        return self._uncached.rows(texts, "document")

    async def _aget_text_embeddings(self, texts: list[str]) -> ReleasedList[ReleasedList[float]]:
        return await self._uncached.arows(texts, "document")

    @property
    def _uncached(self) -> PrivateSource:
        """The source. Every call looks for a cache: the field can be set at any time, and a cache is empty before the first one."""
        if self.embeddings_cache is not None:
            raise ValueError(
                "embeddings_cache must be None, got a cache: equal texts would get the same row, which shows that they are equal"
            )
        return self._source
