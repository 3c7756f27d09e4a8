"""LlamaIndex: its embedding models wrapped, and wrapped models where it asks for one."""

import copy

import pytest

import hushvec as hv
from integrations.adapter_cases import EPSILON, ToyModel, faint, is_near, private, run, unit_row

pytest.importorskip("llama_index.core")

from llama_index.core import VectorStoreIndex
from llama_index.core.embeddings import BaseEmbedding, MockEmbedding
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.schema import TextNode
from llama_index.core.storage.kvstore import SimpleKVStore

from hushvec.integrations.llama_index import PrivateEmbedding


class OwnEmbedding(BaseEmbedding):
    """A LlamaIndex model that tells queries from texts."""

    def _get_query_embedding(self, query):
        return unit_row(query, "query").tolist()

    async def _aget_query_embedding(self, query):
        return unit_row(query, "query").tolist()

    def _get_text_embedding(self, text):
        return unit_row(text).tolist()


def nodes(texts="abc"):
    return [TextNode(text=text) for text in texts]


def test_an_index_stores_and_searches_private_rows():
    receipts = []
    model = PrivateEmbedding(ToyModel(), faint(), on_receipt=receipts.append, noise_on="both")
    index = VectorStoreIndex(nodes(), embed_model=model)
    found = index.as_retriever(similarity_top_k=1).retrieve("b")
    assert len(found) == 1
    assert [receipt.rows for receipt in receipts] == [3, 1]
    stored = index.storage_context.vector_store.data.embedding_dict
    assert all(any(is_near(row, text) for row in stored.values()) for text in "abc")


def test_an_index_in_a_coroutine():
    model = PrivateEmbedding(ToyModel(), faint())
    index = VectorStoreIndex(nodes(), embed_model=model, use_async=False)
    assert len(run(index.as_retriever(similarity_top_k=2).aretrieve("b"))) == 2


def test_a_batch_is_a_release():
    budget = hv.PrivacyBudget(10.0)
    model = ToyModel()
    PrivateEmbedding(model, private(budget)).get_text_embedding_batch([f"text {number}" for number in range(50)])
    assert len(model.calls) == 1 and budget.consumed() == EPSILON
    in_parts = PrivateEmbedding(model, private(budget), embed_batch_size=20)
    rows = in_parts.get_text_embedding_batch([f"text {number}" for number in range(50)])
    assert [row.receipt.rows for row in (rows[0], rows[20], rows[49])] == [20, 20, 10]
    assert budget.consumed() == 4 * EPSILON


def test_a_host_model_wrapped():
    wrapped = hv.wrap_embedding_model(OwnEmbedding(model_name="own", embed_batch_size=2), faint())
    assert wrapped.model_id == "own"
    for rows in (wrapped.embed(list("abc")), run(wrapped.aembed(list("abc")))):
        assert all(is_near(row, text) for row, text in zip(rows, "abc"))
    for rows in (wrapped.embed(["b"], "query"), run(wrapped.aembed(["b"], "query"))):
        assert is_near(rows[0], "b", "query")
    assert hv.wrap_embedding_model(MockEmbedding(embed_dim=4), faint()).embed(["a"]).shape == (1, 4)


def test_a_cache_is_refused_because_equal_texts_would_share_a_row():
    with pytest.raises(ValueError, match="embeddings_cache must be None"):
        PrivateEmbedding(ToyModel(), faint(), embeddings_cache=SimpleKVStore())
    toy = ToyModel()
    model = PrivateEmbedding(toy, faint())
    model.embeddings_cache = SimpleKVStore()
    for embed in (model.get_text_embedding, model.get_query_embedding, lambda text: model.get_text_embedding_batch([text])):
        with pytest.raises(ValueError, match="embeddings_cache must be None"):
            embed("a")
    for embed in (model.aget_text_embedding, model.aget_query_embedding, lambda text: model.aget_text_embedding_batch([text])):
        with pytest.raises(ValueError, match="embeddings_cache must be None"):
            run(embed("a"))
    assert toy.calls == []


def test_an_ingestion_pipeline_never_serves_a_row_twice():
    toy = ToyModel()
    pipeline = IngestionPipeline(transformations=[PrivateEmbedding(toy, faint())])
    first, second = (pipeline.run(nodes=nodes("a"))[0].embedding for _ in range(2))
    assert len(toy.calls) == 2 and first != second
    assert is_near(first, "a") and is_near(second, "a")


def test_a_description_is_no_model():
    described = PrivateEmbedding(ToyModel(), faint()).to_dict()
    assert described["model_name"] == "toy" and described["class_name"] == "HushvecPrivateEmbedding"
    with pytest.raises(TypeError, match="model"):
        PrivateEmbedding.from_dict(described)


def test_a_copy_has_no_budget_of_its_own():
    model = PrivateEmbedding(ToyModel(), private(hv.PrivacyBudget(10.0)))
    with pytest.raises(TypeError, match="budget in memory"):
        copy.deepcopy(model)
