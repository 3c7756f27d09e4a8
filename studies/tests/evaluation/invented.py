"""A BEIR folder of invented documents and queries, and rows of a few classes."""

import json
import random

import numpy as np

DOCUMENTS, QUERIES, JUDGED = 80, 30, 24


def beir_folder(folder):
    """80 documents of random words; each of 30 queries is the beginning of a document, and 24 of them are judged."""
    words = random.Random(0)
    vocabulary = [f"word{number}" for number in range(200)]
    texts = [" ".join(words.choices(vocabulary, k=12)) for _ in range(DOCUMENTS)]
    (folder / "qrels").mkdir(parents=True)
    write_lines(folder / "corpus.jsonl", [{"_id": f"d{n}", "title": "", "text": text} for n, text in enumerate(texts)])
    write_lines(folder / "queries.jsonl", [{"_id": f"q{n}", "text": " ".join(texts[n].split()[:6])} for n in range(QUERIES)])
    lines = ["query-id\tcorpus-id\tscore", *(f"q{n}\td{n}\t1" for n in range(JUDGED))]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")
    return folder


def write_lines(path, objects):
    path.write_text("".join(json.dumps(one) + "\n" for one in objects))


def class_rows(count, classes, seed, spread=0.3):
    """Unit rows around orthogonal centers, and their classes."""
    rng = np.random.default_rng(seed)
    numbers = np.arange(count) % classes
    rows = np.eye(16)[numbers] + spread * rng.standard_normal((count, 16)) / 4
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32), numbers
