"""One wrapped model and one budget in several libraries: LangChain, Chroma and scikit-learn.

Documents get noise, questions stay clean and cost nothing: `noise_on="documents"`, the default. Released rows come to unit length,
so stores find the same by cosine, inner product and L2 distance.
"""

import os

os.environ["ANONYMIZED_TELEMETRY"] = "False"

from importlib.util import find_spec

import numpy as np

import hushvec as hv

RECORDS = ["asthma, 34 years", "fracture, 71 years", "asthma, 40 years", "fracture, 66 years"]


def toy_model(texts):
    """A unit vector for the illness; in real life a sentence-transformers model or a service."""
    rows = np.full((len(texts), 8), 0.1, np.float32)
    rows[range(len(texts)), [0 if "asthma" in text else 1 for text in texts]] = 1.0
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


budget = hv.PrivacyBudget(max_epsilon=200.0, max_delta=1e-3)
private = hv.wrap_embedding_model(toy_model, hv.dp_embedding_middleware(epsilon=40.0, budget=budget))
receipts = []


def in_langchain():
    from langchain_core.vectorstores import InMemoryVectorStore

    from hushvec.integrations.langchain import PrivateEmbeddings

    store = InMemoryVectorStore(PrivateEmbeddings(private, on_receipt=receipts.append))
    store.add_texts(RECORDS)
    return store.similarity_search("asthma", k=1)[0].page_content


def in_chroma():
    import chromadb

    from hushvec.integrations.chroma import PrivateEmbeddingFunction

    function = PrivateEmbeddingFunction(private, on_receipt=receipts.append)
    collection = chromadb.EphemeralClient().create_collection("records", embedding_function=function)
    # The rows only: documents= would be stored in clear.
    collection.add(ids=["1", "2", "3", "4"], embeddings=list(function(RECORDS)))
    return collection.query(query_texts=["asthma"], n_results=1)["ids"]


def in_scikit_learn():
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    from hushvec.integrations.sklearn import PrivateTextTransformer

    classifier = make_pipeline(PrivateTextTransformer(private, on_receipt=receipts.append), LogisticRegression())
    return classifier.fit(RECORDS, ["lungs", "bones"] * 2).predict(["asthma, 50 years"])[0]


for library, use in {"langchain_core": in_langchain, "chromadb": in_chroma, "sklearn": in_scikit_learn}.items():
    if find_spec(library) is None:
        print(f"{library} is not installed: skipped")
        continue
    print(f"{library}: {use()}; epsilon spent so far {budget.consumed():g}")

print(f"{len(receipts)} receipts, all of them claims: {all(receipt.is_dp_claim for receipt in receipts)}")
