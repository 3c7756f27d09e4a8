"""LangChain's vector store over a private index: LangChain's own test suite without noise, and what noise, budgets and filters add."""

import asyncio

import pytest

import hushvec as hv
from integrations.adapter_cases import ToyModel, private, run, unit_row

pytest.importorskip("langchain_core")
pytest.importorskip("langchain_tests")

from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores.utils import maximal_marginal_relevance
from langchain_tests.integration_tests.vectorstores import EMBEDDING_SIZE, VectorStoreIntegrationTests

from hushvec.integrations.langchain import PrivateEmbeddings
from hushvec.integrations.langchain_store import PrivateVectorStore
from hushvec.retrieval import PrivateIndex, ScoreNoise, VectorNoise
from integrations.store_cases import DIMENSION, FAINT, Case, index_without_room, noisy_index


class ToyEmbeddings(Embeddings):
    """Unit rows by a hash of the text, the same for documents and questions."""

    def embed_documents(self, texts):
        return [unit_row(text).tolist() for text in texts]

    def embed_query(self, text):
        return unit_row(text).tolist()


def store_of(index=None, **options):
    return PrivateVectorStore(ToyEmbeddings(), PrivateIndex(DIMENSION, store="numpy") if index is None else index, **options)


class TestStandard(VectorStoreIntegrationTests):
    """Without noise: the suite compares answers."""

    @pytest.fixture
    def vectorstore(self):
        return PrivateVectorStore(self.get_embeddings(), PrivateIndex(EMBEDDING_SIZE, store="numpy"))


class TestStandardWithNoise(VectorStoreIntegrationTests):
    """With noise so small that it changes no rank: nothing of the suite depends on rows that come back as they went in."""

    @pytest.fixture
    def vectorstore(self):
        documents, queries = VectorNoise(**FAINT), VectorNoise(**FAINT)
        return PrivateVectorStore(self.get_embeddings(), PrivateIndex(EMBEDDING_SIZE, documents=documents, queries=queries))


def test_documents_are_noised_once_and_questions_stay_clean():
    index, budget = noisy_index()
    receipts = []
    store = store_of(index, on_receipt=receipts.append)
    store.add_texts(["a", "b", "c"], ids=["1", "2", "3"])
    stored = index.vectors(["1", "2", "3"])
    assert abs(stored - [unit_row(text) for text in "abc"]).max() > 0.2  # noise of epsilon 2 in 16 dimensions
    assert [receipt.rows for receipt in index.receipts] == [3] and receipts == list(index.receipts)
    for _ in range(20):
        store.similarity_search("b", k=3)
    assert budget.consumed() == 2.0


def test_an_id_that_is_known_is_released_and_charged_again():
    index, budget = noisy_index()
    store = store_of(index)
    store.add_texts(["a", "b"], ids=["1", "2"])
    before = index.vectors(["2"])
    store.add_texts(["new"], ids=["1"])
    assert budget.consumed() == 4.0 and len(index) == 2 and len(index.receipts) == 2
    assert (index.vectors(["2"]) == before).all()
    assert [document.page_content for document in store.get_by_ids(["2", "1"])] == ["b", "new"]


def test_a_refused_charge_adds_and_replaces_nothing():
    index, budget = index_without_room()
    store = store_of(index)
    store.add_texts(["a", "b"], ids=["1", "2"])
    rows = index.vectors()
    for call in (store.add_texts, lambda *given, **options: run(store.aadd_texts(*given, **options))):
        with pytest.raises(hv.PrivacyBudgetExhaustedError):
            call(["new", "more"], ids=["1", "3"])
    assert budget.consumed() == 2.0 and len(index) == 2 and (index.vectors() == rows).all()
    assert [document.page_content for document in store.get_by_ids(["1", "2", "3"])] == ["a", "b"]


def test_noise_on_questions_is_that_of_the_index():
    budget, receipts = hv.PrivacyBudget(10.0), []
    store = store_of(PrivateIndex(DIMENSION, queries=VectorNoise(epsilon=2.0, budget=budget)), on_receipt=receipts.append)
    store.add_texts(["a", "b"])
    store.similarity_search("a")
    run(store.asimilarity_search("a"))
    assert budget.consumed() == 4.0 and len(receipts) == 2


