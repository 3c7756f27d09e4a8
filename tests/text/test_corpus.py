"""PublicCorpus: what goes in, what is refused, and that a file gives back what was saved or nothing."""

import numpy as np
import pytest

from hushvec.text.corpus import PublicCorpus
from text.public_texts import HashEmbedder, clustered, corpus_of


@pytest.fixture
def corpus():
    return PublicCorpus.from_texts(["the north wind", "a warm harbour", "ünïcode ✓"], HashEmbedder())


def test_duplicates_and_empty_texts_are_left_out():
    embedder = HashEmbedder()
    corpus = PublicCorpus.from_texts(["one", "", "two ", "\t", "one", " two"], embedder)
    assert corpus.texts == ("one", "two")
    assert corpus.embeddings.shape == (2, 24) and corpus.embeddings.dtype == np.float32
    assert embedder.calls == [2]
    np.testing.assert_array_equal(corpus.embeddings, HashEmbedder().embed(["one", "two"]))


def test_embedding_is_in_batches():
    embedder = HashEmbedder()
    corpus = PublicCorpus.from_texts((f"word{number}" for number in range(600)), embedder)
    assert embedder.calls == [256, 256, 88] and len(corpus) == 600


def test_lines_of_a_file(tmp_path):
    path = tmp_path / "public.txt"
    path.write_bytes("\ufeffone text\r\n\n another \n".encode())
    assert PublicCorpus.from_file(path, HashEmbedder()).texts == ("one text", "another")


@pytest.mark.parametrize(("name", "key"), [("public.jsonl", None), ("public.txt", "text")])
def test_objects_of_a_file(tmp_path, name, key):
    path = tmp_path / name
    path.write_text('{"text": "one"}\n\n{"text": "two", "n": 1}\n')
    assert PublicCorpus.from_file(path, HashEmbedder(), key).texts == ("one", "two")


@pytest.mark.parametrize(
    ("content", "key", "words"),
    [
        (b"one\n\xff\n", None, "public.txt: must be UTF-8 text, got byte 0xff at 4"),
        (b"\n \n", None, "must hold at least one text, got none"),
        (b'{"text": "one"}\n{"body": "two"}\n', "text", "line 2: has no key 'text'"),
        (b'{"text": 3}\n', "text", "line 1: 'text' must be a string, got int"),
        (b'{"text": "\\ud800"}\n', "text", "line 1: must be text that UTF-8 can hold"),
        (b"one\n", "text", "line 1: not JSON: "),
        (b"[1]\n", "text", "line 1: must be an object, got list"),
    ],
)
def test_a_file_that_is_no_corpus(tmp_path, content, key, words):
    path = tmp_path / "public.txt"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"public\.txt") as refused:
        PublicCorpus.from_file(path, HashEmbedder(), key)
    assert words in str(refused.value)


def test_the_shipped_sentences():
    corpus = PublicCorpus.shipped(HashEmbedder())
    assert len(corpus) == 320 and "Regular walking strengthens the heart." in corpus.texts


class Answers:
    def __init__(self, answer):
        self.answer = answer

    def embed(self, texts):
        return self.answer


@pytest.mark.parametrize(
    ("texts", "embedder", "kind", "words"),
    [
        ([], HashEmbedder(), ValueError, "at least one that is not empty"),
        (["  "], HashEmbedder(), ValueError, "at least one that is not empty"),
        ("one text", HashEmbedder(), TypeError, "got str"),
        ([3], HashEmbedder(), TypeError, "got int in it"),
        (["a"], object(), TypeError, "must have embed"),
        (["a"], Answers(np.zeros((2, 3))), ValueError, "model output must have 1 rows, one for each text, got 2"),
        (["a"], Answers(np.zeros(3)), ValueError, "model output must be 1 rows, one for each text, got an array"),
        (["a"], Answers(np.array([[1.0, np.nan]])), ValueError, "must be finite"),
        (["a", "b"], Answers(np.array([[1.0, 1.0], [0.0, 0.0]])), ValueError, "zeros for text 1"),
    ],
)
def test_refusals(texts, embedder, kind, words):
    with pytest.raises(kind, match=words):
        PublicCorpus.from_texts(texts, embedder)


