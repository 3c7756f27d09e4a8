"""Embedders that say how alike input and output are. Only MiniLM is the one whose vectors are noised; the others are second opinions.

    minilm     all-MiniLM-L6-v2, 384 elements, 256 tokens; hushvec's default embedder
    wordllama  WordLlama l2_supercat, 256 elements: static vectors of Llama 2's tokens, trained on sentence pairs (package wordllama)

Both come whole in their packages: nothing is downloaded.
"""

from pathlib import Path

import numpy as np

from hushvec.extend.helpers import Progress
from hushvec.text import MiniLMEmbedder
from hushvec_studies.harness.rows import unit

BATCH = 64


class Judge:
    """Unit rows for texts; a text is embedded once in a process."""

    def __init__(self, name, embed):
        self.name, self._embed = name, embed
        self._known = {}

    def learn(self, texts, rows):
        self._known.update(zip(texts, rows, strict=True))

    def __call__(self, texts):
        missing = [text for text in dict.fromkeys(texts) if text not in self._known]
        missing.sort(key=len)
        with Progress(f"embedding with {self.name}", len(missing)) as progress:
            for start in range(0, len(missing), BATCH):
                batch = missing[start : start + BATCH]
                self._known.update(zip(batch, unit(self._embed(batch)), strict=True))
                progress.advance(len(batch))
        return np.stack([self._known[text] for text in texts])


class Remembering(Judge):
    """An embedder that embeds a text once: `embed` for hushvec, the tokenizer of the model passed through."""

    def __init__(self, model):
        super().__init__("the embedder", model.embed)
        self.model_id, self.dimension, self.tokenizer = model.model_id, model.dimension, model.tokenizer

    def embed(self, texts):
        return self(list(texts)) if texts else self._embed(texts)


def remembering_minilm(folder, posts):
    """The embedder whose vectors are noised. `folder`: of `embeddings/posts.py` for these posts, or None."""
    model = Remembering(MiniLMEmbedder())
    if folder is not None:
        rows = dict(zip(np.load(folder / "ids.npy").tolist(), unit(np.load(folder / "embeddings.npy")), strict=True))
        for post in posts:  # as they are, and without the spaces around them, which a public corpus takes off: MiniLM sees neither
            model.learn([post["text"], post["text"].strip()], [rows[post["id"]]] * 2)
    return model


def minilm(model):
    return Judge("minilm", model.embed)


def wordllama():
    import wordllama

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return Judge("wordllama", lambda texts: model.embed(texts, norm=True))


SECOND_OPINIONS = {"wordllama": wordllama}


def judges(model, names):
    """MiniLM and the second opinions named, in that order.

    Raises:
        ImportError: the package of a second opinion is not installed; the extra `rewriting` of hushvec-studies has them.
    """
    return [minilm(model), *(SECOND_OPINIONS[name]() for name in names)]
