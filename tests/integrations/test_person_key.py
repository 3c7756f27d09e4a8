"""Host stores and embedders that are told which field of the metadata says whom a document is about: each batch is charged to its own
people, and one who is exhausted is refused by name before anything is stored."""

import uuid

import numpy as np
import pytest

import hushvec as hv
from hushvec.errors import PrivacyBudgetExhaustedError
from hushvec.retrieval import PrivateIndex, VectorNoise

KEY = "patient"


def model(texts):
    return np.eye(4, dtype=np.float32)[[len(text) % 4 for text in texts]]


def langchain(index, person_key):
    embeddings = pytest.importorskip("langchain_core.embeddings").DeterministicFakeEmbedding(size=4)
    from hushvec.integrations.langchain_store import PrivateVectorStore

    store = PrivateVectorStore(embeddings, index, person_key=person_key)
    return lambda fields: store.add_texts([f"note {number}" for number in range(len(fields))], fields)


def haystack(index, person_key):
    document = pytest.importorskip("haystack").Document
    from hushvec.integrations.haystack_store import PrivateDocumentStore

    store = PrivateDocumentStore(index, model, person_key=person_key)
    return lambda fields: store.write_documents([document(content="note", meta=meta, id=str(uuid.uuid4())) for meta in fields])


def llama_index(index, person_key):
    node = pytest.importorskip("llama_index.core.schema").TextNode
    from hushvec.integrations.llama_index_store import PrivateVectorStore

    store = PrivateVectorStore(index, person_key=person_key)
    return lambda fields: store.add([node(text=f"note {n}", metadata=meta, embedding=[1.0, 0, 0, 0]) for n, meta in enumerate(fields)])


@pytest.mark.parametrize("host", [langchain, haystack, llama_index], ids=lambda host: host.__name__)
def test_a_store_that_grows_charges_each_batch_to_its_own_people(host):
    budget = hv.PrivacyBudget(2.0, per_person=True)
    index = PrivateIndex(4, documents=VectorNoise(epsilon=1.0, budget=budget))
    add = host(index, KEY)
    for batch in range(5):  # each of the same cost: for one ledger of everyone the third would be too much
        add([{KEY: 10 * batch}, {KEY: str(10 * batch + 1)}])
    assert [budget.consumed(one) for one in ("0", 41, 99)] == [1.0, 1.0, 0.0]
    add([{KEY: "0"}])
    before = budget.export()
    with pytest.raises(PrivacyBudgetExhaustedError) as caught:
        add([{KEY: 0}, {KEY: "new"}])
    assert (caught.value.people, len(index)) == ((0,), 11)
    with pytest.raises(ValueError, match=r"^metadata must have 'patient', whom a document is about, got none at 1$"):
        add([{KEY: "new"}, {"ward": 3}])
    assert (budget.export(), len(index)) == (before, 11)
    add([{KEY: "new"}])
    assert hv.verify_charges(index.receipts, budget.export()).status == "holds"


@pytest.mark.parametrize("host", [langchain, haystack, llama_index], ids=lambda host: host.__name__)
def test_a_key_that_nobody_would_be_charged_by_is_refused(host):
    with pytest.raises(ValueError, match=r"^person_key must be None for an index whose documents have no PrivacyBudget"):
        host(PrivateIndex(4, documents=VectorNoise(epsilon=1.0)), KEY)


def test_a_document_embedder_charges_the_people_of_its_documents():
    document = pytest.importorskip("haystack").Document
    from hushvec.integrations.haystack import PrivateDocumentEmbedder

    budget = hv.PrivacyBudget(2.0, per_person=True)
    private = PrivateDocumentEmbedder(model, hv.dp_embedding_middleware(epsilon=1.0, budget=budget), person_key=KEY)
    private.run([document(content="a", meta={KEY: 7}), document(content="b", meta={KEY: "7"})])
    assert [budget.consumed(one) for one in (7, "other")] == [2.0, 0.0]
    with pytest.raises(TypeError, match=r"^people must be texts or whole numbers, got NoneType at position 0$"):
        private.run([document(content="a")])
