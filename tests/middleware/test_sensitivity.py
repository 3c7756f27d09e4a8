"""`get_sensitivity` and `calibrate_sensitivity`."""

import pickle
import re
from pathlib import Path

import numpy as np
import pytest

import hushvec as hv
from hushvec.embedders.sources import UNIT_NORM_MODELS, as_embedding_model, is_unit_norm_model
from hushvec.middleware import EmpiricalSensitivity
from middleware.embedders import Answering, Recorder


@pytest.mark.parametrize("model_id", [None, "unknown-model", "Xenova/bge-small-en-v1.5", "Xenova/all-MiniLM-L6-v2"])
def test_the_sensitivity_is_the_diameter_of_the_unit_ball(model_id):
    assert hv.get_sensitivity(model_id) == 2.0


def test_names_are_compared_by_their_last_part():
    for name in ("all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2", "XENOVA/ALL-MINILM-L6-V2", "models/all-MiniLM-L6-v2/"):
        assert is_unit_norm_model(name), name
    for name in (None, "", "all-MiniLM", "all-MiniLM-L6-v2-finetuned", "bert-base-uncased"):
        assert not is_unit_norm_model(name), name


def test_a_lookup_is_of_models_in_the_table_alone():
    for name in ("sentence-transformers/all-MiniLM-L6-v2", "Snowflake/snowflake-arctic-embed-m", "jina-embeddings-v2-small-en"):
        assert hv.lookup_sensitivity(name) == hv.get_sensitivity(name) == 2.0
    for name in ("nomic-embed-text", "nomic-ai/nomic-embed-text-v1.5", "unknown-model", ""):
        with pytest.raises(ValueError, match=r"model_id must be in the table .*: give clip_norm= .*normalize=True") as caught:
            hv.lookup_sensitivity(name)
        assert repr(name) in str(caught.value)
    with pytest.raises(TypeError, match="model_id must be a str, got NoneType"):
        hv.lookup_sensitivity(None)


def test_the_lookup_is_what_the_middleware_goes_by():
    """A model outside of the table is embedded with one of the two arguments that the message names, and refused without."""
    wide = Answering(np.full((1, 4), 3.0, np.float32))
    with pytest.raises(ValueError, match="norm"):
        hv.wrap_embedding_model(wide, hv.dp_embedding_middleware(epsilon=1.0, model_id="nomic-embed-text")).embed(["x"])
    for setting in ({"clip_norm": 6.0}, {"normalize": True}):
        middleware = hv.dp_embedding_middleware(epsilon=1.0, model_id="nomic-embed-text", **setting)
        assert hv.wrap_embedding_model(wide, middleware).embed(["x"]).receipt.is_dp_claim


class Normalize: ...


class Dense: ...


class Encoder:
    def __init__(self, *modules):
        self.modules = modules

    def children(self):
        return iter(self.modules)

    def encode(self, texts):
        return [[1.0]] * len(texts)


@pytest.mark.parametrize(
    "model, bound",
    [
        (Encoder(Dense(), Normalize()), 1.0),
        (Encoder(Normalize(), Dense()), None),
        (Encoder(), None),
        (lambda texts: texts, None),
        (hv.wrap_embedding_model(lambda texts: [[1.0]] * len(texts), hv.dp_embedding_middleware(epsilon=1.0)), None),
    ],
)
def test_a_bound_is_known_for_models_that_normalize_last(model, bound):
    assert as_embedding_model(model).norm_bound == bound


def test_the_guide_lists_the_table():
    guide = (Path(__file__).parents[2] / "docs" / "middleware.md").read_text()
    listed = re.search(r"The table: (.*?)\. Names", guide, re.DOTALL).group(1)
    assert set(re.findall(r"`([^`]+)`", listed)) == UNIT_NORM_MODELS


def test_minilm_is_as_the_table_says():
    embedder = pytest.importorskip("hushvec.text").MiniLMEmbedder
    try:
        model = embedder()
    except hv.MissingExtraError as error:
        pytest.skip(str(error))
    assert is_unit_norm_model(hv.wrap_embedding_model(model, hv.dp_embedding_middleware(epsilon=1.0)).model_id)
    assert hv.calibrate_sensitivity(model) == 2.0
    assert as_embedding_model(model).norm_bound == 1.0


def test_unit_vectors_need_no_estimate():
    value = hv.calibrate_sensitivity(Recorder())
    assert value == 2.0 and not isinstance(value, EmpiricalSensitivity)


def test_the_estimate_is_the_largest_distance_and_a_tenth():
    points = np.array([[0, 0], [3, 4], [1, 0]], np.float32)
    value = hv.calibrate_sensitivity(Answering(points), ["a", "b", "c"])
    assert value == pytest.approx(5.5) and isinstance(value, EmpiricalSensitivity)
    assert (value.largest_distance, value.largest_norm, value.samples) == (5.0, 5.0, 3)
    assert pickle.loads(pickle.dumps(value)).largest_norm == 5.0


def test_the_estimate_may_be_too_small():
    """Why it is no bound: a text that was not among the samples is farther away."""
    texts = {"a": 1.0, "b": 2.0, "far": 9.0}
    value = hv.calibrate_sensitivity(lambda asked: [[texts[text]] for text in asked], ["a", "b"])
    assert value < texts["far"] - texts["a"]


BAD = {
    "model": (dict(model=3), TypeError, "model must have embed"),
    "one sample": (dict(samples=["a"]), ValueError, "samples must hold at least 2 texts, got 1"),
    "no samples": (dict(samples=[]), ValueError, "samples must hold at least 2 texts, got 0"),
    "a string": (dict(samples="ab"), TypeError, "samples must be a sequence of strings or None, got str"),
    "a number": (dict(samples=["a", 3]), TypeError, "samples must be strings, got int"),
    "the same rows": (dict(model=Answering([[3.0, 0.0]] * 2), samples=["a", "b"]), ValueError, "samples must have different"),
    "NaN": (dict(model=Answering([[float("nan")]] * 2), samples=["a", "b"]), ValueError, "model output must be finite, got nan"),
}


@pytest.mark.parametrize("arguments, error, message", BAD.values(), ids=BAD)
def test_bad_input(arguments, error, message):
    arguments = {"model": Recorder(norm=2.0), **arguments}
    with pytest.raises(error) as caught:
        hv.calibrate_sensitivity(**arguments)
    assert str(caught.value).startswith(message)


def test_bad_model_id():
    with pytest.raises(TypeError, match="model_id must be a str or None, got int"):
        hv.get_sensitivity(3)
