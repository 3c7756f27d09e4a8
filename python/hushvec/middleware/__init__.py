"""Middleware around models: noise, redaction and randomized answers in the tools that people already use.

    array -> adapter -> wrap_embedding_model -> steps (texts in, rows out) -> hushvec.release -> receipt
"""

from hushvec.middleware.classification import (  # isort: skip
    Classification, ClassificationMiddleware, Classifications, PrivateClassifier, PrivateEstimator, PrivateLabels,
    dp_classification_middleware, wrap_classification_model,
)
from hushvec.middleware.privacy import (  # isort: skip
    EmpiricalSensitivity, calibrate_sensitivity, dp_embedding_middleware, get_sensitivity, lookup_sensitivity,
)
from hushvec.middleware.wrap import (  # isort: skip
    EmbeddingMiddleware, WrappedEmbeddingModel, compose_embedding_middleware, pii_redaction_middleware, wrap_embedding_model,
)
from hushvec.embedders.protocol import EmbeddingModel, EmbeddingRequest, EmbeddingResult, Embeddings
from hushvec.embedders.sources import as_embedding_model

__all__ = [
    "Classification", "ClassificationMiddleware", "Classifications", "EmbeddingMiddleware", "EmbeddingModel", "EmbeddingRequest",
    "EmbeddingResult", "Embeddings", "EmpiricalSensitivity", "PrivateClassifier", "PrivateEstimator", "PrivateLabels",
    "WrappedEmbeddingModel", "as_embedding_model", "calibrate_sensitivity", "compose_embedding_middleware",
    "dp_classification_middleware", "dp_embedding_middleware", "get_sensitivity", "lookup_sensitivity",
    "pii_redaction_middleware", "wrap_classification_model", "wrap_embedding_model",
]