def test_noise_comes_from_the_model_or_from_the_index_and_not_from_both():
    budget = hv.PrivacyBudget(10.0)
    noised = PrivateEmbeddings(ToyModel(), private(budget))
    store = PrivateVectorStore(noised, PrivateIndex(DIMENSION))
    store.add_texts(["a", "b"])
    store.similarity_search("a")
    assert budget.consumed() == 2.0
    index, spent = noisy_index()
    with pytest.raises(ValueError, match="documents must get noise once, got it from the model and from the index"):
        PrivateVectorStore(noised, index)
    asked = PrivateIndex(DIMENSION, queries=VectorNoise(epsilon=1.0))
    PrivateVectorStore(noised, asked)  # noise on documents here, on queries there
    with pytest.raises(ValueError, match="queries must get noise once"):
        PrivateVectorStore(PrivateEmbeddings(ToyModel(), private(), noise_on="queries"), asked)
    assert spent.consumed() == 0 and budget.consumed() == 2.0


def test_rows_that_turn_out_to_be_released_are_refused_too():
    """An embedder around a private one, which hides it until its rows come."""

    class Hidden(ToyEmbeddings):
        def embed_documents(self, texts):
            return PrivateEmbeddings(ToyModel(), private()).embed_documents(texts)

    index, budget = noisy_index()
    with pytest.raises(ValueError, match="got it from what embedded them and from the index"):
        PrivateVectorStore(Hidden(), index).add_texts(["a"])
    assert budget.consumed() == 0 and not len(index)


def test_questions_that_are_released_already_are_refused_too():
    question = PrivateEmbeddings(ToyModel(), private(), noise_on="queries").embed_query("a")
    budget = hv.PrivacyBudget(10.0)
    store = store_of(PrivateIndex(DIMENSION, queries=VectorNoise(epsilon=2.0, budget=budget)))
    store.add_texts(["a", "b"])
    with pytest.raises(ValueError, match="queries must get noise once, got it from a private embedder and from the index"):
        store.similarity_search_by_vector(question)
    assert budget.consumed() == 0


def test_receipts_of_what_the_embedder_released_are_reported():
    receipts = []
    noised = PrivateEmbeddings(ToyModel(), private(), noise_on="both")
    store = PrivateVectorStore(noised, PrivateIndex(DIMENSION), on_receipt=receipts.append)
    store.add_texts(["a", "b"])
    store.similarity_search("a")
    run(store.aadd_texts(["c"]))
    run(store.asimilarity_search("a"))
    assert [receipt.rows for receipt in receipts] == [2, 1, 1, 1] and store.index.receipts == ()


@pytest.mark.parametrize("ids", [None, ["1", None]])
def test_the_same_texts_again_are_charged_once_where_the_store_failed(monkeypatch, ids):
    """Texts without ids get new ones, and a release is kept for the ids that it was made for."""
    index, budget = noisy_index()
    store, stored = store_of(index), []

    def failing(rows):
        stored.append(rows)
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(index._content.store, "add", failing)
        for call in (store.add_texts, lambda *given, **options: run(store.aadd_texts(*given, **options))):
            with pytest.raises(hv.errors.StoreError, match="the same call again costs nothing"):
                call(["a", "b"], ids=ids)
        with pytest.raises(hv.errors.StoreError):
            store.add_texts(["a", "c"], ids=ids)
    assert budget.consumed() == 4.0 and (stored[0] == stored[1]).all()
    store.add_texts(["a", "b"], ids=ids)
    assert budget.consumed() == 4.0 and (index.vectors() == stored[0]).all()
    store.add_texts(["a", "b"], ids=ids)
    assert budget.consumed() == 6.0


