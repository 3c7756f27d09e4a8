"""EmbeddingCache: each text is embedded once, files are whole or redone, and another model's are refused."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from hushvec_studies.harness import embeddings
from hushvec_studies.harness.embeddings import SHARD, DamagedShardWarning, EmbeddingCache

TEXTS = [f"text number {number}" for number in range(20)]


class Model:
    """Rows that depend on the text alone, and a count of what was asked."""

    def __init__(self, model_id="tests/model", dimension=6):
        self.model_id, self.dimension, self.asked = model_id, dimension, []

    def embed(self, texts):
        self.asked += texts
        return np.stack([np.random.default_rng(list(text.encode())).normal(size=self.dimension) for text in texts]).astype(
            np.float32
        )


def shards(folder):
    return sorted(folder.rglob("*.safetensors"))


def test_a_text_is_embedded_once(tmp_path):
    model = Model()
    expected = Model().embed(TEXTS)
    cache = EmbeddingCache(tmp_path, model)
    np.testing.assert_array_equal(cache.embed(TEXTS), expected)
    np.testing.assert_array_equal(cache.embed(TEXTS[::-1]), expected[::-1])
    np.testing.assert_array_equal(EmbeddingCache(tmp_path, model).embed([*TEXTS[3:5], "new", "new"])[:2], expected[3:5])
    assert model.asked == [*TEXTS, "new"]
    assert len(shards(tmp_path)) == 2 and cache.embed(["new"]).shape == (1, 6) and len(model.asked) == 21


def test_answers_are_of_their_own(tmp_path):
    cache = EmbeddingCache(tmp_path, Model())
    cache.embed(TEXTS)[:] = 0
    np.testing.assert_array_equal(cache.embed(TEXTS), Model().embed(TEXTS))


def test_two_readers_of_one_folder(tmp_path):
    """What the second one writes is found by the first one, which was there before it."""
    first, second = (EmbeddingCache(tmp_path, Model()) for _ in range(2))
    first.embed(TEXTS[:5])
    second.embed(TEXTS)
    assert first.embed(TEXTS).shape == (20, 6) and first._model.asked == TEXTS[:5] and second._model.asked == TEXTS[5:]


def test_models_do_not_meet(tmp_path):
    one, other = Model("a/b"), Model("a_b")
    EmbeddingCache(tmp_path, one).embed(TEXTS)
    EmbeddingCache(tmp_path, other).embed(TEXTS)
    assert other.asked == TEXTS and len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("name", ["../../up", "a\\b:c*", "x" * 400, "модель"])
def test_any_name_of_a_model_is_one_folder(tmp_path, name):
    EmbeddingCache(tmp_path / "cache", Model(name)).embed(["a"])
    assert len(shards(tmp_path / "cache")) == 1 and len(list((tmp_path / "cache").iterdir())) == 1


def test_files_of_at_most_a_shard_and_progress(tmp_path, monkeypatch):
    monkeypatch.setattr(embeddings, "SHARD", 8)
    cache, seen = EmbeddingCache(tmp_path, Model()), []
    cache.embed(TEXTS[:4], seen.append)
    cache.embed([*TEXTS, TEXTS[0], TEXTS[-1]], seen.append)
    assert seen == [4, 5, 8, 9] and len(shards(tmp_path)) == 3 and SHARD == 512


# ---- damage ----


def flipped(content):
    changed = bytearray(content)
    changed[-3] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    "damage",
    [lambda c: c[: len(c) // 2], lambda c: b"", lambda c: c[:-1], flipped, lambda c: b"\0" * len(c), lambda c: b"<html>" + c],
)
def test_a_damaged_file_is_found_and_made_again(tmp_path, damage):
    model = Model()
    EmbeddingCache(tmp_path, model).embed(TEXTS)
    (path,) = shards(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.warns(DamagedShardWarning, match=rf"{path.name}: damaged; its texts are embedded again"):
        rows = EmbeddingCache(tmp_path, model).embed(TEXTS)
    np.testing.assert_array_equal(rows, Model().embed(TEXTS))
    assert model.asked == TEXTS * 2
    np.testing.assert_array_equal(EmbeddingCache(tmp_path, model).embed(TEXTS), rows)
    assert len(model.asked) == 40


def test_a_row_under_another_key_is_damage(tmp_path):
    """Valid safetensors, our own metadata, and two keys changed places: the digest tells."""
    EmbeddingCache(tmp_path, Model()).embed(TEXTS)
    (path,) = shards(tmp_path)
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as file:
        said, keys, rows = file.metadata(), file.get_tensor("keys"), file.get_tensor("rows")
    save_file({"keys": keys[::-1].copy(), "rows": rows}, path, said)
    with pytest.warns(DamagedShardWarning):
        np.testing.assert_array_equal(EmbeddingCache(tmp_path, Model()).embed(TEXTS), Model().embed(TEXTS))


@pytest.mark.parametrize(
    ("tensors", "said", "words"),
    [
        ({"weight": np.ones(3, np.float32)}, None, r"must be a file of an embedding cache \(hushvec embeddings 1\), got None"),
        (
            {"keys": np.ones(3, np.uint8)},
            {"format": "hushvec embeddings 1", "model": "other"},
            "must hold embeddings by 'tests/model', got 'other'",
        ),
    ],
)
def test_a_foreign_file_is_refused(tmp_path, tensors, said, words):
    EmbeddingCache(tmp_path, Model()).embed(TEXTS)
    (path,) = shards(tmp_path)
    save_file(tensors, path.with_name("foreign.safetensors"), said)
    with pytest.raises(ValueError, match=rf"foreign\.safetensors: {words}"):
        EmbeddingCache(tmp_path, Model()).embed(TEXTS)
    assert path.with_name("foreign.safetensors").exists()


def test_tensors_of_the_wrong_kind_are_damage(tmp_path):
    EmbeddingCache(tmp_path, Model()).embed(["a"])
    (path,) = shards(tmp_path)
    said = {"format": "hushvec embeddings 1", "model": "tests/model", "sha256": "0" * 64}
    save_file(
        {"keys": np.ones((1, 32), np.uint8), "rows": np.ones((1, 6), np.float64)}, path.with_name("wrong.safetensors"), said
    )
    save_file({"rows": np.ones((1, 6), np.float32)}, path.with_name("keyless.safetensors"), said)
    with pytest.warns(DamagedShardWarning) as warned:
        EmbeddingCache(tmp_path, Model()).embed(["a"])
    assert len(warned) == 2 and shards(tmp_path) == [path]


def test_a_model_of_another_dimension(tmp_path):
    EmbeddingCache(tmp_path, Model()).embed(TEXTS)
    with pytest.raises(ValueError, match="model must answer with rows of 6 elements as before, got 7"):
        EmbeddingCache(tmp_path, Model(dimension=7)).embed(["new"])


KILLED = """
import os, signal, sys
import numpy as np
from hushvec_studies.harness import embeddings
embeddings.SHARD = 4
class Model:
    model_id = "tests/model"
    def embed(self, texts):
        if "text number 9" in texts:
            os.kill(os.getpid(), signal.SIGKILL)
        return np.stack([np.random.default_rng(list(text.encode())).normal(size=6) for text in texts]).astype(np.float32)
