"""Embedding models: anything that embeds texts behind one protocol, and what it answers as rows with usage and metadata."""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec.embedders.gtr import GTREmbedder
    from hushvec.embedders.minilm import MiniLMEmbedder
    from hushvec.embedders.protocol import EmbeddingModel, EmbeddingRequest, EmbeddingResult, Embeddings
    from hushvec.embedders.sources import as_embedding_model

__all__ = [
    "EmbeddingModel",
    "EmbeddingRequest",
    "EmbeddingResult",
    "Embeddings",
    "GTREmbedder",
    "MiniLMEmbedder",
    "as_embedding_model",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "EmbeddingModel": "protocol",
        "EmbeddingRequest": "protocol",
        "EmbeddingResult": "protocol",
        "Embeddings": "protocol",
        "GTREmbedder": "gtr",
        "MiniLMEmbedder": "minilm",
        "as_embedding_model": "sources",
    },
)
