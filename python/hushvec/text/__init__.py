"""Embeddings of sentences, redaction of personal data before anything is embedded, and private rewriting of texts.

Embedding needs `pip install 'hushvec[text]'` where a model is used, not at import; redaction needs nothing more.
"""

from typing import TYPE_CHECKING

from hushvec._util.lazy import at_first_use

if TYPE_CHECKING:
    from hushvec.embedders.minilm import MiniLMEmbedder
    from hushvec.text.corpus import PublicCorpus
    from hushvec.text.inverters.public import PublicInverter
    from hushvec.text.inverters.trained.inverter import TrainedInverter
    from hushvec.text.inverters.trained.training import train_inverter
    from hushvec.text.inverters.vec2text.inverter import Vec2TextInverter
    from hushvec.text.pii.redactor import Redaction, Redactor, detect, redact, rules
    from hushvec.text.pii.registry import RuleInfo
    from hushvec.text.pii.spans import Detector, Span
    from hushvec.text.public_choice import PublicChoice
    from hushvec.text.rewriting.results import Rewriting, RewrittenSpan
    from hushvec.text.rewriting.rewriter import Rewriter
    from hushvec.text.rewriting.single import rewrite

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
