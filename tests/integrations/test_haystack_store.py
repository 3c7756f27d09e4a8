"""Haystack's document store over a private index: Haystack's own mixins, and what noise, budgets and policies add."""

import os
from dataclasses import replace

import pytest

import hushvec as hv
from integrations.adapter_cases import ToyModel, private, run, unit_row

pytest.importorskip("haystack")

from haystack import Document, Pipeline
from haystack.components.writers import DocumentWriter
from haystack.dataclasses import ByteStream, SparseEmbedding
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.in_memory import InMemoryDocumentStore
from haystack.document_stores.types import DuplicatePolicy
from haystack.errors import FilterError
from haystack.testing import document_store as host
from haystack.testing import document_store_async as async_host

from hushvec.integrations.haystack import PrivateDocumentEmbedder, PrivateTextEmbedder
from hushvec.integrations.haystack_store import PrivateDocumentStore, PrivateEmbeddingRetriever
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from integrations.store_cases import DIMENSION, FAINT, Case, index_without_room, noisy_index

OVERWRITE, SKIP, FAIL = DuplicatePolicy.OVERWRITE, DuplicatePolicy.SKIP, DuplicatePolicy.FAIL


def rows_of_768(texts):
    """For the documents of Haystack's suites, most of which have no embedding."""
    return [[float(len(text) % 7 + 1)] * 768 for text in texts]


class WithoutEmbeddings:
    """Documents come back without embeddings unless `return_embedding` asks for them: they are released rows, not what was written."""

    @staticmethod
    def assert_documents_are_equal(received, expected):
        assert received == [replace(document, embedding=None) for document in expected]


class TestStandard(
    WithoutEmbeddings,
    host.DocumentStoreBaseExtendedTests,
    host.CountDocumentsByFilterTest,
    host.CountUniqueMetadataByFilterTest,
    host.GetMetadataFieldsInfoTest,
    host.GetMetadataFieldMinMaxTest,
    host.GetMetadataFieldUniqueValuesTest,
    host.FilterableDocsFixtureMixin,
):
    @pytest.fixture(params=("clean", "noised"))
    def document_store(self, request):
        documents = VectorNoise(**FAINT) if request.param == "noised" else None
        return PrivateDocumentStore(PrivateIndex(768, documents=documents, store="numpy"), rows_of_768)

    def test_write_documents(self, document_store):
        """The policy NONE is FAIL here."""
        documents = [Document(content="one"), Document(content="two")]
        assert document_store.write_documents(documents) == 2
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents(documents)
        self.assert_documents_are_equal(document_store.filter_documents(), documents)


class TestAsyncStandard(
    WithoutEmbeddings,
    async_host.CountDocumentsAsyncTest,
    async_host.CountDocumentsByFilterAsyncTest,
    async_host.CountUniqueMetadataByFilterAsyncTest,
    async_host.GetMetadataFieldsInfoAsyncTest,
    async_host.GetMetadataFieldMinMaxAsyncTest,
    async_host.GetMetadataFieldUniqueValuesAsyncTest,
    async_host.DeleteAllAsyncTest,
    async_host.DeleteByFilterAsyncTest,
    async_host.DeleteDocumentsAsyncTest,
    async_host.FilterDocumentsAsyncTest,
    async_host.UpdateByFilterAsyncTest,
    async_host.WriteDocumentsAsyncTest,
):
    @pytest.fixture
    def document_store(self):
        return PrivateDocumentStore(PrivateIndex(768, documents=VectorNoise(**FAINT), store="numpy"), rows_of_768)

    async def test_write_documents_async(self, document_store):
        documents = [Document(content="one"), Document(content="two")]
        assert await document_store.write_documents_async(documents) == 2
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async(documents)
        self.assert_documents_are_equal(await document_store.filter_documents_async(), documents)


def test_every_suite_of_the_host_is_run():
    """A suite that a newer Haystack adds, which this store has no methods for, is seen here."""
    for module, ours in ((host, TestStandard), (async_host, TestAsyncStandard)):
        classes = [one for one in vars(module).values() if isinstance(one, type)]
        suites = {one for one in classes if any(name.startswith("test_") for name in vars(one))}
        assert suites and suites <= set(ours.__mro__)


