"""What the tests of all adapters share: a toy model whose faults can be chosen, a budget, and every adapter behind two functions."""

import asyncio
import hashlib
import os
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import hushvec as hv

# Read by haystack and chromadb when they are imported: tests must not talk to anybody.
os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["ANONYMIZED_TELEMETRY"] = "False"

DIMENSION = 16
EPSILON = 2.0
LIMIT = 10.0


class ToyModel:
    """Unit rows by a hash of the text and its kind. A fault changes what the next calls answer."""

    model_id = "toy"

    def __init__(self):
        self.calls = []
        self.fault = None

    def embed(self, texts, kind="document"):
        self.calls.append((list(texts), kind))
        rows = np.stack([unit_row(text, kind) for text in texts])
        return rows if self.fault is None else self.fault(rows)


def unit_row(text, kind="document"):
    seed = int.from_bytes(hashlib.sha256(f"{kind}: {text}".encode()).digest()[:8], "big")
    row = np.random.default_rng(seed).normal(size=DIMENSION)
    return (row / np.linalg.norm(row)).astype(np.float32)


def private(budget=None, **settings):
    """Noise so small that a row can be told from the others."""
    return hv.dp_embedding_middleware(**{"epsilon": EPSILON, "budget": budget, **settings})


def faint():
    """Noise far below the distance of two toy rows, so that a released row can be recognised."""
    return hv.dp_embedding_middleware(epsilon=1e6)


def is_near(row, text, kind="document"):
    return np.linalg.norm(np.asarray(row, np.float64) - unit_row(text, kind)) < 0.2


def with_nan(rows):
    rows[0, 0] = np.nan
    return rows


def with_infinity(rows):
    rows[-1, -1] = np.inf
    return rows


def ragged(rows):
    return [row[: DIMENSION - number] for number, row in enumerate(rows)] + [[1.0]]


# name -> (fault of the model, error, its words)
MODEL_FAULTS = {
    "NaN": (with_nan, ValueError, r"row 0"),
    "infinity": (with_infinity, ValueError, r"finite|Inf|inf"),
    "wrong dimension": (lambda rows: rows[:, :-1], ValueError, r"must have 16 columns, got 15"),
    "too few rows": (lambda rows: rows[:-1], ValueError, r"must have \d rows, one for each text, got \d"),
    "too many rows": (lambda rows: np.vstack([rows, rows]), ValueError, r"must have \d rows, one for each text, got \d"),
    "ragged rows": (ragged, ValueError, r"one length"),
    "not unit norm": (lambda rows: 3 * rows, ValueError, r"unit norm"),
    "nothing": (lambda rows: None, TypeError, r"got None"),
    "words": (lambda rows: [["a"]] * len(rows), TypeError, r"must hold numbers, got str in it"),
}

# name -> (texts, error, words of the middleware, which a host may forestall by its own)
BAD_TEXTS = {
    "None": (None, TypeError, r"None"),
    "None among texts": (["a", None], TypeError, r"NoneType|None"),
    "a number": ([1], (TypeError, ValueError), r"int|must be a string"),
    "bytes": ([b"a"], (TypeError, ValueError), r"bytes|must be a string"),
    "1 MB": (["x" * 1_000_000], ValueError, r"at most 100000 characters each, got 1000000 at position 0"),
}


@dataclass
class Host:
    """One adapter behind the functions that its host would call.

    Args:
        documents, query: rows for texts, a row for a text. adocuments, aquery: the same as coroutine functions, where there are any.
        queries_take_lists: one method for a text and for several.
    """

    documents: Any
    query: Any
    adocuments: Any = None
    aquery: Any = None
    queries_take_lists: bool = False


def langchain_host(model, middleware, on_receipt=None, noise_on="both"):
    pytest.importorskip("langchain_core")
    from hushvec.integrations.langchain import PrivateEmbeddings

    adapter = PrivateEmbeddings(model, middleware, on_receipt=on_receipt, noise_on=noise_on)
    return Host(adapter.embed_documents, adapter.embed_query, adapter.aembed_documents, adapter.aembed_query)


def llama_index_host(model, middleware, on_receipt=None, noise_on="both"):
    pytest.importorskip("llama_index.core")
    from hushvec.integrations.llama_index import PrivateEmbedding

    adapter = PrivateEmbedding(model, middleware, on_receipt=on_receipt, noise_on=noise_on)
    return Host(
        adapter.get_text_embedding_batch,
        adapter.get_query_embedding,
        adapter.aget_text_embedding_batch,
        adapter.aget_query_embedding,
    )


