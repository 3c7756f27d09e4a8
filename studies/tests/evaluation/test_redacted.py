"""Redaction in an evaluation: recall, precision and information by hand, on invented judgments and sentences."""

import json
import math
import re

import pytest
from evaluation.test_vectors import pack

from hushvec_studies.evaluation.collection import SENTENCES, TAB
from hushvec_studies.evaluation.texts import (
    BY_INFORMATION,
    DIRECT,
    HIDDEN,
    HIDDEN_AIMED,
    LOST,
    PRECISION,
    PRECISION_OF_FINDS,
    QUASI,
    ratio,
    text_cell,
    text_sentence,
)

MAIL, NUMBER = "jane@example.com", "192.0.2.7"
OF = {"confidence": 0.95, "resamples": 200, "seed": 1}


def entity(text, part, kind, name):
    start = text.index(part)
    return {
        "span_text": part,
        "entity_type": "CODE",
        "start_offset": start,
        "end_offset": start + len(part),
        "entity_id": name,
        "identifier_type": kind,
    }


@pytest.fixture
def judgments(tmp_path):
    """Two texts. The rules find the address and the number; nothing finds "a painter", and the number identifies nobody."""
    text = f"The applicant wrote from {MAIL} and is a painter. The server was {NUMBER}."
    other = "Nothing is said here."
    entities = [entity(text, MAIL, "DIRECT", "e1"), entity(text, "painter", "QUASI", "e2"), entity(text, "server", "NO_MASK", "e3")]
    pack(tmp_path / "tab_113.jsonl.xz", [{"text": text, "entities": entities}, {"text": other, "entities": []}])
    return tmp_path


def test_judgments_by_hand(judgments):
    cell, measure = text_cell(TAB, judgments, **OF)
    row = measure(cell)
    figures = {name: figure[0] for name, figure in row["figures"].items()}
    # words: jane example com of the address are right, 192 0 2 7 are not
    assert (figures[DIRECT], figures[QUASI], figures[PRECISION]) == (1.0, 0.0, 3 / 7)
    # 23 words in all; each of the seven is there once, so their information is the same
    assert figures[BY_INFORMATION] == pytest.approx(3 / 7)
    words = [word.lower() for one in cell.records for word in re.findall(r"\w+", one["text"])]
    kept = [word for word in words if word not in ("jane", "example", "com", "painter")]
    information = {word: -math.log2(words.count(word) / len(words)) for word in words}
    assert figures[LOST] == pytest.approx(4 * information["192"] / sum(information[word] for word in kept))
    assert row["documents"] == 2
    assert "100 % [2.5 %, 100 %] of the quasi identifiers stay readable" in text_sentence(row)


def test_sentences_by_hand(tmp_path):
    text = f"Write to {MAIL}, says the painter."
    spans = [
        {"entity_type": "EMAIL_ADDRESS", "start_position": 9, "end_position": 9 + len(MAIL)},
        {"entity_type": "NRP", "start_position": text.index("painter"), "end_position": text.index("painter") + 7},
    ]
    (tmp_path / "pii_synth.json").write_text(json.dumps([{"full_text": text, "spans": spans, "template_id": 0}]))
    cell, measure = text_cell(SENTENCES, tmp_path, **OF)
    figures = measure(cell)["figures"]
    assert [figures[name][0] for name in (HIDDEN, HIDDEN_AIMED, PRECISION_OF_FINDS)] == [0.5, 1.0, 1.0]
    assert text_sentence(measure(cell)).startswith("Presidio's sentences: identifiers hidden, of all types 50 % [50 %, ")


def test_an_interval_is_over_documents():
    """Half of 200 documents lose all of their ten words: the share has the spread of 200 draws, 0.035, not of 2,000."""
    value, low, high = ratio([(10.0 * (number % 2), 10.0) for number in range(200)], 0.95, 2000, 1)
    assert value == 0.5
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(200), rel=0.15)


def test_other_texts_are_another_measurement(judgments):
    first, _ = text_cell(TAB, judgments, **OF)
    pack(judgments / "tab_113.jsonl.xz", [{"text": "Other", "entities": []}])
    assert text_cell(TAB, judgments, **OF)[0].digest != first.digest