def test_filters_scores_and_retrievers():
    store = store_of()
    store.add_documents([Document(page_content=text, metadata={"year": year}) for text, year in zip("abcd", (1, 2, 3, 4))])
    assert [found.page_content for found in store.similarity_search("a", k=9, filter={"year": {"$gt": 2}})] in (["c", "d"], ["d", "c"])
    (best, score), *_ = store.similarity_search_with_score("c", k=2)
    assert best.page_content == "c" and score == pytest.approx(1.0, abs=1e-5)
    assert run(store.asimilarity_search_with_score("c", k=1))[0][0] == best
    retriever = store.as_retriever(search_kwargs={"k": 1, "filter": {"year": {"$in": [1, 2]}}})
    assert retriever.invoke("b")[0].page_content == "b"
    assert store.as_retriever(search_type="mmr", search_kwargs={"k": 2}).invoke("d")[0].page_content == "d"
    near = store.as_retriever(search_type="similarity_score_threshold", search_kwargs={"score_threshold": 0.99})
    assert [found.page_content for found in near.invoke("d")] == ["d"]
    assert run(retriever.ainvoke("b"))[0].page_content == "b"
    assert store.similarity_search("a", filter={"year": 9}) == []
    with pytest.raises(TypeError, match="where"):
        store.similarity_search("a", where={"year": 1})  # a misspelled argument is no search without a filter


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("k", [1, 4, 9])
def test_diverse_answers_are_those_that_langchain_chooses(share, k):
    store, texts = store_of(), [f"text {place}" for place in range(12)]
    store.add_texts(texts)
    found = [each.page_content for each in store.similarity_search("a", k=8)]
    rows = [unit_row(text).tolist() for text in found]
    expected = [found[place] for place in maximal_marginal_relevance(unit_row("a"), rows, share, k)]
    assert [each.page_content for each in store.max_marginal_relevance_search("a", k, 8, share)] == expected


def test_diverse_answers_for_the_question_alone_are_those_of_a_search():
    for _ in range(40):  # noisy rows differ in norm: cosines would rank them differently
        store = store_of(noisy_index()[0])
        store.add_texts(list("abcdef"))
        assert store.max_marginal_relevance_search("a", 4, 6, 1.0) == store.similarity_search("a", k=4)


def test_stores_made_of_texts():
    index = PrivateIndex(DIMENSION)
    store = PrivateVectorStore.from_texts(["a", "b"], ToyEmbeddings(), [{"n": 1}, {"n": 2}], ids=["1", "2"], index=index)
    assert store.index is index and store.similarity_search("b", k=1)[0] == Document(id="2", page_content="b", metadata={"n": 2})
    again = run(PrivateVectorStore.afrom_documents([Document(page_content="a")], ToyEmbeddings(), index=PrivateIndex(DIMENSION)))
    assert len(again.index) == 1
    with pytest.raises(TypeError, match="index must be given"):
        PrivateVectorStore.from_texts(["a"], ToyEmbeddings())


def test_texts_can_be_left_out():
    store = store_of(keep_texts=False)
    store.add_texts(["a secret"], [{"n": 1}], ids=["1"])
    assert store.similarity_search("a secret") == [Document(id="1", page_content="", metadata={"n": 1})]


def test_delete_without_ids_deletes_all():
    store = store_of()
    store.add_texts(["a", "b"])
    assert store.delete() and len(store.index) == 0 and store.similarity_search("a") == []


def test_a_store_comes_back_from_a_saved_index(tmp_path):
    store = store_of()
    store.add_texts(["a", "b"], [{"n": 1}, {"n": 2}], ids=["1", "2"])
    store.index.save(tmp_path / "index")
    again = store_of(PrivateIndex.load(tmp_path / "index"))
    assert again.similarity_search("b", k=1, filter={"n": 2}) == [Document(id="2", page_content="b", metadata={"n": 2})]


def test_coroutines_that_add_together_lose_nothing():
    index, budget = noisy_index(limit=100.0)
    store = store_of(index)

    async def add():
        return await asyncio.gather(*(store.aadd_texts([f"text {place}", f"more {place}"]) for place in range(12)))

    ids = {one for pair in run(add()) for one in pair}
    assert len(ids) == len(index) == 24 and budget.consumed() == 24.0 and len(index.receipts) == 12
    assert {document.page_content for document in store.get_by_ids(sorted(ids))} >= {"text 3", "more 11"}


