"""Checkpoints from a folder or the hub, and into a folder: configuration, weights, tokenizer.

    config.json          the fields of vec2text, and of the T5 (encoder_decoder) where it was written here
    model.safetensors    or pytorch_model.bin, in one file or in shards with an index
    tokenizer.json       here or in the folder of the T5 that config.json names
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hushvec._util.display import announced
from hushvec._util.lazy import needs_extra
from hushvec._util.publish import SHARED, published_bytes
from hushvec.embedders.checkpoints import (
    CONFIG_FILE,
    TOKENIZER_FILE,
    WEIGHT_FILES,
    WEIGHTS,
    CheckpointError,
    encoder_fields,
    fill,
    find_folder,
    read_t5,
    read_weights,
    require_file,
)
from hushvec.embedders.devices import chosen_device
from hushvec.embedders.gtr import GTREmbedder
from hushvec.embedders.tokens import Tokens
from hushvec.text.inverters.vec2text.config import CORRECTOR, INVERSION, KINDS, CheckpointFields, Vec2TextConfig, read_fields

if TYPE_CHECKING:
    from hushvec.text.inverters.vec2text.model import Corrector, InversionModel

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
    """Load an inversion model.

    Args:
        path_or_id: its folder or hub id.
        t5: folder or hub id of the T5 that was trained, for its config.json and tokenizer.json; None for what the checkpoint
            brings or names in model_name_or_path.
        device: a torch device; None for CUDA if there is one, else the CPU.
    """
    with announced("loading the inversion model"):
        return _load(path_or_id, INVERSION, t5, device)


def load_corrector(path_or_id: str | os.PathLike[str], *, t5: str | os.PathLike[str] | None = None, device: Any = None) -> Checkpoint:
    """Load a corrector; arguments and errors as for `load_inversion`."""
    with announced("loading the corrector"):
        return _load(path_or_id, CORRECTOR, t5, device)


def save_checkpoint(folder: Path, model: InversionModel | Corrector, tokens: Tokens) -> None:
    """Write a self-contained folder for `load_inversion` or `load_corrector`.

    Each file is written beside its place and renamed, config.json last: a folder without it is an unfinished one.
    """
    from safetensors.torch import save

    folder.mkdir(parents=True, exist_ok=True)
    aliases = _shared(model.config)[0][1:]
    weights = {name: tensor.contiguous().cpu() for name, tensor in model.state_dict().items() if name not in aliases}
    (folder / CONFIG_FILE).unlink(missing_ok=True)
    files = {name: text.encode() for name, text in tokens.files().items()}
    files[WEIGHT_FILES[0]] = save(weights, metadata={"format": "pt"})
    files[CONFIG_FILE] = (json.dumps(model.config.as_json(model.kind), indent=2) + "\n").encode()
    for name, content in files.items():
        with published_bytes(folder / name, mode=SHARED) as file:
            file.write(content)


def default_embedder(inversion: Checkpoint, *, max_length: int, device: Any = None) -> GTREmbedder:
    """GTR for an inversion model that was trained on it: the encoder that the checkpoint carries, else gtr-t5-base from the hub."""
    named = inversion.model.config.embedder_model_name
    if named != GTR_NAME:
        trained = f"was trained on {named!r}" if named else "does not name the embedder that it was trained on"
        raise CheckpointError(f"embedder must be given: {inversion.folder} {trained}")
    with announced("loading the embedding model"):
        carried = _carried_embedder(inversion, max_length=max_length, device=device)
    if carried is not None:
        return carried
    try:
        return GTREmbedder(max_length=max_length, device=device)
    except CheckpointError as error:
        raise CheckpointError(
            f"{inversion.folder} carries no embedder, and {error}; embedder= takes a GTREmbedder of a folder"
        ) from None


def _carried_embedder(inversion: Checkpoint, *, max_length: int, device: Any) -> GTREmbedder | None:
    weights = read_weights(inversion.folder, wanted=lambda name: name.startswith(_EMBEDDER))
    if not weights:
        return None
    renamed = {f"encoder.{name.removeprefix(_EMBEDDER)}": tensor for name, tensor in weights.items()}
    t5 = encoder_fields(renamed, str(inversion.folder))
    return GTREmbedder.from_parts(t5, renamed, inversion.tokens, where=str(inversion.folder), max_length=max_length, device=device)


def _load(path_or_id: str | os.PathLike[str], kind: str, t5: str | os.PathLike[str] | None, device: Any) -> Checkpoint:
    with needs_extra("inverting embeddings", "text"):
        from hushvec.text.inverters.vec2text.model import Corrector, InversionModel
    classes: Mapping[str, Callable[[Vec2TextConfig], Any]] = {INVERSION: InversionModel, CORRECTOR: Corrector}
    on_device = chosen_device(device)
    folder = find_folder(path_or_id, expected=EXPECTED)
    fields = read_fields(require_file(folder, CONFIG_FILE, f"of {KINDS[kind]}; expected {EXPECTED}"))
    if fields.kind != kind:
        raise CheckpointError(f"{folder} is {KINDS[fields.kind]} ({fields.kind}), but {KINDS[kind]} ({kind}) is needed here")
    t5_folder = _T5Folder(folder, fields, t5)
    t5_fields = t5_folder.fields()
    weights = _current_names(read_weights(folder, wanted=_is_read), kind)
    bottleneck, dimension = _sizes(weights, kind, folder)
    model = classes[kind](fields.complete(t5_fields, dimension, bottleneck, _has_separate_head(weights, t5_fields)))
    fill(model, weights, shared=_shared(model.config), where=str(folder))
    tokens = t5_folder.tokens()
    if tokens.size > t5_fields["vocab_size"]:
        raise CheckpointError(f"{folder}: the tokenizer has {tokens.size} tokens, the T5 only {t5_fields['vocab_size']}")
    return Checkpoint(model.to(on_device).eval(), tokens, folder)


class _T5Folder:
    """Where a T5's configuration and tokenizer are: given by the caller, in the checkpoint, or where the checkpoint points to."""

    def __init__(self, folder: Path, fields: CheckpointFields, given: str | os.PathLike[str] | None) -> None:
        self._folder = folder
        self._fields = fields
        self._given = given

    def fields(self) -> Mapping[str, Any]:
        if self._given is None and self._fields.t5 is not None:
            return self._fields.t5
        return read_t5(self._elsewhere())

    def tokens(self) -> Tokens:
        in_checkpoint = (self._folder / TOKENIZER_FILE).is_file()
        return Tokens.read(self._folder if in_checkpoint else self._elsewhere())

    def _elsewhere(self) -> Path:
        if self._given is not None:
            return find_folder(self._given, expected=EXPECTED_T5, weights=False)
        named = self._fields.t5_source
        if named is None:
            raise CheckpointError(f"{self._folder} has no {TOKENIZER_FILE}, and its {CONFIG_FILE} names no T5 that has one")
        beside = self._folder / named
        try:
            return beside if beside.is_dir() else find_folder(named, expected=EXPECTED_T5, weights=False)
        except CheckpointError as error:
            raise CheckpointError(
                f"{self._fields.source} names the T5 {named!r} (model_name_or_path), which is needed: {error}; t5= takes its folder"
            ) from None


def _is_read(name: str) -> bool:
    return not name.startswith(_EMBEDDER) and name != _UNUSED


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


def _sizes(weights: Mapping[str, Any], kind: str, folder: Path) -> tuple[int, int]:
    name = _FIRST_MAP[kind]
    if name not in weights or weights[name].ndim != 2:
        raise CheckpointError(f"{folder}: the weights have no {name} (a matrix), which {KINDS[kind]} begins with")
    rows, columns = weights[name].shape
    return int(rows), int(columns)
