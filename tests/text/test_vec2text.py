"""Vec2TextInverter against what vec2text itself answered (vectors/make_vec2text_vectors.py), and what it refuses."""

import json
import os
from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.special import erf

pytest.importorskip("torch")
pytest.importorskip("transformers")

import torch
from torch import nn

from hushvec.embedders.checkpoints import CheckpointError
from hushvec.embedders.gtr import GTREmbedder
from hushvec.text.inverters import Inverter, Vec2TextInverter
from hushvec.text.inverters.vec2text.loading import load_corrector, load_inversion
from text import tiny_vec2text as tiny

torch.set_num_threads(1)  # networks so small only wait for each other's threads

VECTORS = Path(__file__).resolve().parents[1] / "evidence" / "vectors"
FULL = os.environ.get("HUSHVEC_TEST_SCALE") == "full"
# Rows in the default mode; with five steps those few of the shortest texts; and settings that only the full one takes.
SOME, FEW = 24, 3
SLOW = {("t5", 5, 4, 1), ("t5", 5, 1, 4), ("gated", 5, 1, 0), ("gated", 5, 4, 2)}


@cache
def vectors(name):
    return json.loads((VECTORS / f"vec2text_{name}.json").read_text(encoding="utf-8"))


def answers():
    for name in ("t5", "gated"):
        for answer in vectors(name)["answers"]:
            setting = (answer["num_steps"], answer["beams"], answer["sequence_beams"])
            if not FULL and (name, *setting) in SLOW:
                continue
            yield pytest.param(name, *setting, answer["texts"], id=f"{name}-steps{setting[0]}-beams{setting[1]}-sequences{setting[2]}")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return {name: tiny.write_all(tmp_path_factory.mktemp(name), getattr(tiny, vectors(name)["t5"])) for name in ("t5", "gated")}


@pytest.fixture(scope="module")
def folder(folders):
    return folders["t5"]


