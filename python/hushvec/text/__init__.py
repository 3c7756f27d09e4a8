"""Embeddings of sentences, redaction of personal data before anything is embedded, and private rewriting of texts.

Embedding needs `pip install 'hushvec[text]'` where a model is used; redaction needs nothing more.
"""

from hushvec._util.lazy import at_first_use

with at_first_use(globals()):
    from hushvec.embedders.minilm import MiniLMEmbedder
    from hushvec.text.corpus import PublicCorpus
    from hushvec.text.inverters.public import PublicInverter
    from hushvec.text.inverters.trained import TrainedInverter
    from hushvec.text.inverters.vec2text.inverter import Vec2TextInverter
    from hushvec.text.pii.mail import redact_mail
    from hushvec.text.pii.markup import redact_html
    from hushvec.text.pii.pseudonyms import Pseudonymizer, new_key, read_key, read_vault, restore, write_vault
    from hushvec.text.pii.redactor import Redaction, Redactor, RuleInfo, detect, redact, rules
    from hushvec.text.pii.spans import Detector, Span
    from hushvec.text.pii.structured import redact_csv, redact_json
    from hushvec.text.public_choice import PublicChoice
    from hushvec.text.rewriting.chunks import Chunking
    from hushvec.text.rewriting.results import Rewriting, RewrittenSpan
    from hushvec.text.rewriting.rewriter import Rewriter, rewrite

__all__ = [
    "Chunking", "Detector", "MiniLMEmbedder", "Pseudonymizer", "PublicChoice", "PublicCorpus", "PublicInverter", "Redaction",
    "Redactor", "Rewriter", "Rewriting", "RewrittenSpan", "RuleInfo", "Span", "TrainedInverter", "Vec2TextInverter", "detect",
    "new_key", "read_key", "read_vault", "redact", "redact_csv", "redact_html", "redact_json", "redact_mail", "restore",
    "rewrite", "rules", "write_vault",
]
