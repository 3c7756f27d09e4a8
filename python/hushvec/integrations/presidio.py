"""Presidio's pattern recognizers as a `Detector` for `hushvec.text.redact`. Needs `pip install 'hushvec[presidio]'`.

Presidio's default engine downloads a language model when it is made. Here it gets an engine that only splits words, which is what its
pattern recognizers and their context words need; names of persons, which need a model, are not found by it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator
from typing import Any

from hushvec._util.lazy import needs_extra
from hushvec.integrations.detectors import _require_text, _require_threshold, _span_of
from hushvec.text.pii.categories import canonical
from hushvec.text.pii.spans import Span

# Presidio's types whose names are not already short names of our categories; others keep their own, in lower case with spaces.
_CATEGORIES = {
    "URL": "web address",
    "DATE_TIME": "date",
    "US_BANK_NUMBER": "account number",
    "US_PASSPORT": "identity document number",
    "US_DRIVER_LICENSE": "identity document number",
    "MEDICAL_LICENSE": "identity document number",
    "UK_NHS": "medical record number",
    "LOCATION": "location",
    "ORGANIZATION": "organization",
    "NRP": "nationality",
}
_WORD = re.compile(r"\w+")

# Presidio gives weak patterns 0.01 to 0.3 unless a word around them supports them.
DEFAULT_THRESHOLD = 0.35


class PresidioDetector:
    """Finds what Presidio's recognizers find; use it as `redact(text, detectors=[PresidioDetector()])`.

    Args:
        analyzer: an AnalyzerEngine of your own (with a model, other languages, more recognizers); None: the predefined pattern
            recognizers for English, without a model.
        language: of the texts.
        score_threshold: finds below this score, 0 to 1, are left out.

    Example:
        >>> from hushvec.integrations.presidio import PresidioDetector
        >>> PresidioDetector().detect("Mail a.nonymous@example.org")[0].category  # doctest: +SKIP
        'email address'
    """

    def __init__(self, analyzer: Any = None, *, language: str = "en", score_threshold: float = DEFAULT_THRESHOLD) -> None:
        self._threshold = _require_threshold(score_threshold)
        self._analyzer = pattern_analyzer(language) if analyzer is None else analyzer
        self._language = language

    def raw(self, text: str) -> list[Any]:
        """Presidio's own results (`RecognizerResult`), in the order of the text."""
        _require_text(text)
        found = self._analyzer.analyze(text, language=self._language, score_threshold=self._threshold)
        return sorted(found, key=lambda one: (one.start, one.end))

    def detect(self, text: str) -> list[Span]:
        """Return the finds as spans, with categories of this package where there is one."""
        return [
            _span_of(text, one.start, one.end, category_of(one.entity_type), f"presidio:{one.entity_type}", float(one.score))
            for one in self.raw(text)
        ]


def category_of(entity_type: str) -> str:
    """Our category for one of Presidio's types."""
    return _CATEGORIES.get(entity_type) or canonical(entity_type.replace("_", " "))


def pattern_analyzer(language: str = "en") -> Any:
    """Return a Presidio AnalyzerEngine with its predefined pattern recognizers and no language model: nothing is downloaded."""
    with needs_extra("Presidio's recognizers", "presidio"):
        from presidio_analyzer import AnalyzerEngine, RecognizerRegistry
        from presidio_analyzer.predefined_recognizers import EmailRecognizer, SpacyRecognizer
        from tldextract import TLDExtract
    engine = _word_engine(language)
    registry = RecognizerRegistry(supported_languages=[language])
    log = logging.getLogger("presidio-analyzer")
    level = log.level
    log.setLevel(logging.ERROR)  # it warns of each of its recognizers that is for another language
    try:
        registry.load_predefined_recognizers(languages=[language], nlp_engine=engine)
    finally:
        log.setLevel(level)
    registry.recognizers = [one for one in registry.recognizers if not isinstance(one, SpacyRecognizer)]
    # Its e-mail recognizer would fetch the list of domain endings from the web; the list that the package brings does as well.
    extract = TLDExtract(cache_dir=None, suffix_list_urls=())
    for one in registry.recognizers:
        if isinstance(one, EmailRecognizer):
            vars(one)["validate_result"] = lambda pattern_text: extract(pattern_text).fqdn != ""
    return AnalyzerEngine(registry=registry, nlp_engine=engine, supported_languages=[language])


def _word_engine(language: str) -> Any:
    from presidio_analyzer.nlp_engine import NlpArtifacts, NlpEngine

    class WordEngine(NlpEngine):  # type: ignore[misc]
        """Splits words and knows nothing else."""

        load = lambda self: None
        is_loaded = lambda self: True
        get_supported_entities: Any = lambda self: []
        is_stopword = lambda self, word, language: False
        is_punct = lambda self, word, language: not word.isalnum()
        get_supported_languages = lambda self: [language]

        def process_text(self, text: str, language: str) -> Any:
            words = list(_WORD.finditer(text))
            tokens: Any = [word.group() for word in words]  # of spaCy elsewhere; only their lengths are read
            return NlpArtifacts(
                entities=[], tokens=tokens,
                tokens_indices=[word.start() for word in words],
                lemmas=[word.group().lower() for word in words],
                nlp_engine=self, language=language,
            )

        def process_batch(self, texts: Iterable[str], language: str, *_: Any, **options: Any) -> Iterator[tuple[str, Any]]:
            return ((text, self.process_text(text, language)) for text in texts)

    return WordEngine()
