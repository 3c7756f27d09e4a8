"""GTREmbedder: the mean of a T5 encoder's output over a text's tokens, as vec2text makes it."""

import io
import re

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
import transformers

from hushvec.embedders.checkpoints import CheckpointError
from hushvec.embedders.gtr import GTREmbedder
from hushvec.embedders.sources import open_embedding_model
from hushvec.text import Vec2TextInverter
from hushvec.text.inverters.vec2text.loading import default_embedder, load_corrector, load_inversion
from text import tiny_vec2text as tiny

torch.set_num_threads(1)  # networks so small only wait for each other's threads

TEXTS = ["the red house", "", "a letter from the doctor was not old.", "river", "unknown words"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.write_all(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def embedder(folder):
    return GTREmbedder(folder / "embedder", device="cpu")


def by_hand(folder, text, max_length):
    """One text at a time through transformers' own loader: no padding, no batch."""
    encoder = transformers.T5EncoderModel.from_pretrained(folder / "embedder").eval()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "embedder" / "tokenizer.json"))
    ids = tokenizer(text, truncation=True, max_length=max_length)["input_ids"]
    with torch.no_grad():
        return encoder(input_ids=torch.tensor([ids])).last_hidden_state[0].mean(dim=0).numpy()


def test_embeddings_are_means_over_tokens(folder, embedder):
    found = embedder.embed(TEXTS)
    assert found.shape == (len(TEXTS), tiny.EMBEDDING_DIM)
    assert found.dtype == np.float32
    for row, text in zip(found, TEXTS, strict=True):
        np.testing.assert_allclose(row, by_hand(folder, text, 32), rtol=0, atol=2e-5)
    assert np.linalg.norm(found, axis=1).min() > 2   # not of unit length


def test_long_texts_are_cut_with_the_end_token_kept(folder, embedder):
    long = "the old house and the new river " * 20
    np.testing.assert_allclose(embedder.embed([long])[0], by_hand(folder, long, 32), rtol=0, atol=2e-5)
    short = GTREmbedder(folder / "embedder", max_length=6, device="cpu")
    np.testing.assert_allclose(short.embed([long])[0], by_hand(folder, long, 6), rtol=0, atol=2e-5)


def test_batches_and_order_do_not_matter(folder, embedder):
    one = GTREmbedder(folder / "embedder", batch_size=2, device="cpu")
    np.testing.assert_allclose(one.embed(TEXTS[::-1])[::-1], embedder.embed(TEXTS), rtol=0, atol=2e-5)


def test_no_texts(embedder):
    assert embedder.embed([]).shape == (0, tiny.EMBEDDING_DIM)


def test_its_tokenizer_tells_where_tokens_are(embedder):
    encoded = embedder.tokenizer.encode("the red house", add_special_tokens=False)
    assert [("the red house"[start:end]).strip() for start, end in encoded.offsets] == ["the", "red", "house"]
    embedder.embed(["the old house " * 40])
    assert embedder.tokenizer.truncation is None
    assert len(embedder.tokenizer.encode("the old house " * 40).ids) == 121


def test_name_and_dimension(folder, embedder):
    assert embedder.model_id == str(folder / "embedder")
    assert embedder.dimension == tiny.EMBEDDING_DIM
    assert GTREmbedder(folder / "embedder", model_id="gtr", device="cpu").model_id == "gtr"


def test_the_encoder_that_a_checkpoint_carries_is_the_same(folder, embedder):
    carried = default_embedder(load_inversion(folder / tiny.INVERSION, device="cpu"), max_length=32, device="cpu")
    np.testing.assert_array_equal(carried.embed(TEXTS), embedder.embed(TEXTS))
    assert carried.model_id == "sentence-transformers/gtr-t5-base"


class Terminal(io.StringIO):
    def isatty(self):
        return True


LOADS = {
    "GTR": (lambda folder: GTREmbedder(folder / "embedder", device="cpu"), ["the embedding model"]),
    "by its name": (lambda folder: open_embedding_model(folder / "embedder", max_length=32, device="cpu"), ["the embedding model"]),
    "inversion": (lambda folder: load_inversion(folder / tiny.INVERSION, device="cpu"), ["the inversion model"]),
    "corrector": (lambda folder: load_corrector(folder / tiny.CORRECTOR, device="cpu"), ["the corrector"]),
    "all of vec2text": (
        lambda folder: Vec2TextInverter.from_pretrained(folder / tiny.CORRECTOR, device="cpu").embedder,
        ["the inversion model", "the corrector", "the embedding model"],
    ),
}


@pytest.mark.parametrize(("load", "models"), LOADS.values(), ids=LOADS)
def test_what_is_loaded_is_announced_on_a_terminal_only(folder, monkeypatch, load, models):
    terminal, pipe = Terminal(), io.StringIO()
    monkeypatch.setattr("sys.stderr", terminal)
    load(folder)
    assert re.findall(r"\rloading (.*?) \.\.\.\x1b\[K\r\x1b\[K", terminal.getvalue()) == models
    assert terminal.getvalue().count("loading") == len(models) and terminal.getvalue().endswith("\r\033[K")
    monkeypatch.setattr("sys.stderr", pipe)
    load(folder)
    assert pipe.getvalue() == ""


def test_a_load_that_fails_leaves_no_line_behind(tmp_path, monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for _ in range(2):
        with pytest.raises(CheckpointError):
            GTREmbedder(tmp_path, device="cpu")
    assert terminal.getvalue() == 2 * "\rloading the embedding model ...\033[K\r\033[K"


@pytest.mark.parametrize(("texts", "message"), [("one", "got str"), ([1], "got int in it"), (["a", None], "got None")])
def test_what_is_no_list_of_texts_is_refused(embedder, texts, message):
    with pytest.raises(TypeError, match=f"texts must be a sequence of strings, {message}"):
        embedder.embed(texts)


@pytest.mark.parametrize("settings", [{"max_length": 0}, {"batch_size": 0}])
def test_settings_out_of_range_are_refused(folder, settings):
    with pytest.raises(ValueError, match="must be >= 1, got 0"):
        GTREmbedder(folder / "embedder", device="cpu", **settings)


def test_a_folder_of_something_else_is_refused(folder, tmp_path):
    tiny.write_json(tmp_path / "config.json", {"model_type": "bert"})
    tiny.write_weights(tmp_path, tiny.embedder_weights())
    with pytest.raises(CheckpointError, match="model_type must be 't5', got 'bert'"):
        GTREmbedder(tmp_path, device="cpu")
