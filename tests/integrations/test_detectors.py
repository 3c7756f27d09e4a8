"""Detectors by name: the command and the service find what a pipeline of spaCy finds; one clear line for names that are none."""

import pytest

from cli.command import assert_one_line, hushvec_here
from hushvec.integrations.detectors import FORMS, detector

TEXT = "Thandiwe Mokoena mended the boiler; write to tm@example.org."


@pytest.fixture(scope="module")
def pipeline(tmp_path_factory):
    """The folder of a pipeline of rules."""
    nlp = pytest.importorskip("spacy").blank("en")
    nlp.add_pipe("entity_ruler").add_patterns([{"label": "PERSON", "pattern": "Thandiwe Mokoena"}])
    folder = tmp_path_factory.mktemp("pipeline")
    nlp.to_disk(folder)
    return folder


def test_it_is_loaded_once(pipeline):
    found = detector(f"spacy={pipeline}")
    assert detector(f"spacy={pipeline}") is found
    assert [span.text for span in found.detect(TEXT)] == ["Thandiwe Mokoena"]


def test_presidio():
    pytest.importorskip("presidio_analyzer")
    assert [span.category for span in detector("presidio").detect("Mail tm@example.org")][:1] == ["email address"]


@pytest.mark.parametrize("entry", ["", "spacy", "spacy=", "presidio=en", "SpaCy=x", "model.bin", "=x"])
def test_no_such_form(entry):
    with pytest.raises(ValueError, match=r"^detector must be presidio, .* or classifier=FOLDER, got ") as refusal:
        detector(entry)
    assert all(form in str(refusal.value) for form in FORMS)


def test_no_such_folder(tmp_path):
    with pytest.raises(OSError, match="must be a folder"):
        detector(f"classifier={tmp_path / 'none'}")


def test_the_command(pipeline, tmp_path):
    rules = hushvec_here("redact", "--text", TEXT)
    assert rules.out == "Thandiwe Mokoena mended the boiler; write to [EMAIL].\n"
    both = hushvec_here("redact", "--text", TEXT, "--detector", f"spacy={pipeline}", "--detector", "presidio")
    assert (both.code, both.out, both.err) == (0, "[PERSON] mended the boiler; write to [EMAIL].\n", "")
    for wrong in ("spacy", f"spacy={tmp_path}", f"classifier={tmp_path / 'none'}"):
        assert_one_line(hushvec_here("redact", "--text", TEXT, "--detector", wrong))
