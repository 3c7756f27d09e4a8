"""GLiNER as a detector: a stand-in with its methods, since no weights come with the package."""

import re
import sys
import types

import pytest

from hushvec.errors import MissingExtraError
from hushvec.integrations import gliner as module
from hushvec.integrations.gliner import GlinerDetector
from hushvec.text import Detector, redact

KNOWN = {"Thandiwe Mokoena": ("person", 0.9), "Ottoline": ("person", 0.4), "Brightwater": ("organization", 0.8)}


class StandIn:
    """Finds two names and one firm, and counts the words that it is given."""

    def __init__(self):
        self.words = []

    def predict_entities(self, text, labels, threshold):
        self.words.append(len(text.split()))
        return [
            {"start": match.start(), "end": match.end(), "text": match.group(), "label": label, "score": score}
            for name, (label, score) in KNOWN.items()
            if label in labels and score >= threshold
            for match in re.finditer(name, text)
        ]


TEXT = "Thandiwe Mokoena and Ottoline left Brightwater."


def test_finds_become_spans():
    detector = GlinerDetector(StandIn())
    assert isinstance(detector, Detector)
    assert [(span.text, span.category, span.rule, span.score) for span in detector.detect(TEXT)] == [
        ("Thandiwe Mokoena", "full person name", "gliner:person", 0.9),
        ("Brightwater", "organization", "gliner:organization", 0.8),
    ]
    assert redact(TEXT, detectors=[GlinerDetector(StandIn(), score_threshold=0.3)], patterns=["email"]).text == (
        "[PERSON] and [PERSON] left [ORG]."
    )


def test_labels_of_ones_own():
    detector = GlinerDetector(StandIn(), labels={"organization": "employer"})
    assert [span.placeholder for span in detector.detect(TEXT)] == ["[EMPLOYER]"]


def test_long_texts_are_read_in_windows_that_cover_them():
    model = StandIn()
    text = ("word " * 150 + TEXT + " ") * 7
    found = GlinerDetector(model).detect(text)
    assert [span.text for span in found] == ["Thandiwe Mokoena", "Brightwater"] * 7
    assert all(text[span.start : span.end] == span.text for span in found)
    assert max(model.words) <= module.WINDOW_WORDS and len(model.words) > 5
    assert GlinerDetector(model).detect("  ") == []


def test_from_a_folder(monkeypatch, tmp_path):
    asked = []

    class GLiNER(StandIn):
        @classmethod
        def from_pretrained(cls, folder, **options):
            asked.append((folder, options))
            return cls()

    monkeypatch.setitem(sys.modules, "gliner", types.SimpleNamespace(GLiNER=GLiNER))
    assert len(GlinerDetector(tmp_path).detect(TEXT)) == 2
    assert asked == [(str(tmp_path), {"local_files_only": True})]


def test_bad_input(monkeypatch, tmp_path):
    with pytest.raises(ValueError, match=r"score_threshold must be in \[0, 1\], got 2"):
        GlinerDetector(StandIn(), score_threshold=2)
    with pytest.raises(ValueError, match="labels must name at least one label, got none"):
        GlinerDetector(StandIn(), labels={})
    with pytest.raises(FileNotFoundError, match="absent: must be a folder with a model"):
        GlinerDetector(tmp_path / "absent")
    with pytest.raises(TypeError, match="text must be a string, got NoneType"):
        GlinerDetector(StandIn()).detect(None)
    monkeypatch.setitem(sys.modules, "gliner", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'hushvec\[gliner\]'"):
        GlinerDetector(tmp_path)
