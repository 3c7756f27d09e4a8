"""A private index as a vector store of LangChain: noise on documents once, clean questions, filters, a retriever, a replacement."""

import numpy as np
from langchain_core.embeddings import Embeddings

import hushvec as hv
from hushvec.integrations.langchain_store import PrivateVectorStore
from hushvec.retrieval import PrivateIndex, VectorNoise

RECORDS = ["asthma, 34 years", "fracture, 71 years", "asthma, 40 years", "fracture, 66 years"]


class ToyEmbeddings(Embeddings):
    """A unit vector for the illness; in real life a sentence-transformers model or a service."""

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]

    def embed_query(self, text):
        row = np.full(8, 0.1)
        row[0 if "asthma" in text else 1] = 1.0
        return (row / np.linalg.norm(row)).tolist()


budget = hv.PrivacyBudget(max_epsilon=100.0)
index = PrivateIndex(8, documents=VectorNoise(epsilon=40.0, budget=budget))
store = PrivateVectorStore(ToyEmbeddings(), index)

store.add_texts(RECORDS, [{"year": year} for year in (2019, 2020, 2021, 2022)], ids=["1", "2", "3", "4"])
retriever = store.as_retriever(search_kwargs={"k": 1, "filter": {"year": {"$gte": 2020}}})
for _ in range(100):
    (found,) = retriever.invoke("asthma")
print(f"found {found.page_content!r}; 100 searches later epsilon spent is {budget.consumed():g}")

store.add_texts(["fracture, 67 years"], [{"year": 2023}], ids=["4"])
print(f"a replaced document is a new release: epsilon spent is {budget.consumed():g} in {len(index.receipts)} releases")

try:
    store.add_texts(["asthma, 41 years"], ids=["5"])
except hv.PrivacyBudgetExhaustedError as refused:
    print(f"refused: {refused}; the index still has {len(index)} documents")

print("\n".join(index.describe()))
