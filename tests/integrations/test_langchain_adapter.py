"""LangChain: its embedders wrapped, and wrapped models where it asks for an embedder."""

import pytest

import hushvec as hv
from integrations.adapter_cases import EPSILON, ToyModel, faint, is_near, private, run, unit_row

pytest.importorskip("langchain_core")

from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from langchain_core.vectorstores import InMemoryVectorStore

from hushvec.integrations.langchain import PrivateEmbeddings


class OwnEmbeddings(Embeddings):
    """A LangChain embedder with coroutines of its own."""

    def __init__(self):
        self.called = []

    def embed_documents(self, texts):
        self.called.append("documents")
        return [unit_row(text).tolist() for text in texts]

    def embed_query(self, text):
        self.called.append("query")
        return unit_row(text, "query").tolist()

    async def aembed_documents(self, texts):
        self.called.append("adocuments")
        return [unit_row(text).tolist() for text in texts]

    async def aembed_query(self, text):
        self.called.append("aquery")
        return unit_row(text, "query").tolist()


def test_a_vector_store_finds_private_rows():
    receipts = []
    store = InMemoryVectorStore(PrivateEmbeddings(ToyModel(), faint(), on_receipt=receipts.append, noise_on="both"))
    store.add_documents([Document(page_content=text) for text in "abc"])
    found = store.similarity_search_by_vector(unit_row("b").tolist(), k=1)
    assert [document.page_content for document in found] == ["b"]
    store.similarity_search("b", k=1)
    assert [receipt.rows for receipt in receipts] == [3, 1]


def test_a_vector_store_in_a_coroutine():
    async def search():
        store = InMemoryVectorStore(PrivateEmbeddings(ToyModel(), faint()))
        await store.aadd_documents([Document(page_content=text) for text in "abc"])
        return await store.asimilarity_search("b", k=1)

    assert len(run(search())) == 1


def test_a_host_model_wrapped_keeps_its_kinds_and_coroutines():
    model = OwnEmbeddings()
    wrapped = hv.wrap_embedding_model(model, faint())
    assert is_near(wrapped.embed(["a"])[0], "a")
    assert is_near(wrapped.embed(["a"], "query")[0], "a", "query")
    assert is_near(run(wrapped.aembed(["a"]))[0], "a")
    assert is_near(run(wrapped.aembed(["a"], "query"))[0], "a", "query")
    assert model.called == ["documents", "query", "adocuments", "aquery"]


def test_a_model_without_unit_norm_needs_a_bound():
    model = DeterministicFakeEmbedding(size=8)
    with pytest.raises(ValueError, match="unit norm"):
        PrivateEmbeddings(model, private()).embed_query("a")
    with pytest.raises(ValueError, match="unit norm"):
        PrivateEmbeddings(model, private()).embed_documents(["a"])
    (row,) = PrivateEmbeddings(model, private(clip_norm=4.0)).embed_documents(["a"])
    assert row.receipt.clip_norm == 4.0 and len(row) == 8


def test_private_rows_wrapped_again_keep_both_receipts():
    once = PrivateEmbeddings(ToyModel(), faint(), noise_on="both")
    twice = PrivateEmbeddings(once, private(clip_norm=1.0), noise_on="both")
    assert [receipt.epsilon for receipt in twice.embed_documents(["a", "b"]).receipts] == [1e6, EPSILON]
    assert [receipt.epsilon for receipt in twice.embed_query("a").receipts] == [1e6, EPSILON]
    queries = hv.wrap_embedding_model(once, private(clip_norm=1.0)).embed(["a", "b"], "query")
    assert [(receipt.rows, receipt.epsilon) for receipt in queries.receipts] == [(1, 1e6), (1, 1e6), (2, EPSILON)]


def test_an_exhausted_budget_passes_through_a_store():
    budget = hv.PrivacyBudget(EPSILON)
    store = InMemoryVectorStore(PrivateEmbeddings(ToyModel(), private(budget), noise_on="both"))
    store.add_texts(["a", "b"])
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        store.similarity_search("a")
    assert budget.consumed() == EPSILON and len(store.store) == 2
