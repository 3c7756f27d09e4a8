"""Haystack: its embedders wrapped, and wrapped models as components of a pipeline."""

import numpy as np
import pytest

import hushvec as hv
from integrations.adapter_cases import EPSILON, ToyModel, faint, is_near, private, run

pytest.importorskip("haystack")

from haystack import Document, Pipeline, component
from haystack.components.embedders import MockDocumentEmbedder, MockTextEmbedder
from haystack.components.retrievers.in_memory import InMemoryEmbeddingRetriever
from haystack.components.writers import DocumentWriter
from haystack.core.errors import PipelineRuntimeError
from haystack.document_stores.in_memory import InMemoryDocumentStore

from hushvec.integrations.haystack import PrivateDocumentEmbedder, PrivateTextEmbedder


def indexing(store, embedder):
    pipeline = Pipeline()
    pipeline.add_component("embedder", embedder)
    pipeline.add_component("writer", DocumentWriter(store))
    pipeline.connect("embedder.documents", "writer.documents")
    return pipeline


def searching(store, embedder):
    pipeline = Pipeline()
    pipeline.add_component("embedder", embedder)
    pipeline.add_component("retriever", InMemoryEmbeddingRetriever(store, top_k=1))
    pipeline.connect("embedder.embedding", "retriever.query_embedding")
    return pipeline


def documents(texts="abc"):
    return [Document(content=text) for text in texts]


def test_pipelines_index_and_search():
    store, receipts = InMemoryDocumentStore(), []
    model = hv.wrap_embedding_model(ToyModel(), faint())
    answer = indexing(store, PrivateDocumentEmbedder(model, on_receipt=receipts.append)).run(
        {"embedder": {"documents": documents()}}, include_outputs_from={"embedder"}
    )
    assert answer["embedder"]["meta"]["receipts"] == (receipts[0],) and receipts[0].rows == 3
    assert {document.content for document in store.filter_documents() if is_near(document.embedding, document.content)} == set("abc")
    found = searching(store, PrivateTextEmbedder(model, on_receipt=receipts.append, noise_on="both")).run(
        {"embedder": {"text": "b"}}, include_outputs_from={"embedder"}
    )
    assert len(found["retriever"]["documents"]) == 1
    assert found["embedder"]["meta"]["receipts"] == (receipts[1],) and is_near(found["embedder"]["embedding"], "b", "query")


def test_a_pipeline_in_a_coroutine():
    pipeline = Pipeline()
    pipeline.add_component("embedder", PrivateTextEmbedder(ToyModel(), faint()))
    assert is_near(run(pipeline.run_async({"embedder": {"text": "b"}}))["embedder"]["embedding"], "b", "query")


@pytest.mark.parametrize("text, cause", [(1, TypeError), ("x" * 1_000_000, ValueError)], ids=["number", "1 MB"])
def test_a_pipeline_puts_the_refusal_as_the_cause_into_its_own_error(text, cause):
    budget = hv.PrivacyBudget(EPSILON)
    pipeline = searching(InMemoryDocumentStore(), PrivateTextEmbedder(ToyModel(), private(budget)))
    with pytest.raises(PipelineRuntimeError, match="texts must") as refused:
        pipeline.run({"embedder": {"text": text}})
    assert type(refused.value.__cause__) is cause and budget.consumed() == 0


def test_an_exhausted_budget_stops_a_pipeline_before_it_writes():
    store, budget = InMemoryDocumentStore(), hv.PrivacyBudget(EPSILON)
    pipeline = indexing(store, PrivateDocumentEmbedder(ToyModel(), private(budget)))
    pipeline.run({"embedder": {"documents": documents("ab")}})
    with pytest.raises(PipelineRuntimeError) as refused:
        pipeline.run({"embedder": {"documents": documents("cd")}})
    assert isinstance(refused.value.__cause__, hv.PrivacyBudgetExhaustedError)
    assert store.count_documents() == 2 and budget.consumed() == EPSILON


