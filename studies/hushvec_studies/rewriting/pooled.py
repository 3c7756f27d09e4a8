"""MiniLM before its last step: the mean over tokens, not brought to unit length, as vec2text's checkpoints read GTR."""

from pathlib import Path

import numpy as np

from hushvec._util import validate
from hushvec.embedders.checkpoints import CONFIG_FILE
from hushvec.embedders.minilm import DIMENSION, MiniLMEmbedder
from hushvec.text.inverters.vec2text.config import read_fields

BATCH = 64
# Mean length of the rows of short sentences, measured on hushvec.data. GTR's are about as long as 1, so these are divided by it.
LENGTH = 5.287


class PooledMiniLM:
    """all-MiniLM-L6-v2's mean of token vectors, divided by a constant so that rows are about as long as 1: float32[n, 384].

    The normalized rows of `MiniLMEmbedder` are these, each divided by its own length.
    """

    model_id = "all-MiniLM-L6-v2, pooled, not normalized"
    dimension = DIMENSION
    norm_bound = None

    def __init__(self):
        self._model = MiniLMEmbedder()._model

    @property
    def tokenizer(self):
        return self._model.tokenizer

    def embed(self, texts):
        import torch

        validate.strings("texts", texts)
        rows = np.empty((len(texts), DIMENSION), np.float32)
        order = sorted(range(len(texts)), key=lambda place: len(texts[place]))
        with torch.inference_mode():
            for start in range(0, len(order), BATCH):
                places = order[start : start + BATCH]
                said = self.tokenizer([texts[place] for place in places], padding=True, truncation=True, return_tensors="pt")
                rows[places] = self._model[1](self._model[0](dict(said)))["sentence_embedding"].numpy() / LENGTH
        return rows


def trained_on(path_or_id):
    """The embedder that a checkpoint in a folder names; None for a hub id, whose own embedder is known."""
    folder = Path(path_or_id)
    return read_fields(folder / CONFIG_FILE).others["embedder_model_name"] if (folder / CONFIG_FILE).is_file() else None


def embedder_of(named, given):
    """The embedder that a checkpoint was trained on where it is this one, else what was given.

    Args:
        named: `embedder_model_name` of the checkpoint's config.json.
        given: by the caller; it wins.
    """
    return PooledMiniLM() if given is None and named == PooledMiniLM.model_id else given
