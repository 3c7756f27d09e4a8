"""Redaction on the way in, noise on the way out, in one wrapped model."""

import hushvec as hv
from hushvec.text import MiniLMEmbedder, redact

text = "Patient John Doe, email john@example.com, phone (415) 555-2671, SSN 536-22-8145, diagnosed with condition X"
print("the model sees:", redact(text, patterns=["email", "phone", "ssn"]).text)

secure_model = hv.wrap_embedding_model(
    MiniLMEmbedder(),
    hv.compose_embedding_middleware(
        [
            hv.pii_redaction_middleware(patterns=["email", "phone", "ssn"]),
            hv.dp_embedding_middleware(epsilon=1.0),
        ]
    ),
)
embedding = secure_model.embed([text])
print("released:", embedding.shape, f"epsilon {embedding.receipt.epsilon}, delta {embedding.receipt.delta}")
