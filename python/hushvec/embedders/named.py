"""An embedding model by the folder or hub id that a caller names, and the one that is used where none is named."""

from __future__ import annotations

import json
import os
from functools import cache
from pathlib import Path
from typing import Any

from hushvec._util.display import announced
from hushvec._util.lazy import needs_extra
from hushvec.embedders.checkpoints import CONFIG_FILE
from hushvec.embedders.devices import chosen_device
from hushvec.embedders.minilm import MiniLMEmbedder
from hushvec.embedders.sources import SourceModel, as_embedding_model


def open_embedding_model(model: Any, *, max_length: int, device: str | None) -> SourceModel:
    """A model by its name, or any that `as_embedding_model` takes.

    Args:
        model: a folder or hub id: of a T5, which is read as GTR is, or of a sentence-transformers model. Or a model.
        max_length: tokens of a text that a T5 reads.
        device: of torch; None: CUDA if there is one, else the CPU. For a name alone.
    """
    if not isinstance(model, str | os.PathLike):
        return as_embedding_model(model)
    name = os.fspath(model)
    if _model_type(name) == "t5" or (not Path(name).is_dir() and "gtr-t5" in name):
        from hushvec.embedders.gtr import GTREmbedder

        return as_embedding_model(GTREmbedder(name, max_length=max_length, device=device))
    with announced("loading the embedding model"):
        with needs_extra("embedding texts", "text"):
            from sentence_transformers import SentenceTransformer
        return as_embedding_model(SentenceTransformer(name, device=str(chosen_device(device))))


def default_embedding_model(device: str | None) -> SourceModel:
    """MiniLM, loaded once for each device."""
    return as_embedding_model(_minilm(str(chosen_device(device))))


@cache
def _minilm(device: str) -> MiniLMEmbedder:
    return MiniLMEmbedder(device)


def _model_type(name: str) -> str | None:
    """What a local folder's config.json says it holds; None for anything else."""
    try:
        config = json.loads((Path(name) / CONFIG_FILE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return config.get("model_type") if isinstance(config, dict) else None
