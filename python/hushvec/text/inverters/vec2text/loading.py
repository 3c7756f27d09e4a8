"""Checkpoints from a folder or the hub; and which corrector belongs to which inversion model.

    config.json          the fields of vec2text, and of the T5 (encoder_decoder) where hushvec_studies wrote it
    model.safetensors    or pytorch_model.bin, in one file or in shards with an index
    tokenizer.json       here or in the folder of the T5 that config.json names
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hushvec.embedders.checkpoints import (  # isort: skip
    CONFIG_FILE, TOKENIZER_FILE, WEIGHTS, CheckpointError, Tokens, chosen_device, encoder_fields, fill, find_folder, read_t5,
    read_weights, require_file,
)
from hushvec._util.display import announced
from hushvec._util.lazy import needs_extra
from hushvec.embedders.gtr import GTREmbedder
from hushvec.text.inverters.vec2text.config import CORRECTOR, INVERSION, KINDS, CheckpointFields, Vec2TextConfig, read_fields

EXPECTED = f"{CONFIG_FILE}, {WEIGHTS}, and {TOKENIZER_FILE} unless the T5's own folder has it"
EXPECTED_T5 = f"{CONFIG_FILE} and {TOKENIZER_FILE} of the T5"

# vec2text's name for GTR as in `hushvec.embedders.gtr`; its other names stand for other vectors.
GTR_NAME = "gtr_base"
_EMBEDDER = "embedder."
_T5 = "encoder_decoder."
_TABLES = tuple(f"{_T5}{name}" for name in ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight"))
_HEAD = f"{_T5}lm_head.weight"
# Present in old T5 files and never read.
_UNUSED = f"{_T5}decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
# The first linear map of an embedding, by kind; its shape tells the sizes.
_FIRST_MAP = {INVERSION: "embedding_transform.0.weight", CORRECTOR: "embedding_transform_1.0.weight"}
_TRANSFORM = "embedding_transform."
_TRANSFORMS = ("embedding_transform_1.", "embedding_transform_2.", "embedding_transform_3.")


@dataclass(frozen=True)
class Checkpoint:
    """A loaded model in evaluation mode, its tokenizer, and the folder it came from."""

    model: Any
    tokens: Tokens
    folder: Path


def load_inversion(path_or_id: str | os.PathLike[str], *, t5: str | os.PathLike[str] | None = None, device: Any = None) -> Checkpoint:
    """Load an inversion model from its folder or hub id; arguments as for `Vec2TextInverter.from_pretrained`."""
    with announced("loading the inversion model"):
        return _load(path_or_id, INVERSION, t5, device)


def load_corrector(path_or_id: str | os.PathLike[str], *, t5: str | os.PathLike[str] | None = None, device: Any = None) -> Checkpoint:
    """Load a corrector, in the same way."""
    with announced("loading the corrector"):
        return _load(path_or_id, CORRECTOR, t5, device)


def default_embedder(inversion: Checkpoint, *, max_length: int, device: Any = None) -> GTREmbedder:
    """GTR for an inversion model that was trained on it: the encoder that the checkpoint carries, else gtr-t5-base from the hub."""
    named = inversion.model.config.embedder_model_name
    if named != GTR_NAME:
        trained = f"was trained on {named!r}" if named else "does not name the embedder that it was trained on"
        raise CheckpointError(f"embedder must be given: {inversion.folder} {trained}")
    folder = str(inversion.folder)
    with announced("loading the embedding model"):
        weights = read_weights(inversion.folder, wanted=lambda name: name.startswith(_EMBEDDER))
        if weights:  # the embedder that the checkpoint carries
            weights = {f"encoder.{name.removeprefix(_EMBEDDER)}": tensor for name, tensor in weights.items()}
            t5 = encoder_fields(weights, folder)
            return GTREmbedder.from_parts(t5, weights, inversion.tokens, where=folder, max_length=max_length, device=device)
    try:
        return GTREmbedder(max_length=max_length, device=device)
    except CheckpointError as error:
        raise CheckpointError(
            f"{inversion.folder} carries no embedder, and {error}; embedder= takes a GTREmbedder of a folder"
        ) from None


def _load(path_or_id: str | os.PathLike[str], kind: str, t5: str | os.PathLike[str] | None, device: Any) -> Checkpoint:
    with needs_extra("inverting embeddings", "text"):
        from hushvec.text.inverters.vec2text.model import Corrector, InversionModel
    classes: Mapping[str, Callable[[Vec2TextConfig], Any]] = {INVERSION: InversionModel, CORRECTOR: Corrector}
    on_device = chosen_device(device)
    folder = find_folder(path_or_id, expected=EXPECTED)
    fields = read_fields(require_file(folder, CONFIG_FILE, f"of {KINDS[kind]}; expected {EXPECTED}"))
    if fields.kind != kind:
        raise CheckpointError(f"{folder} is {KINDS[fields.kind]} ({fields.kind}), but {KINDS[kind]} ({kind}) is needed here")
    t5_fields = fields.t5 if t5 is None and fields.t5 is not None else read_t5(_t5_folder(folder, fields, t5))
    weights = read_weights(folder, wanted=lambda name: not name.startswith(_EMBEDDER) and name != _UNUSED)
    weights = _current_names(weights, kind)
    first = weights.get(_FIRST_MAP[kind])
    if first is None or first.ndim != 2:
        raise CheckpointError(f"{folder}: the weights have no {_FIRST_MAP[kind]} (a matrix), which {KINDS[kind]} begins with")
    bottleneck, dimension = map(int, first.shape)
    model = classes[kind](fields.complete(t5_fields, dimension, bottleneck, _has_separate_head(weights, t5_fields)))
    fill(model, weights, shared=_shared(model.config), where=str(folder))
    tokens = Tokens.read(folder if (folder / TOKENIZER_FILE).is_file() else _t5_folder(folder, fields, t5))
    if tokens.size > t5_fields["vocab_size"]:
        raise CheckpointError(f"{folder}: the tokenizer has {tokens.size} tokens, the T5 only {t5_fields['vocab_size']}")
    return Checkpoint(model.to(on_device).eval(), tokens, folder)


def _t5_folder(folder: Path, fields: CheckpointFields, given: str | os.PathLike[str] | None) -> Path:
    """Where a T5's configuration and tokenizer are, if not in the checkpoint: given by the caller, or where it points to."""
    if given is not None:
        return find_folder(given, expected=EXPECTED_T5, weights=False)
    named = fields.t5_source
    if named is None:
        raise CheckpointError(f"{folder} has no {TOKENIZER_FILE}, and its {CONFIG_FILE} names no T5 that has one")
    try:
        return folder / named if (folder / named).is_dir() else find_folder(named, expected=EXPECTED_T5, weights=False)
    except CheckpointError as error:
        raise CheckpointError(
            f"{fields.source} names the T5 {named!r} (model_name_or_path), which is needed: {error}; t5= takes its folder"
        ) from None