@pytest.fixture(scope="module")
def loaded(folders):
    """(inversion model, corrector, embedder) by the name of the vectors."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield {
        name: (
            load_inversion(place / tiny.INVERSION, device="cpu"),
            load_corrector(place / tiny.CORRECTOR, device="cpu"),
            GTREmbedder(place / "embedder", max_length=tiny.MAX_SEQ_LENGTH, device="cpu"),
        )
        for name, place in folders.items()
    }
    torch.set_num_threads(threads)


def inverter(loaded, name="t5", **settings):
    inversion, corrector, embedder = loaded[name]
    return Vec2TextInverter(inversion, corrector, embedder=embedder, device="cpu", **settings)


def known(name, num_steps, beams, sequence_beams):
    for answer in vectors(name)["answers"]:
        if (answer["num_steps"], answer["beams"], answer["sequence_beams"]) == (num_steps, beams, sequence_beams):
            return answer["texts"]
    raise AssertionError("no such setting in the vectors")


def quick(name):
    """Rows of the shortest texts: the work is in the tokens."""
    texts = list(zip(*(answer["texts"] for answer in vectors(name)["answers"]), strict=True))
    return sorted(range(len(texts)), key=lambda row: max(map(len, texts[row])))[:FEW]


def rows(name="t5"):
    kept = vectors(name)["rows"]
    return tiny.embeddings(max(kept) + 1)[kept]


# --- the same texts as vec2text ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "num_steps", "beams", "sequence_beams", "texts"), list(answers()))
def test_texts_are_those_of_vec2text(loaded, name, num_steps, beams, sequence_beams, texts):
    some = range(len(texts)) if FULL else quick(name) if num_steps > 1 else range(SOME)
    found = inverter(loaded, name, num_steps=num_steps, beams=beams, sequence_beams=sequence_beams).invert(rows(name)[some])
    assert found == [texts[row] for row in some]


def test_the_vectors_tell_settings_and_rows_apart():
    """Texts that were all alike would agree with anything."""
    found = vectors("t5")["answers"]
    texts = {(one["num_steps"], one["beams"], one["sequence_beams"]): one["texts"] for one in found}
    assert len(vectors("t5")["rows"]) >= 24
    for setting, found in texts.items():
        assert len(set(found)) > 0.8 * len(found), setting
    for one, other in [
        ((0, 1, 0), (1, 1, 0)), ((1, 1, 0), (5, 1, 0)), ((5, 1, 0), (5, 4, 0)), ((0, 1, 0), (0, 4, 0)),
        ((1, 4, 0), (1, 4, 1)), ((5, 4, 0), (5, 4, 1)), ((5, 4, 1), (5, 4, 2)), ((5, 4, 2), (5, 1, 4)),
    ]:   # fmt: skip
        assert sum(a != b for a, b in zip(texts[one], texts[other])) > 0.2 * len(texts[one]), (one, other)


def drop_layer_norm(corrector):
    corrector.layernorm = nn.Identity()


def swap_second_and_third(corrector):
    second, third = corrector.embedding_transform_2, corrector.embedding_transform_3
    corrector.embedding_transform_2, corrector.embedding_transform_3 = third, second


def separate_by_padding(corrector):
    right, read = corrector.config, corrector.encoder_input
    wrong = replace(right, t5={**right.t5, "eos_token_id": right.token("pad_token_id")})

    def changed(*arguments):
        corrector.config = wrong
        try:
            return read(*arguments)
        finally:
            corrector.config = right

    corrector.encoder_input = changed


def ignore_feedback(corrector):
    corrector.config = replace(corrector.config, ignore_hypothesis_embedding=True)


@pytest.mark.parametrize("change", [drop_layer_norm, swap_second_and_third, separate_by_padding, ignore_feedback])
def test_the_vectors_notice_a_corrector_that_reads_something_else(loaded, change):
    inversion, corrector, embedder = loaded["t5"]
    other = deepcopy(corrector.model)
    change(other)
    changed = Vec2TextInverter(inversion, replace(corrector, model=other), num_steps=1, embedder=embedder, device="cpu")
    found = changed.invert(rows()[:8])
    assert sum(a != b for a, b in zip(found, known("t5", 1, 1, 0))) > 0.5 * len(found)


def test_the_vectors_notice_one_step_more_or_less(loaded):
    for steps in (4, 6):
        found = inverter(loaded, num_steps=steps).invert(rows()[quick("t5")])
        assert sum(text != known("t5", 5, 1, 0)[row] for text, row in zip(found, quick("t5"), strict=True)) >= 2


def test_the_vectors_notice_hypotheses_that_are_not_embedded_again(loaded):
    inversion, corrector, embedder = loaded["t5"]

    class Stale:
        first = None

        def embed(self, texts):
            Stale.first = embedder.embed(texts) if Stale.first is None else Stale.first
            return Stale.first

    found = Vec2TextInverter(inversion, corrector, embedder=Stale(), num_steps=5, device="cpu").invert(rows()[quick("t5")])
    assert found != [known("t5", 5, 1, 0)[row] for row in quick("t5")]


# --- what the corrector reads, from the paper's formula alone -----------------------------------------------------------


def mlp(weights, prefix, vectors):
    inner = vectors.astype(np.float64) @ weights[f"{prefix}0.weight"].T + weights[f"{prefix}0.bias"]
    inner = inner * 0.5 * (1 + erf(inner / 2**0.5))
    outer = inner @ weights[f"{prefix}3.weight"].T + weights[f"{prefix}3.bias"]
    return outer.reshape(len(vectors), tiny.REPEAT, tiny.T5["d_model"])


def test_the_corrector_reads_the_parts_in_order(loaded):
    weights = tiny.corrector_weights()
    goal, other = tiny.embeddings(3), tiny.embeddings(6)[3:]
    hypotheses = np.array([[0, 5, 9, 1, 0], [0, 7, 1, 0, 0], [0, 4, 6, 8, 10]])
    table = weights["encoder_decoder.shared.weight"]
    separator = np.broadcast_to(table[tiny.EOS], (3, 1, table.shape[1]))
    parts = [
        separator, mlp(weights, "embedding_transform_1.", goal),
        separator, mlp(weights, "embedding_transform_3.", other),
        separator, mlp(weights, "embedding_transform_2.", goal - other),
        separator, table[hypotheses],
    ]   # fmt: skip
    joined = np.concatenate(parts, axis=1).astype(np.float64)
    centred = joined - joined.mean(axis=2, keepdims=True)
    normalised = centred / np.sqrt(joined.var(axis=2, keepdims=True) + 1e-5)
    expected = normalised * weights["layernorm.weight"] + weights["layernorm.bias"]

    attended = torch.from_numpy(hypotheses != tiny.PAD)
    with torch.no_grad():
        found, mask = loaded["t5"][1].model.encoder_input(
            torch.from_numpy(goal), torch.from_numpy(other), torch.from_numpy(hypotheses), attended
        )
    np.testing.assert_allclose(found.numpy(), expected, rtol=0, atol=2e-5)
    first = 4 + 3 * tiny.REPEAT
    assert mask[:, :first].all()
    assert mask[:, first:].tolist() == attended.long().tolist()


# --- rows and texts -----------------------------------------------------------------------------------------------------


def test_texts_do_not_depend_on_the_batch(loaded):
    """Batches differ in nothing but the order in which floats are added; these rows do not hang on that."""
    some = rows()[:5]
    whole = inverter(loaded, num_steps=1).invert(some)
    assert inverter(loaded, num_steps=1, batch_size=2).invert(some) == whole


def test_no_rows_give_no_texts(loaded):
    assert inverter(loaded, num_steps=1).invert(np.empty((0, tiny.EMBEDDING_DIM), np.float32)) == []


def test_rows_of_any_float_and_layout(loaded):
    found = inverter(loaded, num_steps=1)
    some = rows()[:4]
    whole = found.invert(some)
    assert found.invert(some.astype(np.float64)) == whole
    assert found.invert(np.asfortranarray(some)) == whole
    assert found.invert(np.repeat(some, 2, axis=1)[:, ::2]) == whole


def test_rows_are_left_as_they_are(loaded):
    some = rows()[:3]
    before = some.copy()
    inverter(loaded, num_steps=1, sequence_beams=2).invert(some)
    np.testing.assert_array_equal(some, before)


@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e4, 1e30])
def test_rows_far_from_any_embedding_give_texts(loaded, scale):
    found = inverter(loaded, num_steps=1, beams=2).invert(rows()[:2] * np.float32(scale))
    assert len(found) == 2
    assert all(isinstance(text, str) for text in found)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        (np.zeros((2, 5), np.float32), ValueError, r"embeddings must have shape \(n, 768\), got \(2, 5\)"),
        (np.zeros(768, np.float32), ValueError, r"embeddings must have shape \(n, 768\), got \(768,\)"),
        (np.full((2, 768), np.nan), ValueError, "embeddings must be finite in float32, got NaN or Inf in row 0"),
        (np.vstack([np.zeros(768), np.full(768, -np.inf)]), ValueError, "got NaN or Inf in row 1"),
        (np.full((1, 768), 1e300), ValueError, "embeddings must be finite in float32"),
        (np.zeros((2, 768), np.int64), TypeError, "embeddings must be a numpy array of floats, got int64"),
        ([[0.0] * 768], TypeError, "embeddings must be a numpy array of floats, got list"),
    ],
)
def test_rows_that_are_no_embeddings_are_refused(loaded, given, error, message):
    with pytest.raises(error, match=message):
        inverter(loaded, num_steps=0).invert(given)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"num_steps": -1}, ValueError, "num_steps must be >= 0, got -1"),
        ({"num_steps": True}, TypeError, "num_steps must be"),
        ({"num_steps": 1.5}, TypeError, "num_steps must be"),
        ({"beams": 0}, ValueError, "beams must be >= 1, got 0"),
        ({"sequence_beams": -2}, ValueError, "sequence_beams must be >= 0, got -2"),
        ({"batch_size": 0}, ValueError, "batch_size must be >= 1, got 0"),
        ({"max_length": 1}, ValueError, "max_length must be >= 2, got 1"),
    ],
)
def test_settings_out_of_range_are_refused(loaded, settings, error, message):
    with pytest.raises(error, match=message):
        inverter(loaded, **settings)


# --- the two checkpoints and their embedder ----------------------------------------------------------------------------


def test_an_inversion_folder_finds_its_corrector_and_embedder(folder):
    found = Vec2TextInverter.from_pretrained(folder / tiny.INVERSION, num_steps=1, device="cpu")
    assert isinstance(found, Inverter)
    assert isinstance(found.embedder, GTREmbedder)
    assert found.dimension == found.embedder.dimension == tiny.EMBEDDING_DIM
    assert found.invert(rows()[:5]) == known("t5", 1, 1, 0)[:5]


def test_a_corrector_folder_finds_its_inversion_model_by_name(folder):
    found = Vec2TextInverter.from_pretrained(str(folder / tiny.CORRECTOR), num_steps=1, device="cpu")
    assert found.invert(rows()[:5]) == known("t5", 1, 1, 0)[:5]


def test_a_corrector_folder_finds_the_inversion_model_that_it_names(folder, tmp_path):
    corrector = tmp_path / "of another name"
    named = {"corrector_model_from_pretrained": str(folder / tiny.INVERSION)}
    tiny.write_checkpoint(corrector, "CorrectorEncoderModel", tiny.corrector_weights(), folder / "t5", **named)
    found = Vec2TextInverter.from_pretrained(corrector, num_steps=1, device="cpu")
    assert found.invert(rows()[:5]) == known("t5", 1, 1, 0)[:5]
    alone = Vec2TextInverter.from_pretrained(corrector, num_steps=0, device="cpu")
    assert alone.invert(rows()[:5]) == known("t5", 0, 1, 0)[:5]


def test_a_corrector_without_its_inversion_model_says_where_it_is_expected(folder, tmp_path):
    tiny.write_checkpoint(tmp_path / "lone__correct", "CorrectorEncoderModel", tiny.corrector_weights(), folder / "t5")
    with pytest.raises(CheckpointError, match=f"is a corrector; its inversion model is expected in {tmp_path / 'lone'}; give the inv"):
        Vec2TextInverter.from_pretrained(tmp_path / "lone__correct", device="cpu")


def test_an_inversion_model_alone_takes_no_steps(folder, tmp_path):
    alone = tmp_path / "alone"
    tiny.write_checkpoint(alone, "InversionModel", tiny.inversion_weights(), folder / "t5")
    for num_steps in (0, None):
        found = Vec2TextInverter.from_pretrained(alone, num_steps=num_steps, device="cpu")
        assert found.invert(rows()[:5]) == known("t5", 0, 1, 0)[:5]
    expected = f"{alone} has no corrector, which num_steps > 0 needs; expected {alone}__correct, or its folder .* num_steps = 0 is"
    with pytest.raises(CheckpointError, match=expected):
        Vec2TextInverter.from_pretrained(alone, num_steps=5, device="cpu")
    with pytest.raises(ValueError, match="num_steps must be 0 without a corrector, got 2"):
        Vec2TextInverter(load_inversion(alone, device="cpu"), num_steps=2)


def test_the_two_kinds_are_not_taken_for_each_other(folder):
    with pytest.raises(CheckpointError, match=r"is an inversion model .* but a corrector .* is needed here"):
        Vec2TextInverter.from_pretrained(folder / tiny.INVERSION, folder / tiny.INVERSION, device="cpu")
    with pytest.raises(CheckpointError, match=r"is a corrector .* but an inversion model .* is needed here"):
        Vec2TextInverter.from_pretrained(folder / tiny.CORRECTOR, folder / tiny.CORRECTOR, device="cpu")


def test_the_embedder_of_no_steps_is_looked_for_when_it_is_asked_for(folder, tmp_path):
    other = tmp_path / "other"
    tiny.write_checkpoint(other, "InversionModel", tiny.inversion_weights(), folder / "t5", embedder_model_name="gtr_base_st")
    found = Vec2TextInverter.from_pretrained(other, num_steps=0, device="cpu")
    assert len(found.invert(rows()[:2])) == 2
    with pytest.raises(CheckpointError, match=f"embedder must be given: {other} was trained on 'gtr_base_st'"):
        _ = found.embedder
    with pytest.raises(CheckpointError, match="embedder must be given"):
        Vec2TextInverter.from_pretrained(other, folder / tiny.CORRECTOR, device="cpu")


def test_without_an_embedder_of_its_own_gtr_is_needed(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    bare = tmp_path / "bare"
    tiny.write_checkpoint(bare, "InversionModel", tiny.inversion_weights(), folder / "t5")
    with pytest.raises(CheckpointError, match="carries no embedder, and 'sentence-transformers/gtr-t5-base' is no folder here"):
        Vec2TextInverter.from_pretrained(bare, folder / tiny.CORRECTOR, device="cpu")


def test_an_embedder_that_does_not_fit_is_refused(loaded):
    inversion, corrector, _ = loaded["t5"]

    class Short:
        def embed(self, texts):
            return np.zeros((len(texts), 3), np.float32)

    with pytest.raises(ValueError, match=r"embedder must give rows of shape \(2, 768\) for this checkpoint, got \(2, 3\)"):
        Vec2TextInverter(inversion, corrector, embedder=Short(), device="cpu").invert(rows()[:2])
    Short.dimension = 3
    with pytest.raises(ValueError, match="embedder must give 768 elements for this checkpoint, got 3"):
        Vec2TextInverter(inversion, corrector, embedder=Short(), device="cpu")
    for wrong in (object(), Short, "gtr"):
        with pytest.raises(TypeError, match=r"model must have embed\(texts\) -> rows, .*, got"):
            Vec2TextInverter(inversion, corrector, embedder=wrong, device="cpu")
