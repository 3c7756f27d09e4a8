"""Redaction around an embedding model: `pii_redaction_middleware`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hushvec._util.keywords import explained
from hushvec.embedders.protocol import EmbeddingRequest
from hushvec.middleware.wrap import EmbeddingMiddleware
from hushvec.text.pii.redactor import Redactor


class PIIRedactionMiddleware(EmbeddingMiddleware):
    """The result of `pii_redaction_middleware`: `redactor` finds and replaces."""

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def transform(self, request: EmbeddingRequest) -> EmbeddingRequest:
        return replace(request, texts=tuple(redaction.text for redaction in self.redactor.redact_all(request.texts)))


@explained
def pii_redaction_middleware(
    *,
    patterns: Sequence[str] | None = None,
    replacement: str | None = None,
    replacements: Mapping[str, str] | None = None,
    custom_patterns: Mapping[str, str] | None = None,
    **options: Any,
) -> PIIRedactionMiddleware:
    """Return middleware that replaces personal data in texts by placeholders before they are embedded.

    Args:
        patterns, replacement, replacements, custom_patterns, options: arguments of `hushvec.text.Redactor`.

    Returns:
        Middleware for `wrap_embedding_model` and `compose_embedding_middleware`.

    Raises:
        TypeError, ValueError: what `hushvec.text.Redactor` refuses.

    Guarantees:
        None: rules miss things. What they miss is protected only by the noise of a `dp_embedding_middleware` beside it.

    Edge cases:
        A vector store keeps the texts and metadata that it is given: redact those before. Results do not mention what was found.

    Reference:
        docs/redaction.md.

    Example:
        >>> import hushvec as hv
        >>> seen = []
        >>> def model(texts):
        ...     seen.extend(texts)
        ...     return [[1.0, 0.0]] * len(texts)
        >>> rows = hv.wrap_embedding_model(model, hv.pii_redaction_middleware(patterns=["email"])).embed(["Write to jane@example.com"])
        >>> seen
        ['Write to [EMAIL]']
    """
    return PIIRedactionMiddleware(
        Redactor(patterns=patterns, replacement=replacement, replacements=replacements, custom_patterns=custom_patterns, **options)
    )