def test_what_only_answers_protect_is_not_handed_out():
    scores = PrivateIndex(DIMENSION, store="numpy", scores=ScoreNoise(epsilon=1.0))
    with pytest.raises(ValueError, match="relevance needs the stored rows, which noise on scores does not protect"):
        store_of(scores).max_marginal_relevance_search("a")
    order = store_of(PrivateIndex(DIMENSION, store="numpy", scores=ScoreNoise(epsilon=1.0, mechanism="gumbel")))
    order.add_texts(["a"])
    assert len(order.similarity_search("a")) == 1
    with pytest.raises(ValueError, match="'gumbel' names the order alone"):
        order.similarity_search_with_score("a")
    asked = store_of(PrivateIndex(DIMENSION, queries=VectorNoise(epsilon=1.0)))
    with pytest.raises(ValueError, match="needs the clean question"):
        asked.max_marginal_relevance_search("a")
    with pytest.raises(ValueError, match="relevance scores need cosines"):
        store_of(noisy_index()[0]).similarity_search_with_relevance_scores("a")


BAD = [
    Case(["a", "b"], {"ids": ["1", "1"]}, ValueError, "ids must be unique, got '1' 2 times"),
    Case(["a"], {"ids": [1]}, TypeError, "ids must be strings or None, got int"),
    Case(["a"], {"ids": ["1", "2"]}, ValueError, "ids must be as many as the 1 texts, got 2"),
    Case(["a"], {"metadatas": [{}, {}]}, ValueError, "metadata must be as many as the 1 vectors, got 2"),
    Case(["a"], {"metadatas": [{"x": {"y": 1}}]}, TypeError, "got dict in 'x'"),
    Case(["a"], {"metadatas": [{"x": float("nan")}]}, ValueError, "JSON has no NaN"),
    Case(["a", 1], {}, TypeError, "texts of row 1 must be a str, got int"),
    Case(["\ud800"], {}, ValueError, "half of a surrogate pair"),
]


@pytest.mark.parametrize("case", BAD)
@pytest.mark.parametrize("way", ("sync", "async"))
def test_bad_documents_cost_nothing_and_are_not_stored(case, way):
    budget = hv.PrivacyBudget(10.0)
    store = PrivateVectorStore(PrivateEmbeddings(ToyModel(), private(budget)), PrivateIndex(DIMENSION))
    with pytest.raises(case.error, match=case.message):
        store.add_texts(case.texts, **case.options) if way == "sync" else run(store.aadd_texts(case.texts, **case.options))
    assert budget.consumed() == 0 and not len(store.index)


def test_wrong_arguments_are_refused_at_once():
    with pytest.raises(TypeError, match=r"index must be a hushvec.retrieval.PrivateIndex, got str"):
        store_of("index")
    with pytest.raises(TypeError, match="embeddings must be LangChain Embeddings, got ToyModel"):
        PrivateVectorStore(ToyModel(), PrivateIndex(DIMENSION))
    with pytest.raises(TypeError, match="on_receipt must be a function"):
        store_of(on_receipt=3)
    with pytest.raises(TypeError, match="keep_texts must be True or False"):
        store_of(keep_texts=1)
    numbered = PrivateIndex(DIMENSION)
    numbered.add(unit_row("a"))
    with pytest.raises(TypeError, match="index must have strings as ids"):
        store_of(numbered)
    store = store_of()
    store.add_texts(["a"])
    with pytest.raises(ValueError, match="k must be >= 1, got 0"):
        store.similarity_search("a", k=0)
    with pytest.raises(ValueError, match=r"must have operators among \$and"):
        store.similarity_search("a", filter={"$nor": []})
    with pytest.raises(ValueError, match="query must have 1 dimensions, got 2"):
        store.similarity_search_by_vector([[1.0]])
    with pytest.raises(TypeError, match="query must be numbers"):
        store.similarity_search_by_vector(["a"])
