"""A token classifier as a detector: a tiny model in a temporary folder, with weights set by hand so that its answers are known."""

import builtins
import json

import pytest

from hushvec.errors import MissingExtraError
from hushvec.text import Detector, redact

LABELS = ("O", "B-PER", "I-PER", "B-GENE", "I-GENE")
# Word -> label that the model is made to give.
WORDS = {"ada": 1, "love": 2, "brca": 3, "two": 4, "the": 0, "wrote": 0, ".": 0, ",": 0, "x": 0}
PIECES = {"##lace": 0, "##1": 0}  # the first piece of a word has the say


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    from transformers import BertConfig, BertForTokenClassification, BertTokenizerFast

    place = tmp_path_factory.mktemp("model")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *PIECES]
    (place / "vocab.txt").write_text("\n".join(words) + "\n")
    tokenizer = BertTokenizerFast(str(place / "vocab.txt"), do_lower_case=True, model_max_length=64)
    tokenizer.save_pretrained(place)
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=16,
        max_position_embeddings=64,
        id2label=dict(enumerate(LABELS)),
        label2id={label: number for number, label in enumerate(LABELS)},
    )
    torch.manual_seed(1)
    model = BertForTokenClassification(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "LayerNorm" not in name:
                weight.zero_()
        vectors = model.bert.embeddings.word_embeddings.weight
        for word, label in {**WORDS, **PIECES}.items():
            vectors[words.index(word), label] = 8.0
        model.classifier.weight[:, : len(LABELS)] = torch.eye(len(LABELS))
    model.save_pretrained(place)
    return place


@pytest.fixture(scope="module")
def detector(folder):
    from hushvec.integrations.token_classifier import TokenClassifierDetector

    return TokenClassifierDetector(folder)


def found(detector, text):
    return [(span.text, span.category) for span in detector.detect(text)]


def test_word_pieces_become_spans(detector):
    assert isinstance(detector, Detector)
    assert found(detector, "The Ada Lovelace wrote BRCA1 two.") == [
        ("Ada Lovelace", "full person name"),
        ("BRCA1 two", "gene"),
    ]
    (person, gene) = detector.detect("Ada Lovelace, BRCA1")
    assert (person.start, person.end, gene.start, gene.end) == (0, 12, 14, 19)
    assert 0.9 < person.score <= 1
    assert gene.placeholder == "[GENE]"
    assert gene.rule.endswith(":GENE")


def test_where_a_span_begins(detector):
    assert found(detector, "Ada Ada Love") == [("Ada", "full person name"), ("Ada Love", "full person name")]
    assert found(detector, "Love Ada") == [("Love", "full person name"), ("Ada", "full person name")]
    assert found(detector, "Ada , Love") == [("Ada", "full person name"), ("Love", "full person name")]
    assert found(detector, "Ada\n\tLove") == [("Ada\n\tLove", "full person name")]


def test_nothing_in_nothing(detector):
    assert detector.detect("") == detector.detect(" \n") == []
    assert detector.detect("the x") == []


def test_long_texts_are_read_in_windows(folder):
    from hushvec.integrations.token_classifier import TokenClassifierDetector

    text = " ".join(["the x wrote", "Ada Lovelace"] * 300)
    for window, stride in ((12, 4), (64, 16), (None, 8), (7, 0)):
        spans = TokenClassifierDetector(folder, window=window, stride=stride).detect(text)
        assert all(text[span.start : span.end] == span.text for span in spans)
        if stride:
            assert [span.text for span in spans] == ["Ada Lovelace"] * 300
    assert len(spans) >= 300


def test_offsets_of_odd_characters(detector):
    for text in ("\U0001f600 Ada", "é\u0301 İ Ada", "\ud800 Ada", "x\u00a0Ada"):
        (span,) = detector.detect(text)
        assert text[span.start : span.end] == span.text == "Ada"


def test_categories_and_thresholds(folder):
    from hushvec.integrations.token_classifier import TokenClassifierDetector

    mapped = TokenClassifierDetector(folder, categories={"GENE": None, "PER": "author"})
    assert found(mapped, "Ada Love wrote BRCA1") == [("Ada Love", "author")]
    (person,) = mapped.detect("Ada")
    assert TokenClassifierDetector(folder, score_threshold=person.score / 2 + 0.5).detect("Ada") == []


def test_in_redact(detector):
    assert redact("the BRCA1 wrote a@b.com", detectors=[detector]).text == "the [GENE] wrote [EMAIL]"
    once = redact("Ada Lovelace wrote BRCA1 two", detectors=[detector]).text
    assert redact(once, detectors=[detector]).text == once


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"score_threshold": 2}, ValueError, "score_threshold must be in"),
        ({"window": 3}, ValueError, "window must be above 3 and at most 64"),
        ({"window": 65}, ValueError, "window must be above 3 and at most 64"),
        ({"window": 8.0}, TypeError, "window must be a whole number"),
        ({"window": 10, "stride": 8}, ValueError, "stride must be >= 0 and below 8"),
        ({"stride": -1}, ValueError, "stride must be >= 0"),
        ({"categories": ["PER"]}, TypeError, "categories must be a mapping"),
        ({"categories": {"PER": ""}}, ValueError, "1 to 48 letters"),
    ],
)
def test_bad_settings(folder, settings, error, words):
    from hushvec.integrations.token_classifier import TokenClassifierDetector

    with pytest.raises(error, match=words):
        TokenClassifierDetector(folder, **settings)


@pytest.mark.parametrize("text", [None, b"Ada", 3])
def test_texts_that_are_none(detector, text):
    with pytest.raises(TypeError, match="text must be a string"):
        detector.detect(text)


def test_folders_without_a_model(tmp_path):
    pytest.importorskip("transformers")
    from hushvec.integrations.token_classifier import TokenClassifierDetector

    with pytest.raises(FileNotFoundError, match="must be a folder with a model"):
        TokenClassifierDetector(tmp_path / "absent")
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    with pytest.raises((OSError, ValueError)):
        TokenClassifierDetector(tmp_path)


def test_without_the_package(tmp_path, monkeypatch):
    from hushvec.integrations.token_classifier import TokenClassifierDetector

    real = builtins.__import__

    def without(name, *rest):
        if name.split(".")[0] == "transformers":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'hushvec\[text\]'"):
        TokenClassifierDetector(tmp_path)
