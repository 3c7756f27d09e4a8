"""LlamaIndex's vector store over a private index: its index and retrievers, filters as in its own store, noise and budgets.

llama-index-core ships no test suite for stores: what its SimpleVectorStore answers is what is expected without noise.
"""

from dataclasses import replace

import pytest

import hushvec as hv
from integrations.adapter_cases import run, unit_row

pytest.importorskip("llama_index.core")

from llama_index.core import StorageContext, VectorStoreIndex
from llama_index.core.base.embeddings.base import BaseEmbedding
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.simple import SimpleVectorStore
from llama_index.core.vector_stores.types import (
    FilterCondition,
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from hushvec.integrations.llama_index_store import PrivateVectorStore
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from integrations.store_cases import DIMENSION, Case, index_without_room, noisy_index


class ToyEmbedding(BaseEmbedding):
    def _get_text_embedding(self, text):
        return unit_row(text).tolist()

    def _get_query_embedding(self, query):
        return unit_row(query).tolist()

    async def _aget_query_embedding(self, query):
        return unit_row(query).tolist()


def node(text, document="doc", **metadata):
    relationships = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=document)}
    return TextNode(id_=text, text=text, metadata=metadata, embedding=unit_row(text).tolist(), relationships=relationships)


def store_of(index=None, **options):
    return PrivateVectorStore(PrivateIndex(DIMENSION, store="numpy") if index is None else index, **options)


def asked(text="a", **options):
    return VectorStoreQuery(query_embedding=unit_row(text).tolist(), **options)


NODES = [
    node("a", "one", year=2019, kind="x", tags=["p", "q"]),
    node("b", "one", year=2020, kind="y", tags=["q"]),
    node("c", "two", year=2021, kind="x"),
    node("d", "two", year=2022, kind="y", tags=[]),
]

FILTERS = [
    *((("year", operator, 2020),) for operator in (FilterOperator.EQ, FilterOperator.NE, FilterOperator.GT, FilterOperator.GTE)),
    *((("year", operator, 2021),) for operator in (FilterOperator.LT, FilterOperator.LTE)),
    (("year", FilterOperator.IN, [2019, 2022]),),
    (("year", FilterOperator.NIN, [2019, 2022]),),
    (("tags", FilterOperator.CONTAINS, "q"),),
    (("tags", FilterOperator.IS_EMPTY, None),),
    (("kind", FilterOperator.TEXT_MATCH, "x"),),
    (("kind", FilterOperator.EQ, "x"), ("year", FilterOperator.GT, 2019)),
]


@pytest.mark.parametrize("conditions", FILTERS, ids=lambda conditions: " ".join(f"{key} {how.name}" for key, how, _ in conditions))
@pytest.mark.parametrize("condition", FilterCondition)
def test_filters_answer_as_those_of_the_host(conditions, condition):
    """Against SimpleVectorStore: ids and their order, scores to float32."""
    parts = [MetadataFilter(key=key, operator=operator, value=value) for key, operator, value in conditions]
    query = asked("c", similarity_top_k=4, filters=MetadataFilters(filters=parts, condition=condition))
    ours, theirs = store_of(), SimpleVectorStore()
    ours.add(NODES)
    theirs.add(NODES)
    found, expected = ours.query(query), theirs.query(query)
    assert found.ids == list(expected.ids)
    assert found.similarities == pytest.approx(list(expected.similarities), abs=1e-5)


@pytest.mark.parametrize("threshold", [None, 0.0, 0.3, 1.0])
@pytest.mark.parametrize("k", [1, 2, 4, 9])
def test_diverse_answers_are_those_of_the_host(threshold, k):
    """Against SimpleVectorStore: ids and their order, scores to float32; by the query's threshold and by the retriever's."""
    near = [node(text, "one", year=place) for place, text in enumerate("abcd")]
    near[1].embedding = (unit_row("a") + 0.1 * unit_row("b")).tolist()
    ours, theirs = store_of(), SimpleVectorStore()
    ours.add(near)
    theirs.add(near)
    query = asked("a", similarity_top_k=k, mode=VectorStoreQueryMode.MMR)
    expected = theirs.query(query, mmr_threshold=threshold)
    for found in (ours.query(query, mmr_threshold=threshold), ours.query(replace(query, mmr_threshold=threshold))):
        assert found.ids == list(expected.ids) and [each.node_id for each in found.nodes] == found.ids
        assert found.similarities == pytest.approx(list(expected.similarities), abs=1e-5)
    if threshold == 0.3 and k == 2:
        assert found.ids[1] != "b" == ours.query(asked("a", similarity_top_k=2)).ids[1]
    late = MetadataFilters(filters=[MetadataFilter(key="year", operator=FilterOperator.GTE, value=2)])
    assert set(ours.query(replace(query, filters=late)).ids) <= {"c", "d"}