def test_answers_about_metadata_are_those_of_the_store_of_the_host():
    values = [1, 1.0, True, "1", "b", None, [1, "x"], [1, "x"], 2.5]
    documents = [Document(content=f"text {place}", meta={"x": value, "y": place}) for place, value in enumerate(values)]
    ours, theirs = store_of(), InMemoryDocumentStore()
    ours.write_documents([replace(document, embedding=[1.0] * DIMENSION) for document in documents])
    theirs.write_documents(documents)
    for store in (ours, theirs):
        assert store.get_metadata_fields_info() == {"x": {"type": "float"}, "y": {"type": "int"}}
        assert store.get_metadata_field_min_max("x") == {"min": None, "max": None}
        assert store.get_metadata_field_min_max("meta.y") == {"min": 0, "max": 8}
    for options in ({}, {"search_term": "1"}, {"from_": 2, "size": 3}, {"filters": {"field": "meta.y", "operator": "<", "value": 4}}):
        found, expected = (store.get_metadata_field_unique_values("x", **options) for store in (ours, theirs))
        assert repr(found) == repr(expected)
    with pytest.raises(ValueError, match="size must be >= 0, got -1"):
        ours.get_metadata_field_unique_values("x", size=-1)


def documents_of(texts, **meta):
    return [Document(id=text, content=text, embedding=unit_row(text).tolist(), meta=meta) for text in texts]


def store_of(index=None, **options):
    return PrivateDocumentStore(PrivateIndex(DIMENSION, store="numpy") if index is None else index, **options)


def test_documents_are_noised_once_and_questions_stay_clean():
    index, budget = noisy_index()
    receipts = []
    store = store_of(index, return_embedding=True, on_receipt=receipts.append)
    store.write_documents(documents_of("abc"))
    assert abs(index.vectors() - [unit_row(text) for text in "abc"]).max() > 0.2
    retriever = PrivateEmbeddingRetriever(store, top_k=2)
    for _ in range(20):
        found = retriever.run(unit_row("b").tolist())["documents"]
    assert budget.consumed() == 2.0 and receipts == list(index.receipts) and len(found) == 2
    assert found[0].embedding == index.vectors([found[0].id])[0].tolist() and found[0].score >= found[1].score


def test_a_pipeline_writes_and_finds(monkeypatch):
    monkeypatch.setitem(os.environ, "HAYSTACK_TELEMETRY_ENABLED", "False")
    store = store_of()
    writing = Pipeline()
    writing.add_component("embedder", PrivateDocumentEmbedder(ToyModel(), hv.dp_embedding_middleware(epsilon=1e6)))
    writing.add_component("writer", DocumentWriter(store))
    writing.connect("embedder.documents", "writer.documents")
    writing.run({"embedder": {"documents": [Document(content=text, meta={"n": place}) for place, text in enumerate("abc")]}})
    finding = Pipeline()
    finding.add_component("retriever", PrivateEmbeddingRetriever(store, filters={"field": "meta.n", "operator": ">", "value": 0}))
    found = finding.run({"retriever": {"query_embedding": unit_row("b").tolist()}})["retriever"]["documents"]
    assert [document.content for document in found] in (["b", "c"],) and found[0].score == pytest.approx(1.0, abs=1e-2)
    assert run(PrivateEmbeddingRetriever(store).run_async(unit_row("c").tolist(), top_k=1))["documents"][0].content == "c"


def test_policies_charge_for_what_they_write():
    index, budget = noisy_index()
    store = store_of(index)
    assert store.write_documents(documents_of("ab"), SKIP) == 2
    assert store.write_documents(documents_of("ab"), SKIP) == 0 and budget.consumed() == 2.0
    with pytest.raises(DuplicateDocumentError, match="id must be new with policy FAIL, got 'b'"):
        store.write_documents(documents_of("cb"), FAIL)
    with pytest.raises(DuplicateDocumentError):
        store.write_documents(documents_of("cc"))
    assert budget.consumed() == 2.0 and store.count_documents() == 2
    twice = [*documents_of("b", n=1), *documents_of("b", n=2)]
    assert store.write_documents(twice, OVERWRITE) == 2  # as Haystack has it: the number of documents given
    assert budget.consumed() == 4.0 and [document.meta for document in store.filter_documents()] == [{}, {"n": 2}]
    store.update_by_filter({"field": "meta.n", "operator": "==", "value": 2}, {"n": 3})
    assert budget.consumed() == 4.0 and store.count_documents_by_filter({"field": "meta.n", "operator": "==", "value": 3}) == 1


def test_a_refused_charge_writes_and_overwrites_nothing():
    index, budget = index_without_room()
    store = store_of(index)
    store.write_documents(documents_of("ab"))
    rows = index.vectors()
    for call in (store.write_documents, lambda *given: run(store.write_documents_async(*given))):
        with pytest.raises(hv.PrivacyBudgetExhaustedError):
            call(documents_of("bc", n=1), OVERWRITE)
    assert budget.consumed() == 2.0 and (index.vectors() == rows).all()
    assert [document.meta for document in store.filter_documents()] == [{}, {}]


