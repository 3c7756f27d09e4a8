"""What private embeddings cost beside the model itself: all-MiniLM-L6-v2 on the CPU, through every adapter. Prints JSON.

    pip install 'hushvec[text]'                                   # and the hosts to measure: langchain, llama-index, haystack, chroma
    python bench/python/middleware.py                             # a minute or two
    python bench/python/middleware.py --rounds 40 --batches 1,8,64,256

A percent of the model's time is far below the spread of that time, so a difference of two runs of it would show nothing. Each adapter is
therefore timed around a stand-in that answers with stored rows at once: what remains is checks, noise, receipt and the host's form of
rows. Where a host works a lot by itself (events of LlamaIndex), its own work on a model of its own is taken off. Model and adapters take
turns, and the share is the median of the one over the median of the other. All times are processor time, with the model on one thread, so
that other programs on the machine count little. "difference" is the direct measurement all the same: the model with noise around it minus
the model, as a part of it, with the spread of the rounds.
"""

import argparse
import asyncio
import json
import os
import platform
import time
from importlib.util import find_spec
from pathlib import Path
from statistics import median, quantiles

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
os.environ["ANONYMIZED_TELEMETRY"] = "False"

import hushvec as hv

CLAIM = "wrapping costs less than 2 % of MiniLM's own time"
MOST = 0.02
CALLS = 20  # of an adapter, for one round's time
SENTENCES = (
    "The patient was admitted with chest pain and discharged two days later.",
    "Quarterly revenue grew by twelve percent, driven by new subscriptions.",
    "Please reset my password; I can no longer log in from the new laptop.",
    "The court finds for the plaintiff and awards damages and costs.",
)


class StandIn:
    """Stored rows for any number of texts, by the methods of the models that adapters look for."""

    model_id = "all-MiniLM-L6-v2"

    def __init__(self, rows):
        self._rows = rows

    def embed(self, texts, kind="document"):
        return self._rows[: len(texts)]