def _shared(config: Vec2TextConfig) -> tuple[tuple[str, ...], ...]:
    return (_TABLES if config.separate_head else (*_TABLES, _HEAD),)


def _has_separate_head(weights: Mapping[str, Any], t5: Mapping[str, Any]) -> bool:
    """Whether the output table is separate. Some releases of transformers untie a T5 that vec2text loads, and then train it untied."""
    if not t5["tie_word_embeddings"]:
        return True
    table = next((weights[name] for name in _TABLES if name in weights), None)
    head = weights.get(_HEAD)
    return table is not None and head is not None and head.shape == table.shape and not bool((head == table).all())


def _current_names(weights: dict[str, Any], kind: str) -> dict[str, Any]:
    """Rename the weights of older checkpoints to today's names: without dropout in the transform, and one transform for all three."""
    for part in ("weight", "bias"):
        before, now = f"{_TRANSFORM}2.{part}", f"{_TRANSFORM}3.{part}"
        if before in weights and now not in weights:
            weights[now] = weights.pop(before)
    if kind == CORRECTOR:
        for name in [name for name in weights if name.startswith(_TRANSFORM)]:
            tensor = weights.pop(name)
            weights.update({prefix + name.removeprefix(_TRANSFORM): tensor for prefix in _TRANSFORMS})
    return weights


# A corrector is named after its inversion model.
ENDING = "__correct"
# Those that vec2text itself loads.
PUBLISHED = {
    "jxm/gtr__nq__32": "jxm/gtr__nq__32__correct",
    "jxm/vec2text__openai_ada002__msmarco__msl128__hypothesizer": "jxm/vec2text__openai_ada002__msmarco__msl128__corrector",
}

Source = str | os.PathLike[str]


def find_pair(path_or_id: Source, corrector: Source | None, num_steps: int | None) -> tuple[Source, Source | None]:
    """Folders or hub ids of an inversion model and of its corrector, if it has one and num_steps needs it, from one or both."""
    folder = find_folder(path_or_id, expected=EXPECTED, weights=False)
    fields = read_fields(require_file(folder, CONFIG_FILE, f"of a checkpoint; expected {EXPECTED}"))
    if corrector is None and fields.kind == CORRECTOR:
        return _inversion_of(path_or_id, fields), path_or_id
    if corrector is None and num_steps != 0:
        corrector = _corrector_of(path_or_id, needed=bool(num_steps))
    return path_or_id, corrector


def _corrector_of(inversion: Source, *, needed: bool) -> Source | None:
    folder = Path(inversion).expanduser()
    if not folder.is_dir():
        return PUBLISHED.get(str(inversion), f"{inversion}{ENDING}" if needed else None)
    beside = folder.resolve().with_name(folder.resolve().name + ENDING)
    if beside.is_dir():
        return beside
    if needed:
        raise CheckpointError(
            f"{folder} has no corrector, which num_steps > 0 needs; expected {beside}, or its folder or hub id as corrector=; "
            "num_steps = 0 is the inversion model alone"
        )
    return None


def _inversion_of(corrector: Source, fields: CheckpointFields) -> Source:
    folder = Path(corrector).expanduser()
    named = fields.inversion_source
    if named is not None:
        within = folder / named
        return within if folder.is_dir() and within.is_dir() else named
    if not folder.is_dir():
        published = {corrected: inversion for inversion, corrected in PUBLISHED.items()}
        if str(corrector) in published or str(corrector).endswith(ENDING):
            return published.get(str(corrector), str(corrector).removesuffix(ENDING))
        raise CheckpointError(f"{corrector} is {KINDS[CORRECTOR]}; {_BOTH}")
    name = folder.resolve().name
    beside = folder.resolve().with_name(name.removesuffix(ENDING))
    if name.endswith(ENDING) and beside.is_dir():
        return beside
    expected = f"its inversion model is expected in {beside}; " if name.endswith(ENDING) else ""
    raise CheckpointError(f"{folder} is {KINDS[CORRECTOR]}; {expected}{_BOTH}")


_BOTH = "give the inversion model, and this as corrector="