def test_diverse_answers_of_a_private_index():
    index, budget = noisy_index()
    store = store_of(index)
    query = asked("a", similarity_top_k=2, mode=VectorStoreQueryMode.MMR)
    assert store.query(query).ids == []
    store.add(NODES)
    assert len(run(store.aquery(query)).ids) == 2 and budget.consumed() == 2.0
    for options, message in (
        ({"queries": VectorNoise(epsilon=2.0, budget=budget)}, "needs the clean question"),
        ({"store": "numpy", "scores": ScoreNoise(epsilon=1.0)}, "needs the stored rows, which noise on scores does not protect"),
    ):
        other = store_of(PrivateIndex(DIMENSION, **options))
        other.add(NODES)
        with pytest.raises(ValueError, match=message):
            other.query(query)
    assert budget.consumed() == 2.0
    with pytest.raises(ValueError, match=r"mmr_threshold must be in \[0, 1\], got 1.5"):
        store.query(query, mmr_threshold=1.5)
    with pytest.raises(ValueError, match="k must be >= 1, got 0"):
        store.query(replace(query, similarity_top_k=0))


def test_diverse_answers_for_the_question_alone_are_those_of_a_search():
    for _ in range(40):  # noisy rows differ in norm: ranked by cosines, one index in seven gave others
        store = store_of(noisy_index()[0])
        store.add(NODES)
        vectors = VectorStoreIndex.from_vector_store(store, embed_model=ToyEmbedding())
        retriever = vectors.as_retriever(similarity_top_k=3, vector_store_query_mode="mmr", vector_store_kwargs={"mmr_threshold": 1.0})
        assert [each.node.node_id for each in retriever.retrieve("a")] == store.query(asked("a", similarity_top_k=3)).ids


def test_nested_filters_are_put_together():
    store = store_of()
    store.add(NODES)
    late = MetadataFilters(filters=[MetadataFilter(key="year", operator=FilterOperator.GTE, value=2021)])
    of_x = MetadataFilters(filters=[MetadataFilter(key="kind", value="x")])
    for condition, ids in ((FilterCondition.AND, {"c"}), (FilterCondition.OR, {"a", "c", "d"}), (FilterCondition.NOT, {"b"})):
        both = MetadataFilters(filters=[late, of_x], condition=condition)
        assert set(store.query(asked(similarity_top_k=9, filters=both)).ids) == ids
    inner = MetadataFilters(filters=[late, of_x], condition=FilterCondition.NOT)
    outer = MetadataFilters(filters=[inner, MetadataFilter(key="year", value=2022)], condition=FilterCondition.OR)
    assert {each.text for each in store.get_nodes(filters=outer)} == {"b", "d"}


def test_nodes_come_back_as_they_were():
    store = store_of()
    assert store.add(NODES) == ["a", "b", "c", "d"]
    found = store.query(asked("b", node_ids=["b", "c", "nobody"], similarity_top_k=9))
    assert found.ids == ["b", "c"] and found.similarities[0] == pytest.approx(1.0, abs=1e-5)
    for back in found.nodes:
        given = next(one for one in NODES if one.node_id == back.node_id)
        assert (back.text, back.metadata, back.ref_doc_id) == (given.text, given.metadata, given.ref_doc_id)
    assert store.query(asked("a", doc_ids=["two"], similarity_top_k=9)).ids in (["c", "d"], ["d", "c"])
    assert store.query(asked("a", node_ids=[])).ids == ["a"]  # no restriction: what a VectorStoreIndex gives


def test_a_vector_store_index_finds_and_deletes():
    store = store_of()
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex([node("a", "one"), node("b", "two")], storage_context=context, embed_model=ToyEmbedding())
    retriever = index.as_retriever(similarity_top_k=1)
    assert retriever.retrieve("b")[0].node.text == "b" and run(retriever.aretrieve("a"))[0].node.text == "a"
    index.delete_ref_doc("two")
    assert [each.text for each in store.get_nodes()] == ["a"]
    again = VectorStoreIndex.from_vector_store(store, embed_model=ToyEmbedding())
    assert again.as_retriever(similarity_top_k=1).retrieve("b")[0].node.text == "a"


