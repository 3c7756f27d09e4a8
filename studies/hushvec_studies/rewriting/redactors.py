"""Presidio and the rules of hushvec.text as baselines: text in, text with placeholders out."""

import logging
from functools import cache

from hushvec.integrations.presidio import pattern_analyzer
from hushvec.text import Redactor


def rules():
    """The rules of hushvec.text alone, nothing rewritten."""
    redactor = Redactor()
    return lambda text: redactor.redact(text).text


def token_classifier(folder):
    """A token classification model of transformers alone, without rules: what a neural privacy filter does."""
    from hushvec.integrations.token_classifier import TokenClassifierDetector

    redactor = Redactor(patterns=[], detectors=[TokenClassifierDetector(folder)])
    return lambda text: redactor.redact(text).text


def presidio(analyzer):
    """Presidio's analyzer and anonymizer, each find replaced by its type."""
    from presidio_anonymizer import AnonymizerEngine

    anonymizer = AnonymizerEngine()
    return lambda text: anonymizer.anonymize(text, analyzer.analyze(text, language="en")).text


def presidio_patterns():
    """Presidio without a language model: its pattern recognisers."""
    _quieten()
    return presidio(pattern_analyzer())


def presidio_model(name):
    """Presidio as its documentation sets it up, with a spaCy model for names, places and organisations.

    Args:
        name: of an installed spaCy model.
    """
    return presidio(model_analyzer(name))


@cache
def model_analyzer(name):
    from presidio_analyzer import AnalyzerEngine
    from presidio_analyzer.nlp_engine import NlpEngineProvider
    from presidio_analyzer.predefined_recognizers import EmailRecognizer
    from tldextract import TLDExtract

    _quieten()
    settings = {"nlp_engine_name": "spacy", "models": [{"lang_code": "en", "model_name": name}]}
    analyzer = AnalyzerEngine(
        nlp_engine=NlpEngineProvider(nlp_configuration=settings).create_engine(), supported_languages=["en"]
    )
    extract = TLDExtract(cache_dir=None, suffix_list_urls=())  # the list of domain endings that the package brings, not the web's
    for recognizer in analyzer.registry.recognizers:
        if isinstance(recognizer, EmailRecognizer):
            vars(recognizer)["validate_result"] = lambda text: extract(text).fqdn != ""
    return analyzer


def _quieten():
    """Presidio tells of every recogniser that it loads and warns of every entity that it does not map; its import sets the level."""
    import presidio_analyzer  # noqa: F401

    logging.getLogger("presidio-analyzer").setLevel(logging.ERROR)


def installed_spacy_model():
    """en_core_web_lg, _md or _sm, or another English pipeline of spaCy that is installed; None without one."""
    try:
        import spacy.util
    except ImportError:
        return None
    installed = sorted(spacy.util.get_installed_models())
    preferred = [f"en_core_web_{size}" for size in ("lg", "md", "sm")]
    return next((name for name in (*preferred, *installed) if name in installed and name.startswith("en_")), None)
