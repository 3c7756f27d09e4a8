"""The whole pipeline: a budget on disk, redaction, noise, and a vector store that never sees a clean vector.

    python examples/middleware/secure_pipeline.py faiss|chroma

Both stores are on disk and opened anew before they are searched.
"""

import sys
import tempfile
from pathlib import Path

import hushvec as hv
from hushvec.text import MiniLMEmbedder

RECORDS = {
    "rec-1": "Patient record: Jane Roe (jane@example.com) was diagnosed with type 2 diabetes",
    "rec-2": "Patient record: fractured left wrist after a fall from a bicycle",
    "rec-3": "Patient record: seasonal allergy, call back at (415) 555-2671",
    "rec-4": "Invoice overdue since March, second reminder sent",
}


def make_model(folder):
    """A wrapped model and its budget."""
    # 1. A budget that persists across sessions.
    budget = hv.PrivacyBudget(max_epsilon=50.0, persist_key="patient-records", store=folder / "budget.sqlite", on_exhausted="block")
    # 2. Redaction of the texts, noise on the vectors. Directions at epsilon 16 can still be searched; Gaussian noise at 1 cannot.
    middleware = hv.compose_embedding_middleware(
        [
            hv.pii_redaction_middleware(patterns=["email", "phone", "ssn"]),
            hv.dp_embedding_middleware(epsilon=16.0, mechanism="privunit", renormalize=True, budget=budget),
        ]
    )
    return hv.wrap_embedding_model(MiniLMEmbedder(), middleware), budget


class FaissStore:
    def __init__(self, folder):
        self.file = folder / "records.faiss"

    def add(self, ids, vectors):
        import faiss

        index = faiss.IndexFlatIP(vectors.shape[1])
        index.add(vectors)
        faiss.write_index(index, str(self.file))
        self.file.with_suffix(".ids").write_text("\n".join(ids))

    def search(self, vectors, count):
        import faiss

        ids = self.file.with_suffix(".ids").read_text().split("\n")
        return [ids[row] for row in faiss.read_index(str(self.file)).search(vectors, count)[1][0]]


class ChromaStore:
    def __init__(self, folder):
        self.folder = str(folder / "chroma")

    def _collection(self):
        import chromadb

        settings = chromadb.Settings(anonymized_telemetry=False)
        # The embedding function is None: the store gets vectors and no texts.
        return chromadb.PersistentClient(self.folder, settings).get_or_create_collection(
            "records", embedding_function=None, configuration={"hnsw": {"space": "ip"}}
        )

    def add(self, ids, vectors):
        self._collection().add(ids=list(ids), embeddings=vectors)

    def search(self, vectors, count):
        return self._collection().query(query_embeddings=vectors, n_results=count)["ids"][0]


def main(store_name):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, budget = make_model(folder)
        # 3. A vector store on disk.
        store = {"faiss": FaissStore, "chroma": ChromaStore}[store_name](folder)
        # 4. Embed and store. The budget is charged by the middleware: once for the batch, whose rows are about different people.
        embeddings = model.embed(list(RECORDS.values()))
        store.add(list(RECORDS), embeddings.values)
        print(f"stored {len(embeddings)} vectors in {store_name}, epsilon {embeddings.receipt.epsilon:.4g} each")
        print("budget remaining:", budget.remaining())
        print("ledger and receipt:", hv.verify_charges([embeddings.receipt], budget.export()).status)

        # The holder of this index may see the question, so it gets no noise: it goes through all other steps, and costs nothing.
        question = model.without_noise().embed(["blood sugar disease"], kind="query").values
        print("nearest:", store.search(question, 2))
        budget.close()


if __name__ == "__main__":
    main(sys.argv[1] if sys.argv[1:] else "faiss")
