"""The embedder and the inverter that a caller named: an object, a file, a folder or a hub id."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec.embedders.minilm import MiniLMEmbedder
from hushvec.embedders.sources import SourceModel, as_embedding_model, default_embedding_model, open_embedding_model
from hushvec.mechanisms import PrivUnit
from hushvec.text import inverters
from hushvec.text.corpus import PublicCorpus
from hushvec.text.inverters.protocol import ChoosingInverter, Inverter
from hushvec.text.rewriting.plans import CHOICE, rewriting_mechanisms

_SAVED_CORPUS = ".npz"
_FILE_SUFFIXES = (".txt", ".text", ".md", ".csv", ".tsv", ".json", ".jsonl", _SAVED_CORPUS)


def choose(embedder: Any, inverter: Any, *, max_length: int, num_steps: int, device: str | None) -> tuple[SourceModel, Inverter]:
    """An embedder and an inverter that fit together.

    A checkpoint names the embedder it was made for, used unless another is given; public texts are embedded by the embedder.
    """
    _require_file_of_texts(inverter)
    given = None if embedder is None else open_embedding_model(embedder, max_length=max_length, device=device)
    if _is_public(inverter):
        model = given or default_embedding_model(device)
        return model, _public(model, inverter)
    if _is_name(inverter):
        inverter = _checkpoint(os.fspath(inverter), given, num_steps=num_steps, device=device)
    elif not callable(getattr(inverter, "invert", None)) or isinstance(inverter, type):
        raise TypeError(f"inverter must have invert(embeddings) -> texts, or be a path or a hub id, got {validate.kind(inverter)}")
    made_for = getattr(inverter, "embedder", None)  # else MiniLM
    return given or (default_embedding_model(device) if made_for is None else as_embedding_model(made_for)), inverter


def best_mechanism(inverter: Any) -> str:
    """The mechanism that preserves a document best for the given inverter. No model is loaded.

    Randomized response where there are public texts; else the mechanism that a decoder was trained for; else directions.
    """
    _require_file_of_texts(inverter)
    if _is_public(inverter) or isinstance(inverter, ChoosingInverter):
        return CHOICE
    trained = inverter.mechanism if isinstance(inverter, inverters.TrainedInverter) else None
    if _is_name(inverter) and inverters.TrainedInverter.is_run(inverter):
        trained = inverters.TrainedInverter.mechanism_of_run(inverter)
    return trained if trained in rewriting_mechanisms() else PrivUnit.name


def _is_public(inverter: Any) -> bool:
    return inverter is None or (_is_name(inverter) and Path(inverter).is_file())


def _require_file_of_texts(inverter: Any) -> None:
    """Refuse the name of a missing file, so that it is not taken for a repository id on a hub."""
    if _is_name(inverter) and Path(inverter).suffix.lower() in _FILE_SUFFIXES and not Path(inverter).exists():
        raise FileNotFoundError(f"inverter: the file {os.fspath(inverter)!r} does not exist")


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _public(model: SourceModel, source: Any) -> Inverter:
    if source is not None:
        is_saved = Path(source).suffix == _SAVED_CORPUS
        return inverters.PublicInverter(PublicCorpus.load(source, model) if is_saved else PublicCorpus.from_file(source, model))
    if isinstance(model.model, MiniLMEmbedder):
        return _shipped(model.model)
    return inverters.PublicInverter(PublicCorpus.shipped(model))


@cache
def _shipped(embedder: MiniLMEmbedder) -> Inverter:
    return inverters.PublicInverter(PublicCorpus.shipped(embedder))


def _checkpoint(name: str, embedder: SourceModel | None, *, num_steps: int, device: str | None) -> Inverter:
    if inverters.TrainedInverter.is_run(name):
        return inverters.TrainedInverter.from_folder(name, device=device)
    return inverters.Vec2TextInverter.from_pretrained(name, num_steps=num_steps, device=device, embedder=embedder)