@pytest.mark.parametrize(
    ("texts", "rows", "kind", "words"),
    [
        (("a", "a"), np.ones((2, 3), np.float32), ValueError, "all different"),
        (("a", " "), np.ones((2, 3), np.float32), ValueError, "not be empty"),
        (("a",), np.ones((2, 3), np.float32), ValueError, r"shape \(1, d\)"),
        (("a",), np.ones((1, 3)), TypeError, "float32"),
        ("a", np.ones((1, 3), np.float32), TypeError, "sequence of strings"),
        (("a",), np.full((1, 3), np.inf, np.float32), ValueError, "finite"),
    ],
)
def test_rows_that_do_not_fit(texts, rows, kind, words):
    with pytest.raises(kind, match=words):
        PublicCorpus(texts, rows)


def test_it_cannot_be_changed(corpus):
    with pytest.raises(ValueError, match="read-only"):
        corpus.embeddings[0, 0] = 1


def test_saved_and_loaded(corpus, tmp_path):
    path = tmp_path / "corpus.npz"
    corpus.save(path)
    loaded = PublicCorpus.load(path, HashEmbedder())
    assert loaded == corpus and loaded.texts == corpus.texts and loaded.model_id == "test/hash"
    np.testing.assert_array_equal(loaded.embeddings, corpus.embeddings)
    assert [entry.name for entry in tmp_path.iterdir()] == ["corpus.npz"]


def test_a_corpus_without_a_model_name(tmp_path):
    corpus = corpus_of(clustered(5), None)
    corpus.save(tmp_path / "corpus.npz")
    assert PublicCorpus.load(tmp_path / "corpus.npz").model_id is None


def test_another_model_is_refused(corpus, tmp_path):
    corpus.save(tmp_path / "corpus.npz")
    other = HashEmbedder()
    other.model_id = "test/other"
    with pytest.raises(ValueError, match="must be embedded by 'test/other', got 'test/hash'"):
        PublicCorpus.load(tmp_path / "corpus.npz", other)
    with pytest.raises(ValueError, match="must have dimension 32, got 24"):
        PublicCorpus.load(tmp_path / "corpus.npz", HashEmbedder(32))


def _with(path, **changes):
    with np.load(path, allow_pickle=False) as archive:
        fields = {**{name: archive[name] for name in archive.files}, **changes}
    np.savez(path, **fields)


@pytest.mark.parametrize(
    "changes",
    [
        {"embeddings": np.eye(3, 24, dtype=np.float32)},
        {"model_id": np.frombuffer(b"test/hush", np.uint8)},
        {"lengths": np.array([4, 24, 14])},
        {"format": 2},
        {"extra": 1},
        {"digest": "0" * 64},
    ],
)
def test_a_changed_file_is_refused(corpus, tmp_path, changes):
    path = tmp_path / "corpus.npz"
    corpus.save(path)
    _with(path, **changes)
    with pytest.raises(ValueError, match=r"corpus\.npz"):
        PublicCorpus.load(path)


def test_a_file_cut_short_is_refused(corpus, tmp_path):
    path = tmp_path / "corpus.npz"
    corpus.save(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="not a saved public corpus"):
        PublicCorpus.load(path)


READ_BACK = []


class Unpickled:
    """Says so when it is read back."""

    def __reduce__(self):
        return noted, ()


def noted():
    READ_BACK.append(True)


def test_no_object_is_unpickled(tmp_path):
    path = tmp_path / "corpus.npz"
    corpus_of(clustered(3)).save(path)
    _with(path, utf8=np.array([Unpickled()], dtype=object))
    with pytest.raises(ValueError, match="not a saved public corpus"):
        PublicCorpus.load(path)
    assert not READ_BACK


def test_a_failed_save_leaves_the_old_file(corpus, tmp_path, monkeypatch):
    path = tmp_path / "corpus.npz"
    corpus.save(path)
    before = path.read_bytes()
    monkeypatch.setattr(np, "savez", lambda *_, **__: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        corpus_of(clustered(4)).save(path)
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1
