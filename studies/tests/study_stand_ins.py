"""Small studies: texts, a configuration, and runs that take no time."""

import hashlib
import json
import os
import random
import time

from hushvec_studies.harness.embeddings import HashedWords
from hushvec_studies.retrieval.columns import OF_THE_MOMENT, empty_row
from hushvec_studies.retrieval.configuration import load_configuration
from hushvec_studies.retrieval.plan import planned
from hushvec_studies.retrieval.records import Record
from hushvec_studies.retrieval.runs import do_runs

CATEGORIES = ("north", "south", "west")
# So long a stand-in of a run takes: kills then hit runs, their files, and what is between them.
RUN_SECONDS = 0.002
LOG = "HUSHVEC_TEST_RUN_LOG"


def texts_file(folder, count=80, words=14):
    """JSON lines of made-up texts, every category with words of its own."""
    rng = random.Random(7)
    path = folder / "texts.jsonl"
    with path.open("w", encoding="utf-8") as file:
        for number in range(count):
            category = CATEGORIES[number % len(CATEGORIES)]
            chosen = [f"{category[:2]}{rng.randrange(90):02d}word" for _ in range(words)]
            file.write(json.dumps({"id": f"d{number}", "text": " ".join(chosen) + ".", "category": category}) + "\n")
    return path


def small(folder, *overrides, base="default"):
    """A configuration on such texts, of a few runs."""
    return load_configuration(base, [*settings(folder), *overrides])


def settings(folder):
    return [
        f"data.source={texts_file(folder)}",
        "data.categories=null",
        "data.min_tokens=5",
        "data.split=all",
        "embedding.model=hashed-words",
        "privacy.epsilons=[.inf, 20]",
        "retrieval.k=[1, 5]",
        "retrieval.latency_queries=4",
        "attack.shadow_models=4",
        "statistics.resamples=20",
    ]


def model(name):
    assert name == HashedWords.model_id
    return HashedWords()


def perform(run, inputs, config_hash, commit):
    """A run with figures made from its name; what it does is written down if a test asks for it."""
    time.sleep(RUN_SECONDS)
    rows = tuple(row_of(run, k, config_hash) for k in run.ks)
    if LOG in os.environ:
        with open(os.environ[LOG], "a") as log:
            log.write(config_hash + "\n")
    return Record(rows=rows)


def row_of(run, k, config_hash):
    digest = hashlib.sha256(f"{config_hash} {k}".encode()).digest()
    return empty_row() | {
        "run_id": config_hash[:8],
        "timestamp": f"{time.time():.6f}",
        "config_hash": config_hash,
        "mechanism": run.mechanism,
        "epsilon_doc": run.epsilon,
        "epsilon_query": float("inf"),
        "epsilon_score": run.epsilon,
        "embedding_model": run.configuration.embedding.model,
        "dataset_split": run.configuration.data.split,
        "recall_at_1": digest[0] / 255,
        "k": k,
        "study": run.configuration.name,
        "sides": "+".join(run.sides) or "none",
        "noise": "none" if run.noise is None else run.noise.name,
        "projection": run.projection,
        "queries_per_document": run.configuration.queries.per_document,
        "seed": run.configuration.seed,
        "run_seconds": time.perf_counter(),
    }


def perform_badly(run, inputs, config_hash, commit):
    """Fails at one run with an error, at another by dying."""
    if run.mechanism == "doc_ldp":
        raise ValueError("a run that cannot be done")
    if run.mechanism == "score_ldp":
        os._exit(3)
    return perform(run, inputs, config_hash, commit)


def done(folder, configuration, workers=0, **others):
    """All runs of a configuration by stand-ins, or by what the caller names; nothing is shown."""
    quiet = {"embedder": model, "perform": perform, "progress": False}
    return do_runs(configuration, planned(configuration), folder, workers=workers, **{**quiet, **others})


def figures(rows):
    """What two runs of one configuration have in common."""
    return [{name: value for name, value in row.items() if name not in OF_THE_MOMENT} for row in rows]