def haystack_host(model, middleware, on_receipt=None, noise_on="both"):
    haystack = pytest.importorskip("haystack")
    from hushvec.integrations.haystack import PrivateDocumentEmbedder, PrivateTextEmbedder

    of_documents = PrivateDocumentEmbedder(model, middleware, on_receipt, noise_on=noise_on)
    of_text = PrivateTextEmbedder(of_documents._source.wrapped, None, on_receipt, noise_on)

    def documents_of(texts):
        return None if texts is None else [haystack.Document(content=text) for text in texts]

    async def adocuments(texts):
        answer = await of_documents.run_async(documents_of(texts))
        return [document.embedding for document in answer["documents"]]

    async def aquery(text):
        return (await of_text.run_async(text))["embedding"]

    return Host(
        lambda texts: [document.embedding for document in of_documents.run(documents_of(texts))["documents"]],
        lambda text: of_text.run(text)["embedding"],
        adocuments,
        aquery,
    )


def chroma_host(model, middleware, on_receipt=None, noise_on="both"):
    pytest.importorskip("chromadb")
    from hushvec.integrations.chroma import PrivateEmbeddingFunction

    adapter = PrivateEmbeddingFunction(model, middleware, on_receipt=on_receipt, noise_on=noise_on)

    def query(text):
        rows = adapter.embed_query([text])
        return Row(rows[0], rows.receipt)

    def documents(texts):
        rows = adapter(texts)
        return [Row(row, rows.receipt) for row in rows]

    return Host(documents, query)


def sentence_transformers_host(model, middleware, on_receipt=None, noise_on="both"):
    pytest.importorskip("sentence_transformers")
    from hushvec.integrations.sentence_transformers import PrivateSentenceTransformer

    adapter = PrivateSentenceTransformer(model, middleware, on_receipt=on_receipt, noise_on=noise_on)

    def documents(texts):
        rows = adapter.encode_document(texts)
        return [Row(row, rows.receipt) for row in rows]

    return Host(documents, adapter.encode_query, queries_take_lists=True)


def sklearn_host(model, middleware, on_receipt=None, noise_on="both"):
    pytest.importorskip("sklearn")
    from hushvec.integrations.sklearn import PrivateTextTransformer

    of_documents = PrivateTextTransformer(model, middleware, on_receipt=on_receipt, noise_on=noise_on).fit(None)
    of_queries = PrivateTextTransformer(of_documents.source_.wrapped, kind="query", on_receipt=on_receipt, noise_on=noise_on).fit(None)

    def rows(adapter, texts):
        rows = adapter.transform(texts)
        return [Row(row, rows.receipt) for row in rows]

    return Host(lambda texts: rows(of_documents, texts), lambda text: rows(of_queries, [text])[0])


def openai_host(model, middleware, on_receipt=None):
    """The other way round: a service's client wrapped, and a service's answer made of its rows."""
    from hushvec.integrations.openai import OpenAIEmbeddings, embeddings_response

    wrapped = hv.wrap_embedding_model(OpenAIEmbeddings(Client(model), model="toy"), middleware)

    def answered(embeddings):
        response = embeddings_response(embeddings)
        receipt = hv.Receipt.from_dict(response["receipts"][-1]) if response["receipts"] else None
        if on_receipt is not None and receipt is not None:
            on_receipt(receipt)
        return [Row(item["embedding"], receipt) for item in response["data"]]

    async def adocuments(texts):
        return answered(await wrapped.aembed(texts))

    async def aquery(text):
        return answered(await wrapped.aembed([text], kind="query"))[0]

    return Host(
        lambda texts: answered(wrapped.embed(texts)), lambda text: answered(wrapped.embed([text], kind="query"))[0], adocuments, aquery
    )


class Row(list):
    """A row of a host that keeps the receipt beside the rows."""

    def __init__(self, row, receipt):
        super().__init__(row)
        self.receipt = receipt


class Client:
    """What an OpenAI client looks like from outside, around a toy model."""

    def __init__(self, model):
        self.embeddings = self
        self._model = model

    def create(self, *, model, input):
        rows = self._model.embed(input)
        if not isinstance(rows, np.ndarray):
            return rows if rows is None else {"data": [{"index": number, "embedding": row} for number, row in enumerate(rows)]}
        data = [{"object": "embedding", "index": number, "embedding": row.tolist()} for number, row in enumerate(rows)]
        return {"object": "list", "data": data[::-1], "model": model, "usage": {"prompt_tokens": 7, "total_tokens": 7}}


# The adapters whose hosts call them asynchronously too.
ASYNC = ("langchain", "llama_index", "haystack", "openai")

HOSTS = {
    "langchain": langchain_host,
    "llama_index": llama_index_host,
    "haystack": haystack_host,
    "chroma": chroma_host,
    "sentence_transformers": sentence_transformers_host,
    "sklearn": sklearn_host,
    "openai": openai_host,
}


def run(coroutine):
    return asyncio.run(coroutine)
