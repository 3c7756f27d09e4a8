"""A small pair of inverter and corrector: its texts, short sentences of the records that ship told of other people, and its embedder.

Held out are sentences of the records that name somebody. Training has the same templates with other names, never a held-out sentence:
what the pair can show is whether it reads the name, the numbers and the template out of a vector, not how it does on other prose.
"""

import json
import random
import re
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field

from hushvec._util import validate
from hushvec.data import records
from hushvec.embedders.checkpoints import CONFIG_FILE
from hushvec.embedders.minilm import DIMENSION, MiniLMEmbedder
from hushvec.extend.helpers import published_text
from hushvec.text.inverters.vec2text.config import read_fields
from hushvec_studies.harness.texts import objects_of
from hushvec_studies.rewriting import options
from hushvec_studies.rewriting.documents import Document

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_NAME = "{}"


class Texts(NamedTuple):
    """What a pair is trained and judged on.

    Args:
        first: for the inverter.
        second: for the corrector: texts that the inverter never saw, so that its mistakes are those it makes on private texts.
        held_out: documents; gold is the name of the person.
    """

    first: list[str]
    second: list[str]
    held_out: list[Document]


def sentences():
    """(sentence, the person it names or None) of every record, all different, in order."""
    found = {}
    for record in records():
        for sentence in _SENTENCE_END.split(record.text):
            found[sentence] = record.person if record.person in sentence else None
    return sorted(found.items())


def shipped_texts(held_out, variants, seed):
    """Texts of the records that ship.

    Args:
        held_out: how many sentences.
        variants: names for each template, at most.
        seed: of both choices, and of which half a text is in.
    """
    chance = random.Random(seed)
    known = sentences()
    named = [(sentence, person) for sentence, person in known if person is not None]
    private = chance.sample(named, min(held_out, len(named) - 2))
    people = sorted({person for _, person in named})
    templates = sorted({sentence.replace(person, _NAME) for sentence, person in named})
    names = min(variants, len(people))
    filled = {template.replace(_NAME, person) for template in templates for person in chance.sample(people, names)}
    # the rewriter cuts a name out: what stands around it becomes a text of its own
    around = {part.strip() for template in templates for part in template.split(_NAME) if part.strip(" .,")}
    plain = {sentence for sentence, person in known if person is None}
    made = sorted((filled | around | plain) - {sentence for sentence, _ in private})
    chance.shuffle(made)
    half = len(made) // 2
    return Texts(made[:half], made[half:], [Document(text, (person,), (person,)) for text, person in private])


def write_documents(path, documents):
    """One object per line: text, gold."""
    with published_text(Path(path)) as file:
        for one in documents:
            file.write(json.dumps({"text": one.text, "gold": list(one.gold)}, ensure_ascii=False) + "\n")


def read_documents(path):
    """What `write_documents` wrote, or lines of {"text": ...} without gold strings."""
    return [Document(one["text"], tuple(one.get("gold", ())), tuple(one.get("gold", ()))) for one in objects_of(Path(path))]


class Settings(options.Settings):
    """Of a program that reads with a pair."""

    inverter: str = Field(description="folder or hub id of a vec2text checkpoint: of train_pair.py, or such as jxm/gtr__nq__32")
    embedder: str | None = Field(
        default=None, description="folder or hub id of its embedder (default: the one that the checkpoint carries or names)"
    )


# ---- MiniLM before its last step: the mean over tokens, not brought to unit length, as vec2text's checkpoints read GTR ----

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
