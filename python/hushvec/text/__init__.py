"""Text in: embeddings of sentences. Needs `pip install 'hushvec[text]'` where a model is used, not at import."""

from hushvec.text.embedder import MiniLMEmbedder

__all__ = ["MiniLMEmbedder"]
