"""Presidio as a detector: the real package, without a model, without the web."""

import builtins
import socket

import pytest

from hushvec.errors import MissingExtraError
from hushvec.text import Detector, redact

TEXT = "Card 4111 1111 1111 1111, mail jane@example.com from 192.168.0.1, call (212) 555-0147."


@pytest.fixture(scope="module")
def detector():
    pytest.importorskip("presidio_analyzer")
    from hushvec.integrations.presidio import PresidioDetector

    return PresidioDetector()


def test_it_finds_patterns(detector):
    assert isinstance(detector, Detector)
    found = {(span.category, span.text) for span in detector.detect(TEXT)}
    assert {
        ("card number", "4111 1111 1111 1111"),
        ("email address", "jane@example.com"),
        ("ip address", "192.168.0.1"),
        ("phone number", "(212) 555-0147"),
    } <= found
    assert all(TEXT[span.start : span.end] == span.text and span.rule.startswith("presidio:") for span in detector.detect(TEXT))
    assert detector.detect("") == []


def test_nothing_is_fetched(monkeypatch):
    pytest.importorskip("presidio_analyzer")
    from hushvec.integrations.presidio import PresidioDetector

    def refuse(*arguments, **options):
        raise AssertionError("the web was asked")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    assert any(span.category == "email address" for span in PresidioDetector().detect("mail jane@example.com"))


def test_words_around_count(detector):
    """Presidio's context words need tokens, which the engine without a model has."""
    assert not any(span.rule.endswith("US_BANK_NUMBER") for span in detector.detect("I counted 945456787654 of them"))
    assert any(span.rule.endswith("US_BANK_NUMBER") for span in detector.detect("my bank account number is 945456787654"))


def test_in_redact(detector):
    text = "bitcoin 16Yeky6GMjeNkAiNcBY7ZhrLoMSgg1BoyZ"
    result = redact(text, detectors=[detector])
    assert result.text == "bitcoin [WALLET]"
    assert redact(text, detectors=[detector], patterns=["email"]).text == "bitcoin [WALLET]"
    assert redact(text, detectors=[detector], allow_categories=["crypto"], patterns=["email"]).text == text


def test_categories_of_its_types():
    from hushvec.integrations.presidio import category_of

    assert category_of("US_SSN") == "social security number"
    assert category_of("IBAN_CODE") == "bank account number"
    assert category_of("CRYPTO") == "wallet address"
    assert category_of("SG_NRIC_FIN") == "sg nric fin"


def test_an_analyzer_of_ones_own():
    from hushvec.integrations.presidio import PresidioDetector

    class Found:
        def __init__(self, start, end, entity_type, score):
            self.start, self.end, self.entity_type, self.score = start, end, entity_type, score

    class Analyzer:
        def analyze(self, text, language, score_threshold):
            assert (language, score_threshold) == ("de", 0.2)
            return [Found(4, 8, "PERSON", 0.9), Found(0, 3, "NRP", 0.5)]

    spans = PresidioDetector(Analyzer(), language="de", score_threshold=0.2).detect("abc Jane")
    assert [(span.text, span.category, span.placeholder) for span in spans] == [
        ("abc", "nationality", "[NATIONALITY]"),
        ("Jane", "full person name", "[PERSON]"),
    ]


@pytest.mark.parametrize("text", [None, b"x", 3])
def test_texts_that_are_none(detector, text):
    with pytest.raises(TypeError, match="text must be a string"):
        detector.detect(text)


def test_thresholds():
    from hushvec.integrations.presidio import PresidioDetector

    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"score_threshold must be in \[0, 1\]"):
            PresidioDetector(object(), score_threshold=wrong)


def test_without_the_package(monkeypatch):
    from hushvec.integrations.presidio import PresidioDetector

    real = builtins.__import__

    def without(name, *rest):
        if name.startswith("presidio_analyzer"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'hushvec\[presidio\]'"):
        PresidioDetector()
