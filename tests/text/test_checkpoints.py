"""Checkpoint folders: every format of weights gives the same model, and what is missing or does not fit is one clear line."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from safetensors.numpy import save_file

from hushvec.embedders.checkpoints import CheckpointError
from hushvec.text.inverters import Vec2TextInverter
from hushvec.text.inverters.vec2text.loading import load_inversion
from text import tiny_vec2text as tiny

torch.set_num_threads(1)  # networks so small only wait for each other's threads

ROWS = tiny.embeddings(3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny.write_all(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def arrays():
    return {**tiny.with_aliases(tiny.inversion_weights()), **tiny.carried_embedder()}


@pytest.fixture(scope="module")
def expected(folder):
    return texts(folder / tiny.INVERSION)


@pytest.fixture
def bare(folder, tmp_path):
    """An inversion checkpoint without weights."""
    place = tmp_path / "checkpoint"
    place.mkdir()
    (place / "config.json").write_bytes((folder / tiny.INVERSION / "config.json").read_bytes())
    return place


def texts(place):
    return Vec2TextInverter.from_pretrained(place, num_steps=0, device="cpu").invert(ROWS)


def halves(arrays):
    names = sorted(arrays)
    return [{name: arrays[name] for name in part} for part in (names[::2], names[1::2])]


def tensors(arrays):
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}


def write_index(place, file, parts):
    shards = {name: f"part-{number}{file[file.index('.') :]}" for number, part in enumerate(parts) for name in part}
    (place / f"{file}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": shards}))
    return [place / f"part-{number}{file[file.index('.') :]}" for number in range(len(parts))]


# --- formats -----------------------------------------------------------------------------------------------------------


def test_one_file_of_the_older_format(bare, arrays, expected):
    torch.save(tensors(arrays), bare / "pytorch_model.bin")
    assert texts(bare) == expected


def test_shards_with_an_index(bare, arrays, expected):
    parts = halves(arrays)
    for path, part in zip(write_index(bare, "model.safetensors", parts), parts, strict=True):
        save_file(part, path)
    assert texts(bare) == expected


def test_shards_of_the_older_format(bare, arrays, expected):
    parts = halves(arrays)
    for path, part in zip(write_index(bare, "pytorch_model.bin", parts), parts, strict=True):
        torch.save(tensors(part), path)
    assert texts(bare) == expected


def test_only_one_name_of_a_shared_table(bare, arrays, expected):
    aliases = ("embed_tokens.weight", "lm_head.weight")
    save_file({name: array for name, array in arrays.items() if not name.endswith(aliases)}, bare / "model.safetensors")
    assert texts(bare) == expected


def test_names_of_a_wrapped_model(bare, arrays, expected):
    save_file({f"module._orig_mod.{name}": array for name, array in arrays.items()}, bare / "model.safetensors")
    assert texts(bare) == expected


def test_names_of_older_checkpoints(bare, arrays, expected):
    save_file({name.replace("transform.3.", "transform.2."): array for name, array in arrays.items()}, bare / "model.safetensors")
    assert texts(bare) == expected


def test_an_output_table_that_was_trained_apart_is_kept_apart(bare, arrays, expected):
    other = tiny.drawn("other head", arrays["encoder_decoder.lm_head.weight"].shape, 0.4)
    save_file({**arrays, "encoder_decoder.lm_head.weight": other}, bare / "model.safetensors")
    model = load_inversion(bare, device="cpu").model.encoder_decoder
    np.testing.assert_array_equal(model.lm_head.weight.detach().numpy(), other)
    np.testing.assert_array_equal(model.shared.weight.detach().numpy(), arrays["encoder_decoder.shared.weight"])
    assert texts(bare) != expected


# --- what is refused ---------------------------------------------------------------------------------------------------


def refused(place, message):
    with pytest.raises(CheckpointError, match=message) as caught:
        load_inversion(place, device="cpu")
    assert "\n" not in str(caught.value)


def test_no_such_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    refused(tmp_path / "none", r"none: no such folder; expected a folder with config\.json, model\.safetensors or pytorch_model\.bin")
    refused("nobody/nothing", r"'nobody/nothing' is no folder here, and .*HF_HUB_OFFLINE is set .* expected a folder with config")
    (tmp_path / "file").write_text("")
    refused(tmp_path / "file", "file is a file; expected a folder with config")
    with pytest.raises(TypeError, match="a checkpoint must be a folder or a hub id, got int"):
        load_inversion(3)


def test_no_configuration(tmp_path):
    refused(tmp_path, r"has no config\.json \(of an inversion model; expected config\.json, model\.safetensors")


def test_no_weights(bare):
    refused(bare, r"has no weights; expected model\.safetensors or pytorch_model\.bin \(or their \.index\.json with shards\)")


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]"])
def test_a_configuration_that_is_no_json(bare, content):
    (bare / "config.json").write_bytes(content)
    refused(bare, r"config\.json (cannot be read as JSON|must hold a JSON object)")


@pytest.mark.parametrize("name", ["num_repeat_tokens", "max_seq_length", "architectures", "model_name_or_path"])
def test_a_field_that_is_missing(bare, name):
    config = json.loads((bare / "config.json").read_text())
    del config[name]
    (bare / "config.json").write_text(json.dumps(config))
    refused(bare, rf"config\.json.*{name}")


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("num_repeat_tokens", 0, "num_repeat_tokens must be a whole number >= 1, got 0"),
        ("num_repeat_tokens", 5, r"embedding_transform\.3\.\w+ is .* in the weights, .* by config\.json"),
        ("max_seq_length", True, "max_seq_length must be a whole number >= 1, got True"),
        ("architectures", ["T5ForConditionalGeneration"], r"must be \['InversionModel'\] or \['CorrectorEncoderModel'\], got"),
        ("embedding_transform_strategy", "nearest", "embedding_transform_strategy must be 'repeat', got 'nearest'"),
        ("use_lora", True, "use_lora is True: weights in 8 bits"),
        ("embedder_fake_with_zeros", True, "trained without embeddings"),
        ("embeddings_from_layer_n", 0, "embeddings_from_layer_n is 0: embeddings of a layer inside the embedder"),
        ("embedding_dim", 384, r"embedding_dim is 384 in config\.json, but the weights have 768"),
        ("model_name_or_path", "no such t5", r"names the T5 'no such t5' \(model_name_or_path\), .* t5= takes its folder"),
        ("encoder_decoder", {"d_model": 8}, "encoder_decoder needs the field vocab_size"),
    ],
)
def test_a_field_of_another_value(folder, bare, field, value, message):
    (bare / "model.safetensors").symlink_to(folder / tiny.INVERSION / "model.safetensors")
    config = json.loads((bare / "config.json").read_text())
    (bare / "config.json").write_text(json.dumps({**config, field: value}))
    refused(bare, message)


def test_weights_that_do_not_fit(bare, arrays):
    def write(changed):
        save_file(changed, bare / "model.safetensors")

    lacking = "encoder_decoder.encoder.final_layer_norm.weight"
    write({name: array for name, array in arrays.items() if name != lacking})
    refused(bare, f"the weights have no {re.escape(lacking)}$")
    write({**arrays, "encoder_decoder.more": np.zeros(2, np.float32)})
    refused(bare, r"the weights have encoder_decoder\.more, which this model has no place for")
    write({**arrays, lacking: np.ones(7, np.float32)})
    refused(bare, rf"{re.escape(lacking)} is 7 in the weights, 24 by config\.json")
    write({**arrays, lacking: np.full(24, np.nan, np.float32)})
    refused(bare, f"{re.escape(lacking)} holds NaN or infinity")
    write({**arrays, lacking: np.ones(24, np.int64)})
    refused(bare, f"{re.escape(lacking)} must be floating-point")
    write({"something.else": np.zeros(2, np.float32)})
    refused(bare, r"the weights have no embedding_transform\.0\.weight \(a matrix\), which an inversion model begins with")


def test_files_of_weights_that_cannot_be_read(bare, arrays):
    (bare / "model.safetensors").write_bytes(b"not safetensors")
    refused(bare, r"model\.safetensors cannot be read as safetensors")
    (bare / "model.safetensors").unlink()
    (bare / "pytorch_model.bin").write_bytes(b"not a zip")
    refused(bare, r"pytorch_model\.bin cannot be read as a file of tensors alone")


def test_a_file_that_would_run_code_is_not_run(bare, tmp_path):
    class Code:
        def __reduce__(self):
            return (open, (str(tmp_path / "ran"), "w"))

    torch.save({"weight": Code()}, bare / "pytorch_model.bin")
    refused(bare, r"pytorch_model\.bin cannot be read as a file of tensors alone")
    assert not (tmp_path / "ran").exists()


def test_an_index_that_names_what_is_not_there(bare, arrays):
    parts = halves(arrays)
    paths = write_index(bare, "model.safetensors", parts)
    save_file(parts[0], paths[0])
    refused(bare, r"has no part-1\.safetensors, which model\.safetensors\.index\.json names")
    (bare / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
    refused(bare, r"a shard must be a file beside it, got '\.\./other\.safetensors'")
    (bare / "model.safetensors.index.json").write_text("{}")
    refused(bare, r"index\.json needs the field weight_map")


def test_no_tokenizer(folder, bare, tmp_path):
    (bare / "model.safetensors").symlink_to(folder / tiny.INVERSION / "model.safetensors")
    t5 = tmp_path / "t5"
    t5.mkdir()
    (t5 / "config.json").write_bytes((folder / "t5" / "config.json").read_bytes())
    with pytest.raises(CheckpointError, match=r"t5 has no tokenizer\.json \(the tokenizer; `save_pretrained`"):
        load_inversion(bare, t5=t5, device="cpu")
    (t5 / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read as a tokenizer"):
        load_inversion(bare, t5=t5, device="cpu")
