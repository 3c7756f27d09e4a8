"""Chroma: its embedding functions wrapped, and wrapped models as the function of a collection."""

import subprocess
import sys
import textwrap
import uuid

import numpy as np
import pytest

import hushvec as hv
from integrations.adapter_cases import EPSILON, ToyModel, faint, is_near, private, unit_row

pytest.importorskip("chromadb")

import chromadb

from hushvec.integrations.chroma import PrivateEmbeddingFunction


class OwnFunction(chromadb.EmbeddingFunction):
    """A Chroma function that tells queries from documents."""

    def __init__(self):
        pass

    def __call__(self, input):
        return [unit_row(text) for text in input]

    def embed_query(self, input):
        return [unit_row(text, "query") for text in input]

    @staticmethod
    def name():
        return "own"

    def get_config(self):
        return {}

    @staticmethod
    def build_from_config(config):
        return OwnFunction()


@pytest.fixture(params=["ephemeral", "persistent"])
def client(request, tmp_path):
    return chromadb.EphemeralClient() if request.param == "ephemeral" else chromadb.PersistentClient(str(tmp_path))


@pytest.fixture
def name():
    """Ephemeral clients of one process share their collections."""
    return f"test-{uuid.uuid4().hex}"


@pytest.mark.parametrize("noise_on, released", [("both", [3, 1, 2]), ("documents", [3, 1])])
def test_a_collection_stores_and_searches_private_rows(client, name, noise_on, released):
    receipts = []
    function = PrivateEmbeddingFunction(ToyModel(), faint(), on_receipt=receipts.append, noise_on=noise_on)
    collection = client.create_collection(name, embedding_function=function)
    collection.add(ids=list("abc"), documents=list("abc"))
    collection.upsert(ids=["d"], documents=["d"])
    stored = collection.get(include=["embeddings"])
    assert all(is_near(row, text) for text, row in zip(stored["ids"], stored["embeddings"]))
    assert collection.query(query_embeddings=[unit_row("b")], n_results=1)["ids"] == [["b"]]
    assert [receipt.rows for receipt in receipts] == [3, 1]
    collection.query(query_texts=["a", "b"], n_results=1)
    assert [receipt.rows for receipt in receipts] == released
    assert function._source.wrapped.model.model.calls[-1] == (["a", "b"], "query")


def test_rows_are_numpy_arrays_with_a_receipt():
    rows = PrivateEmbeddingFunction(ToyModel(), faint())(["a", "b"])
    assert rows.receipt.rows == 2 and all(isinstance(row, np.ndarray) and row.dtype == np.float32 for row in rows)


def test_an_exhausted_budget_stores_nothing(client, name):
    budget = hv.PrivacyBudget(EPSILON)
    collection = client.create_collection(name, embedding_function=PrivateEmbeddingFunction(ToyModel(), private(budget)))
    collection.add(ids=["a"], documents=["a"])
    with pytest.raises(hv.PrivacyBudgetExhaustedError, match="in add") as refused:
        collection.add(ids=["b"], documents=["b"])
    assert refused.value.consumed_epsilon == EPSILON
    assert collection.count() == 1 and budget.consumed() == EPSILON


def test_a_private_collection_embeds_nothing_without_its_function(client, name):
    function = PrivateEmbeddingFunction(ToyModel(), faint())
    client.create_collection(name, embedding_function=function).add(ids=["a"], documents=["a"])
    for opened in (client.get_collection(name), client.get_or_create_collection(name)):
        with pytest.raises(TypeError, match=r"embedding_function must be given to open a private collection \(model 'toy'\)"):
            opened.add(ids=["b"], documents=["b"])
        with pytest.raises(TypeError, match="embedding_function must be given"):
            opened.query(query_texts=["a"])
        assert opened.count() == 1
    with pytest.raises(ValueError, match="conflict"):
        client.get_collection(name, embedding_function=OwnFunction())
    again = client.get_collection(name, embedding_function=PrivateEmbeddingFunction(ToyModel(), faint()))
    again.add(ids=["b"], documents=["b"])
    assert again.count() == 2


def test_another_process_embeds_nothing_without_the_function(tmp_path):
    client = chromadb.PersistentClient(str(tmp_path))
    function = PrivateEmbeddingFunction(ToyModel(), faint())
    client.create_collection("private", embedding_function=function).add(ids=["a"], documents=["a"])
    code = f"""
        import chromadb
        collection = chromadb.PersistentClient({str(tmp_path)!r}).get_collection("private")
        try:
            collection.query(query_texts=["a"])
        except ValueError as error:
            print(error)
    """
    printed = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True).stdout
    assert "hushvec_private not found" in printed


def test_a_host_function_wrapped():
    wrapped = hv.wrap_embedding_model(OwnFunction(), faint())
    assert is_near(wrapped.embed(["a", "b"])[1], "b") and is_near(wrapped.embed(["a"], "query")[0], "a", "query")