class StandInTransformer:
    """The same as a SentenceTransformer."""

    model_id = "all-MiniLM-L6-v2"

    def __init__(self, rows):
        self._rows = rows

    def encode(self, texts, **options):
        return self._rows[: len(texts)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--batches", default="1,8,64", help="numbers of texts (default 1,8,64)")
    options = parser.parse_args()
    print(json.dumps(measure([int(batch) for batch in options.batches.split(",")], options.rounds), indent=2))


def measure(batches, rounds):
    import torch

    from hushvec.text import MiniLMEmbedder

    torch.set_num_threads(1)
    hv.set_num_threads(1)
    model = MiniLMEmbedder()
    results = {str(batch): of_batch(model, texts_of(batch), rounds) for batch in batches}
    shares = {f"{name}, {batch}": case["share"] for batch, result in results.items() for name, case in result["adapters"].items()}
    worst = max(shares, key=shares.get)
    return {
        "machine": {"processor": processor(), "cores": os.cpu_count()},
        "python": platform.python_version(),
        "torch": torch.__version__,
        "words in a text": round(sum(len(text.split()) for text in SENTENCES) / len(SENTENCES), 1),
        "rounds": rounds,
        "batches": results,
        "claim": CLAIM,
        "worst": {"case": worst, "share": shares[worst]},
        "above": {case: share for case, share in shares.items() if share >= MOST},
        "verdict": "holds" if shares[worst] < MOST else "does not hold",
    }


def of_batch(model, texts, rounds):
    """Every round measures everything once, so that what the machine does meanwhile happens to all."""
    adapters = adapters_around(model.embed(texts))
    whole = hv.wrap_embedding_model(model, noise(), model_id="all-MiniLM-L6-v2")
    cases = {"model": (lambda: model.embed(texts), 1), "model with noise": (lambda: whole.embed(texts), 1)}
    cases |= {name: (lambda embed=embed: embed(texts), CALLS) for name, embed in adapters.items()}
    times = {name: [] for name in cases}
    for number in range(rounds + 1):
        for name, (call, calls) in cases.items():
            call()
            start = time.process_time()
            for _ in range(calls):
                call()
            if number:
                times[name].append((time.process_time() - start) / calls)
    own = median(times["model"])
    costs = {name: median(times[name]) - median(times.get(f"{name}: host", [0])) for name in adapters if not name.endswith(": host")}
    differences = [(with_noise - alone) / alone for with_noise, alone in zip(times["model with noise"], times["model"])]
    lower, _, upper = quantiles(differences, n=4)
    return {
        "model_ms": round(own * 1e3, 3),
        "difference": {"median": round(median(differences), 4), "quartiles": [round(lower, 4), round(upper, 4)]},
        "adapters": {name: {"us": round(cost * 1e6, 1), "share": round(cost / own, 5)} for name, cost in costs.items()},
        "hosts_us": {name: round(median(times[name]) * 1e6, 1) for name in adapters if name.endswith(": host")},
    }


def texts_of(batch):
    return [f"{SENTENCES[number % len(SENTENCES)]} {number}" for number in range(batch)]


def noise(**settings):
    return hv.dp_embedding_middleware(epsilon=8.0, **settings)


def adapters_around(rows):
    """name -> rows for texts, for what is installed."""
    wrapped = hv.wrap_embedding_model(StandIn(rows), noise())
    budget = hv.PrivacyBudget(1e9, 0.9)
    charged = hv.wrap_embedding_model(StandIn(rows), noise(budget=budget, delta=1e-9))
    loop = asyncio.new_event_loop()
    found = {
        "wrapped": wrapped.embed,
        "wrapped, with a budget in memory": charged.embed,
        "wrapped, aembed": lambda texts: loop.run_until_complete(wrapped.aembed(texts)),
        "openai response": lambda texts: openai_response(wrapped.embed(texts)),
    }
    for library, make in HOSTS.items():
        if find_spec(library) is not None:
            found |= make(rows, wrapped)
    return found


def openai_response(rows):
    from hushvec.integrations.openai import embeddings_response

    return embeddings_response(rows)


def langchain(rows, wrapped):
    from hushvec.integrations.langchain import PrivateEmbeddings

    return {"langchain": PrivateEmbeddings(wrapped).embed_documents}


def llama_index(rows, wrapped):
    from llama_index.core.base.embeddings.base import BaseEmbedding

    from hushvec.integrations.llama_index import PrivateEmbedding

    class Bare(BaseEmbedding):
        def _get_text_embeddings(self, texts):
            return rows.tolist()

        def _get_text_embedding(self, text):
            return rows[0].tolist()

        _get_query_embedding = _aget_query_embedding = _get_text_embedding

    return {
        "llama_index": PrivateEmbedding(wrapped).get_text_embedding_batch,
        "llama_index: host": Bare(embed_batch_size=2048).get_text_embedding_batch,
    }


def haystack(rows, wrapped):
    from haystack import Document

    from hushvec.integrations.haystack import PrivateDocumentEmbedder

    embedder = PrivateDocumentEmbedder(wrapped)
    documents = [Document(content=text) for text in texts_of(len(rows))]
    return {"haystack": lambda texts: embedder.run(documents)}


def chroma(rows, wrapped):
    from hushvec.integrations.chroma import PrivateEmbeddingFunction

    return {"chroma": PrivateEmbeddingFunction(wrapped)}


def sentence_transformers(rows, wrapped):
    from hushvec.integrations.sentence_transformers import PrivateSentenceTransformer

    return {"sentence_transformers": PrivateSentenceTransformer(StandInTransformer(rows), noise()).encode}


def sklearn(rows, wrapped):
    from sklearn.base import BaseEstimator, TransformerMixin
    from sklearn.utils.validation import check_is_fitted, validate_data

    from hushvec.integrations.sklearn import PrivateTextTransformer, PrivateTransformer

    of_rows = PrivateTransformer(epsilon=8.0).fit(rows)

    class Bare(TransformerMixin, BaseEstimator):
        def fit(self, x, y=None):
            validate_data(self, x)
            return self

        def transform(self, x):
            check_is_fitted(self)
            return validate_data(self, x, reset=False)

    of_host = Bare().fit(rows)
    return {
        "sklearn, rows: host": lambda texts: of_host.transform(rows),
        "sklearn, texts": PrivateTextTransformer(wrapped).fit(None).transform,
        "sklearn, rows": lambda texts: of_rows.transform(rows),
    }


HOSTS = {
    "langchain_core": langchain,
    "llama_index": llama_index,
    "haystack": haystack,
    "chromadb": chroma,
    "sentence_transformers": sentence_transformers,
    "sklearn": sklearn,
}


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