embeddings.EmbeddingCache(sys.argv[1], Model()).embed([f"text number {n}" for n in range(20)])
"""


def test_a_killed_process_keeps_whole_files(tmp_path):
    source = Path(embeddings.__file__).parents[2]
    finished = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path)], env={**os.environ, "PYTHONPATH": str(source)}, check=False
    )
    assert finished.returncode == -signal.SIGKILL
    model = Model()
    np.testing.assert_array_equal(EmbeddingCache(tmp_path, model).embed(TEXTS), Model().embed(TEXTS))
    assert model.asked == TEXTS[8:]


# ---- bad input ----


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (np.ones((1, 2)), r"model must answer 2 texts with as many rows, got shape \(1, 2\)"),
        (np.ones(2), r"got shape \(2,\)"),
        (np.ones((2, 0)), r"got shape \(2, 0\)"),
        (np.array([[1, 2], [np.nan, 1]]), "model must answer with finite rows, got NaN or Inf for text 1"),
        (np.array([[np.inf, 2], [1, 1]]), "got NaN or Inf for text 0"),
    ],
)
def test_an_answer_that_is_none(tmp_path, answer, words):
    model = Model()
    model.embed = lambda texts: answer
    with pytest.raises(ValueError, match=words):
        EmbeddingCache(tmp_path, model).embed(["a", "b"])
    assert not shards(tmp_path)


def test_a_text_that_is_none(tmp_path):
    with pytest.raises(ValueError, match="texts must be text that UTF-8 can hold"):
        EmbeddingCache(tmp_path, Model()).embed(["\ud800"])
