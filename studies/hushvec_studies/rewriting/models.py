"""MiniLM, with the rows of posts that were embedded before."""

import numpy as np

from hushvec.text import MiniLMEmbedder
from hushvec_studies.rewriting.judges import Remembering, unit


def minilm(folder, posts):
    """The embedder whose vectors are noised; embeds a text once. `folder`: of `embeddings/posts.py` for these posts, or None."""
    model = Remembering(MiniLMEmbedder())
    if folder is not None:
        model.learn(*_embedded_posts(folder, posts))
    return model


def _embedded_posts(folder, posts):
    """Texts as they are and without the spaces around them, which a public corpus takes off: MiniLM does not see those."""
    known = dict(zip(np.load(folder / "ids.npy").tolist(), unit(np.load(folder / "embeddings.npy")), strict=True))
    rows = [known[post["id"]] for post in posts]
    return [post["text"] for post in posts] + [post["text"].strip() for post in posts], rows + rows
