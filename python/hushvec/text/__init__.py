"""Text in: embeddings of sentences, and redaction of personal data before anything is embedded.

Embedding needs `pip install 'hushvec[text]'` where a model is used, not at import; redaction needs nothing more.
"""

from hushvec._lazy import at_first_use

__all__ = ["Detector", "MiniLMEmbedder", "Redaction", "Redactor", "RuleInfo", "Span", "detect", "redact", "rules"]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "Detector": "pii.spans",
        "MiniLMEmbedder": "embedder",
        "Redaction": "pii.redactor",
        "Redactor": "pii.redactor",
        "RuleInfo": "pii.registry",
        "Span": "pii.spans",
        "detect": "pii.redactor",
        "redact": "pii.redactor",
        "rules": "pii.redactor",
    },
)