def test_documents_are_copied_and_keep_their_receipt():
    given = documents("ab")
    answer = PrivateDocumentEmbedder(ToyModel(), faint()).run(given)
    assert [document.embedding for document in given] == [None, None]
    assert [document.id for document in answer["documents"]] == [document.id for document in given]
    assert {document.embedding.receipt for document in answer["documents"]} == set(answer["meta"]["receipts"])


def test_fields_are_put_before_the_content():
    model = ToyModel()
    embedder = PrivateDocumentEmbedder(model, faint(), meta_fields_to_embed=["title", "author"], embedding_separator=" | ")
    embedder.run([Document(content="a", meta={"title": "t", "author": None}), Document(content="b")])
    assert model.calls[0][0] == ["t | a", "b"]


@pytest.mark.parametrize(
    "given, words",
    [
        (Document(content="a"), "list of Document objects, got Document"),
        (["a"], "Document objects, got str at position 0"),
        ([Document(content="a"), Document()], "text content, got NoneType at position 1"),
    ],
    ids=["one", "text", "no content"],
)
def test_what_are_no_documents_with_texts_is_refused(given, words):
    model = ToyModel()
    with pytest.raises(TypeError, match=words):
        PrivateDocumentEmbedder(model, faint()).run(given)
    assert model.calls == []


@pytest.mark.parametrize("embedder", [PrivateTextEmbedder, PrivateDocumentEmbedder])
def test_a_pipeline_with_a_model_in_it_cannot_be_written(embedder):
    pipeline = Pipeline()
    pipeline.add_component("embedder", embedder(ToyModel(), faint()))
    with pytest.raises(TypeError, match=rf"{embedder.__name__} cannot be serialized: it holds a model"):
        pipeline.dumps()


@component
class SlowToStart:
    """A text embedder that must be warmed up."""

    def __init__(self):
        self.warm = 0

    def warm_up(self):
        self.warm += 1

    @component.output_types(embedding=list[float])
    def run(self, text: str):
        assert self.warm
        return {"embedding": [1.0, 0.0]}


def test_a_host_model_is_warmed_up():
    model = SlowToStart()
    assert hv.wrap_embedding_model(model, faint()).embed(["a"]).shape == (1, 2)
    other = SlowToStart()
    PrivateTextEmbedder(other, faint()).warm_up()
    PrivateTextEmbedder(ToyModel(), faint()).warm_up()
    assert [model.warm, other.warm] == [1, 1]


@pytest.mark.parametrize("mock", [MockTextEmbedder, MockDocumentEmbedder])
def test_a_host_model_wrapped_keeps_usage_and_order(mock):
    model = mock(dimension=16, model="mock")
    wrapped = hv.wrap_embedding_model(model, faint())
    texts = ["a b", "a", "a b", "c"]
    expected = np.array([MockTextEmbedder(dimension=16).run(text)["embedding"] for text in texts])
    for rows in (wrapped.embed(texts), run(wrapped.aembed(texts))):
        assert rows.usage == {"prompt_tokens": 6, "total_tokens": 6} and rows.metadata == {"model": "mock"}
        assert np.linalg.norm(rows - expected, axis=1).max() < 0.2
    answer = PrivateTextEmbedder(wrapped).run("a b")
    assert answer["meta"]["usage"] == {"prompt_tokens": 2, "total_tokens": 2} and answer["meta"]["model"] == "mock"


def test_a_component_of_other_rows_is_refused():
    @component
    class Sparse:
        @component.output_types(sparse_embedding=dict)
        def run(self, text: str):
            return {"sparse_embedding": {"indices": [0], "values": [1.0]}}

    budget = hv.PrivacyBudget(EPSILON)
    with pytest.raises(TypeError, match="model output must hold numbers, got NoneType in it"):
        hv.wrap_embedding_model(Sparse(), private(budget)).embed(["a"])
    assert budget.consumed() == 0


def test_a_component_that_embeds_nothing_is_refused():
    with pytest.raises(TypeError, match="model must have embed"):
        hv.wrap_embedding_model(Pipeline(), faint())