def test_noise_comes_from_an_embedder_or_from_the_index_and_not_from_both():
    index, budget = noisy_index()
    released = PrivateDocumentEmbedder(ToyModel(), private()).run([Document(content="a")])["documents"]
    with pytest.raises(ValueError, match="documents must get noise once, got it from a private embedder and from the index"):
        store_of(index).write_documents(released)
    with pytest.raises(ValueError, match="got it from the model and from the index"):
        store_of(index, model=hv.wrap_embedding_model(ToyModel(), private()))
    assert budget.consumed() == 0 and not len(index)
    clean = PrivateDocumentEmbedder(ToyModel(), private(), noise_on="queries").run([Document(content="a")])["documents"]
    assert store_of(index).write_documents(clean) == 1
    assert PrivateTextEmbedder(ToyModel(), private()).run("a")["meta"]["receipts"] == ()


def test_a_model_embeds_what_comes_without_a_row():
    model = ToyModel()
    store = store_of(model=model)
    store.write_documents([*documents_of("ab"), Document(content="c")])
    assert [texts for texts, _ in model.calls] == [["c"]]
    assert store.embedding_retrieval(unit_row("c").tolist(), top_k=1)[0].content == "c"


def test_filters_restrict_a_search():
    store = store_of()
    store.write_documents([*documents_of("abc", year=1), *documents_of("de", year=2)])
    later = {"field": "meta.year", "operator": ">=", "value": 2}
    assert {found.id for found in store.embedding_retrieval(unit_row("a").tolist(), filters=later)} == {"d", "e"}
    none = {"field": "meta.year", "operator": "==", "value": 9}
    assert store.embedding_retrieval(unit_row("a").tolist(), filters=none) == []
    with pytest.raises(FilterError):
        store.embedding_retrieval(unit_row("a").tolist(), filters={"field": "meta.year", "operator": "like", "value": 2})


def test_content_can_be_left_out():
    store = store_of(keep_texts=False)
    store.write_documents(documents_of("a", n=1))
    assert store.filter_documents() == [Document(id="a", content=None, meta={"n": 1})]


A_ROW = unit_row("a").tolist()
BAD = [
    Case("text", {}, ValueError, "documents must be a list of Document objects, got str"),
    Case(["text"], {}, ValueError, "documents must be Document objects, got str at position 0"),
    Case([Document(content=None, embedding=A_ROW)], {}, ValueError, "must have text content, got NoneType at position 0"),
    Case([Document(content="a")], {}, ValueError, "model must be given to embed texts"),
    Case([Document(content="a", embedding=A_ROW[:3])], {}, ValueError, "vectors must have 16 columns, got 3"),
    Case(documents_of("a") + [Document(content="b", embedding=A_ROW[:3])], {}, TypeError, "embeddings must be numbers in rows of one"),
    Case([Document(content="a", embedding=[float("nan")] * DIMENSION)], {}, ValueError, "must be finite, got nan"),
    Case([Document(content="a", blob=ByteStream(b"x"), embedding=A_ROW)], {}, ValueError, "must have no blob"),
    Case([Document(content="a", sparse_embedding=SparseEmbedding([0], [1.0]))], {}, ValueError, "must have no sparse_embedding"),
    Case([Document(content="a", meta={"x": {"y": 1}}, embedding=A_ROW)], {}, TypeError, "got dict in 'x'"),
]


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("way", ("sync", "async"))
def test_bad_documents_cost_nothing_and_are_not_stored(case, way):
    index, budget = noisy_index()
    store = store_of(index)
    with pytest.raises(case.error, match=case.message):
        store.write_documents(case.texts) if way == "sync" else run(store.write_documents_async(case.texts))
    assert budget.consumed() == 0 and not len(index)


def test_wrong_arguments_are_refused_at_once():
    scores = PrivateIndex(DIMENSION, store="numpy", scores=ScoreNoise(epsilon=1.0))
    with pytest.raises(ValueError, match="return_embedding needs the stored rows, which noise on scores does not protect"):
        store_of(scores, return_embedding=True)
    with pytest.raises(TypeError, match="document_store must be a PrivateDocumentStore, got str"):
        PrivateEmbeddingRetriever("store")
    with pytest.raises(ValueError, match="top_k must be >= 1, got 0"):
        PrivateEmbeddingRetriever(store_of(), top_k=0)
    with pytest.raises(TypeError, match="cannot be serialized"):
        PrivateEmbeddingRetriever(store_of()).to_dict()
    with pytest.raises(TypeError, match=r"load the index \(PrivateIndex.load\)"):
        PrivateDocumentStore.from_dict({})
