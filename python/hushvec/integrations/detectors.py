"""Detectors by name, for a command line or a policy, and what their adapters share."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import cast

from hushvec.text.pii.categories import default_placeholder, require_category_name
from hushvec.text.pii.spans import Detector, Span

# kind -> (module, class, what stands behind the sign of equality; "" for nothing)
_KINDS = {
    "presidio": ("presidio", "PresidioDetector", ""),
    "spacy": ("spacy", "SpacyDetector", "PIPELINE"),
    "classifier": ("token_classifier", "TokenClassifierDetector", "FOLDER"),
}
FORMS = tuple(f"{kind}={where}" if where else kind for kind, (_, _, where) in _KINDS.items())


@cache
def detector(entry: str) -> Detector:
    """Load the detector of an entry, once in a process, nothing downloaded: `presidio` (pattern recognizers without a model),
    `spacy=PIPELINE` (a folder or an installed package) or `classifier=FOLDER` (of a token classifier)."""
    kind, sign, where = entry.partition("=")
    module, name, wanted = _KINDS.get(kind, ("", "", ""))
    if not module or bool(sign and where) != bool(wanted):
        raise ValueError(f"detector must be {', '.join(FORMS[:-1])} or {FORMS[-1]}, got {entry!r:.80}")
    make = getattr(import_module(f"hushvec.integrations.{module}"), name)
    return cast(Detector, make(where) if wanted else make())


def _require_threshold(score_threshold: float) -> float:
    if not 0 <= score_threshold <= 1:
        raise ValueError(f"score_threshold must be in [0, 1], got {score_threshold!r}")
    return score_threshold


def _require_text(text: object) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text must be a string, got {type(text).__name__}")


def _own_categories(categories: Mapping[str, str | None] | None) -> dict[str, str | None]:
    """Return a caller's table from labels of a model to categories; None leaves a label out."""
    if not isinstance(categories, Mapping | None):
        raise TypeError(f"categories must be a mapping from labels to categories, got {type(categories).__name__}")
    named = (categories or {}).items()
    return {label: None if name is None else require_category_name("categories", name) for label, name in named}


def _span_of(text: str, start: int, end: int, category: str, rule: str, score: float) -> Span:
    """Return a find of a category, with the category's placeholder."""
    return Span(start, end, text[start:end], category, default_placeholder(category), rule, score)
