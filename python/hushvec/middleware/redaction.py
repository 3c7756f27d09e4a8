"""Redaction on the way in: the model never sees what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hushvec.embedders.protocol import EmbeddingRequest
from hushvec.middleware.wrap import EmbeddingMiddleware

if TYPE_CHECKING:
    from hushvec.text import Redactor


class PIIRedactionMiddleware(EmbeddingMiddleware):
    """What `pii_redaction_middleware` returns.

    Args:
        redactor: finds and replaces.
    """

    def __init__(self, redactor: Redactor) -> None:
        self.redactor = redactor

    def transform(self, request: EmbeddingRequest) -> EmbeddingRequest:
        return replace(request, texts=tuple(redaction.text for redaction in self.redactor.redact_all(request.texts)))


def pii_redaction_middleware(
    *,
    patterns: Sequence[str] | None = None,
    replacement: str | None = None,
    replacements: Mapping[str, str] | None = None,
    custom_patterns: Mapping[str, str] | None = None,
    **options: Any,
) -> PIIRedactionMiddleware:
    """Middleware that replaces personal data in texts by placeholders before they are embedded.

    Args:
        patterns: categories to look for, such as ["email", "phone", "ssn"]; None for all of them.
        replacement: one text for everything found; None for the placeholder of its category, as in "[EMAIL]".
        replacements: texts for single categories.
        custom_patterns: name -> regular expression, looked for beside the others.
        options: further arguments of `hushvec.text.Redactor`: allow lists, a gazetteer, detectors.

    Returns:
        Middleware for `wrap_embedding_model` and `compose_embedding_middleware`.

    Raises:
        TypeError, ValueError: what `hushvec.text.Redactor` refuses.

    Guarantees:
        None: rules miss things. What they miss is protected only by the noise of a `dp_embedding_middleware` beside it.

    Edge cases:
        A vector store keeps the texts and metadata that it is given: redact those before they are added.
        What was found is not kept: results do not mention it, since even the number of finds reveals something about the text.

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
    from hushvec.text import Redactor

    return PIIRedactionMiddleware(
        Redactor(patterns=patterns, replacement=replacement, replacements=replacements, custom_patterns=custom_patterns, **options)
    )
