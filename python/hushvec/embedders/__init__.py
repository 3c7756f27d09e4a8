"""Embedding models: anything that embeds texts behind one protocol, and what it answers as rows with usage and metadata.

    protocol     what an embedding model is, what goes in and out of it, and its answers as finite rows
    sources      models of other libraries, by the methods that they have, and by their names; bounds on norms
    minilm, gtr  the two that hushvec brings code for, with `checkpoints` below them
"""

from hushvec.embedders.gtr import GTREmbedder
from hushvec.embedders.minilm import MiniLMEmbedder
from hushvec.embedders.protocol import EmbeddingModel, EmbeddingRequest, EmbeddingResult, Embeddings
from hushvec.embedders.sources import as_embedding_model

__all__ = [
    "EmbeddingModel", "EmbeddingRequest", "EmbeddingResult", "Embeddings", "GTREmbedder", "MiniLMEmbedder", "as_embedding_model",
]
