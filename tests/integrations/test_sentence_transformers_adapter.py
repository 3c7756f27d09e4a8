"""sentence-transformers: a small real model wrapped, and the methods that people call on one."""

import numpy as np
import pytest

import hushvec as hv
from integrations.adapter_cases import EPSILON, ToyModel, faint, is_near, private

pytest.importorskip("sentence_transformers")

import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Normalize, StaticEmbedding
from tokenizers import Tokenizer, models, pre_tokenizers

from hushvec.integrations.sentence_transformers import PrivateSentenceTransformer

WORDS = ("[UNK]", "a", "b", "c", "find", "store")
FAR = 0.1  # faint noise on 8 elements stays far below it, two texts of the small model above


@pytest.fixture(scope="module")
def small_model():
    """A vector for each of a few words, averaged and brought to unit length; queries and documents have a prompt."""
    tokenizer = Tokenizer(models.WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    weights = np.random.default_rng(1).normal(size=(len(WORDS), 8)).astype(np.float32)
    return SentenceTransformer(
        modules=[StaticEmbedding(tokenizer, embedding_weights=weights), Normalize()],
        prompts={"query": "find ", "document": "store "},
        device="cpu",
    )


@pytest.fixture
def adapter(small_model):
    return PrivateSentenceTransformer(small_model, faint(), noise_on="both")


def distance(rows, others):
    return float(np.linalg.norm(np.asarray(rows, np.float64) - np.asarray(others, np.float64), axis=-1).max())


@pytest.mark.parametrize("method", ["encode", "encode_query", "encode_document"])
def test_each_method_is_the_models_own_with_noise(small_model, adapter, method):
    own = {name: getattr(small_model, name)(["a b", "c"]) for name in ("encode", "encode_query", "encode_document")}
    rows = getattr(adapter, method)(["a b", "c"])
    assert {name: distance(rows, expected) < FAR for name, expected in own.items()} == {name: name == method for name in own}
    assert isinstance(rows, hv.middleware.Embeddings) and rows.receipt.rows == 2


def test_a_single_text_gives_a_single_row(small_model, adapter):
    row = adapter.encode("a b")
    assert row.shape == (8,) and row.receipt.rows == 1 and distance(row, small_model.encode("a b")) < FAR


def test_prompts_reach_the_model(small_model, adapter):
    query = small_model.encode_query(["a"])
    assert distance(adapter.encode(["a"], prompt_name="query"), query) < FAR
    assert distance(adapter.encode(["a"], prompt="find "), query) < FAR
    assert distance(adapter.encode(["a"], "query", batch_size=1, show_progress_bar=False, device="cpu"), query) < FAR
    with pytest.raises(ValueError, match="model that is no SentenceTransformer"):
        PrivateSentenceTransformer(ToyModel(), faint()).encode(["a"], prompt="find ")


def test_unit_rows_are_made_after_the_noise(small_model):
    rows = PrivateSentenceTransformer(small_model, private()).encode(["a", "b"], normalize_embeddings=True)
    np.testing.assert_allclose(np.linalg.norm(rows.values, axis=1), 1, atol=1e-5)
    assert rows.receipt.epsilon == EPSILON and distance(rows, small_model.encode(["a", "b"])) > FAR


def test_forms_of_the_rows_all_have_the_receipt(adapter):
    tensor = adapter.encode(["a", "b"], convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor) and tensor.shape == (2, 8) and tensor.receipt.rows == 2
    tensors = adapter.encode(["a", "b"], convert_to_numpy=False)
    assert all(isinstance(row, torch.Tensor) for row in tensors) and tensors.receipt.rows == 2
    row = adapter.encode("a", convert_to_numpy=False)
    assert isinstance(row, torch.Tensor) and row.shape == (8,) and row.receipt.rows == 1


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"output_value": "token_embeddings"}, ValueError, "output_value must be 'sentence_embedding'"),
        ({"precision": "int8"}, ValueError, "precision must be 'float32' for private embeddings: quantize"),
        ({"truncate_dim": 4}, ValueError, "truncate_dim must be None"),
        ({"pool": {}}, ValueError, "pool must be None"),
        ({"normalise": True}, TypeError, "encode has no argument 'normalise'"),
        ({"normalize_embeddings": 1}, TypeError, "normalize_embeddings must be True or False"),
        ({"convert_to_tensor": "yes"}, TypeError, "convert_to_tensor must be True or False"),
        ({"batch_size": 0}, ValueError, "batch_size must be >= 1"),
        ({"prompt_name": "verse"}, ValueError, "verse"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_options_that_cannot_be_kept_are_refused(small_model, options, error, words):
    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(error, match=words):
        PrivateSentenceTransformer(small_model, private(budget)).encode(["a"], **options)
    assert budget.consumed() == 0


def test_one_call_is_one_release_whatever_its_batches(small_model):
    budget = hv.PrivacyBudget(10.0)
    PrivateSentenceTransformer(small_model, private(budget)).encode(["a"] * 100, batch_size=8)
    assert budget.consumed() == EPSILON


def test_similarity_is_the_models_own(small_model, adapter):
    rows = adapter.encode(["a", "b", "c"])
    torch.testing.assert_close(adapter.similarity(rows, rows), small_model.similarity(rows.values, rows.values))
    pairs = adapter.similarity_pairwise(rows, rows)
    torch.testing.assert_close(pairs, torch.ones(3))
    toy = PrivateSentenceTransformer(ToyModel(), faint())
    rows = toy.encode(["a", "b"])
    assert toy.similarity(rows, rows).shape == (2, 2) and toy.similarity_pairwise(rows, rows).shape == (2,)


def test_nothing_else_of_the_model_is_reachable(adapter):
    assert adapter.get_embedding_dimension() == 8
    for name in ("tokenize", "forward", "encode_multi_process", "modules"):
        assert not hasattr(adapter, name)


def test_a_wrapped_model_of_another_kind():
    wrapped = hv.wrap_embedding_model(ToyModel(), faint())
    adapter = PrivateSentenceTransformer(wrapped)
    assert is_near(adapter.encode_query("a"), "a", "query") and is_near(adapter.encode_document(["a"])[0], "a")


def test_a_host_model_wrapped(small_model):
    wrapped = hv.wrap_embedding_model(small_model, faint())
    assert wrapped.dimension == 8
    assert distance(wrapped.embed(["a"]), small_model.encode_document(["a"])) < FAR
    assert distance(wrapped.embed(["a"], "query"), small_model.encode_query(["a"])) < FAR


def test_a_model_of_sparse_rows_is_refused():
    class Sparse:
        def encode(self, texts, show_progress_bar=None):
            return torch.eye(len(texts)).to_sparse()

    budget = hv.PrivacyBudget(10.0)
    with pytest.raises(TypeError, match="dense"):
        hv.wrap_embedding_model(Sparse(), private(budget)).embed(["a"])
    assert budget.consumed() == 0
