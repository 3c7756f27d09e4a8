"""A spaCy pipeline as a detector: the real package with a pipeline of rules, made here; no model."""

import builtins

import pytest

from hushvec.errors import MissingExtraError
from hushvec.text import Detector, redact

TEXT = "Thandiwe Mokoena works for Brightwater in Umgeni since 1999, for 20 dollars."


@pytest.fixture(scope="module")
def pipeline():
    spacy = pytest.importorskip("spacy")
    nlp = spacy.blank("en")
    ruler = nlp.add_pipe("entity_ruler")
    ruler.add_patterns(
        [
            {"label": "PERSON", "pattern": "Thandiwe Mokoena"},
            {"label": "ORG", "pattern": "Brightwater"},
            {"label": "GPE", "pattern": "Umgeni"},
            {"label": "MONEY", "pattern": "20 dollars"},
            {"label": "SHIP_NAME", "pattern": "Nightjar"},
        ]
    )
    return nlp


def detector_of(*arguments, **options):
    from hushvec.integrations.spacy import SpacyDetector

    return SpacyDetector(*arguments, **options)


def test_entities_become_spans(pipeline):
    detector = detector_of(pipeline)
    assert isinstance(detector, Detector)
    assert [(span.text, span.category, span.rule) for span in detector.detect(TEXT)] == [
        ("Thandiwe Mokoena", "full person name", "spacy:PERSON"),
        ("Brightwater", "organization", "spacy:ORG"),
        ("Umgeni", "location", "spacy:GPE"),
    ]
    assert detector.detect("") == []
    assert redact("See Nightjar", detectors=[detector]).text == "See [SHIP_NAME]"


def test_categories_of_ones_own(pipeline):
    detector = detector_of(pipeline, categories={"ORG": None, "MONEY": "salary"})
    assert [span.placeholder for span in detector.detect(TEXT)] == ["[PERSON]", "[LOCATION]", "[SALARY]"]


def test_from_a_folder(pipeline, tmp_path):
    pipeline.to_disk(tmp_path / "model")
    assert detector_of(tmp_path / "model").detect(TEXT) == detector_of(pipeline).detect(TEXT)


def test_long_texts_are_read_in_parts(pipeline, monkeypatch):
    from hushvec.integrations import spacy as module

    text = "\n".join(["nothing here", TEXT] * 5) + " " + TEXT + "x" * 300
    whole = detector_of(pipeline).detect(text)
    monkeypatch.setattr(module, "MOST_CHARACTERS", 120)
    assert detector_of(pipeline).detect(text) == whole
    assert len(whole) == 18


def test_bad_input(pipeline, tmp_path):
    spacy = pytest.importorskip("spacy")
    with pytest.raises(ValueError, match=r"pipeline must have a component 'ner' or 'entity_ruler', got \[\]"):
        detector_of(spacy.blank("en"))
    with pytest.raises(OSError, match="absent"):
        detector_of(tmp_path / "absent")
    with pytest.raises(TypeError, match="text must be a string, got bytes"):
        detector_of(pipeline).detect(b"x")
    with pytest.raises(ValueError, match="1 to 48 letters"):
        detector_of(pipeline, categories={"ORG": ""})


def test_without_spacy(monkeypatch, tmp_path):
    real = builtins.__import__

    def refuse(name, *arguments, **options):
        if name == "spacy":
            raise ImportError(name)
        return real(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", refuse)
    with pytest.raises(MissingExtraError, match=r"pip install 'hushvec\[spacy\]'"):
        detector_of(tmp_path)