def test_texts_can_stay_with_the_host():
    store = store_of(stores_text=False)
    context = StorageContext.from_defaults(vector_store=store)
    index = VectorStoreIndex([node("a secret", year=1)], storage_context=context, embed_model=ToyEmbedding())
    assert index.as_retriever().retrieve("a secret")[0].node.text == "a secret"  # from the docstore
    assert "a secret" not in str([(stored.text, stored.metadata) for stored in store.index.get()])
    with pytest.raises(ValueError, match="stores_text must be True to get nodes"):
        store.get_nodes()


def test_deletions():
    store = store_of()
    store.add(NODES)
    store.delete("one")
    store.delete("nobody")
    assert {each.text for each in store.get_nodes()} == {"c", "d"}
    store.delete_nodes(["c", "nobody"], MetadataFilters(filters=[MetadataFilter(key="kind", value="y")]))
    assert len(store.index) == 2
    run(store.adelete_nodes(["c"]))
    run(store.aclear())
    assert store.query(asked()).ids == [] and store.client is store.index


def test_documents_are_noised_once_and_questions_stay_clean():
    index, budget = noisy_index()
    receipts = []
    store = store_of(index, on_receipt=receipts.append)
    store.add(NODES)
    assert abs(index.vectors() - [unit_row(text) for text in "abcd"]).max() > 0.2
    for _ in range(20):
        store.query(asked("b"))
    assert budget.consumed() == 2.0 and receipts == list(index.receipts)
    run(store.async_add([node("a", new=True)]))
    assert budget.consumed() == 4.0 and len(index) == 4 and store.get_nodes(["a"])[0].metadata == {"new": True}


def test_a_refused_charge_adds_and_replaces_nothing():
    index, budget = index_without_room()
    store = store_of(index)
    store.add(NODES)
    rows = index.vectors()
    with pytest.raises(hv.PrivacyBudgetExhaustedError):
        store.add([node("a", new=True), node("e")])
    assert budget.consumed() == 2.0 and (index.vectors() == rows).all() and "new" not in store.get_nodes(["a"])[0].metadata


def test_noise_on_questions_and_orders_without_scores():
    budget = hv.PrivacyBudget(10.0)
    store = store_of(PrivateIndex(DIMENSION, queries=VectorNoise(epsilon=2.0, budget=budget)))
    store.add(NODES)
    run(store.aquery(asked()))
    assert budget.consumed() == 2.0
    order = store_of(PrivateIndex(DIMENSION, store="numpy", scores=ScoreNoise(epsilon=1.0, mechanism="gumbel")))
    order.add(NODES)
    found = order.query(asked(similarity_top_k=2))
    assert found.similarities is None and len(found.ids) == len(found.nodes) == 2


BAD = [
    Case([TextNode(text="a")], {}, ValueError, "embedding not set"),
    Case([node("a"), node("a")], {}, ValueError, "ids must be unique, got 'a' 2 times"),
    Case([node("a", x={"y": 1})], {}, TypeError, "got dict in 'x'"),
    Case([TextNode(text="a", embedding=[1.0])], {}, ValueError, "vectors must have 16 columns, got 1"),
    Case([TextNode(text="a", embedding=[float("inf")] * DIMENSION)], {}, ValueError, "must be finite, got inf"),
]


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("way", ("sync", "async"))
def test_bad_nodes_cost_nothing_and_are_not_stored(case, way):
    index, budget = noisy_index()
    store = store_of(index)
    with pytest.raises(case.error, match=case.message):
        store.add(case.texts) if way == "sync" else run(store.async_add(case.texts))
    assert budget.consumed() == 0 and not len(index)


def test_wrong_queries_are_refused():
    store = store_of()
    store.add(NODES)
    with pytest.raises(ValueError, match="mode must be 'default' or 'mmr', got"):
        store.query(asked(mode=VectorStoreQueryMode.HYBRID))
    with pytest.raises(ValueError, match="query_embedding must be given"):
        store.query(VectorStoreQuery(query_str="a"))
    with pytest.raises(ValueError, match="k must be >= 1, got 0"):
        store.query(asked(similarity_top_k=0))
    with pytest.raises(TypeError, match=r"index must be a hushvec.retrieval.PrivateIndex, got dict"):
        store_of({})
