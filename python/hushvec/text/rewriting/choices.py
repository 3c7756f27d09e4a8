"""The embedder and the inverter that a caller named: an object, a file, a folder or a hub id."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from hushvec._util import validate
from hushvec.embedders.sources import SourceModel, as_embedding_model
from hushvec.errors import MissingExtraError
from hushvec.mechanisms import PrivUnit
from hushvec.text.devices import chosen_device
from hushvec.text.embedder import MiniLMEmbedder
from hushvec.text.inverters.protocol import ChoosingInverter, Inverter
from hushvec.text.rewriting.terms import CHOICE, REWRITING_MECHANISMS

_CONFIG = "config.json"
_SAVED_CORPUS = ".npz"
_FILES_OF_TEXTS = (".txt", ".jsonl", _SAVED_CORPUS)


def choose(embedder: Any, inverter: Any, *, max_len: int, num_steps: int, device: str | None) -> tuple[SourceModel, Inverter]:
    """Embedder and inverter that belong together.

    A checkpoint of an inverter brings the embedder that it was made for, unless another is given. An inverter of public texts needs
    the embedder first: its texts are embedded by it.

    Raises:
        TypeError: neither name nor object that can embed or invert.
        ValueError, OSError: a file, a folder or a hub id without what is needed.
    """
    _require_file_of_texts(inverter)
    given = None if embedder is None else _embedder(embedder, max_len, device)
    if _is_public(inverter):
        model = given or _default_embedder(device)
        return model, _public(model, inverter)
    if _is_name(inverter):
        own = _checkpoint(os.fspath(inverter), given, num_steps=num_steps, device=device)
    else:
        own = _require_inverter(inverter)
    return given or _embedder_of(own, device), own


def best_mechanism(inverter: Any) -> str:
    """The mechanism that keeps most of a document at its price, for the inverter that a caller named. No model is loaded.

    Randomized response where there are public texts; else the mechanism that a decoder was trained for; else directions.
    """
    _require_file_of_texts(inverter)
    if _is_public(inverter) or isinstance(inverter, ChoosingInverter):
        return CHOICE
    trained = _trained_for(inverter)
    return trained if trained in REWRITING_MECHANISMS else PrivUnit.name


def _trained_for(inverter: Any) -> str | None:
    from hushvec.text.inverters.trained.inverter import TrainedInverter

    if _is_name(inverter):
        return TrainedInverter.mechanism_of_run(inverter) if TrainedInverter.is_run(inverter) else None
    return inverter.mechanism if isinstance(inverter, TrainedInverter) else None


def _is_public(inverter: Any) -> bool:
    """The texts that ship, or those of a file."""
    return inverter is None or (_is_name(inverter) and Path(inverter).is_file())


def _require_file_of_texts(inverter: Any) -> None:
    """Refuse the name of a file that is not there before it is taken for the id of a repository on a hub."""
    if _is_name(inverter) and Path(inverter).suffix in _FILES_OF_TEXTS and not Path(inverter).exists():
        raise FileNotFoundError(f"inverter must be a file that exists, a folder or a hub id, got {os.fspath(inverter)!r}")


def _embedder_of(inverter: Inverter, device: str | None) -> SourceModel:
    """The embedder that an inverter brings, else MiniLM."""
    own = getattr(inverter, "embedder", None)
    return _default_embedder(device) if own is None else as_embedding_model(own)


def _default_embedder(device: str | None) -> SourceModel:
    return as_embedding_model(_minilm(str(chosen_device(device))))


def _is_name(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _require_inverter(value: Any) -> Inverter:
    if not callable(getattr(value, "invert", None)) or isinstance(value, type):
        raise TypeError(f"inverter must have invert(embeddings) -> texts, or be a path or a hub id, got {validate.kind(value)}")
    inverter: Inverter = value
    return inverter


def _embedder(value: Any, max_len: int, device: str | None) -> SourceModel:
    if not _is_name(value):
        return as_embedding_model(value)
    name = os.fspath(value)
    if _model_type(name) == "t5" or (not Path(name).is_dir() and "gtr-t5" in name):
        from hushvec.text.gtr import GTREmbedder

        return as_embedding_model(GTREmbedder(name, max_len=max_len, device=device))
    return as_embedding_model(_sentence_transformer(name, device))


@cache
def _minilm(device: str) -> MiniLMEmbedder:
    return MiniLMEmbedder(device)


def _model_type(name: str) -> str | None:
    """What a local folder's config.json says it holds; None for anything else."""
    try:
        config = json.loads((Path(name) / _CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config.get("model_type") if isinstance(config, dict) else None


def _sentence_transformer(name: str, device: str | None) -> Any:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError:
        raise MissingExtraError("embedding texts", "text") from None
    return SentenceTransformer(name, device=str(chosen_device(device)))


def _public(model: SourceModel, source: Any) -> Inverter:
    """Decoding to the texts of a public file, or to those that ship with the package."""
    from hushvec.text.corpus import PublicCorpus
    from hushvec.text.inverters.public import PublicInverter

    if source is not None:
        is_saved = Path(source).suffix == _SAVED_CORPUS
        return PublicInverter(PublicCorpus.load(source, model) if is_saved else PublicCorpus.from_file(source, model))
    if isinstance(model.model, MiniLMEmbedder):
        return _shipped(model.model)
    return PublicInverter(PublicCorpus.shipped(model))


@cache
def _shipped(embedder: MiniLMEmbedder) -> Inverter:
    """Embedded once for an embedder."""
    from hushvec.text.corpus import PublicCorpus
    from hushvec.text.inverters.public import PublicInverter

    return PublicInverter(PublicCorpus.shipped(embedder))


def _checkpoint(name: str, embedder: SourceModel | None, *, num_steps: int, device: str | None) -> Inverter:
    """A vec2text checkpoint, or a decoder trained by `hushvec train-inverter`."""
    from hushvec.text.inverters.trained.inverter import TrainedInverter
    from hushvec.text.inverters.vec2text.inverter import Vec2TextInverter

    if TrainedInverter.is_run(name):
        return TrainedInverter.from_folder(name, device=device)
    return Vec2TextInverter.from_pretrained(name, num_steps=num_steps, device=device, embedder=embedder)
