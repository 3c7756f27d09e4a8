"""Which bounds on the norms of embeddings are public knowledge."""

from __future__ import annotations

from typing import Any

from hushvec._util import validate

# Models whose vectors have unit norm, by the last part of their names: their own last step normalizes, or their service says so.
# jina-embeddings-v2, mxbai-embed-large and snowflake-arctic-embed: fastembed 0.9.1 divides their rows by their norm. It does not do
# so for nomic-embed-text, and no package says that the model itself does: it is left out.
UNIT_NORM_MODELS = frozenset(
    {
        "all-distilroberta-v1",
        "all-minilm-l12-v2",
        "all-minilm-l6-v2",
        "all-mpnet-base-v2",
        "bge-base-en-v1.5",
        "bge-large-en-v1.5",
        "bge-m3",
        "bge-small-en-v1.5",
        "e5-base-v2",
        "e5-large-v2",
        "e5-small-v2",
        "gte-base",
        "gte-large",
        "gte-small",
        "gtr-t5-base",
        "gtr-t5-large",
        "jina-embeddings-v2-base-code",
        "jina-embeddings-v2-base-de",
        "jina-embeddings-v2-base-en",
        "jina-embeddings-v2-base-es",
        "jina-embeddings-v2-base-zh",
        "jina-embeddings-v2-small-en",
        "multi-qa-minilm-l6-cos-v1",
        "multi-qa-mpnet-base-cos-v1",
        "multilingual-e5-base",
        "multilingual-e5-large",
        "multilingual-e5-small",
        "mxbai-embed-large-v1",
        "sentence-t5-base",
        "snowflake-arctic-embed-l",
        "snowflake-arctic-embed-m",
        "snowflake-arctic-embed-m-long",
        "snowflake-arctic-embed-s",
        "snowflake-arctic-embed-xs",
        "text-embedding-3-large",
        "text-embedding-3-small",
        "text-embedding-ada-002",
    }
)


def is_unit_norm_model(model_id: str | None) -> bool:
    """Whether the model is in the table of those that make unit vectors."""
    if model_id is not None and not isinstance(model_id, str):
        raise TypeError(f"model_id must be a str or None, got {validate.kind(model_id)}")
    return model_id is not None and model_id.rstrip("/").rsplit("/", 1)[-1].lower() in UNIT_NORM_MODELS


# The clip norm where no bound is known. It suits GTR, whose rows have norms of about 1.
DEFAULT_CLIP_NORM = 1.5


def default_clip_norm(norm_bound: float | None) -> float:
    """The bound itself, which leaves rows as they are and adds no more noise than they need."""
    return DEFAULT_CLIP_NORM if norm_bound is None else norm_bound


def norm_bound_of(model: Any, model_id: str | None) -> float | None:
    """The L2 norm that no row of the model exceeds, up to rounding; None if no such bound is known.

    A model's own `norm_bound` counts first. Else it is 1 for a sentence-transformers model whose last module normalizes, and for a
    model in the table of those that make unit vectors. It is the default of a clip norm and no guarantee: rows are clipped anyway.

    Raises:
        TypeError, ValueError: the model's `norm_bound` is no number > 0.
    """
    if hasattr(model, "norm_bound"):
        return None if model.norm_bound is None else validate.positive("norm_bound", model.norm_bound)
    return 1.0 if _normalizes(model) or is_unit_norm_model(model_id) else None


def _normalizes(model: Any) -> bool:
    """Whether the last module of a sentence-transformers model is its Normalize."""
    if not callable(getattr(model, "encode", None)) or not callable(getattr(model, "children", None)):
        return False
    modules = list(model.children())
    return bool(modules) and type(modules[-1]).__name__ == "Normalize"
